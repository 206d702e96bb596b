"""Applies events to runs: one transaction, one lock, all consequences.

    applied = conductor.apply(run_id, Ended(...), claimer=me)

A transaction holds the lock of the root run, so whatever an event leads to in the same tree of runs (a child's end that lets
its parent go on, a stop that reaches all iterations, the next iterations of a foreach) happens in it or not at all. Steps
that become ready can be claimed in it at once, which is what makes a chain of steps quick.

The conductor decides nothing (``machine.py`` does) and runs nothing (``worker.py`` does).
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeAlias

from sqlalchemy.engine import Connection

from icefloe.engine import strategy
from icefloe.engine.definitions import Definitions
from icefloe.engine.evaluation import Evaluated, Evaluation, handed_to, iterations, run_params, run_values
from icefloe.engine.events import (
    AttemptEnded,
    Begin,
    Cancel,
    ChildEnded,
    Claim,
    Ended,
    Event,
    IterationsStarted,
    Loop,
    Move,
    Ready,
    Refused,
    Restart,
    RestartFrom,
    RunEnded,
    Started,
    StartIterations,
    StepState,
    Stop,
    ToChildren,
)
from icefloe.engine.graph import Graph
from icefloe.engine.images import Image, Images, plain_values, run_record, run_state, step_record
from icefloe.engine.machine import Rules, decide
from icefloe.engine.states import RunStatus, StepStatus
from icefloe.faults import fault
from icefloe.steps.contract import AttemptKey, Kind, Outcome
from icefloe.store import definitions as stored
from icefloe.store import runs, workers
from icefloe.store.database import Database
from icefloe.store.runs import AttemptRecord, EventRecord, RunRecord, StepRecord
from icefloe.workflow.model import ForeachStep, RunRule, SubworkflowStep
from icefloe.workflow.resolution import Layer
from icefloe.workflow.values import TypedValue

FOREACH_WINDOW = 20
MOST_AT_ONCE = 200

Redefine: TypeAlias = Callable[[Connection, RunRecord], tuple[int, dict[str, Any]] | None]


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

    image: Image
    step: StepState


@dataclass(slots=True)
class Applied:
    """What came of it, for the worker: to do, to cancel, and whether there is more to claim."""

    claimed: list[Claimed] = field(default_factory=list)
    cancels: list[tuple[str, Cancel]] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)
    left_ready: bool = False


class Conductor:
    def __init__(
        self,
        database: Database,
        *,
        clock: Callable[[], float] = time.time,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self.database = database
        self.definitions = Definitions()
        self.images = Images(self.definitions)
        self.clock = clock
        self.chance = chance

    def apply(
        self,
        run_id: str,
        *events: Event,
        root_id: str | None = None,
        claimer: Claimer | None = None,
        also: Callable[[Connection], None] | None = None,
    ) -> Applied:
        """Apply events to one run. Raises :class:`Refused` when they do not fit; then nothing has changed.

        ``also`` runs in the same transaction, after the events were accepted.
        """
        with self._tree(root_id, claimer, member=run_id) as turn:
            for event in events:
                turn.send(run_id, event)
            if also is not None:
                also(turn.connection)
        return self._after(turn, claimer)

    def claim(self, root_id: str, wanted: list[tuple[str, str]], claimer: Claimer) -> Applied:
        """Claim steps of one tree that were seen ready."""
        with self._tree(root_id, claimer) as turn:
            turn.offer(wanted)
        return self._after(turn, claimer)

    def start_iterations(
        self, key: AttemptKey, root_id: str, params: Mapping[str, TypedValue], total: int, claimer: Claimer | None
    ) -> Applied:
        """A foreach step begins: its first window of iterations starts with it."""
        with self._tree(root_id, claimer) as turn:
            state = turn.image(key.run_id).state.steps[key.step_id]
            loop = state.loop if state.resumes and state.loop and state.loop.total == total else Loop(total)
            turn.send(key.run_id, Started(key.step_id, key.generation, params, loop=loop))
            turn.fill(key.run_id, key.step_id)
        return self._after(turn, claimer)

    def start_subworkflow(
        self, key: AttemptKey, root_id: str, evaluated: Evaluated, claimer: Claimer | None
    ) -> Applied:
        """A subworkflow step begins: its run exists from the same moment. An asynchronous one ends here."""
        with self._tree(root_id, claimer) as turn:
            step = turn.image(key.run_id).definition.steps[key.step_id]
            assert isinstance(step, SubworkflowStep)
            turn.send(key.run_id, Started(key.step_id, key.generation, evaluated.params))
            child = turn.start_subworkflow(key.run_id, key.step_id, evaluated)
            if not step.sync:
                outputs = {"run_id": TypedValue.of(child)}
                turn.send(key.run_id, Ended(key.step_id, key.generation, Outcome(Kind.SUCCEEDED, outputs)))
        return self._after(turn, claimer)

    def restart(self, run_id: str, event: Restart, redefine: Redefine) -> Applied:
        """Restart a run, if ``redefine`` says so with another version of its definition and other parameters."""
        with self._tree(None, None, member=run_id) as turn:
            changed = redefine(turn.connection, turn.image(run_id).record)
            if changed is not None:
                turn.redefine(run_id, *changed)
            turn.send(run_id, event)
        return self._after(turn, None)

    @contextmanager
    def _tree(self, root_id: str | None, claimer: Claimer | None, member: str | None = None) -> Iterator[_Transaction]:
        """A transaction on the tree of runs below ``root_id``, or of which ``member`` is part."""
        turn: _Transaction | None = None
        try:
            with self.database.write() as connection:
                root = root_id or self._root(connection, member or "")
                turn = _Transaction(self, connection, root, claimer)
                yield turn
                turn.finish()
                fault("conductor.before_commit")
        except BaseException:
            if turn is not None:
                turn.rolled_back()
            raise
        fault("conductor.after_commit")
        turn.committed()

    def _after(self, turn: _Transaction, claimer: Claimer | None) -> Applied:
        """Runs that wait for their turn may begin now; each workflow in a transaction of its own."""
        for workflow_id in turn.to_admit:
            self._merge(turn.applied, self.admit(workflow_id, claimer))
        return turn.applied

    def create(self, connection: Connection, record: RunRecord) -> None:
        """Insert a run that waits for its turn."""
        definition = self.definitions.get(connection, record.workflow_id, record.version)
        _insert(connection, record, definition.graph(record.path), self.clock())

    def admit(self, workflow_id: str, claimer: Claimer | None = None) -> Applied:
        """Let begin whose turn it is among the workflow's waiting runs."""
        applied = Applied()
        # Each run that begins or stops is a transaction of its own, so that two trees are never locked at once.
        for _ in range(100):
            moved = self._admit_one(workflow_id, claimer)
            if moved is None:
                break
            self._merge(applied, moved)
        return applied

    def _admit_one(self, workflow_id: str, claimer: Claimer | None) -> Applied | None:
        turn: _Transaction | None = None
        try:
            with self.database.write() as connection:
                found = self._whose_turn(connection, workflow_id)
                if found is None:
                    return None
                run_id, event = found
                turn = _Transaction(self, connection, self._root(connection, run_id), claimer)
                turn.send(run_id, event)
                turn.finish()
                fault("conductor.before_admission")
        except BaseException:
            if turn is not None:
                turn.rolled_back()
            raise
        turn.committed()
        for other in turn.to_admit - {workflow_id}:
            self._merge(turn.applied, self.admit(other, claimer))
        return turn.applied

    def _whose_turn(self, connection: Connection, workflow_id: str) -> tuple[str, Event] | None:
        workflow = stored.lock(connection, workflow_id)
        if workflow is None:
            return None
        active = runs.active_of_workflow(connection, workflow_id)
        if all(record.status != RunStatus.CREATED for record in active):
            return None
        rules = self.definitions.latest(connection, workflow_id).workflow.run_strategy
        blocked = None
        if rules.rule is RunRule.STRICT_SEQUENTIAL:
            last = runs.latest(connection, workflow_id, ended=True)
            if last is not None and last.status != RunStatus.SUCCEEDED and (last.seq or 0) > workflow.unblocked:
                blocked = last.id
        candidates = [strategy.Candidate(r.id, r.status != RunStatus.CREATED) for r in active]
        turn = strategy.turn(rules, candidates, blocked_by=blocked)
        stopping = {r.id for r in active if r.request is not None}
        todo: list[tuple[str, Event]] = [(run, Begin()) for run in turn.begin]
        todo += [(run, Stop(reason)) for run, reason in turn.stop if run not in stopping]
        return todo[0] if todo else None

    def _root(self, connection: Connection, run_id: str) -> str:
        record = runs.load(connection, run_id)
        return run_id if record is None else record.root_id

    @staticmethod
    def _merge(into: Applied, more: Applied) -> None:
        into.claimed += more.claimed
        into.cancels += more.cancels
        into.ended += more.ended
        into.left_ready |= more.left_ready


