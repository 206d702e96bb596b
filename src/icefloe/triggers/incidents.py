"""What is wrong with a workflow right now: failed runs, lateness, lag, lost history, watermarks that are none. Pure.

An incident has a kind and a subject, and goes on as long as its condition holds: a tenth failed run in a row is the same
incident as the first. It is over when the condition is, which is said once as well.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from icefloe.store.incidents import IncidentRecord
from icefloe.triggers.pending_changes import PendingChanges
from icefloe.triggers.sources import WatchedTable
from icefloe.triggers.table_watermarks import UnreadableWatermark
from icefloe.triggers.workflow_snapshots import WorkflowSnapshot
from icefloe.workflow import durations
from icefloe.workflow.model import AlertEvent, MaxLag

_FAILED = ("FAILED", "TIMED_OUT")


@dataclass(frozen=True, slots=True)
class Incident:
    kind: AlertEvent
    subject: str
    message: str


def current_incidents(
    snapshot: WorkflowSnapshot,
    observed: Sequence[tuple[WatchedTable, PendingChanges]] | None,
    oldest: Mapping[str, float],
    idle: float | None,
    unreadable: Sequence[UnreadableWatermark] = (),
) -> list[Incident]:
    """``observed``: what is unseen of its sources (None: not known now). ``oldest``: by table, how long something has been
    unseen. ``idle``: seconds since its last good run ended, or since it was pushed. ``unreadable``: tables it waits for."""
    workflow = snapshot.plan.workflow
    current = []
    last = snapshot.ended[0] if snapshot.ended else None
    if last is not None and last.status in _FAILED:
        count = len(_run_of(snapshot, _FAILED))
        times = f", the {count}. in a row" if count > 1 else ""
        current.append(Incident(AlertEvent.FAILURE, "", f"run {last.id} ended as {last.status}{times}: {last.cause}"))
    for watched, pending in observed or ():
        if pending.lost is not None and watched.on_gap == "fail":
            current.append(Incident(AlertEvent.LOST_HISTORY, pending.table, f"{pending.table}: {pending.lost}"))
    current += [Incident(AlertEvent.WATERMARK, watermark.table, watermark.message) for watermark in unreadable]
    goal = workflow.freshness
    if goal is not None:
        reads = snapshot.plan.reading is not None
        age = max(oldest.values(), default=0.0) if reads else idle
        if age is not None and age > goal:
            measured = "the oldest change it has not taken" if reads else "its last good run"
            current.append(
                Incident(
                    AlertEvent.LATE,
                    "",
                    f"{measured} is {_span(age)} old, the goal is {durations.text(goal)} (freshness)",
                )
            )
    most = workflow.alerting.max_lag if workflow.alerting else None
    if most is not None:
        current += _lag(most, observed or (), oldest)
    return current


def _lag(
    most: MaxLag, observed: Sequence[tuple[WatchedTable, PendingChanges]], oldest: Mapping[str, float]
) -> list[Incident]:
    lags = []
    for _, pending in observed:
        seconds = oldest.get(pending.table, 0.0) if pending.snapshots else 0.0
        beyond = [
            f"{have:.0f} {name}"
            for name, have, limit in (
                ("snapshots", pending.snapshots, most.snapshots),
                ("rows", pending.rows, most.rows),
                ("seconds", seconds, most.seconds),
            )
            if limit is not None and have > limit
        ]
        if beyond:
            lags.append(
                Incident(AlertEvent.LAG, pending.table, f"{pending.table}: {', '.join(beyond)} behind (max_lag)")
            )
    return lags


def changes(
    current: Sequence[Incident], opened: Sequence[IncidentRecord], *, blind: bool, not_looked_at: Collection[str] = ()
) -> tuple[list[Incident], list[IncidentRecord]]:
    """Incidents to open, and incidents that are over. ``blind``: sources cannot be looked at, so nothing about them is over.
    ``not_looked_at``: tables that it waits for and that cannot be looked at."""
    still = {(incident.kind.value, incident.subject) for incident in current}
    known = {(incident.kind, incident.subject) for incident in opened}
    about_sources = {AlertEvent.LATE.value, AlertEvent.LAG.value, AlertEvent.LOST_HISTORY.value}
    over = [
        incident
        for incident in opened
        if (incident.kind, incident.subject) not in still
        and not (blind and incident.kind in about_sources)
        and not (incident.kind == AlertEvent.WATERMARK.value and incident.subject in not_looked_at)
    ]
    return [incident for incident in current if (incident.kind.value, incident.subject) not in known], over


def _run_of(snapshot: WorkflowSnapshot, statuses: tuple[str, ...]) -> list[str]:
    run_ids = []
    for run in snapshot.ended:
        if run.status not in statuses:
            break
        run_ids.append(run.id)
    return run_ids


def _span(seconds: float) -> str:
    return (
        f"{seconds / 3600:.1f} h"
        if seconds >= 7200
        else f"{seconds / 60:.0f} min"
        if seconds >= 120
        else f"{seconds:.0f} s"
    )
