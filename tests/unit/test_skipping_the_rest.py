"""A step that finds nothing to do ends the steps behind it, and only those."""

from __future__ import annotations

from icefloe.engine.events import Begin, Claim, Ended, RunState, StepState
from icefloe.engine.graph import Edge, Graph, Node
from icefloe.engine.machine import decide
from icefloe.engine.states import RunStatus, StepStatus
from icefloe.steps.contract import Outcome, OutcomeKind


def test_what_is_behind_is_skipped_what_is_beside_runs_and_the_run_succeeds() -> None:
    nodes = [Node(name, "shell") for name in ("look", "use", "join", "beside")]
    graph = Graph.of(nodes, [Edge("look", "use"), Edge("use", "join"), Edge("beside", "join")])
    run = RunState("w-1", RunStatus.CREATED, {node.id: StepState(node.id) for node in nodes})
    run = decide(graph, run, Begin()).run
    for name, outcome in (
        ("look", Outcome(OutcomeKind.SUCCEEDED, skips_rest="nothing changed")),
        ("beside", Outcome(OutcomeKind.SUCCEEDED)),
    ):
        run = decide(graph, run, Claim(name, "worker")).run
        run = decide(graph, run, Ended(name, run.steps[name].generation, outcome)).run
    assert {name: step.status for name, step in run.steps.items()} == {
        "look": StepStatus.SUCCEEDED,
        "use": StepStatus.SKIPPED,
        "join": StepStatus.SKIPPED,
        "beside": StepStatus.SUCCEEDED,
    }
    assert run.status is RunStatus.SUCCEEDED
