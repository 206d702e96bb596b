"""The short form ``type: ICDC``: a capture, and a commit that is written out so that everybody sees it.

The commit stands behind everything that can run after the capture. Captures whose followers meet share one commit, so
that their checkpoints move together.
"""

from __future__ import annotations

import dataclasses

from icefloe.workflow.document import Entry, ListNode, MapNode, Node
from icefloe.workflow.fields import Fields
from icefloe.workflow.model import Step, Transition, TypedStep
from icefloe.workflow.step_types import StepType

SHORT_FORM = "ICDC"


def short_form_settings(fields: Fields, step_type: StepType) -> MapNode | None:
    """``sourceTable``, ``targetTable`` and any capture setting, flat in the job or under ``icdc:`` / ``ip_capture:``."""
    under = fields.map("icdc") if "icdc" in fields else fields.map(step_type.key)
    assert step_type.settings is not None
    entries = dict(under.entries) if under is not None else {}
    for name, entry in fields.reserved.items():
        if name in step_type.settings.model_fields or name == "source_table":
            entries.setdefault(name, entry)
    single = next((key for key in entries if key.replace("_", "").lower() == "sourcetable"), None)
    if single is not None:
        entry = entries.pop(single)
        entries = {"source_tables": Entry("source_tables", entry.position, _listed(entry.value)), **entries}
    if "source_tables" not in entries and not any(key.lower() == "sourcetables" for key in entries):
        fields.error("step.settings", "type ICDC needs its source", fields.position, "add sourceTable: db.table")
        return None
    return MapNode(fields.position, entries)


def _listed(node: Node) -> Node:
    return node if isinstance(node, ListNode) else ListNode(node.position, [node])


def expand(steps: tuple[Step, ...], edges: tuple[Transition, ...]) -> tuple[tuple[Step, ...], tuple[Transition, ...]]:
    """Turns every ICDC step of a container into an IpCapture and adds the commits."""
    captures = [step.id for step in steps if isinstance(step, TypedStep) and step.type == SHORT_FORM]
    if not captures:
        return steps, edges
    expanded: list[Step] = [
        dataclasses.replace(step, type="IpCapture") if isinstance(step, TypedStep) and step.id in captures else step
        for step in steps
    ]
    more = list(edges)
    for group, leaves in _groups([name for name in captures if not _committed(name, steps)], edges):
        commit_id = _free_id(f"{group[0]}_commit", {step.id for step in expanded})
        named = group[0] if len(group) == 1 else list(group)
        expanded.append(TypedStep(id=commit_id, type="IpCommit", settings={"capture_step": named}))
        more.extend(Transition(leaf, commit_id) for leaf in leaves)
    return tuple(expanded), tuple(more)


def committed_by(step: Step) -> tuple[str, ...]:
    """The captures that a commit step names; none for other steps."""
    if not isinstance(step, TypedStep) or step.type != "IpCommit":
        return ()
    named = step.settings.get("capture_step", ())
    items = named if isinstance(named, list | tuple) else (named,)
    return tuple(item for item in items if isinstance(item, str))


def _committed(capture: str, steps: tuple[Step, ...]) -> bool:
    return any(capture in committed_by(step) for step in steps)


def _groups(captures: list[str], edges: tuple[Transition, ...]) -> list[tuple[list[str], list[str]]]:
    """Captures with the last steps behind them; those that share a last step are one group."""
    groups: list[tuple[list[str], list[str]]] = []
    for capture in captures:
        names, leaves = [capture], _leaves(capture, edges)
        for other in [group for group in groups if set(group[1]) & set(leaves)]:
            groups.remove(other)
            names = [*other[0], *names]
            leaves = [*other[1], *(leaf for leaf in leaves if leaf not in other[1])]
        groups.append((names, leaves))
    return groups


def _leaves(start: str, edges: tuple[Transition, ...]) -> list[str]:
    """The steps reachable from ``start`` (itself included) that lead nowhere, in order of discovery."""
    seen, queue, leaves = {start}, [start], []
    while queue:
        here = queue.pop(0)
        targets = [edge.target for edge in edges if edge.source == here]
        if not targets:
            leaves.append(here)
        for target in targets:
            if target not in seen:
                seen.add(target)
                queue.append(target)
    return leaves or [start]


def _free_id(wanted: str, taken: set[str]) -> str:
    number, name = 1, wanted
    while name in taken:
        number += 1
        name = f"{wanted}_{number}"
    return name
