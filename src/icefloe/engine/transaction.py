"""One transaction on one tree of runs: events, everything that follows from them, and at its end the rows.

The lock of the root run is held throughout. Whatever an event leads to in the same tree happens here or not at all; steps
that become ready can be claimed here at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from sqlalchemy.engine import Connection

from icefloe.engine import signals
from icefloe.engine.definitions import Definitions
from icefloe.engine.evaluation import Evaluated, Evaluation, child_id, child_params, iterations, run_params, run_values
from icefloe.engine.events import (
    AttemptEnded,
    Begin,
    Cancel,
    ChildEnded,
    Claim,
    Event,
    IterationsStarted,
    Move,
    Ready,
    Refused,
    Restart,
    RestartFrom,
    RunEnded,
    StartIterations,
    StepState,
    ToChildren,
)
from icefloe.engine.graph import Graph
from icefloe.engine.machine import Rules, decide
from icefloe.engine.run_snapshot import RunSnapshot, RunSnapshots, plain_values, run_record, run_state, step_record
from icefloe.engine.states import RunStatus, StepStatus
from icefloe.store import definitions as stored
from icefloe.store import runs, workers
from icefloe.store.runs import AttemptRecord, EventRecord, RunRecord, StepRecord
from icefloe.workflow.model import ForeachStep, SubworkflowStep
from icefloe.workflow.resolution import Layer
from icefloe.workflow.values import TypedValue

FOREACH_WINDOW = 20
MOST_AT_ONCE = 200


@dataclass(frozen=True, slots=True)
class Claimer:
    """Who claims, how much it can take, and what it serves."""

    worker: str
    slots: int
    serves: frozenset[str] | None = None
    """The root runs it works for; None: all."""
    instant: frozenset[str] = frozenset()
    """Step types that take no slot, since they cost nothing."""
    limits: Mapping[str, int] = field(default_factory=dict)
    """Step type -> how many of it may be under way at once, over all workers."""


@dataclass(frozen=True, slots=True)
class Claimed:
    """A step that is now this worker's to do."""

    snapshot: RunSnapshot
    step: StepState


@dataclass(slots=True)
class Applied:
    """What came of it, for the worker: to do, to cancel, and whether there is more to claim."""

    claimed: list[Claimed] = field(default_factory=list)
    cancels: list[tuple[str, Cancel]] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)
    left_ready: bool = False


