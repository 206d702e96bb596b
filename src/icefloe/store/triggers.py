"""Triggers' rows: what each has decided so far. And the schedulers that are at it.

A row's ``version`` goes up with each decision, and a decision is recorded in the transaction that starts its run: one that was
made on an older version changes nothing (:func:`move`).
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from icefloe.store.database import insert_if_absent
from icefloe.store.tables import consumers, events, runs, schedulers, triggers

ACTIVE = ("CREATED", "IN_PROGRESS", "PAUSED")
# Literally the predicate of the partial index: SQLite does not see through bound values (3.40).
_ACTIVE = sa.text("runs.status IN ('CREATED', 'IN_PROGRESS', 'PAUSED')")


@dataclass(frozen=True, slots=True)
class TriggerRecord:
    """``state`` is the cursor: a map that only the trigger's own kind looks into. ``since``: when it was first pushed."""

    workflow_id: str
    name: str
    kind: str
    since: float
    state: Mapping[str, Any]
    version: int = 0
    last_run: str | None = None
    last_at: float | None = None


@dataclass(frozen=True, slots=True)
class SchedulerRecord:
    """``seen_at`` is for people to read; nothing is decided by it."""

    id: str
    host: str
    pid: int
    started_at: float
    seen_at: float
    trouble: str | None = None


@dataclass(frozen=True, slots=True)
class RunSummary:
    """What triggers need to know of a run."""

    id: str
    seq: int
    status: str
    created_at: float
    ended_at: float | None
    restarts: int
    cause: str | None


def of_workflow(connection: Connection, workflow_id: str) -> dict[str, TriggerRecord]:
    rows = connection.execute(sa.select(triggers).where(triggers.c.workflow_id == workflow_id))
    return {row.name: _trigger(row) for row in rows}


def listing(connection: Connection) -> list[TriggerRecord]:
    """Of all workflows."""
    return [_trigger(row) for row in connection.execute(sa.select(triggers))]


def load(connection: Connection, workflow_id: str, name: str) -> TriggerRecord | None:
    query = sa.select(triggers).where(triggers.c.workflow_id == workflow_id, triggers.c.name == name)
    row = connection.execute(query).first()
    return None if row is None else _trigger(row)


def add(connection: Connection, record: TriggerRecord) -> None:
    """Unless it is there."""
    insert_if_absent(connection, triggers, _values(record))


def remove(connection: Connection, workflow_id: str, names: Collection[str] | None = None) -> None:
    """Forget triggers, or all of a workflow's: when they come again they begin anew."""
    query = sa.delete(triggers).where(triggers.c.workflow_id == workflow_id)
    connection.execute(query if names is None else query.where(triggers.c.name.in_(sorted(names))))


def move(
    connection: Connection,
    old: TriggerRecord,
    state: Mapping[str, Any],
    *,
    run_id: str | None = None,
    now: float | None = None,
) -> TriggerRecord | None:
    """Record a decision. ``None``: another scheduler has decided since ``old`` was read."""
    changes: dict[str, Any] = {"state": json.dumps(state), "version": old.version + 1}
    if run_id is not None:
        changes |= {"last_run": run_id, "last_at": now}
    moved = connection.execute(
        sa.update(triggers)
        .where(
            triggers.c.workflow_id == old.workflow_id, triggers.c.name == old.name, triggers.c.version == old.version
        )
        .values(changes)
    )
    if moved.rowcount != 1:
        return None
    return TriggerRecord(
        old.workflow_id,
        old.name,
        old.kind,
        old.since,
        state,
        old.version + 1,
        old.last_run if run_id is None else run_id,
        old.last_at if run_id is None else now,
    )


# -- what triggers look at ---------------------------------------------------------------------------------------------------

_SUMMARY: tuple[sa.Column[Any], ...] = (
    runs.c.id, runs.c.seq, runs.c.status, runs.c.created_at, runs.c.ended_at, runs.c.restarts, runs.c.cause,
)  # fmt: skip


