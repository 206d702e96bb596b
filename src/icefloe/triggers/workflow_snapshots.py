"""Everything the state database knows about one workflow that its triggers look at, read in one go."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from sqlalchemy.engine import Connection

from icefloe.lake import Checkpoint
from icefloe.store import captures, definitions, triggers
from icefloe.store.captures import CheckpointRecord
from icefloe.store.definitions import WorkflowRecord
from icefloe.store.triggers import RunSummary, TriggerRecord
from icefloe.triggers import failures
from icefloe.triggers.pending_changes import PendingChanges
from icefloe.triggers.plans import ArmedTrigger, TriggerPlan, plan
from icefloe.triggers.sources import WatchedTable
from icefloe.triggers.table_watch import Question
from icefloe.workflow.model import IncrementalTrigger
from icefloe.workflow.versions import WorkflowVersion


@dataclass(frozen=True, slots=True)
class ConsumerState:
    """A consumer as it stands. ``has_open_capture``: somebody captures for it."""

    version: int
    checkpoints: Mapping[str, CheckpointRecord]
    has_open_capture: bool


@dataclass(frozen=True, slots=True)
class WorkflowSnapshot:
    """One workflow at the moment of reading."""

    record: WorkflowRecord
    plan: TriggerPlan
    rows: Mapping[str, TriggerRecord]
    active: tuple[RunSummary, ...]
    """Its runs that have not ended, oldest first."""
    ended: tuple[RunSummary, ...]
    readings: Mapping[str, ConsumerState]

    @property
    def running(self) -> RunSummary | None:
        return self.active[0] if self.active else None

    @property
    def waiting(self) -> RunSummary | None:
        """A run that waits for its turn."""
        return next((run for run in self.active if run.status == "CREATED"), None)

    @property
    def bad(self) -> tuple[RunSummary, ...]:
        return tuple(failures.bad_in_a_row(self.ended, self.record.forgiven))

    @property
    def failed(self) -> RunSummary | None:
        """Its last run, if that ended badly, forgiven or not."""
        return next(iter(failures.bad_in_a_row(self.ended[:1], 0)), None)

    def position(self, armed: ArmedTrigger, watched: WatchedTable) -> Checkpoint | None:
        """How far the table has been read, for this trigger."""
        if watched.consumer is not None:
            reading = self.readings.get(watched.consumer)
            record = reading.checkpoints.get(watched.table) if reading else None
            return checkpoint_of(record) if record is not None and record.ref == watched.ref else None
        row = self.rows.get(armed.name)
        if row is None:
            return None
        # A run that failed has not seen what it was started for.
        failed = self.failed is not None and self.failed.id == row.last_run
        stored = row.state.get("before" if failed else "seen", {}).get(watched.table)
        return Checkpoint(**stored) if stored else None

    def question(self, armed: ArmedTrigger, watched: WatchedTable) -> Question:
        trigger = armed.trigger
        operations: tuple[str, ...] = ("append",)
        partitions = "{}"
        if isinstance(trigger, IncrementalTrigger):
            operations, partitions = trigger.operations, json.dumps(dict(trigger.partitions), sort_keys=True)
        return Question(watched.table, watched.ref, self.position(armed, watched), operations, partitions)

    def questions(self, armed: ArmedTrigger) -> list[Question]:
        return [self.question(armed, watched) for watched in armed.watches]

    def observed(
        self, armed: ArmedTrigger, answer: Callable[[Question], PendingChanges | None]
    ) -> list[tuple[WatchedTable, PendingChanges]] | None:
        """What is unseen of each table the trigger watches; None: not all of them have been looked at yet."""
        pairs = []
        for watched in armed.watches:
            pending = answer(self.question(armed, watched))
            if pending is None:
                return None
            pairs.append((watched, pending))
        return pairs


def checkpoint_of(record: CheckpointRecord) -> Checkpoint:
    return Checkpoint(record.table_uuid, record.snapshot_id, record.sequence_number, record.schema_id)


def read(connection: Connection, record: WorkflowRecord, plan: TriggerPlan) -> WorkflowSnapshot:
    watching = [*plan.triggers, *([plan.reading] if plan.reading else [])]
    consumers = {watched.consumer for armed in watching for watched in armed.watches}
    readings = {}
    for name in consumers - {None}:
        assert name is not None
        known = captures.consumer(connection, name)
        if known is not None:
            open_capture = captures.open_capture(connection, name) is not None
            readings[name] = ConsumerState(known.version, captures.checkpoints_of(connection, name), open_capture)
    return WorkflowSnapshot(
        record,
        plan,
        triggers.of_workflow(connection, record.id),
        tuple(triggers.active_runs(connection, record.id)),
        tuple(triggers.ended_runs(connection, record.id, failures.LOOK_BACK)),
        readings,
    )


def read_plan(connection: Connection, record: WorkflowRecord, *, catalog: str) -> TriggerPlan | None:
    """The triggers of a workflow's latest version."""
    stored = definitions.version(connection, record.id, record.latest_version)
    if stored is None:
        return None
    workflow = WorkflowVersion.from_dict(json.loads(stored.definition)).workflow
    return plan(workflow, record.latest_version, catalog=catalog)