class TreeTransaction:
    """Everything one transaction does to one tree of runs; rows are written at its end."""

    def __init__(
        self,
        connection: Connection,
        root_id: str,
        claimer: Claimer | None,
        *,
        snapshots: RunSnapshots,
        definitions: Definitions,
        now: float,
        chance: Callable[[], float],
    ) -> None:
        self._cache = snapshots
        self._definitions = definitions
        self._chance = chance
        self.now = now
        self.connection = connection
        self.root_id = root_id
        self.claimer = claimer
        self.applied = Applied()
        self.to_admit: set[str] = set()
        self._snapshots: dict[str, RunSnapshot] = {}
        self._written: dict[str, RunSnapshot] = {}
        self._changed: dict[str, set[str]] = {}
        self._events: list[EventRecord] = []
        self._attempts: list[AttemptRecord] = []
        self._ready: list[tuple[str, str]] = []
        self._late: list[tuple[str, Event]] = []
        self.for_others = False
        runs.lock(connection, root_id)

    # -- events ------------------------------------------------------------------------------------------------------------

    def snapshot(self, run_id: str) -> RunSnapshot:
        if run_id not in self._snapshots:
            self._snapshots[run_id] = self._written[run_id] = self._cache.get(self.connection, run_id)
        return self._snapshots[run_id]

    def evaluation(self, snapshot: RunSnapshot) -> Evaluation:
        def iterations(run_id: str, step_id: str) -> list[str]:
            return [child.id for child in runs.children(self.connection, run_id, step_id)]

        return Evaluation(self.snapshot, snapshot, partial(stored.file, self.connection), iterations)

    def send(self, run_id: str, event: Event) -> None:
        snapshot = self.snapshot(run_id)
        evaluation = self.evaluation(snapshot)
        rules = Rules(evaluation.holds, self._chance, self.now)
        decision = decide(snapshot.graph, snapshot.state, event, rules)
        self._snapshots[run_id] = replace(snapshot, state=decision.run)
        self._changed.setdefault(run_id, set()).update(decision.changed)
        self._events += [_event(run_id, move, self.now) for move in decision.moves]
        self._attempts += [_attempt(run_id, attempt, self.now) for attempt in decision.attempts]
        for move in decision.moves:
            if move.step is not None and move.status == StepStatus.SUCCEEDED:
                self._publish_signals(run_id, move.step, move.attempt or 1)
        if decision.run.status is RunStatus.CREATED:
            self.to_admit.add(snapshot.record.workflow_id)
        for effect in decision.effects:
            match effect:
                case Ready(step, delay):
                    if delay == 0:
                        self._ready.append((run_id, step))
                    self.for_others = True
                case Cancel():
                    self.applied.cancels.append((run_id, effect))
                    self.for_others = True
                case ToChildren(step, to_child):
                    self._to_children(run_id, step, to_child)
                case StartIterations(step):
                    self.fill(run_id, step)
                case RunEnded(status):
                    self._run_ended(run_id, status)

    def _publish_signals(self, run_id: str, step_id: str, attempt: int) -> None:
        snapshot = self.snapshot(run_id)
        step = snapshot.definition.steps[step_id]
        if step.signal_outputs:
            troubles = signals.publish(self.connection, snapshot, self.evaluation(snapshot), step, attempt, self.now)
            status = snapshot.state.steps[step_id].status.value
            self._events += [
                EventRecord(run_id, step_id, attempt, self.now, status, status, trouble) for trouble in troubles
            ]
            self.for_others = True

    def _to_children(self, run_id: str, step: str, event: Event) -> None:
        self._write()
        for child in runs.children(self.connection, run_id, step, active_only=True):
            if child.root_id == self.root_id:
                try:
                    self.send(child.id, event)
                except Refused:
                    continue  # it is on its way to where the event would bring it

    def _run_ended(self, run_id: str, status: RunStatus) -> None:
        snapshot = self.snapshot(run_id)
        record = snapshot.record
        self.for_others = True
        self.applied.ended.append(run_id)
        if not record.path:
            self.to_admit.add(record.workflow_id)
        if record.parent_id is not None and record.parent_step is not None and run_id != self.root_id:
            outputs = {} if record.iteration is not None else _run_outputs(snapshot)
            event = ChildEnded(record.parent_step, status, outputs, snapshot.state.cause, record.iteration)
            with suppress(Refused):  # the parent may have been killed meanwhile
                self.send(record.parent_id, event)

    # -- claims ------------------------------------------------------------------------------------------------------------

    def offer(self, wanted: list[tuple[str, str]]) -> None:
        self._ready += wanted

    def _claim_ready(self) -> None:
        claimer = self.claimer
        if claimer is None or not self._ready:
            return
        served = claimer.serves is None or self.root_id in claimer.serves
        if not served or not workers.may_claim(self.connection, claimer.worker):
            return
        free = claimer.slots
        for run_id, step_id in self._ready:
            snapshot = self.snapshot(run_id)
            state = snapshot.state.steps.get(step_id)
            if state is None or not state.status.ready:
                continue
            instant = snapshot.graph.nodes[step_id].type in claimer.instant
            if len(self.applied.claimed) >= MOST_AT_ONCE or (free <= 0 and not instant):
                self.applied.left_ready = True
            elif self._permitted(snapshot, step_id, claimer):
                with suppress(Refused):
                    self.send(run_id, Claim(step_id, claimer.worker))
                    free -= not instant
                    snapshot = self.snapshot(run_id)
                    self.applied.claimed.append(Claimed(snapshot, snapshot.state.steps[step_id]))

    def _permitted(self, snapshot: RunSnapshot, step_id: str, claimer: Claimer) -> bool:
        node = snapshot.graph.nodes[step_id]
        if node.starts_runs:
            return True
        limit = claimer.limits.get(node.type.lower())
        if limit is not None:
            workers.hold_limit(self.connection, node.type.lower())
            self._write()
            if runs.running_of_type(self.connection, node.type) >= limit:
                return False
        most = snapshot.definition.workflow.step_concurrency
        if most is not None:
            self._write()
            return runs.running_of_root(self.connection, self.root_id) < most
        return True

    # -- runs that steps start ---------------------------------------------------------------------------------------------

    def fill(self, run_id: str, step_id: str) -> None:
        """Start iterations up to the foreach's window."""
        snapshot = self.snapshot(run_id)
        state = snapshot.state.steps[step_id]
        loop = state.loop
        if loop is None or state.status is not StepStatus.RUNNING:
            return
        step = snapshot.definition.steps[step_id]
        assert isinstance(step, ForeachStep)
        room = (step.concurrency or FOREACH_WINDOW) - loop.running
        again: list[int] = []
        if loop.redo_after is not None and room > 0:
            self._write()
            again = runs.failed_iterations(self.connection, run_id, step_id, loop.redo_after, room)
            loop = replace(loop, redo_after=again[-1] if len(again) == room else None)
        fresh = range(loop.next, min(loop.total, loop.next + max(0, room - len(again))))
        if loop.redo_after is not None:
            fresh = range(0)
        loop = replace(loop, next=loop.next + len(fresh), running=loop.running + len(again) + len(fresh))
        self.send(run_id, IterationsStarted(step_id, loop))
        for number in again:
            child = child_id(run_id, step_id, number)
            self.send(child, Restart(f"the restart of step {step_id}"))
            self.send(child, Begin())
        values = iterations(step, state.params or {}) if fresh else None
        for number in fresh:
            assert values is not None
            self._start_child(
                snapshot, step_id, values.iteration(number), iteration=number, path=step_id,
                workflow_id=snapshot.record.workflow_id, version=snapshot.record.version,
            )  # fmt: skip

    def start_subworkflow(self, run_id: str, step_id: str, evaluated: Evaluated) -> str:
        """Create the run of a subworkflow step, or take up the one that an earlier attempt made. Returns its id."""
        snapshot = self.snapshot(run_id)
        step = snapshot.definition.steps[step_id]
        assert isinstance(step, SubworkflowStep)
        definitions = self._definitions
        if step.version.isdigit():
            child = definitions.get(self.connection, step.workflow_id, int(step.version))
        else:
            child = definitions.latest(self.connection, step.workflow_id)
        number = self.evaluation(snapshot).scope(snapshot.state).run["run_number"]
        run = run_values(
            child_id(run_id, step_id),
            step.workflow_id,
            number if isinstance(number, int) else None,
            child.workflow.owner,
            version=child.version,
            initiator=_initiator("subworkflow", run_id, step_id),
        )
        files = self.evaluation(replace(snapshot, definition=child)).scope(snapshot.state).files
        params = run_params(child.workflow, {Layer.RUN: child_params(step, child.workflow, evaluated)}, run, files)
        return self._start_child(
            snapshot, step_id, params, workflow_id=step.workflow_id, version=child.version, own_root=not step.sync
        )

    def _start_child(
        self,
        snapshot: RunSnapshot,
        step_id: str,
        params: Mapping[str, TypedValue],
        *,
        workflow_id: str,
        version: int,
        iteration: int | None = None,
        path: str = "",
        own_root: bool = False,
    ) -> str:
        parent, state = snapshot.record, self.snapshot(snapshot.record.id).state.steps[step_id]
        child = child_id(parent.id, step_id, iteration)
        known = None
        if state.attempt > 1 or parent.restarts:
            self._write()
            known = runs.load(self.connection, child)
        if known is not None:
            self._take_up(known, state.resumes, params)
            return child
        record = RunRecord(
            child,
            workflow_id,
            version,
            child if own_root else self.root_id,
            RunStatus.CREATED.value,
            self.now,
            parent_id=parent.id,
            parent_step=step_id,
            iteration=iteration,
            path=path,
            params=plain_values(params) or {},
            initiator=_initiator("foreach" if path else "subworkflow", parent.id, step_id),
        )
        definition = self._definitions.get(self.connection, workflow_id, version)
        steps = insert_run(self.connection, record, definition.graph(path), self.now)
        self._snapshots[child] = self._written[child] = RunSnapshot(record, run_state(record, steps), definition)
        self._changed.setdefault(child, set())
        if path:
            self.send(child, Begin())
        else:
            self.to_admit.add(workflow_id)
            self.for_others = True
        return child

    def redefine(self, run_id: str, version: int, params: dict[str, Any]) -> None:
        """Give an ended run another definition: steps that both know keep their state, new ones are to be done."""
        snapshot = self.snapshot(run_id)
        if not snapshot.state.status.ended:
            return  # the restart that follows is refused, with the reason
        definition = self._definitions.get(self.connection, snapshot.record.workflow_id, version)
        graph = definition.graph(snapshot.record.path)
        revision = snapshot.record.revision + 1
        record = replace(snapshot.record, version=version, params=params, revision=revision)
        states = {node: snapshot.state.steps.get(node, StepState(node)) for node in graph.nodes}
        rows = [step_record(record, graph.positions[n], graph.nodes[n].type, states[n], revision) for n in states]
        runs.redefine(self.connection, run_id, version=version, params=params)
        runs.replace_steps(self.connection, run_id, rows)
        state = replace(snapshot.state, steps=states)
        self._snapshots[run_id] = self._written[run_id] = RunSnapshot(record, state, definition)

    def _take_up(self, known: RunRecord, resumes: bool, params: Mapping[str, TypedValue]) -> None:
        """A run that an earlier attempt of the step started: go on where it failed, or begin again."""
        status = RunStatus(known.status)
        if not status.ended:
            return
        if resumes and status is RunStatus.SUCCEEDED:
            # It ended well after its parent had given up on it.
            event = ChildEnded(
                known.parent_step or "", status, _run_outputs(self.snapshot(known.id)), None, known.iteration
            )
            assert known.parent_id is not None
            self._late.append((known.parent_id, event))
            return
        if not resumes:
            runs.redefine(self.connection, known.id, version=known.version, params=plain_values(params) or {})
            self._cache.forget(known.id)
            self._snapshots.pop(known.id, None)
            self._written.pop(known.id, None)
        scope = RestartFrom.INCOMPLETE if resumes else RestartFrom.BEGINNING
        self.send(known.id, Restart(f"the restart of run {known.parent_id}", scope))
        if known.path:
            self.send(known.id, Begin())

    # -- rows --------------------------------------------------------------------------------------------------------------

    def finish(self) -> None:
        while self._late:
            run_id, event = self._late.pop()
            self.send(run_id, event)
        self._claim_ready()
        self._write()
        runs.add_events(self.connection, self._events)
        runs.add_attempts(self.connection, self._attempts)

    def committed(self) -> None:
        for snapshot in self._snapshots.values():
            self._cache.put(snapshot)

    def rolled_back(self) -> None:
        """What was read in this transaction may never have existed."""
        for run_id in self._snapshots:
            self._cache.forget(run_id)

    def _write(self) -> None:
        """Write the runs and steps that have changed so far."""
        light: list[StepRecord] = []
        full: list[StepRecord] = []
        updates: list[RunRecord] = []
        for run_id, changed in self._changed.items():
            snapshot = self._snapshots[run_id]
            revision = snapshot.record.revision + 1
            record = run_record(snapshot.record, snapshot.state, revision)
            before = self._written[run_id].state.steps
            for step_id in changed:
                state, old = snapshot.state.steps[step_id], before[step_id]
                row = step_record(
                    record, snapshot.graph.positions[step_id], snapshot.graph.nodes[step_id].type, state, revision
                )
                # A foreach over thousands of values must not write them again with every iteration's end.
                same_values = state.params is old.params and state.outputs is old.outputs
                (light if same_values else full).append(row)
            updates.append(record)
            self._snapshots[run_id] = self._written[run_id] = replace(snapshot, record=record)
        runs.update_steps(self.connection, full)
        runs.update_steps(self.connection, light, with_values=False)
        for record in updates:
            runs.update(self.connection, record)
        self._changed.clear()


