"""Everything that is checked about a workflow beyond its notation, for every loader alike."""

from __future__ import annotations

from icefloe.workflow.coverage import check_captures
from icefloe.workflow.expressions import ExpressionError, check, evaluate_condition
from icefloe.workflow.fixed_names import check_fixed_names
from icefloe.workflow.graph import Graph
from icefloe.workflow.matching import MomentError, moment
from icefloe.workflow.model import (
    Container,
    IncrementalTrigger,
    Transition,
    TypedStep,
    Workflow,
    containers,
    walk,
)
from icefloe.workflow.places import Places
from icefloe.workflow.problems import Findings, suggestion
from icefloe.workflow.references import check_references
from icefloe.workflow.scope import Scope, UnknownNameError
from icefloe.workflow.values import clip

MAX_NESTING = 10


def validate(workflow: Workflow, findings: Findings, places: Places) -> None:
    """Adds every finding about the workflow's graph, captures, names and expressions."""
    _check_ids(workflow, findings, places)
    for container in containers(workflow):
        _check_graph(container, findings, places)
    _check_triggers(workflow, findings, places)
    _check_watermarks(workflow, findings, places)
    check_captures(workflow, findings, places)
    check_fixed_names(workflow, findings, places)
    check_references(workflow, findings, places)


def _check_ids(workflow: Workflow, findings: Findings, places: Places) -> None:
    seen: set[str] = set()
    for path, step in walk(workflow):
        if step.id in seen:
            findings.error(
                "step.duplicate-id",
                f"the step id '{clip(step.id)}' is used twice",
                places.step(step.id),
                "give each step its own id",
            )
        seen.add(step.id)
        if len(path) > MAX_NESTING:
            findings.error("step.nesting", f"foreach blocks may be nested {MAX_NESTING} deep", places.step(step.id))
    if not workflow.steps:
        findings.error("workflow.empty", "the workflow has no steps", places.workflow, "add jobs:")


def _check_watermarks(workflow: Workflow, findings: Findings, places: Places) -> None:
    """A moment that is none is never reached: the step would wait for ever."""
    for _, step in walk(workflow):
        for dependency in step.watermark_dependencies:
            value = dependency.reached.value
            if dependency.reached.expression is not None or (isinstance(value, str) and "$" in value):
                continue
            try:
                moment(value)
            except MomentError as error:
                findings.error("watermark.moment", f"reached: {error.message}", places.step(step.id), error.hint)


def _check_graph(container: Container, findings: Findings, places: Places) -> None:
    known = [step.id for step in container.steps]
    for edge in container.transitions:
        for name in (edge.source, edge.target):
            if name not in known:
                findings.error(
                    "dag.unknown-step",
                    f"there is no step '{clip(name)}' here",
                    places.edge(edge),
                    suggestion(name, known, "steps"),
                )
    graph = Graph.of(container)
    cycle = graph.cycle()
    if cycle is not None:
        place = next(places.edge(edge) for edge in graph.edges if (edge.source, edge.target) == cycle[:2])
        circle = " -> ".join(clip(name, 40) for name in (cycle if len(cycle) <= 10 else (*cycle[:8], "…", cycle[-1])))
        findings.error("dag.cycle", f"the steps run in a circle: {circle}", place, "remove one of these arrows")
        return
    _check_reach(container, graph, findings, places)


def _check_reach(container: Container, graph: Graph, findings: Findings, places: Places) -> None:
    """Steps that no way leads to, because every way has a condition that never holds."""
    dead = [edge for edge in graph.edges if _never(edge)]
    if not dead:
        return
    alive = {step for step in graph.steps if not graph.predecessors[step]}
    for step in graph.order():
        incoming = [edge for edge in graph.edges if edge.target == step]
        if any(edge.source in alive and edge not in dead for edge in incoming):
            alive.add(step)
    for step in graph.steps:
        if step not in alive:
            cause = next((edge for edge in dead if edge.target == step), None)
            findings.error(
                "dag.unreachable",
                f"the step '{clip(step)}' can never run: no condition that leads to it can hold",
                places.edge(cause) if cause is not None else places.step(step),
            )


def _never(edge: Transition) -> bool:
    """Does the condition depend on nothing and say false?"""
    if edge.condition is None:
        return False
    try:
        found = check(edge.condition, {})
        if found.problems or found.names or found.steps or "params" in edge.condition:
            return False
        if any(word in edge.condition for word in ("DateTime", "System", "random")):
            return False
        return not evaluate_condition(edge.condition, Scope())
    except (ExpressionError, UnknownNameError):
        return False


def _check_triggers(workflow: Workflow, findings: Findings, places: Places) -> None:
    captures = any(isinstance(step, TypedStep) and step.type == "IpCapture" for _, step in walk(workflow))
    for index, trigger in enumerate(workflow.triggers):
        if isinstance(trigger, IncrementalTrigger) and not trigger.tables and not captures:
            place = places.triggers[index] if index < len(places.triggers) else places.workflow
            findings.error(
                "trigger.tables",
                "an incremental trigger needs tables to watch, or a capture step whose sources it watches",
                place,
                "incremental: {tables: [db.table]}",
            )
