"""Workflows that would start themselves through the tables they write: found before they are stored. Pure.

Only what can be read off a definition is seen: ``write.table``, and the targets of SQL. What a program writes is found out when
it happens (see ``incremental``: its own output starts a workflow no further than ``allow_cycle`` says).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from icefloe.errors import IcefloeError, UsageError
from icefloe.spark import targets as sql
from icefloe.triggers.plans import plan
from icefloe.triggers.sources import canonical, workflow_values
from icefloe.workflow.files import script_key
from icefloe.workflow.model import IncrementalTrigger, TypedStep, Workflow

KNOWN_TO_THE_RUN = "known_to_the_run"
"""Stands for a parameter whose value only a run knows."""
_REFERENCE = re.compile(r"\$\{\s*([A-Za-z_][\w.]*)\s*\}")


class CycleError(UsageError):
    """A workflow would start itself, over and over."""

    code = "trigger.circle"


@dataclass(frozen=True, slots=True)
class ParsedDefinition:
    """A workflow, and a way to read the files of its version by key; None: there is no such text."""

    workflow: Workflow
    read: Callable[[str], str | None] = lambda key: None


def refuse_cycles(pushed: ParsedDefinition, others: Iterable[ParsedDefinition], *, catalog: str) -> None:
    """Raises :class:`CycleError` if pushing this closes a circle in which no trigger has ``allow_cycle``."""
    if not _watchers([pushed], catalog) or not targets_of(pushed, catalog):
        return  # nothing starts it by a table, or nobody is started by it: the others need not be read
    known = {definition.workflow.id: definition for definition in others} | {pushed.workflow.id: pushed}
    watchers = _watchers(known.values(), catalog)
    start = pushed.workflow.id
    visited: set[str] = set()
    stack: list[tuple[str, tuple[str, ...]]] = [(start, (start,))]
    while stack:
        workflow_id, path = stack.pop()
        for table in sorted(targets_of(known[workflow_id], catalog)):
            for following in watchers.get(table, ()):
                if following == start:
                    raise CycleError(
                        "it would start itself: " + " -> ".join((*path, table, start)),
                        where=start,
                        hint="watch another table, or allow so many rounds: incremental: {allow_cycle: 3}",
                    )
                if following not in visited:
                    visited.add(following)
                    stack.append((following, (*path, table, following)))


def targets_of(definition: ParsedDefinition, catalog: str) -> set[str]:
    """The tables that a workflow's steps evidently write."""
    targets: set[str] = set()
    values = {name: value for name, value in workflow_values(definition.workflow).items() if isinstance(value, str)}
    for _, step in definition.workflow.all_steps():
        if not isinstance(step, TypedStep) or step.type.lower() != "spark":
            continue
        write = step.settings.get("write")
        names = [str(write["table"])] if isinstance(write, Mapping) and "table" in write else []
        names += _written_by(definition, str(step.settings.get("script", "")), values)
        for name in names:
            try:
                targets.add(canonical(_filled(name, values), catalog))
            except UsageError:
                continue  # a name that only a run knows
    return targets


def _written_by(definition: ParsedDefinition, script: str, values: Mapping[str, str]) -> list[str]:
    try:
        return [write.target for write in sql.parse(sql_of(definition, script, values)) if write.target]
    except IcefloeError:
        return []


def sql_of(definition: ParsedDefinition, script: str, values: Mapping[str, str]) -> str:
    """A step's SQL with the workflow's own parameters in it; nothing of a script in another language."""
    key = script_key(script)
    if key is not None and not key.endswith(".sql"):
        return ""
    return _filled(script if key is None else (definition.read(key) or ""), values)


def _filled(text: str, values: Mapping[str, str]) -> str:
    return _REFERENCE.sub(lambda match: values.get(match[1], KNOWN_TO_THE_RUN), text)


def _watchers(definitions: Iterable[ParsedDefinition], catalog: str) -> dict[str, list[str]]:
    """Table -> workflows that it starts. A trigger with ``allow_cycle`` closes no circle."""
    watchers: dict[str, list[str]] = {}
    for definition in definitions:
        if not any(isinstance(trigger, IncrementalTrigger) for trigger in definition.workflow.triggers):
            continue
        for armed in plan(definition.workflow, 0, catalog=catalog).triggers:
            if isinstance(armed.trigger, IncrementalTrigger) and armed.trigger.allow_cycle is None:
                for watched in armed.watches:
                    watchers.setdefault(watched.table, []).append(definition.workflow.id)
    return watchers
