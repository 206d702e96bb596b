"""How far consumers and goals are behind, from what the scheduler has in mind: nothing is read for it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from icefloe.triggers.pending_changes import PendingChanges
from icefloe.triggers.table_watch import Question
from icefloe.triggers.workflow_snapshots import WorkflowSnapshot

Answer = Callable[[Question], PendingChanges | None]


@dataclass(frozen=True, slots=True)
class Lag:
    """How far one consumer is behind on one table. ``known`` False: the table cannot be read, or its history is lost."""

    consumer: str
    workflow_id: str
    table: str
    snapshots: int
    rows: int
    seconds: float
    """How long the oldest change that it has not captured has been there."""
    known: bool


@dataclass(frozen=True, slots=True)
class GoalState:
    """A workflow with ``freshness:``. ``behind_seconds`` None: that cannot be told now."""

    workflow_id: str
    goal_seconds: float
    behind_seconds: float | None


def lags(snapshot: WorkflowSnapshot, answer: Answer, now: float) -> Iterator[Lag]:
    plan = snapshot.plan
    for armed in (*plan.triggers, *((plan.reading,) if plan.reading else ())):
        for watched in armed.watches:
            pending = answer(snapshot.question(armed, watched)) if watched.consumer else None
            if watched.consumer and pending is not None:
                yield Lag(
                    watched.consumer,
                    snapshot.record.id,
                    pending.table,
                    pending.snapshots,
                    pending.rows,
                    _age(pending, now),
                    pending.lost is None and pending.problem is None,
                )


def goal_state(snapshot: WorkflowSnapshot, answer: Answer, now: float) -> GoalState | None:
    """None: it has no goal, or is switched off."""
    goal = snapshot.plan.workflow.freshness
    if goal is None or not snapshot.record.active:
        return None
    reading = snapshot.plan.reading
    if reading is None:
        good = next((run.ended_at for run in snapshot.ended if run.status == "SUCCEEDED"), None)
        return GoalState(snapshot.record.id, goal, max(now - (good or snapshot.record.created_at), 0.0))
    observed = snapshot.observed(reading, answer)
    if observed is None or any(pending.problem or pending.lost for _, pending in observed):
        return GoalState(snapshot.record.id, goal, None)
    return GoalState(snapshot.record.id, goal, max((_age(pending, now) for _, pending in observed), default=0.0))


def _age(pending: PendingChanges, now: float) -> float:
    if not pending.snapshots or pending.oldest_ms is None:
        return 0.0
    return max(now - pending.oldest_ms / 1000, 0.0)
