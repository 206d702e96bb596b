"""What is wrong with a workflow right now: failed runs, lateness, lag, lost history, watermarks that are none. Pure.

An incident has a kind and a subject, and goes on as long as its condition holds: a tenth failed run in a row is the same
incident as the first. It is over when the condition is, which is said once as well.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from icefloe.store.incidents import IncidentRecord
from icefloe.triggers.completeness import Unreadable
from icefloe.triggers.sources import Watched
from icefloe.triggers.unseen import Unseen
from icefloe.triggers.workflow_snapshots import WorkflowSnapshot
from icefloe.workflow import durations
from icefloe.workflow.model import AlertEvent, MaxLag

_FAILED = ("FAILED", "TIMED_OUT")


@dataclass(frozen=True, slots=True)
class Trouble:
    kind: AlertEvent
    subject: str
    message: str


def troubles(
    standing: WorkflowSnapshot,
    sights: Sequence[tuple[Watched, Unseen]] | None,
    oldest: Mapping[str, float],
    idle: float | None,
    unreadable: Sequence[Unreadable] = (),
) -> list[Trouble]:
    """``sights``: what is unseen of its sources (None: not known now). ``oldest``: by table, how long something has been
    unseen. ``idle``: seconds since its last good run ended, or since it was pushed. ``unreadable``: tables it waits for."""
    workflow = standing.plan.workflow
    found = []
    last = standing.ended[0] if standing.ended else None
    if last is not None and last.status in _FAILED:
        count = len(_run_of(standing, _FAILED))
        times = f", the {count}. in a row" if count > 1 else ""
        found.append(Trouble(AlertEvent.FAILURE, "", f"run {last.id} ended as {last.status}{times}: {last.cause}"))
    for watched, one in sights or ():
        if one.lost is not None and watched.on_gap == "fail":
            found.append(Trouble(AlertEvent.LOST_HISTORY, one.table, f"{one.table}: {one.lost}"))
    found += [Trouble(AlertEvent.WATERMARK, one.table, one.message) for one in unreadable]
    goal = workflow.freshness
    if goal is not None:
        reads = standing.plan.reading is not None
        age = max(oldest.values(), default=0.0) if reads else idle
        if age is not None and age > goal:
            what = "the oldest change it has not taken" if reads else "its last good run"
            found.append(
                Trouble(
                    AlertEvent.LATE, "", f"{what} is {_span(age)} old, the goal is {durations.text(goal)} (freshness)"
                )
            )
    most = workflow.alerting.max_lag if workflow.alerting else None
    if most is not None:
        found += _lag(most, sights or (), oldest)
    return found


def _lag(most: MaxLag, sights: Sequence[tuple[Watched, Unseen]], oldest: Mapping[str, float]) -> list[Trouble]:
    found = []
    for _, one in sights:
        seconds = oldest.get(one.table, 0.0) if one.snapshots else 0.0
        beyond = [
            f"{have:.0f} {name}"
            for name, have, limit in (
                ("snapshots", one.snapshots, most.snapshots),
                ("rows", one.rows, most.rows),
                ("seconds", seconds, most.seconds),
            )
            if limit is not None and have > limit
        ]
        if beyond:
            found.append(Trouble(AlertEvent.LAG, one.table, f"{one.table}: {', '.join(beyond)} behind (max_lag)"))
    return found


def changes(
    now_wrong: Sequence[Trouble], opened: Sequence[IncidentRecord], *, blind: bool, unseen: Collection[str] = ()
) -> tuple[list[Trouble], list[IncidentRecord]]:
    """Incidents to open, and incidents that are over. ``blind``: sources cannot be looked at, so nothing about them is over.
    ``unseen``: tables that it waits for and that cannot be looked at."""
    wrong = {(trouble.kind.value, trouble.subject) for trouble in now_wrong}
    known = {(incident.kind, incident.subject) for incident in opened}
    about_sources = {AlertEvent.LATE.value, AlertEvent.LAG.value, AlertEvent.LOST_HISTORY.value}
    over = [
        incident
        for incident in opened
        if (incident.kind, incident.subject) not in wrong
        and not (blind and incident.kind in about_sources)
        and not (incident.kind == AlertEvent.WATERMARK.value and incident.subject in unseen)
    ]
    return [trouble for trouble in now_wrong if (trouble.kind.value, trouble.subject) not in known], over


def _run_of(standing: WorkflowSnapshot, statuses: tuple[str, ...]) -> list[str]:
    found = []
    for run in standing.ended:
        if run.status not in statuses:
            break
        found.append(run.id)
    return found


def _span(seconds: float) -> str:
    return (
        f"{seconds / 3600:.1f} h"
        if seconds >= 7200
        else f"{seconds / 60:.0f} min"
        if seconds >= 120
        else f"{seconds:.0f} s"
    )