def _initiator(kind: str, run_id: str, step_id: str) -> dict[str, Any]:
    return {"kind": kind, "run": run_id, "step": step_id}


def insert_run(connection: Connection, record: RunRecord, graph: Graph, now: float) -> dict[str, StepState]:
    states = {node: StepState(node) for node in graph.nodes}
    rows = [step_record(record, graph.positions[node], graph.nodes[node].type, states[node], 0) for node in states]
    runs.insert(connection, record, rows)
    runs.add_events(connection, [EventRecord(record.id, None, None, now, None, record.status, None)])
    return states


def _run_outputs(snapshot: RunSnapshot) -> dict[str, TypedValue]:
    """What a subworkflow step publishes: everything its run's steps published, under ``step__name``."""
    outputs: dict[str, TypedValue] = {}
    for step in snapshot.state.steps.values():
        for name, value in (step.outputs or {}).items():
            outputs[f"{step.id}__{name}"] = value
    return outputs


def _event(run_id: str, move: Move, now: float) -> EventRecord:
    return EventRecord(run_id, move.step, move.attempt, now, move.previous, move.status, move.cause)


def _attempt(run_id: str, ended: AttemptEnded, now: float) -> AttemptRecord:
    cause = ended.cause.to_json() if ended.cause else None
    return AttemptRecord(run_id, ended.step, ended.attempt, ended.status, cause, ended.owner, ended.started_at, now)
