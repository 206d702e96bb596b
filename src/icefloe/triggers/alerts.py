"""Keeps the record of incidents up to date: opens what has begun, closes what is over, and has people told."""

from __future__ import annotations

from collections.abc import Sequence

from icefloe.config import AlertSettings, SchedulerSettings
from icefloe.store import incidents as stored
from icefloe.store.database import Database
from icefloe.store.incidents import IncidentRecord
from icefloe.triggers import completeness, incidents, messages
from icefloe.triggers.clocks import Clock, Sightings
from icefloe.triggers.messages import Messenger
from icefloe.triggers.sources import Watched
from icefloe.triggers.table_watch import TableWatch
from icefloe.triggers.unseen import Unseen
from icefloe.triggers.workflow_snapshots import WorkflowSnapshot


class Alerting:
    """``refresh`` reads what is open, ``look`` compares one workflow with it."""

    def __init__(
        self,
        database: Database,
        messenger: Messenger,
        settings: AlertSettings,
        scheduling: SchedulerSettings,
        sightings: Sightings,
        clock: Clock,
    ) -> None:
        self._database = database
        self._messenger = messenger
        self._settings = settings
        self._scheduling = scheduling
        self._sightings = sightings
        self._clock = clock
        self._open: dict[str, list[IncidentRecord]] = {}

    def refresh(self) -> None:
        with self._database.read() as connection:
            found = stored.open_of(connection)
        self._open = {}
        for record in found:
            self._open.setdefault(record.workflow_id, []).append(record)

    def look(self, standing: WorkflowSnapshot, tables: TableWatch, now: float) -> float | None:
        """Returns when it is worth another look, on the wall clock."""
        workflow, workflow_id = standing.plan.workflow, standing.record.id
        reading = standing.plan.reading
        sights = standing.sights(reading, tables.answer) if reading is not None else []
        oldest = self._oldest(standing, sights or [])
        idle = self._idle(standing)
        awaited = standing.plan.completeness
        unreadable = completeness.unreadable(awaited, tables.table_property)
        wrong = incidents.troubles(standing, sights, oldest, idle, unreadable) if standing.record.active else []
        unseen = {table for table in awaited if not tables.has_looked_at(table)}
        blind = sights is None or any(one.problem for _, one in sights)
        fresh, over = incidents.changes(wrong, self._open.get(workflow_id, ()), blind=blind, unseen=unseen)
        if fresh or over:
            with self._database.write() as connection:
                for trouble in fresh:
                    heard = messages.wanted(workflow, self._settings, trouble.kind.value)
                    stored.open_if_new(
                        connection,
                        workflow_id=workflow_id,
                        kind=trouble.kind.value,
                        subject=trouble.subject,
                        message=trouble.message,
                        notified=stored.NOBODY if heard else stored.OVER,
                        now=now,
                    )
                for record in over:
                    stored.close(connection, record.seq, now)
            self.refresh()
            self._messenger.wake()
        return self._again(standing, sights, oldest, idle, now)

    def _oldest(self, standing: WorkflowSnapshot, sights: Sequence[tuple[Watched, Unseen]]) -> dict[str, float]:
        """By table, since when something of it has been unseen."""
        name = (standing.record.id, "reading")
        slack = self._scheduling.tick_seconds
        return {
            one.table: self._sightings.age(
                ("oldest", name, one.table), one.oldest_ms, one.oldest_ms / 1000, slack=slack
            )
            for _, one in sights
            if one.snapshots and one.oldest_ms is not None
        }

    def _idle(self, standing: WorkflowSnapshot) -> float:
        good = next((run for run in standing.ended if run.status == "SUCCEEDED"), None)
        group = ("idle", standing.record.id)
        if good is None:
            return self._sightings.age(group, None, standing.record.created_at)
        return self._sightings.age(group, (good.id, good.restarts), good.ended_at)

    def _again(
        self,
        standing: WorkflowSnapshot,
        sights: Sequence[tuple[Watched, Unseen]] | None,
        oldest: dict[str, float],
        idle: float,
        now: float,
    ) -> float | None:
        """Lateness comes by itself: look when it may have."""
        workflow = standing.plan.workflow
        most = workflow.alerting.max_lag if workflow.alerting else None
        limits = [limit for limit in (workflow.freshness, most.seconds if most else None) if limit is not None]
        if not limits:
            return None
        age = max(oldest.values(), default=None) if standing.plan.reading is not None else idle
        if age is None:
            return None
        left = [limit - age for limit in limits if limit >= age]
        return now + max(1.0, min(left)) + 0.5 if left else None
