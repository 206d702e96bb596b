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
from icefloe.engine.run_snapshot import RunSnapshots
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
        self.snapshots = RunSnapshots(self.definitions)
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
        with self._tree(root_id, claimer, member=run_id) as tree:
            for event in events:
                tree.send(run_id, event)
            if also is not None:
                also(tree.connection)
        return self._after(tree, claimer)

    def claim(self, root_id: str, wanted: list[tuple[str, str]], claimer: Claimer) -> Applied:
        """Claim steps of one tree that were seen ready."""
        with self._tree(root_id, claimer) as tree:
            tree.offer(wanted)
        return self._after(tree, claimer)

    def start_iterations(
        self, key: AttemptKey, root_id: str, params: Mapping[str, TypedValue], total: int, claimer: Claimer | None
    ) -> Applied:
        """A foreach step begins: its first window of iterations starts with it."""
        with self._tree(root_id, claimer) as tree:
            state = tree.snapshot(key.run_id).state.steps[key.step_id]
            loop = state.loop if state.resumes and state.loop and state.loop.total == total else ForeachProgress(total)
            tree.send(key.run_id, Started(key.step_id, key.generation, params, loop=loop))
            tree.fill(key.run_id, key.step_id)
        return self._after(tree, claimer)

    def start_subworkflow(
        self, key: AttemptKey, root_id: str, evaluated: Evaluated, claimer: Claimer | None
    ) -> Applied:
        """A subworkflow step begins: its run exists from the same moment. An asynchronous one ends here."""
        with self._tree(root_id, claimer) as tree:
            step = tree.snapshot(key.run_id).definition.steps[key.step_id]
            assert isinstance(step, SubworkflowStep)
            tree.send(key.run_id, Started(key.step_id, key.generation, evaluated.params))
            child = tree.start_subworkflow(key.run_id, key.step_id, evaluated)
            if not step.sync:
                outputs = {"run_id": TypedValue.of(child)}
                tree.send(key.run_id, Ended(key.step_id, key.generation, Outcome(OutcomeKind.SUCCEEDED, outputs)))
        return self._after(tree, claimer)

    def restart(self, run_id: str, event: Restart, redefine: Redefine) -> Applied:
        """Restart a run, if ``redefine`` says so with another version of its definition and other parameters."""
        with self._tree(None, None, member=run_id) as tree:
            changed = redefine(tree.connection, tree.snapshot(run_id).record)
            if changed is not None:
                tree.redefine(run_id, *changed)
            tree.send(run_id, event)
        return self._after(tree, None)

    @contextmanager
    def _tree(
        self, root_id: str | None, claimer: Claimer | None, member: str | None = None
    ) -> Iterator[TreeTransaction]:
        """A transaction on the tree of runs below ``root_id``, or of which ``member`` is part."""
        tree: TreeTransaction | None = None
        try:
            with self.database.write() as connection:
                root = root_id or self._root(connection, member or "")
                tree = self._transaction(connection, root, claimer)
                yield tree
                self._finish(tree)
                fault("conductor.before_commit")
        except BaseException:
            if tree is not None:
                tree.rolled_back()
            raise
        fault("conductor.after_commit")
        tree.committed()

    def _transaction(self, connection: Connection, root_id: str, claimer: Claimer | None) -> TreeTransaction:
        now = self.clock()
        return TreeTransaction(
            connection,
            root_id,
            claimer,
            snapshots=self.snapshots,
            definitions=self.definitions,
            now=now,
            chance=self.chance,
        )

    def _finish(self, tree: TreeTransaction) -> None:
        tree.finish()
        if tree.for_others:
            self.database.announce(tree.connection)

    def _after(self, tree: TreeTransaction, claimer: Claimer | None) -> Applied:
        """Runs that wait for their turn may begin now; each workflow in a transaction of its own."""
        for workflow_id in tree.to_admit:
            self._merge(tree.applied, self.admit(workflow_id, claimer))
        return tree.applied

    def create(self, connection: Connection, record: RunRecord) -> None:
        """Insert a run that waits for its tree."""
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
        tree: TreeTransaction | None = None
        try:
            with self.database.write() as connection:
                candidate = self._whose_turn(connection, workflow_id)
                if candidate is None:
                    return None
                run_id, event = candidate
                tree = self._transaction(connection, self._root(connection, run_id), claimer)
                tree.send(run_id, event)
                self._finish(tree)
                fault("conductor.before_admission")
        except BaseException:
            if tree is not None:
                tree.rolled_back()
            raise
        tree.committed()
        for waiting_workflow in tree.to_admit - {workflow_id}:
            self._merge(tree.applied, self.admit(waiting_workflow, claimer))
        return tree.applied

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
        admissions = strategy.admissions(rules, candidates, blocked_by=blocked)
        stopping = {r.id for r in active if r.request is not None}
        todo: list[tuple[str, Event]] = [(run, Begin()) for run in admissions.begin]
        todo += [(run, Stop(reason)) for run, reason in admissions.stop if run not in stopping]
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
