"""Captures and commits: whether what is captured is committed, and whether every step that writes is behind the capture
and before the commit."""

from __future__ import annotations

from icefloe.workflow.change_capture import committed_by
from icefloe.workflow.graph import Graph
from icefloe.workflow.model import ForeachStep, Step, SubworkflowStep, TypedStep, Workflow, containers, walk
from icefloe.workflow.places import Places
from icefloe.workflow.problems import Findings, suggestion
from icefloe.workflow.values import clip

_NEVER_WRITE = ("IpCapture", "IpCommit", "Http")


def check_captures(workflow: Workflow, findings: Findings, places: Places) -> None:
    """Errors for commits that cannot work, warnings for captures and writes that nothing commits."""
    paths = {step.id: path for path, step in walk(workflow)}
    steps = {step.id: step for _, step in walk(workflow)}
    graphs: dict[str, Graph] = {}
    for container in containers(workflow):
        graphs |= dict.fromkeys((step.id for step in container.steps), Graph.of(container))
    captures = [step_id for step_id, step in steps.items() if _is(step, "IpCapture")]
    committed: dict[str, list[str]] = {capture: [] for capture in captures}
    for step in steps.values():
        for capture in committed_by(step):
            if "${" in capture:
                continue
            if capture in committed:
                committed[capture].append(step.id)
                _check_order(capture, step.id, paths, graphs, findings, places)
            else:
                _unknown_capture(capture, step.id, capture in steps, captures, findings, places)
    dynamic = any("${" in name for step in steps.values() for name in committed_by(step))
    for capture, commits in committed.items():
        if not commits and not dynamic:
            findings.warning(
                "capture.uncommitted",
                f"nothing commits the capture '{clip(capture)}': each run will see the same changes again",
                places.step(capture),
                f"add a job of type IpCommit with capture_step: {capture}",
            )
        elif commits:
            _check_writers(capture, commits, steps, paths, graphs, findings, places)


def _is(step: Step, kind: str) -> bool:
    return isinstance(step, TypedStep) and step.type == kind


def _unknown_capture(
    capture: str, commit: str, exists: bool, captures: list[str], findings: Findings, places: Places
) -> None:
    what = "is no IpCapture step" if exists else "does not exist"
    findings.error(
        "commit.without-capture",
        f"the commit '{clip(commit)}' names '{clip(capture)}', which {what}",
        places.setting(commit, ("capture_step",)),
        suggestion(capture, captures, "captures") or "add a job of type IpCapture",
    )


def _check_order(
    capture: str,
    commit: str,
    paths: dict[str, tuple[str, ...]],
    graphs: dict[str, Graph],
    findings: Findings,
    places: Places,
) -> None:
    if paths[capture][:-1] != paths[commit][:-1]:
        findings.error(
            "commit.elsewhere",
            f"the commit '{clip(commit)}' is not at the same level as its capture '{clip(capture)}'",
            places.setting(commit, ("capture_step",)),
            "put both into the workflow, or both into the same foreach",
        )
    elif capture not in graphs[commit].ancestors(commit):
        findings.error(
            "commit.before-capture",
            f"the commit '{clip(commit)}' does not run after its capture '{clip(capture)}'",
            places.step(commit),
            f"add it to the dag: {capture} -> … -> {commit}",
        )


def _check_writers(
    capture: str,
    commits: list[str],
    steps: dict[str, Step],
    paths: dict[str, tuple[str, ...]],
    graphs: dict[str, Graph],
    findings: Findings,
    places: Places,
) -> None:
    """A step that comes after the capture, may write, and does not come before any of its commits."""
    graph = graphs[capture]
    covered = set().union(*(graph.ancestors(commit) for commit in commits if commit in graph.steps))
    for name in graph.steps:
        if name in graph.descendants(capture) and name not in covered and name not in commits and _writes(steps[name]):
            findings.warning(
                "commit.uncovered-write",
                f"the step '{clip(name)}' uses the capture '{clip(capture)}' but is not waited for by its commit: "
                "the checkpoint moves even when it fails",
                places.step(name),
                f"add it to the dag before the commit: {name} -> {commits[0]}",
            )


def _writes(step: Step) -> bool:
    if isinstance(step, TypedStep):
        return step.type not in _NEVER_WRITE
    if isinstance(step, ForeachStep):
        return any(_writes(inner) for inner in step.steps)
    return isinstance(step, SubworkflowStep)
