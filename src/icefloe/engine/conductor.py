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
from contextlib import contextmanager
from typing import Any, TypeAlias

from sqlalchemy.engine import Connection

from icefloe.engine import strategy
from icefloe.engine.definitions import Definitions
from icefloe.engine.evaluation import Evaluated
from icefloe.engine.events import (
    Begin,
    Ended,
    Event,
    ForeachProgress,
    Restart,
    Started,
    Stop,
)
from icefloe.engine.run_snapshot import Images
from icefloe.engine.states import RunStatus
from icefloe.engine.transaction import Applied, Claimer, TreeTransaction, insert_run
from icefloe.faults import fault
from icefloe.steps.contract import AttemptKey, Outcome, OutcomeKind
from icefloe.store import definitions as stored
from icefloe.store import runs
from icefloe.store.database import Database
from icefloe.store.runs import RunRecord
from icefloe.workflow.model import RunRule, SubworkflowStep
from icefloe.workflow.values import TypedValue

Redefine: TypeAlias = Callable[[Connection, RunRecord], tuple[int, dict[str, Any]] | None]


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
            loop = state.loop if state.resumes and state.loop and state.loop.total == total else ForeachProgress(total)
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
                turn.send(key.run_id, Ended(key.step_id, key.generation, Outcome(OutcomeKind.SUCCEEDED, outputs)))
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
    def _tree(
        self, root_id: str | None, claimer: Claimer | None, member: str | None = None
    ) -> Iterator[TreeTransaction]:
        """A transaction on the tree of runs below ``root_id``, or of which ``member`` is part."""
        turn: TreeTransaction | None = None
        try:
            with self.database.write() as connection:
                root = root_id or self._root(connection, member or "")
                turn = self._transaction(connection, root, claimer)
                yield turn
                self._finish(turn)
                fault("conductor.before_commit")
        except BaseException:
            if turn is not None:
                turn.rolled_back()
            raise
        fault("conductor.after_commit")
        turn.committed()

    def _transaction(self, connection: Connection, root_id: str, claimer: Claimer | None) -> TreeTransaction:
        now = self.clock()
        return TreeTransaction(
            connection, root_id, claimer, images=self.images, definitions=self.definitions, now=now, chance=self.chance
        )

    def _finish(self, turn: TreeTransaction) -> None:
        turn.finish()
        if turn.for_others:
            self.database.announce(turn.connection)

    def _after(self, turn: TreeTransaction, claimer: Claimer | None) -> Applied:
        """Runs that wait for their turn may begin now; each workflow in a transaction of its own."""
        for workflow_id in turn.to_admit:
            self._merge(turn.applied, self.admit(workflow_id, claimer))
        return turn.applied

    def create(self, connection: Connection, record: RunRecord) -> None:
        """Insert a run that waits for its turn."""
        definition = self.definitions.get(connection, record.workflow_id, record.version)
        insert_run(connection, record, definition.graph(record.path), self.clock())

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
        turn: TreeTransaction | None = None
        try:
            with self.database.write() as connection:
                found = self._whose_turn(connection, workflow_id)
                if found is None:
                    return None
                run_id, event = found
                turn = self._transaction(connection, self._root(connection, run_id), claimer)
                turn.send(run_id, event)
                self._finish(turn)
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