class _Transaction:
    """Everything one transaction does to one tree of runs; rows are written at its end."""

    def __init__(self, conductor: Conductor, connection: Connection, root_id: str, claimer: Claimer | None) -> None:
        self.conductor = conductor
        self.connection = connection
        self.root_id = root_id
        self.claimer = claimer
        self.now = conductor.clock()
        self.applied = Applied()
        self.to_admit: set[str] = set()
        self._images: dict[str, Image] = {}
        self._written: dict[str, Image] = {}
        self._changed: dict[str, set[str]] = {}
        self._events: list[EventRecord] = []
        self._attempts: list[AttemptRecord] = []
        self._ready: list[tuple[str, str]] = []
        self._late: list[tuple[str, Event]] = []
        self._for_others = False
        runs.lock(connection, root_id)

    # -- events ------------------------------------------------------------------------------------------------------------

    def image(self, run_id: str) -> Image:
        if run_id not in self._images:
            self._images[run_id] = self._written[run_id] = self.conductor.images.get(self.connection, run_id)
        return self._images[run_id]

    def evaluation(self, image: Image) -> Evaluation:
        return Evaluation(self.image, image, partial(stored.file, self.connection))

    def send(self, run_id: str, event: Event) -> None:
        image = self.image(run_id)
        evaluation = self.evaluation(image)
        rules = Rules(evaluation.holds, self.conductor.chance, self.now)
        decision = decide(image.graph, image.state, event, rules)
        self._images[run_id] = replace(image, state=decision.run)
        self._changed.setdefault(run_id, set()).update(decision.changed)
        self._events += [_event(run_id, move, self.now) for move in decision.moves]
        self._attempts += [_attempt(run_id, attempt, self.now) for attempt in decision.attempts]
        if decision.run.status is RunStatus.CREATED:
            self.to_admit.add(image.record.workflow_id)
        for effect in decision.effects:
            match effect:
                case Ready(step, delay):
                    if delay == 0:
                        self._ready.append((run_id, step))
                    self._for_others = True
                case Cancel():
                    self.applied.cancels.append((run_id, effect))
                    self._for_others = True
                case ToChildren(step, to_child):
                    self._to_children(run_id, step, to_child)
                case StartIterations(step):
                    self.fill(run_id, step)
                case RunEnded(status):
                    self._run_ended(run_id, status)

    def _to_children(self, run_id: str, step: str, event: Event) -> None:
        self._write()
        for child in runs.children(self.connection, run_id, step, active_only=True):
            if child.root_id == self.root_id:
                try:
                    self.send(child.id, event)
                except Refused:
                    continue  # it is on its way to where the event would bring it

    def _run_ended(self, run_id: str, status: RunStatus) -> None:
        image = self.image(run_id)
        record = image.record
        self._for_others = True
        self.applied.ended.append(run_id)
        if not record.path:
            self.to_admit.add(record.workflow_id)
        if record.parent_id is not None and record.parent_step is not None and run_id != self.root_id:
            outputs = {} if record.iteration is not None else _run_outputs(image)
            event = ChildEnded(record.parent_step, status, outputs, image.state.cause, record.iteration)
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
            image = self.image(run_id)
            state = image.state.steps.get(step_id)
            if state is None or not state.status.ready:
                continue
            instant = image.graph.nodes[step_id].type in claimer.instant
            if len(self.applied.claimed) >= MOST_AT_ONCE or (free <= 0 and not instant):
                self.applied.left_ready = True
            elif self._permitted(image, step_id, claimer):
                with suppress(Refused):
                    self.send(run_id, Claim(step_id, claimer.worker))
                    free -= not instant
                    image = self.image(run_id)
                    self.applied.claimed.append(Claimed(image, image.state.steps[step_id]))

    def _permitted(self, image: Image, step_id: str, claimer: Claimer) -> bool:
        node = image.graph.nodes[step_id]
        if node.starts_runs:
            return True
        limit = claimer.limits.get(node.type.lower())
        if limit is not None:
            workers.hold_limit(self.connection, node.type.lower())
            self._write()
            if runs.running_of_type(self.connection, node.type) >= limit:
                return False
        most = image.definition.workflow.step_concurrency
        if most is not None:
            self._write()
            return runs.running_of_root(self.connection, self.root_id) < most
        return True

    # -- runs that steps start ---------------------------------------------------------------------------------------------

    def fill(self, run_id: str, step_id: str) -> None:
        """Start iterations up to the foreach's window."""
        image = self.image(run_id)
        state = image.state.steps[step_id]
        loop = state.loop
        if loop is None or state.status is not StepStatus.RUNNING:
            return
        step = image.definition.steps[step_id]
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
            child = _child_id(run_id, step_id, number)
            self.send(child, Restart(f"the restart of step {step_id}"))
            self.send(child, Begin())
        values = iterations(step, state.params or {}) if fresh else None
        for number in fresh:
            assert values is not None
            self._start_child(
                image, step_id, values.iteration(number), iteration=number, path=step_id,
                workflow_id=image.record.workflow_id, version=image.record.version,
            )  # fmt: skip

    def start_subworkflow(self, run_id: str, step_id: str, evaluated: Evaluated) -> str:
        """Create the run of a subworkflow step, or take up the one that an earlier attempt made. Returns its id."""
        image = self.image(run_id)
        step = image.definition.steps[step_id]
        assert isinstance(step, SubworkflowStep)
        definitions = self.conductor.definitions
        if step.version.isdigit():
            child = definitions.get(self.connection, step.workflow_id, int(step.version))
        else:
            child = definitions.latest(self.connection, step.workflow_id)
        run = run_values(_child_id(run_id, step_id), step.workflow_id, None, child.workflow.owner)
        files = self.evaluation(replace(image, definition=child)).scope(image.state).files
        params = run_params(child.workflow, {Layer.RUN: handed_to(step, child.workflow, evaluated)}, run, files)
        return self._start_child(
            image, step_id, params, workflow_id=step.workflow_id, version=child.version, own_root=not step.sync
        )

    def _start_child(
        self,
        image: Image,
        step_id: str,
        params: Mapping[str, TypedValue],
        *,
        workflow_id: str,
        version: int,
        iteration: int | None = None,
        path: str = "",
        own_root: bool = False,
    ) -> str:
        parent, state = image.record, self.image(image.record.id).state.steps[step_id]
        child = _child_id(parent.id, step_id, iteration)
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
            initiator={"kind": "foreach" if path else "subworkflow", "run": parent.id, "step": step_id},
        )
        definition = self.conductor.definitions.get(self.connection, workflow_id, version)
        steps = _insert(self.connection, record, definition.graph(path), self.now)
        self._images[child] = self._written[child] = Image(record, run_state(record, steps), definition)
        self._changed.setdefault(child, set())
        if path:
            self.send(child, Begin())
        else:
            self.to_admit.add(workflow_id)
            self._for_others = True
        return child

    def redefine(self, run_id: str, version: int, params: dict[str, Any]) -> None:
        """Give an ended run another definition: steps that both know keep their state, new ones are to be done."""
        image = self.image(run_id)
        if not image.state.status.ended:
            return  # the restart that follows is refused, with the reason
        definition = self.conductor.definitions.get(self.connection, image.record.workflow_id, version)
        graph = definition.graph(image.record.path)
        revision = image.record.revision + 1
        record = replace(image.record, version=version, params=params, revision=revision)
        states = {node: image.state.steps.get(node, StepState(node)) for node in graph.nodes}
        rows = [step_record(record, graph.positions[n], graph.nodes[n].type, states[n], revision) for n in states]
        runs.redefine(self.connection, run_id, version=version, params=params)
        runs.replace_steps(self.connection, run_id, rows)
        state = replace(image.state, steps=states)
        self._images[run_id] = self._written[run_id] = Image(record, state, definition)

    def _take_up(self, known: RunRecord, resumes: bool, params: Mapping[str, TypedValue]) -> None:
        """A run that an earlier attempt of the step started: go on where it failed, or begin again."""
        status = RunStatus(known.status)
        if not status.ended:
            return
        if resumes and status is RunStatus.SUCCEEDED:
            # It ended well after its parent had given up on it.
            event = ChildEnded(
                known.parent_step or "", status, _run_outputs(self.image(known.id)), None, known.iteration
            )
            assert known.parent_id is not None
            self._late.append((known.parent_id, event))
            return
        if not resumes:
            runs.redefine(self.connection, known.id, version=known.version, params=plain_values(params) or {})
            self.conductor.images.forget(known.id)
            self._images.pop(known.id, None)
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
        if self._for_others:
            self.conductor.database.announce(self.connection)

    def committed(self) -> None:
        for image in self._images.values():
            self.conductor.images.put(image)

    def rolled_back(self) -> None:
        """What was read in this transaction may never have existed."""
        for run_id in self._images:
            self.conductor.images.forget(run_id)

    def _write(self) -> None:
        """Write the runs and steps that have changed so far."""
        light: list[StepRecord] = []
        full: list[StepRecord] = []
        updates: list[RunRecord] = []
        for run_id, changed in self._changed.items():
            image = self._images[run_id]
            revision = image.record.revision + 1
            record = run_record(image.record, image.state, revision)
            before = self._written[run_id].state.steps
            for step_id in changed:
                state, old = image.state.steps[step_id], before[step_id]
                row = step_record(
                    record, image.graph.positions[step_id], image.graph.nodes[step_id].type, state, revision
                )
                # A foreach over thousands of values must not write them again with every iteration's end.
                same_values = state.params is old.params and state.outputs is old.outputs
                (light if same_values else full).append(row)
            updates.append(record)
            self._images[run_id] = self._written[run_id] = replace(image, record=record)
        runs.update_steps(self.connection, full)
        runs.update_steps(self.connection, light, with_values=False)
        for record in updates:
            runs.update(self.connection, record)
        self._changed.clear()


