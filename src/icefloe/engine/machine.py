"""The engine's decisions: ``decide(graph, run, event, rules)`` gives the new state and what is to be done about it.

Pure: no clock, no database, no chance but what ``rules`` hands in. A decision that makes no sense in the present state (an
attempt that ended although its claim was lost, a stop of a run that has ended) raises :class:`Refused` and changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from icefloe.engine.events import (
    AttemptEnded,
    Begin,
    Cancel,
    ChildEnded,
    Claim,
    Decision,
    Effect,
    Ended,
    Event,
    ForeachProgress,
    HandedOver,
    IterationsStarted,
    Kill,
    Lost,
    Move,
    Pause,
    Ready,
    Refused,
    Restart,
    RestartFrom,
    Resume,
    RunEnded,
    RunRequest,
    RunState,
    SignalsArrived,
    Skip,
    Started,
    StartIterations,
    StepState,
    Stop,
    TimeOut,
    ToChildren,
    WaitingInVain,
)
from icefloe.engine.graph import Graph
from icefloe.engine.states import ACTIVE, PENDING, READY, RUN_MOVES, STEP_MOVES, RunStatus, StepStatus
from icefloe.steps.contract import Cause, Outcome, OutcomeKind
from icefloe.workflow.model import FailureMode
from icefloe.workflow.values import TypedValue


@dataclass(frozen=True, slots=True)
class Rules:
    """What a decision may ask of the world: the time to write down, whether a condition holds, a number in [0, 1)."""

    holds: Callable[[str, str, RunState], bool] = lambda condition, source, run: True
    """Of an edge: its condition, the step it leads away from, and the run as it is now."""
    jitter: Callable[[], float] = lambda: 0.0
    now: float = 0.0


def decide(graph: Graph, run: RunState, event: Event, rules: Rules | None = None) -> Decision:
    """The one entrance. Raises :class:`Refused` when the event does not fit."""
    transition = _Transition(graph, run, rules or Rules())
    transition.apply(event)
    return transition.decision()


JITTER = 0.25
_FAILURE = {
    OutcomeKind.ERROR: StepStatus.USER_FAILED,
    OutcomeKind.PLATFORM: StepStatus.PLATFORM_FAILED,
    OutcomeKind.TIMEOUT: StepStatus.TIMEOUT_FAILED,
    OutcomeKind.FATAL: StepStatus.FATALLY_FAILED,
    OutcomeKind.STOPPED: StepStatus.STOPPED,
}
_ENDS_AS = {
    RunRequest.STOP: RunStatus.STOPPED,
    RunRequest.FAIL: RunStatus.FAILED,
    RunRequest.TIME_OUT: RunStatus.TIMED_OUT,
}


class _Transition:
    """One decision in the making: a working copy, never seen outside."""

    def __init__(self, graph: Graph, run: RunState, rules: Rules) -> None:
        self.graph = graph
        self.run = run
        self.rules = rules
        self.steps = dict(run.steps)
        self.changed: set[str] = set()
        self.moves: list[Move] = []
        self.attempts: list[AttemptEnded] = []
        self.effects: list[Effect] = []

    def decision(self) -> Decision:
        return Decision(
            replace(self.run, steps=self.steps),
            frozenset(self.changed),
            tuple(self.moves),
            tuple(self.attempts),
            tuple(self.effects),
        )

    def apply(self, event: Event) -> None:
        match event:
            case Begin():
                self._begin()
            case Claim(step, owner):
                self._claim(step, owner)
            case Started():
                self._started(event)
            case Ended():
                self._ended(self._claimed(event.step, event.generation), event.outcome, event.params)
            case ChildEnded():
                self._child_ended(event)
            case IterationsStarted(step, loop):
                self._put(replace(self.steps[step], loop=loop))
                self._loop_end(step)
            case Lost():
                self._lost(event)
            case HandedOver(step, generation):
                self._hand_on(self._claimed(step, generation), "handed over by its worker")
            case SignalsArrived(step):
                self._waiting(step)
                self._ready(step, "its signals have arrived")
            case WaitingInVain(step, cause):
                self._fail(self._waiting(step), StepStatus.FATALLY_FAILED, cause)
            case Stop(by):
                self._wind_down(RunRequest.STOP, Cause(f"stopped by {by}"), Stop(by))
            case TimeOut(seconds):
                self._wind_down(
                    RunRequest.TIME_OUT, Cause(f"the run took longer than {seconds:g} s"), Stop("the run's timeout")
                )
            case Kill(by):
                self._kill(Cause(f"killed by {by}"), event)
            case Pause(by):
                self._pause(by)
            case Resume(by):
                self._resume(by)
            case Skip(step, by):
                self._skip(step, by)
            case Restart():
                self._restart(event)
        self._maybe_end()

    # -- the run's life ----------------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        if self.run.status is not RunStatus.CREATED:
            raise Refused(f"run {self.run.id} is {self.run.status}, it cannot begin")
        self._run_moves(RunStatus.IN_PROGRESS)
        self._advance(self.graph.nodes)

    def _wind_down(self, request: RunRequest, cause: Cause, to_children: Stop) -> None:
        """No new step starts, what runs is told to end, and then the run ends."""
        if self.run.status.ended:
            raise Refused(
                f"run {self.run.id} has ended already ({self.run.status})", hint=f"icefloe show {self.run.id}"
            )
        if self.run.request is RunRequest.STOP:
            raise Refused(
                f"run {self.run.id} is being stopped already", hint=f"to end it at once: icefloe kill {self.run.id}"
            )
        if self.run.status is RunStatus.CREATED:
            if request is RunRequest.TIME_OUT:
                raise Refused(f"run {self.run.id} has not begun: its time does not count yet")
            self._run_ends(_ENDS_AS[request], cause)
            return
        self.run = replace(self.run, request=request, cause=cause)
        ended_as = StepStatus.TIMED_OUT if request is RunRequest.TIME_OUT else StepStatus.STOPPED
        for step in list(self.steps.values()):
            if step.status in PENDING:
                self._move(replace(step, owner=None, cause=cause), ended_as, cause.message)
            elif step.status.active:
                self._cancel(step, RunRequest.STOP, to_children)
        if self.run.status is RunStatus.PAUSED:
            self._run_moves(RunStatus.IN_PROGRESS, cause)

    def _kill(self, cause: Cause, event: Kill) -> None:
        if self.run.status.ended:
            raise Refused(
                f"run {self.run.id} has ended already ({self.run.status})", hint=f"icefloe show {self.run.id}"
            )
        self.run = replace(self.run, request=None, cause=cause)
        for step in list(self.steps.values()):
            if step.status.active:
                if self.graph.nodes[step.id].starts_runs and step.owner is None:
                    self.effects.append(ToChildren(step.id, event))
                elif step.owner is not None:
                    self.effects.append(Cancel(step.id, step.owner, lost=True))
                self._attempt_over(step, StepStatus.STOPPED, cause)
            if step.status.active or step.status in PENDING:
                # A higher generation fences the owner: whatever it still reports does not count.
                fenced = replace(step, owner=None, request=None, generation=step.generation + 1, cause=cause)
                self._move(fenced, StepStatus.STOPPED, cause.message)
        self._run_ends(RunStatus.FAILED, cause)

    def _pause(self, by: str) -> None:
        if self.run.status is not RunStatus.IN_PROGRESS or self.run.request is not None:
            raise Refused(f"run {self.run.id} is {self.run.request or self.run.status}, it cannot be paused")
        self._run_moves(RunStatus.PAUSED, Cause(f"paused by {by}"))
        for step in list(self.steps.values()):
            if step.status in READY | {StepStatus.WAITING_FOR_SIGNALS}:
                self._move(step, StepStatus.PAUSED, f"paused by {by}")
            elif step.status.active and self.graph.nodes[step.id].starts_runs and step.owner is None:
                self.effects.append(ToChildren(step.id, Pause(by)))

    def _resume(self, by: str) -> None:
        if self.run.status is not RunStatus.PAUSED:
            raise Refused(f"run {self.run.id} is {self.run.status}, not paused")
        self._run_moves(RunStatus.IN_PROGRESS, Cause(f"resumed by {by}"))
        for step in list(self.steps.values()):
            if step.status is StepStatus.PAUSED:
                self._ready(step.id, f"resumed by {by}", delay=0.0)
            elif step.status.active and self.graph.nodes[step.id].starts_runs and step.owner is None:
                self.effects.append(ToChildren(step.id, Resume(by)))
                if step.loop is not None:
                    self.effects.append(StartIterations(step.id))
        self._advance(self.graph.nodes)

    def _restart(self, event: Restart) -> None:
        if not self.run.status.ended:
            raise Refused(
                f"run {self.run.id} is {self.run.status}: only a run that has ended can be restarted",
                hint=f"icefloe stop {self.run.id}, then restart it",
            )
        if event.scope is RestartFrom.BEGINNING:
            again = set(self.graph.nodes)
        else:
            again = {step.id for step in self.steps.values() if step.status.failed or not step.status.ended}
            if event.scope is RestartFrom.STEP:
                if event.step is None or event.step not in self.graph.nodes:
                    raise Refused(f"run {self.run.id} has no step {event.step!r}")
                again.add(event.step)
            if not again:
                raise Refused(
                    f"every step of run {self.run.id} is complete: there is nothing to restart",
                    hint=f"to do it all again: icefloe restart {self.run.id} --from-beginning",
                )
            again |= self.graph.descendants(again)
        reason = f"restarted by {event.by}"
        for step_id in self.graph.nodes:
            if step_id in again:
                old = self.steps[step_id]
                resumes = old.status.failed and event.scope is not RestartFrom.BEGINNING and step_id != event.step
                fresh = StepState(
                    step_id,
                    status=old.status,
                    attempt=old.attempt,
                    generation=old.generation + 1,
                    loop=_to_redo(old.loop) if resumes else None,
                    resumes=resumes,
                    era=old.era + (event.scope is RestartFrom.BEGINNING or old.status.complete),
                )
                self._put(fresh)
                if old.status is not StepStatus.CREATED:
                    self._move(self.steps[step_id], StepStatus.CREATED, reason)
        self.run = replace(self.run, request=None, cause=None, restarts=self.run.restarts + 1)
        self._run_moves(RunStatus.CREATED, Cause(reason))

    def _maybe_end(self) -> None:
        """End the run when nothing is under way and nothing can become so."""
        if self.run.status is not RunStatus.IN_PROGRESS:
            return
        pending = False
        for step in self.steps.values():
            if step.status in ACTIVE:
                return
            pending = pending or step.status in PENDING
        if self.run.request is not None:
            self._run_ends(_ENDS_AS[self.run.request], self.run.cause)
        elif not pending:
            failed = [step for step in self.steps.values() if step.status.failed]
            if failed:
                names = ", ".join(step.id for step in failed[:5]) + (" …" if len(failed) > 5 else "")
                first = failed[0].cause
                message = f"step {names} failed" + (f": {first.message}" if first and len(failed) == 1 else "")
                self._run_ends(RunStatus.FAILED, Cause(message, first.code if first else None))
            else:
                self._run_ends(RunStatus.SUCCEEDED, None)

    def _run_ends(self, status: RunStatus, cause: Cause | None) -> None:
        self.run = replace(self.run, request=None)
        self._run_moves(status, cause)
        self.effects.append(RunEnded(status))

    def _run_moves(self, status: RunStatus, cause: Cause | None = None) -> None:
        previous = self.run.status
        assert status in RUN_MOVES[previous], f"run {previous} -> {status}"
        if status.ended:
            self.run = replace(self.run, cause=cause, ended_at=self.rules.now)
        elif previous is RunStatus.CREATED:
            self.run = replace(self.run, started_at=self.rules.now, ended_at=None)
        self.run = replace(self.run, status=status)
        self.moves.append(Move(None, None, previous, status, cause.message if cause else None))

    # -- a step's life -----------------------------------------------------------------------------------------------------

    def _advance(self, candidates: Iterable[str]) -> None:
        """Let every step whose predecessors have all ended become ready, or unsatisfied, and so on along the edges."""
        if self.run.status is not RunStatus.IN_PROGRESS or self.run.request is not None:
            return
        stack = list(candidates)
        while stack:
            step_id = stack.pop()
            if self.steps[step_id].status is not StepStatus.CREATED:
                continue
            incoming = self.graph.incoming[step_id]
            if not all(self.steps[edge.source].status.complete for edge in incoming):
                continue
            try:
                satisfied = not incoming or any(self._holds(edge.source, edge.condition) for edge in incoming)
            except Exception as error:
                cause = Cause(
                    f"its condition cannot be evaluated: {error}",
                    getattr(error, "code", None),
                    getattr(error, "hint", None),
                )
                self._fail(self.steps[step_id], StepStatus.FATALLY_FAILED, cause)
                stack.extend(self.graph.successors[step_id])
                continue
            if not satisfied:
                self._move(self.steps[step_id], StepStatus.UNSATISFIED, "no incoming condition holds")
                stack.extend(self.graph.successors[step_id])
            elif self.graph.nodes[step_id].waits_for_signals:
                self._move(self.steps[step_id], StepStatus.WAITING_FOR_SIGNALS, None)
            else:
                self._ready(step_id, None)

    def _holds(self, source: str, condition: str | None) -> bool:
        if self.steps[source].status is StepStatus.UNSATISFIED:
            return False
        return condition is None or self.rules.holds(condition, source, replace(self.run, steps=self.steps))

    def _ready(self, step_id: str, reason: str | None, delay: float = 0.0) -> None:
        step = replace(self.steps[step_id], owner=None, request=None, delay=delay, available_at=self.rules.now + delay)
        if self.run.status is RunStatus.PAUSED:
            if step.status is not StepStatus.PAUSED:
                self._move(step, StepStatus.PAUSED, reason)
            return
        self._move(step, StepStatus.INITIALIZED, reason)
        self.effects.append(Ready(step_id, delay))

    def _claim(self, step_id: str, owner: str) -> None:
        step = self.steps.get(step_id)
        if step is None or not step.status.ready or self.run.status is not RunStatus.IN_PROGRESS:
            raise Refused(f"step {step_id} of run {self.run.id} is not ready")
        # A handle that survived means the attempt still goes on elsewhere: the same attempt is taken up again.
        attempt = step.attempt if step.handle is not None else step.attempt + 1
        claimed = replace(step, owner=owner, generation=step.generation + 1, attempt=attempt, cause=None)
        self._move(claimed, StepStatus.STARTING, f"claimed by {owner}")

    def _claimed(self, step_id: str, generation: int) -> StepState:
        step = self.steps.get(step_id)
        if step is None or step.generation != generation or not step.status.active:
            raise Refused(f"the claim on step {step_id} of run {self.run.id} is lost")
        return step

    def _started(self, event: Started) -> None:
        step = self._claimed(event.step, event.generation)
        params = event.params if event.params is not None else step.params
        step = replace(step, params=params, handle=event.handle, loop=event.loop or step.loop)
        if self.graph.nodes[step.id].starts_runs:
            step = replace(step, owner=None)
        if step.status is StepStatus.RUNNING:
            self._put(step)
            if event.note is not None:
                self.moves.append(Move(step.id, step.attempt or None, step.status, step.status, event.note))
        else:
            self._move(step, StepStatus.RUNNING, event.note or None)
        self._loop_end(step.id)

    def _waiting(self, step_id: str) -> StepState:
        state = self.steps[step_id]
        if state.status is not StepStatus.WAITING_FOR_SIGNALS:
            raise Refused(f"step {step_id} is {state.status}, it waits for no signal")
        return state

    def _ended(self, step: StepState, outcome: Outcome, params: Mapping[str, TypedValue] | None = None) -> None:
        if params is not None:
            step = replace(step, params=params)
        if step.request is RunRequest.SKIP and outcome.kind is not OutcomeKind.SUCCEEDED:
            self._attempt_over(step, StepStatus.STOPPED, outcome.cause)
            self._complete(step, StepStatus.SKIPPED, "skipped while it ran")
        elif outcome.kind is OutcomeKind.SUCCEEDED:
            self._attempt_over(step, StepStatus.SUCCEEDED, None)
            if outcome.skips_rest is not None:
                self._skip_behind(step.id, outcome.skips_rest)
            self._complete(replace(step, outputs=dict(outcome.outputs)), StepStatus.SUCCEEDED, None)
        elif self.run.request is not None and outcome.kind is not OutcomeKind.FATAL:
            # Told to end, it ended: however that looked like. Not ignored, not tried again.
            status = StepStatus.TIMED_OUT if self.run.request is RunRequest.TIME_OUT else StepStatus.STOPPED
            self._attempt_over(step, status, outcome.cause)
            self._end_step(replace(step, cause=outcome.cause or self.run.cause), status)
        else:
            self._failed(step, outcome)

    def _failed(self, step: StepState, outcome: Outcome) -> None:
        cause = outcome.cause or Cause(f"ended as {outcome.kind}")
        status = _FAILURE[outcome.kind]
        self._attempt_over(step, status, cause)
        retry = self.graph.nodes[step.id].retry
        field_name = {OutcomeKind.ERROR: "error", OutcomeKind.PLATFORM: "platform", OutcomeKind.TIMEOUT: "timeout"}.get(
            outcome.kind
        )
        if field_name is not None:
            tried = getattr(step.tries, field_name) + 1
            step = replace(step, tries=replace(step.tries, **{field_name: tried}))
            allowed = getattr(retry, field_name)
            if tried <= allowed:
                delay = (
                    0.0 if outcome.retry_at_once else retry.backoff.delay(tried) * (1 - JITTER * self.rules.jitter())
                )
                message = f"{cause.message}; try {tried} of {allowed} for this kind of failure follows"
                self._again(replace(step, cause=cause), message, delay)
                return
        self._fail(replace(step, outputs=dict(outcome.outputs) or None), status, cause)

    def _fail(self, step: StepState, status: StepStatus, cause: Cause) -> None:
        """For good: no further attempt."""
        mode = self.graph.nodes[step.id].failure_mode
        if mode is FailureMode.IGNORE_FAILURE:
            self._complete(replace(step, cause=cause), StepStatus.COMPLETED_WITH_ERROR, cause.message)
            return
        self._end_step(replace(step, cause=cause), status)
        if mode is FailureMode.FAIL_IMMEDIATELY and self.run.request is None:
            ended = Cause(f"step {step.id} failed: {cause.message}", cause.code, cause.hint)
            self._wind_down(RunRequest.FAIL, ended, Stop(f"the failure of step {step.id}"))

    def _complete(self, step: StepState, status: StepStatus, reason: str | None) -> None:
        self._move(replace(step, owner=None, request=None, handle=None), status, reason)
        self._advance(self.graph.successors[step.id])

    def _end_step(self, step: StepState, status: StepStatus) -> None:
        message = step.cause.message if step.cause else None
        self._move(replace(step, owner=None, request=None, handle=None), status, message)

    def _again(self, step: StepState, reason: str, delay: float = 0.0) -> None:
        """Back to waiting for the next attempt."""
        starts_runs = self.graph.nodes[step.id].starts_runs
        self._put(
            replace(
                step, handle=None, loop=_to_redo(step.loop), resumes=starts_runs and step.status is StepStatus.RUNNING
            )
        )
        self._ready(step.id, reason, delay)

    def _hand_on(self, step: StepState, reason: str) -> None:
        """Back to waiting for another worker, which counts as no failure; with a handle it stays the same attempt."""
        if step.handle is None:
            self._attempt_over(step, StepStatus.STOPPED, Cause(reason))
        if step.request is RunRequest.SKIP:
            self._complete(step, StepStatus.SKIPPED, "skipped while it ran")
        elif self.run.request is not None:
            self._end_step(replace(step, cause=self.run.cause), StepStatus.STOPPED)
        else:
            self._put(step)
            self._ready(step.id, reason)

    def _lost(self, event: Lost) -> None:
        step = self.steps.get(event.step)
        if step is None or step.owner != event.owner or not step.status.active:
            raise Refused(f"step {event.step} of run {self.run.id} is not held by {event.owner}")
        if event.reattach and step.handle is not None:
            self._hand_on(step, f"worker {event.owner} is gone; the attempt goes on elsewhere")
        else:
            cause = Cause(f"worker {event.owner} is gone", "worker.lost")
            self._ended(step, Outcome(OutcomeKind.PLATFORM, cause=cause, retry_at_once=True))

    def _cancel(self, step: StepState, request: RunRequest, to_children: Stop) -> None:
        self._put(replace(step, request=request))
        if step.owner is not None:
            self.effects.append(Cancel(step.id, step.owner))
        elif self.graph.nodes[step.id].starts_runs:
            self.effects.append(ToChildren(step.id, to_children))

    def _skip(self, step_id: str, by: str) -> None:
        step = self.steps.get(step_id)
        if step is None:
            raise Refused(f"run {self.run.id} has no step {step_id!r}", hint=f"icefloe show {self.run.id}")
        if step.status.complete:
            raise Refused(f"step {step_id} of run {self.run.id} is complete already ({step.status})")
        if step.status.active:
            self._cancel(step, RunRequest.SKIP, Stop(f"{by}, who skips step {step_id}"))
            return
        if self.run.status.ended:
            self._restart(Restart(by))
            step = self.steps[step_id]
        self._complete(replace(step, cause=Cause(f"skipped by {by}")), StepStatus.SKIPPED, f"skipped by {by}")

    def _skip_behind(self, step_id: str, reason: str) -> None:
        """All that can run only after this step, and has not begun."""
        for behind in sorted(self.graph.descendants([step_id]), key=self.graph.positions.__getitem__):
            if self.steps[behind].status is StepStatus.CREATED:
                self._move(replace(self.steps[behind], cause=Cause(reason)), StepStatus.SKIPPED, reason)

    # -- steps that start runs -----------------------------------------------------------------------------------------------

    def _child_ended(self, event: ChildEnded) -> None:
        step = self.steps.get(event.step)
        if step is None or step.status is not StepStatus.RUNNING:
            raise Refused(f"step {event.step} of run {self.run.id} waits for no run")
        if event.iteration is None:
            self._ended(step, _child_outcome(event))
            return
        loop = step.loop
        assert loop is not None
        good = event.status is RunStatus.SUCCEEDED
        loop = replace(
            loop,
            running=loop.running - 1,
            succeeded=loop.succeeded + good,
            failed=loop.failed + (not good),
        )
        cause = step.cause or (
            None
            if good
            else Cause(f"iteration {event.iteration}: {event.cause.message if event.cause else event.status}")
        )
        self._put(replace(step, loop=loop, cause=cause))
        if not loop.exhausted and self.run.request is None and step.request is None:
            if self.run.status is RunStatus.IN_PROGRESS:
                self.effects.append(StartIterations(step.id))
        else:
            self._loop_end(step.id)

    def _loop_end(self, step_id: str) -> None:
        step = self.steps[step_id]
        loop = step.loop
        if loop is None or step.status is not StepStatus.RUNNING or loop.running > 0:
            return
        stopping = self.run.request is not None or step.request is not None
        if not loop.exhausted and not stopping:
            return
        if loop.failed == 0 and loop.exhausted:
            self._ended(step, Outcome(OutcomeKind.SUCCEEDED))
        elif stopping:
            self._ended(step, Outcome(OutcomeKind.STOPPED, cause=step.cause or self.run.cause))
        else:
            first = f"; {step.cause.message}" if step.cause else ""
            self._ended(
                step, Outcome(OutcomeKind.ERROR, cause=Cause(f"{loop.failed} of {loop.total} iterations failed{first}"))
            )

    # -- bookkeeping -------------------------------------------------------------------------------------------------------

    def _put(self, step: StepState) -> None:
        self.steps[step.id] = step
        self.changed.add(step.id)

    def _move(self, step: StepState, status: StepStatus, reason: str | None) -> None:
        previous = step.status
        if status is StepStatus.STARTING:
            step = replace(step, started_at=self.rules.now, ended_at=None)
        elif status.ended:
            step = replace(step, ended_at=self.rules.now)
        assert status in STEP_MOVES[previous], f"step {step.id}: {previous} -> {status}"
        self._put(replace(step, status=status))
        self.moves.append(Move(step.id, step.attempt or None, previous, status, reason))

    def _attempt_over(self, step: StepState, status: StepStatus, cause: Cause | None) -> None:
        self.attempts.append(AttemptEnded(step.id, step.attempt, status, cause, step.owner, step.started_at))


def _to_redo(loop: ForeachProgress | None) -> ForeachProgress | None:
    """The same loop for another try: what succeeded stays, what failed is walked over again."""
    if loop is None:
        return None
    return ForeachProgress(loop.total, next=loop.next, succeeded=loop.succeeded, redo_after=-1)


def _child_outcome(event: ChildEnded) -> Outcome:
    if event.status is RunStatus.SUCCEEDED:
        return Outcome(OutcomeKind.SUCCEEDED, event.outputs)
    kind = OutcomeKind.STOPPED if event.status is RunStatus.STOPPED else OutcomeKind.ERROR
    message = event.cause.message if event.cause else f"its run ended as {event.status}"
    return Outcome(kind, event.outputs, Cause(message, event.cause.code if event.cause else None))
