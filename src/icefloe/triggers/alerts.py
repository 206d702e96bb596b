"""Keeps the record of incidents up to date: opens what has begun, closes what is over, and has people told."""

from __future__ import annotations

from collections.abc import Sequence

from icefloe.config import AlertSettings, SchedulerSettings
from icefloe.store import incidents as stored
from icefloe.store.database import Database
from icefloe.store.incidents import IncidentRecord
from icefloe.triggers import incidents, messages, table_watermarks
from icefloe.triggers.clocks import AgeTracker, Clock
from icefloe.triggers.messages import Messenger
from icefloe.triggers.pending_changes import PendingChanges
from icefloe.triggers.sources import WatchedTable
from icefloe.triggers.table_watch import TableWatch
from icefloe.triggers.workflow_snapshots import WorkflowSnapshot


class Alerts:
    """``refresh`` reads what is open, ``look`` compares one workflow with it."""

    def __init__(
        self,
        database: Database,
        messenger: Messenger,
        settings: AlertSettings,
        scheduling: SchedulerSettings,
        tracker: AgeTracker,
        clock: Clock,
    ) -> None:
        self._database = database
        self._messenger = messenger
        self._settings = settings
        self._scheduling = scheduling
        self._tracker = tracker
        self._clock = clock
        self._open: dict[str, list[IncidentRecord]] = {}

    def refresh(self) -> None:
        with self._database.read() as connection:
            records = stored.open_of(connection)
        self._open = {}
        for record in records:
            self._open.setdefault(record.workflow_id, []).append(record)

    def look(self, snapshot: WorkflowSnapshot, tables: TableWatch, now: float) -> float | None:
        """Returns when it is worth another look, on the wall clock."""
        workflow, workflow_id = snapshot.plan.workflow, snapshot.record.id
        reading = snapshot.plan.reading
        observed = snapshot.observed(reading, tables.answer) if reading is not None else []
        oldest = self._oldest(snapshot, observed or [])
        idle = self._idle(snapshot)
        awaited = snapshot.plan.completeness
        unreadable = table_watermarks.unreadable_watermarks(awaited, tables.table_property)
        current = (
            incidents.current_incidents(snapshot, observed, oldest, idle, unreadable) if snapshot.record.active else []
        )
        not_looked_at = {table for table in awaited if not tables.has_looked_at(table)}
        blind = observed is None or any(pending.problem for _, pending in observed)
        begun, over = incidents.changes(
            current, self._open.get(workflow_id, ()), blind=blind, not_looked_at=not_looked_at
        )
        if begun or over:
            with self._database.write() as connection:
                for incident in begun:
                    notifies = messages.wanted(workflow, self._settings, incident.kind.value)
                    stored.open_if_new(
                        connection,
                        workflow_id=workflow_id,
                        kind=incident.kind.value,
                        subject=incident.subject,
                        message=incident.message,
                        notified=stored.NOBODY if notifies else stored.OVER,
                        now=now,
                    )
                for record in over:
                    stored.close(connection, record.seq, now)
            self.refresh()
            self._messenger.wake()
        return self._again(snapshot, observed, oldest, idle, now)

    def _oldest(
        self, snapshot: WorkflowSnapshot, observed: Sequence[tuple[WatchedTable, PendingChanges]]
    ) -> dict[str, float]:
        """By table, since when something of it has been unseen."""
        name = (snapshot.record.id, "reading")
        slack = self._scheduling.tick_seconds
        return {
            pending.table: self._tracker.age(
                ("oldest", name, pending.table), pending.oldest_ms, pending.oldest_ms / 1000, slack=slack
            )
            for _, pending in observed
            if pending.snapshots and pending.oldest_ms is not None
        }

    def _idle(self, snapshot: WorkflowSnapshot) -> float:
        good = next((run for run in snapshot.ended if run.status == "SUCCEEDED"), None)
        group = ("idle", snapshot.record.id)
        if good is None:
            return self._tracker.age(group, None, snapshot.record.created_at)
        return self._tracker.age(group, (good.id, good.restarts), good.ended_at)

    def _again(
        self,
        snapshot: WorkflowSnapshot,
        observed: Sequence[tuple[WatchedTable, PendingChanges]] | None,
        oldest: dict[str, float],
        idle: float,
        now: float,
    ) -> float | None:
        """Lateness comes by itself: look when it may have."""
        workflow = snapshot.plan.workflow
        most = workflow.alerting.max_lag if workflow.alerting else None
        limits = [limit for limit in (workflow.freshness, most.seconds if most else None) if limit is not None]
        if not limits:
            return None
        age = max(oldest.values(), default=None) if snapshot.plan.reading is not None else idle
        if age is None:
            return None
        left = [limit - age for limit in limits if limit >= age]
        return now + max(1.0, min(left)) + 0.5 if left else None
