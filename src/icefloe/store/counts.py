"""How much there is of what goes on now. Each statement goes through an index that has only that: the past costs nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from icefloe.store import captures as stored_captures
from icefloe.store import incidents, janitor, signals, triggers, workers
from icefloe.store.incidents import IncidentRecord
from icefloe.store.janitor import LeaseRecord
from icefloe.store.tables import captures, runs, steps, workflows
from icefloe.store.tables import triggers as triggers_table
from icefloe.store.triggers import SchedulerRecord
from icefloe.store.workers import WorkerRecord

# Literally the predicates of the partial indexes: SQLite does not see through bound values (3.40).
_ACTIVE = sa.text("runs.status IN ('CREATED', 'IN_PROGRESS', 'PAUSED')")
_READY = sa.text("steps.status IN ('INITIALIZED', 'WAITING_FOR_PERMITS')")
_WAITING = sa.text("steps.status = 'WAITING_FOR_SIGNALS'")
_OPEN = sa.text("captures.state IN ('planned', 'pinned', 'built')")


@dataclass(frozen=True, slots=True)
class StateCounts:
    """``runs`` by workflow and status, ``steps`` by type and status: of those that have not ended, steps that wait for a worker or
    for signals, or are in a worker's hands."""

    runs: Mapping[tuple[str, str], int]
    steps: Mapping[tuple[str, str], int]
    oldest_ready_at: float | None
    """Since when the step that has waited longest could have been claimed."""
    captures_open: Mapping[str, int]
    captures_to_release: int
    workflows: Mapping[str, int]
    triggers: Mapping[str, int]
    watermarks: Mapping[str, float]
    workers: tuple[WorkerRecord, ...]
    schedulers: tuple[SchedulerRecord, ...]
    incidents: tuple[IncidentRecord, ...]
    janitor: LeaseRecord | None


def state_counts(connection: Connection, now: float) -> StateCounts:
    by_step: dict[tuple[str, str], int] = {}
    for condition in (_READY, _WAITING, steps.c.owner.is_not(None)):
        query = sa.select(steps.c.type, steps.c.status, sa.func.count()).where(condition)
        for step_type, status, number in connection.execute(query.group_by(steps.c.type, steps.c.status)):
            key = str(step_type).lower(), str(status)  # as people write them: Shell, shell
            by_step[key] = by_step.get(key, 0) + int(number)
    by_run = connection.execute(
        sa.select(runs.c.workflow_id, runs.c.status, sa.func.count())
        .where(_ACTIVE, runs.c.path == "")
        .group_by(runs.c.workflow_id, runs.c.status)
    )
    held = connection.execute(sa.select(captures.c.state, sa.func.count()).where(_OPEN).group_by(captures.c.state))
    oldest = connection.execute(sa.select(sa.func.min(steps.c.available_at)).where(_READY)).scalar()
    by_trigger = sa.select(triggers_table.c.kind, sa.func.count()).group_by(triggers_table.c.kind)
    return StateCounts(
        {(str(workflow), str(status)): int(number) for workflow, status, number in by_run},
        by_step,
        None if oldest is None else float(oldest),
        {str(state): int(number) for state, number in held},
        stored_captures.count_to_release(connection, now),
        _workflows(connection),
        {str(kind): int(number) for kind, number in connection.execute(by_trigger)},
        {record.source: record.valid_through for record in signals.all_watermarks(connection)},
        tuple(workers.living(connection)),
        tuple(triggers.all_schedulers(connection)),
        tuple(incidents.open_of(connection)),
        janitor.lease(connection),
    )


def _workflows(connection: Connection) -> dict[str, int]:
    query = sa.select(workflows.c.active, workflows.c.paused, sa.func.count()).where(workflows.c.latest_version > 0)
    found = {"active": 0, "paused": 0, "deactivated": 0}
    for active, paused, number in connection.execute(query.group_by(workflows.c.active, workflows.c.paused)):
        found["deactivated" if not active else "paused" if paused else "active"] += int(number)
    return found