def active_runs(connection: Connection, workflow_id: str, most: int = 100) -> list[RunSummary]:
    """The runs of a workflow that have not ended, oldest first."""
    query = sa.select(*_SUMMARY).where(runs.c.workflow_id == workflow_id, _ACTIVE, runs.c.path == "")
    return [_summary(row) for row in connection.execute(query.order_by(runs.c.seq).limit(most))]


def ended_runs(connection: Connection, workflow_id: str, most: int) -> list[RunSummary]:
    """The last runs that have ended, newest first."""
    query = sa.select(*_SUMMARY).where(
        runs.c.workflow_id == workflow_id, runs.c.path == "", runs.c.status.not_in(ACTIVE)
    )
    return [_summary(row) for row in connection.execute(query.order_by(runs.c.seq.desc()).limit(most))]


def last_success(connection: Connection, workflow_id: str, look_back: int = 100) -> float | None:
    """When the newest good run of the last so many ended."""
    ended = ended_runs(connection, workflow_id, look_back)
    return next((run.ended_at for run in ended if run.status == "SUCCEEDED"), None)


def lineages(connection: Connection, run_ids: Collection[str]) -> dict[str, dict[str, int]]:
    """Of runs: which workflows' runs led to them, and how often; a run that nothing led to counts for its own workflow."""
    query = sa.select(runs.c.id, runs.c.workflow_id, runs.c.initiator).where(runs.c.id.in_(sorted(run_ids)))
    return {
        row.id: dict(json.loads(row.initiator).get("lineage") or {row.workflow_id: 1})
        for row in connection.execute(query)
    }


def last_event(connection: Connection) -> int:
    return int(connection.execute(sa.select(sa.func.coalesce(sa.func.max(events.c.seq), 0))).scalar_one())


def workflows_moved(connection: Connection, after: int) -> set[str]:
    """Workflows of whose runs or steps something was recorded after an event."""
    query = sa.select(runs.c.workflow_id).join(events, events.c.run_id == runs.c.id).where(events.c.seq > after)
    return {str(row.workflow_id) for row in connection.execute(query.distinct())}


def consumer_versions(connection: Connection) -> dict[str, int]:
    return {row.name: int(row.version) for row in connection.execute(sa.select(consumers.c.name, consumers.c.version))}


# -- schedulers --------------------------------------------------------------------------------------------------------------


def show_up(connection: Connection, record: SchedulerRecord) -> None:
    """Write down that a scheduler is there; forget those not seen for a day."""
    insert_if_absent(connection, schedulers, {name: getattr(record, name) for name in record.__slots__})
    connection.execute(
        sa.update(schedulers).where(schedulers.c.id == record.id).values(seen_at=record.seen_at, trouble=record.trouble)
    )
    connection.execute(sa.delete(schedulers).where(schedulers.c.seen_at < record.seen_at - 86400))


def leave(connection: Connection, scheduler_id: str) -> None:
    connection.execute(sa.delete(schedulers).where(schedulers.c.id == scheduler_id))


def all_schedulers(connection: Connection) -> list[SchedulerRecord]:
    return [SchedulerRecord(*row) for row in connection.execute(sa.select(schedulers).order_by(schedulers.c.id))]


def _trigger(row: sa.Row[Any]) -> TriggerRecord:
    values = dict(row._mapping)
    return TriggerRecord(**{**values, "state": json.loads(values["state"])})


def _values(record: TriggerRecord) -> dict[str, Any]:
    values = {name: getattr(record, name) for name in record.__slots__}
    return {**values, "state": json.dumps(values["state"])}


def _summary(row: sa.Row[Any]) -> RunSummary:
    cause = json.loads(row.cause)["message"] if row.cause else None
    return RunSummary(row.id, int(row.seq), row.status, row.created_at, row.ended_at, row.restarts, cause)
