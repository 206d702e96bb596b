"""The pure state machine: what each event does, and that no sequence of events leads into a dead end."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from icefloe.engine.events import (
    Begin,
    Cancel,
    ChildEnded,
    Claim,
    Ended,
    Event,
    ForeachProgress,
    HandedOver,
    IterationsStarted,
    Kill,
    Lost,
    Pause,
    Ready,
    Refused,
    Restart,
    RestartFrom,
    Resume,
    RunRequest,
    RunState,
    Skip,
    Started,
    StartIterations,
    StepState,
    Stop,
    TimeOut,
    ToChildren,
)
from icefloe.engine.graph import FOREACH, SUBWORKFLOW, Edge, Graph, Node
from icefloe.engine.machine import Decision, Rules, decide
from icefloe.engine.states import STEP_MOVES, RunStatus, StepStatus
from icefloe.steps.contract import Cause, Outcome, OutcomeKind
from icefloe.workflow.model import Backoff, FailureMode, RetryPolicy

NO_RETRY = RetryPolicy(error=0, platform=10, timeout=0)


def chain(*ids: str, **nodes: Node) -> Graph:
    found = [nodes.get(i, Node(i, "shell", retry=NO_RETRY)) for i in ids]
    return Graph.of(found, [Edge(a, b) for a, b in pairwise(ids)])


def fresh(graph: Graph) -> RunState:
    return RunState("w-1", RunStatus.CREATED, {node: StepState(node) for node in graph.nodes})


class Play:
    """Plays events on one run and keeps its state."""

    def __init__(self, graph: Graph, rules: Rules | None = None) -> None:
        self.graph, self.run, self.rules = graph, fresh(graph), rules
        self.last: Decision | None = None

    def __call__(self, event: Event) -> Decision:
        self.last = decide(self.graph, self.run, event, self.rules)
        self.run = self.last.run
        return self.last

    def status(self, step: str) -> StepStatus:
        return self.run.steps[step].status

    def finish(self, step: str, kind: OutcomeKind = OutcomeKind.SUCCEEDED, **outcome: object) -> Decision:
        self(Claim(step, "me"))
        return self(Ended(step, self.run.steps[step].generation, Outcome(kind, **outcome)))  # type: ignore[arg-type]


def test_a_chain_runs_in_order_and_the_run_succeeds() -> None:
    play = Play(chain("a", "b", "c"))
    assert play(Begin()).effects == (Ready("a"),)
    assert Ready("b") in play.finish("a").effects
    play.finish("b")
    play.finish("c")
    assert play.run.status is RunStatus.SUCCEEDED


def test_a_step_runs_when_any_incoming_condition_holds_and_is_unsatisfied_when_none_does() -> None:
    graph = Graph.of(
        [Node(i, "noop") for i in ("check", "recovery", "again", "end")],
        [
            Edge("check", "recovery", "bad"),
            Edge("recovery", "again"),
            Edge("again", "end"),
            Edge("check", "end", "good"),
        ],
    )
    play = Play(graph, Rules(holds=lambda condition, source, run: condition == "good"))
    play(Begin())
    play.finish("check")
    assert (play.status("recovery"), play.status("again")) == (StepStatus.UNSATISFIED, StepStatus.UNSATISFIED)
    play.finish("end")
    assert play.run.status is RunStatus.SUCCEEDED


def test_a_failed_step_lets_other_branches_finish_and_then_fails_the_run() -> None:
    graph = Graph.of(
        [Node(i, "shell", retry=NO_RETRY) for i in ("bad", "after_bad", "good", "after_good")],
        [Edge("bad", "after_bad"), Edge("good", "after_good")],
    )
    play = Play(graph)
    play(Begin())
    play.finish("bad", OutcomeKind.ERROR, cause=Cause("exit code 3"))
    assert play.run.status is RunStatus.IN_PROGRESS
    play.finish("good")
    play.finish("after_good")
    assert play.run.status is RunStatus.FAILED
    assert play.status("after_bad") is StepStatus.CREATED
    assert play.run.cause and "exit code 3" in play.run.cause.message


def test_fail_immediately_ends_the_others_at_once() -> None:
    nodes = [Node("bad", "shell", FailureMode.FAIL_IMMEDIATELY, NO_RETRY), Node("long", "shell", retry=NO_RETRY)]
    play = Play(Graph.of(nodes, []))
    play(Begin())
    play(Claim("long", "me"))
    decision = play.finish("bad", OutcomeKind.ERROR)
    assert Cancel("long", "me") in decision.effects
    play(Ended("long", 1, Outcome(OutcomeKind.STOPPED)))
    assert play.run.status is RunStatus.FAILED
    assert play.status("long") is StepStatus.STOPPED


def test_an_ignored_failure_completes_with_error_and_successors_go_on() -> None:
    play = Play(chain("a", "b", a=Node("a", "shell", FailureMode.IGNORE_FAILURE, NO_RETRY)))
    play(Begin())
    play.finish("a", OutcomeKind.ERROR)
    assert play.status("a") is StepStatus.COMPLETED_WITH_ERROR
    play.finish("b")
    assert play.run.status is RunStatus.SUCCEEDED


def test_failures_are_retried_by_their_own_kind_with_growing_delay_and_jitter() -> None:
    policy = RetryPolicy(error=2, platform=1, timeout=0, backoff=Backoff(initial=10, factor=3))
    play = Play(chain("a", a=Node("a", "shell", retry=policy)), Rules(jitter=lambda: 0.4))
    play(Begin())
    assert play.finish("a", OutcomeKind.ERROR).effects == (Ready("a", pytest.approx(9.0)),)
    assert play.finish("a", OutcomeKind.PLATFORM).effects == (Ready("a", pytest.approx(9.0)),)
    assert play.finish("a", OutcomeKind.ERROR).effects == (Ready("a", pytest.approx(27.0)),)
    assert play.finish("a", OutcomeKind.TIMEOUT).run.status is RunStatus.FAILED
    assert play.run.steps["a"].attempt == 4
    assert play.status("a") is StepStatus.TIMEOUT_FAILED


def test_a_claim_that_was_lost_can_report_nothing() -> None:
    play = Play(chain("a"))
    play(Begin())
    play(Claim("a", "slow"))
    play(Lost("a", "slow"))
    play(Claim("a", "quick"))
    with pytest.raises(Refused):
        play(Ended("a", 1, Outcome(OutcomeKind.SUCCEEDED)))
    play(Ended("a", 2, Outcome(OutcomeKind.SUCCEEDED)))
    assert play.run.status is RunStatus.SUCCEEDED


def test_an_attempt_that_goes_on_elsewhere_is_taken_up_again_not_started_anew() -> None:
    play = Play(chain("a"))
    play(Begin())
    play(Claim("a", "dead"))
    play(Started("a", 1, handle={"job": 7}))
    play(Lost("a", "dead", reattach=True))
    play(Claim("a", "next"))
    assert (play.run.steps["a"].attempt, play.run.steps["a"].handle) == (1, {"job": 7})


def test_stop_waits_for_what_runs_and_ends_as_stopped_and_restart_does_the_rest() -> None:
    play = Play(chain("a", "b"))
    play(Begin())
    play(Claim("a", "me"))
    assert play(Stop("ann")).effects == (Cancel("a", "me"),)
    play(Ended("a", 1, Outcome(OutcomeKind.STOPPED)))
    assert play.run.status is RunStatus.STOPPED
    play(Restart("ann"))
    play(Begin())
    play.finish("a")
    play.finish("b")
    assert play.run.status is RunStatus.SUCCEEDED


def test_stopping_a_run_that_waits_for_its_turn_ends_it_at_once() -> None:
    play = Play(chain("a"))
    play(Stop("ann"))
    assert play.run.status is RunStatus.STOPPED


def test_kill_ends_at_once_as_failed_and_fences_the_owner() -> None:
    play = Play(chain("a", "b"))
    play(Begin())
    play(Claim("a", "me"))
    assert Cancel("a", "me", lost=True) in play(Kill("ann")).effects
    assert play.run.status is RunStatus.FAILED
    with pytest.raises(Refused):
        play(Ended("a", 1, Outcome(OutcomeKind.SUCCEEDED)))


def test_paused_runs_start_nothing_new_until_resumed() -> None:
    play = Play(chain("a", "b"))
    play(Begin())
    play(Claim("a", "me"))
    play(Pause("ann"))
    assert not play(Ended("a", 1, Outcome(OutcomeKind.SUCCEEDED))).effects
    assert play(Resume("ann")).effects == (Ready("b", 0.0),)


def test_restart_from_a_step_repeats_it_and_everything_after_it() -> None:
    play = Play(chain("a", "b", "c"))
    play(Begin())
    for step in "abc":
        play.finish(step)
    play(Restart("ann", RestartFrom.STEP, "b"))
    assert [play.status(s) for s in "abc"] == [StepStatus.SUCCEEDED, StepStatus.CREATED, StepStatus.CREATED]
    with pytest.raises(Refused, match="nothing to restart"):
        done = Play(chain("a"))
        done(Begin())
        done.finish("a")
        done(Restart("ann"))


def test_skipping_a_failed_step_lets_the_run_go_on() -> None:
    play = Play(chain("a", "b"))
    play(Begin())
    play.finish("a", OutcomeKind.ERROR)
    play(Skip("a", "ann"))
    play(Begin())
    play.finish("b")
    assert (play.run.status, play.status("a")) == (RunStatus.SUCCEEDED, StepStatus.SKIPPED)


def test_a_condition_that_cannot_be_evaluated_fails_its_step_with_the_reason() -> None:
    def broken(condition: str, source: str, run: RunState) -> bool:
        raise ValueError("no such parameter")

    graph = Graph.of([Node("a", "noop"), Node("b", "noop")], [Edge("a", "b", "x")])
    play = Play(graph, Rules(holds=broken))
    play(Begin())
    play.finish("a")
    assert play.status("b") is StepStatus.FATALLY_FAILED
    assert "no such parameter" in (play.run.steps["b"].cause or Cause("")).message


def test_a_foreach_ends_by_its_counters_and_a_restart_walks_the_failed_iterations_only() -> None:
    play = Play(chain("each", each=Node("each", FOREACH, retry=NO_RETRY)))
    play(Begin())
    play(Claim("each", "me"))
    play(Started("each", 1, loop=ForeachProgress(3, next=2, running=2)))
    assert play(ChildEnded("each", RunStatus.SUCCEEDED, iteration=0)).effects == (StartIterations("each"),)
    play(IterationsStarted("each", ForeachProgress(3, next=3, running=2, succeeded=1)))
    play(ChildEnded("each", RunStatus.FAILED, iteration=1))
    play(ChildEnded("each", RunStatus.SUCCEEDED, iteration=2))
    assert play.run.status is RunStatus.FAILED
    assert "1 of 3 iterations failed" in (play.run.cause or Cause("")).message
    play(Restart("ann"))
    assert play.run.steps["each"].loop == ForeachProgress(3, next=3, succeeded=2, redo_after=-1)


def test_stopping_a_run_stops_the_runs_its_steps_started() -> None:
    play = Play(chain("sub", sub=Node("sub", SUBWORKFLOW, retry=NO_RETRY)))
    play(Begin())
    play(Claim("sub", "me"))
    play(Started("sub", 1))
    assert play(Stop("ann")).effects == (ToChildren("sub", Stop("ann")),)
    play(ChildEnded("sub", RunStatus.STOPPED))
    assert play.run.status is RunStatus.STOPPED


def test_a_timed_out_run_ends_its_steps_as_timed_out() -> None:
    play = Play(chain("a", "b"))
    play(Begin())
    play(Claim("a", "me"))
    play(TimeOut(5))
    play(Ended("a", 1, Outcome(OutcomeKind.STOPPED)))
    assert (play.run.status, play.status("a")) == (RunStatus.TIMED_OUT, StepStatus.TIMED_OUT)


KINDS = st.sampled_from(list(OutcomeKind))


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    ids = [f"s{i}" for i in range(draw(st.integers(1, 6)))]
    kinds = ["shell", "shell", FOREACH, SUBWORKFLOW]
    policies = [NO_RETRY, RetryPolicy(1, 1, 1)]
    nodes = [
        Node(i, draw(st.sampled_from(kinds)), draw(st.sampled_from(list(FailureMode))), draw(st.sampled_from(policies)))
        for i in ids
    ]
    pairs = [(a, b) for n, a in enumerate(ids) for b in ids[n + 1 :]]
    edges = [Edge(a, b, draw(st.sampled_from([None, "yes", "no"]))) for a, b in pairs if draw(st.booleans())]
    return Graph.of(nodes, edges)


class AnyHistory(RuleBasedStateMachine):
    """Random events in random order, also nonsensical ones. The world answers as workers and children would."""

    @initialize(graph=graphs())
    def start(self, graph: Graph) -> None:
        self.graph = graph
        self.run_state = fresh(graph)
        self.children: dict[str, int] = {}

    def send(self, event: Event) -> bool:
        try:
            decision = decide(self.graph, self.run_state, event, Rules(holds=lambda c, source, run: c == "yes"))
        except Refused:
            return False
        self.run_state = decision.run
        for effect in decision.effects:
            if isinstance(effect, StartIterations):
                self.more_iterations(effect.step)
        return True

    def more_iterations(self, step: str) -> None:
        state = self.run_state.steps[step]
        loop = state.loop
        if loop is None or state.status is not StepStatus.RUNNING or self.run_state.request or state.request:
            return
        if loop.redo_after is not None:
            failed = loop.next - loop.succeeded
            if self.send(IterationsStarted(step, replace(loop, redo_after=None, running=failed))) and not failed:
                self.more_iterations(step)
        elif loop.next < loop.total:
            self.send(IterationsStarted(step, replace(loop, next=loop.next + 1, running=loop.running + 1)))

    @rule()
    def begin(self) -> None:
        self.send(Begin())

    @rule(data=st.data(), owner=st.sampled_from(["one", "two"]))
    def claim(self, data: st.DataObject, owner: str) -> None:
        self.send(Claim(data.draw(st.sampled_from(list(self.graph.nodes))), owner))

    def start_step(self, step: str) -> None:
        state = self.run_state.steps[step]
        node = self.graph.nodes[step]
        loop = (state.loop if state.resumes and state.loop else ForeachProgress(2)) if node.type == FOREACH else None
        if self.send(Started(step, state.generation, loop=loop)) and loop is not None:
            self.more_iterations(step)

    @rule(data=st.data())
    def started(self, data: st.DataObject) -> None:
        self.start_step(data.draw(st.sampled_from(list(self.graph.nodes))))

    @rule(data=st.data(), kind=KINDS, stale=st.booleans())
    def ended(self, data: st.DataObject, kind: OutcomeKind, stale: bool) -> None:
        step = data.draw(st.sampled_from(list(self.graph.nodes)))
        state = self.run_state.steps[step]
        if state.owner is None and self.graph.nodes[step].starts_runs:
            return
        before = self.run_state
        accepted = self.send(Ended(step, state.generation - stale, Outcome(kind)))
        if stale:
            assert not accepted
            assert self.run_state == before

    @rule(data=st.data(), status=st.sampled_from([RunStatus.SUCCEEDED, RunStatus.FAILED, RunStatus.STOPPED]))
    def child_ended(self, data: st.DataObject, status: RunStatus) -> None:
        step = data.draw(st.sampled_from(list(self.graph.nodes)))
        self.end_child(step, status)

    def end_child(self, step: str, status: RunStatus) -> None:
        state = self.run_state.steps[step]
        node = self.graph.nodes[step]
        if node.type == SUBWORKFLOW and state.owner is None:
            self.send(ChildEnded(step, status))
        elif node.type == FOREACH and state.loop and state.loop.running > 0:
            self.send(ChildEnded(step, status, iteration=0))

    @rule(data=st.data(), owner=st.sampled_from(["one", "two"]), reattach=st.booleans())
    def lost(self, data: st.DataObject, owner: str, reattach: bool) -> None:
        self.send(Lost(data.draw(st.sampled_from(list(self.graph.nodes))), owner, reattach))

    @rule(data=st.data())
    def handed_over(self, data: st.DataObject) -> None:
        step = data.draw(st.sampled_from(list(self.graph.nodes)))
        if self.run_state.steps[step].owner is not None:
            self.send(HandedOver(step, self.run_state.steps[step].generation))

    @rule(event=st.sampled_from([Stop("x"), Kill("x"), Pause("x"), Resume("x"), TimeOut(1.0)]))
    def told(self, event: Event) -> None:
        self.send(event)

    @rule(data=st.data())
    def skip(self, data: st.DataObject) -> None:
        self.send(Skip(data.draw(st.sampled_from(list(self.graph.nodes))), "x"))

    @precondition(lambda self: self.run_state.status.ended)
    @rule(data=st.data(), scope=st.sampled_from(list(RestartFrom)))
    def restart(self, data: st.DataObject, scope: RestartFrom) -> None:
        self.send(Restart("x", scope, data.draw(st.sampled_from(list(self.graph.nodes)))))

    @invariant()
    def only_live_claims_have_owners(self) -> None:
        for step in self.run_state.steps.values():
            assert step.owner is None or step.status.active
            assert step.request is None or step.status.active
            assert step.status in STEP_MOVES
        if self.run_state.status.ended:
            assert not any(s.status.active or s.status.ready for s in self.run_state.steps.values())

    def teardown(self) -> None:
        """From wherever the history has led, a willing world brings the run to its end."""
        if not hasattr(self, "run_state"):
            return
        if self.run_state.status is RunStatus.PAUSED:
            assert self.send(Resume("x"))
        if self.run_state.status is RunStatus.CREATED:
            assert self.send(Begin())
        for _ in range(200):
            if self.run_state.status.ended:
                return
            for step in list(self.run_state.steps.values()):
                state = self.run_state.steps[step.id]
                starts_runs = self.graph.nodes[step.id].starts_runs
                if state.status is StepStatus.INITIALIZED:
                    self.send(Claim(step.id, "willing"))
                elif state.status is StepStatus.STARTING and starts_runs and state.request is None:
                    self.start_step(step.id)
                elif state.status.active and state.owner is not None:
                    kind = OutcomeKind.STOPPED if state.request else OutcomeKind.SUCCEEDED
                    self.send(Ended(step.id, state.generation, Outcome(kind)))
                elif state.status.active:
                    good = RunStatus.STOPPED if state.request else RunStatus.SUCCEEDED
                    self.end_child(step.id, good)
        raise AssertionError(f"no way forward from {self.run_state}")


AnyHistory.TestCase.settings = settings(
    max_examples=200, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)
TestAnyHistoryHasAWayForward = AnyHistory.TestCase


def test_a_stopped_request_is_shown_until_the_run_ends() -> None:
    play = Play(chain("a"))
    play(Begin())
    play(Claim("a", "me"))
    play(Stop("ann"))
    assert play.run.request is RunRequest.STOP
    with pytest.raises(Refused, match="being stopped already"):
        play(Stop("ann"))