def _child_id(run_id: str, step_id: str, iteration: int | None = None) -> str:
    return f"{run_id}:{step_id}" + ("" if iteration is None else f":{iteration}")


def _insert(connection: Connection, record: RunRecord, graph: Graph, now: float) -> dict[str, StepState]:
    states = {node: StepState(node) for node in graph.nodes}
    rows = [step_record(record, graph.positions[node], graph.nodes[node].type, states[node], 0) for node in states]
    runs.insert(connection, record, rows)
    runs.add_events(connection, [EventRecord(record.id, None, None, now, None, record.status, None)])
    return states


def _run_outputs(image: Image) -> dict[str, TypedValue]:
    """What a subworkflow step publishes: everything its run's steps published, under ``step__name``."""
    found: dict[str, TypedValue] = {}
    for step in image.state.steps.values():
        for name, value in (step.outputs or {}).items():
            found[f"{step.id}__{name}"] = value
    return found


def _event(run_id: str, move: Move, now: float) -> EventRecord:
    return EventRecord(run_id, move.step, move.attempt, now, move.previous, move.status, move.cause)


def _attempt(run_id: str, ended: AttemptEnded, now: float) -> AttemptRecord:
    cause = ended.cause.to_json() if ended.cause else None
    return AttemptRecord(run_id, ended.step, ended.attempt, ended.status, cause, ended.owner, ended.started_at, now)
