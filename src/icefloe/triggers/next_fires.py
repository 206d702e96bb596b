"""When time starts a workflow next. Reads the state database only: no table is looked at, and no catalog is imported."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache

from icefloe.errors import IcefloeError
from icefloe.store import definitions, triggers
from icefloe.store.database import Database
from icefloe.store.definitions import WorkflowRecord
from icefloe.store.triggers import TriggerRecord
from icefloe.triggers import time_events
from icefloe.triggers.fire_times import FireTimes, fire_times
from icefloe.triggers.plans import ArmedTrigger, plan
from icefloe.workflow.model import CronTrigger, IntervalTrigger
from icefloe.workflow.versions import WorkflowVersion


def times_of(trigger: CronTrigger | IntervalTrigger, since: float) -> FireTimes:
    """A trigger's fires, for a trigger that counts from ``since``."""
    schedule = (trigger.cron, trigger.timezone) if isinstance(trigger, CronTrigger) else (trigger.every, None)
    return _times(*schedule, trigger.start, trigger.end, since)


@lru_cache(maxsize=4096)
def _times(schedule: str | float, zone: str | None, start: str | None, end: str | None, since: float) -> FireTimes:
    if isinstance(schedule, str):
        return fire_times(CronTrigger(cron=schedule, timezone=zone or "UTC", start=start, end=end), since)
    return fire_times(IntervalTrigger(every=schedule, start=start, end=end), since)


def next_fires(
    record: WorkflowRecord, armed: ArmedTrigger, rows: Mapping[str, TriggerRecord], now: float, most: int
) -> list[float]:
    """Empty for triggers that time does not start, and for workflows that nothing starts."""
    if not isinstance(armed.trigger, CronTrigger | IntervalTrigger) or record.paused or not record.active:
        return []
    row = rows.get(armed.name)
    # No scheduler has come by yet: it will count from the push.
    since, at = (row.since, float(row.state["at"])) if row else (record.updated_at, record.updated_at)
    return time_events.upcoming(times_of(armed.trigger, since), max(now, at), most)


def next_fire_of(database: Database, workflow_id: str, *, catalog: str, now: float) -> float | None:
    """The soonest of a workflow's next fires."""
    with database.read() as connection:
        record = definitions.load(connection, workflow_id)
        version = definitions.version(connection, workflow_id, record.latest_version) if record else None
        rows = triggers.of_workflow(connection, workflow_id)
    if record is None or version is None:
        return None
    try:
        workflow = WorkflowVersion.from_dict(json.loads(version.definition)).workflow
        armed = plan(workflow, version.version, catalog=catalog).triggers
        return min((fire for trigger in armed for fire in next_fires(record, trigger, rows, now, 1)), default=None)
    except IcefloeError:
        return None
