"""One run with what its page shows beside the run itself: its graph, why it failed, what can be done, who did what."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from sqlalchemy.engine import Connection

from icefloe.engine.graph import FOREACH
from icefloe.engine.states import PENDING, RunStatus, StepStatus
from icefloe.errors import NotFoundError
from icefloe.service.failures import Failure, failed_steps, failure_of
from icefloe.service.run_actions import seen
from icefloe.service.views import RunView
from icefloe.store import audits, definitions, run_history, runs
from icefloe.store.audits import AuditRecord

if TYPE_CHECKING:
    from icefloe.service.client import Client

LAST_LINES = 400
MOST_ITERATIONS = 50
_BAD = ("FAILED", "TIMED_OUT", "STOPPED")


@dataclass(frozen=True, slots=True)
class StepEdge:
    source: str
    target: str
    condition: str | None = None

    def to_dict(self) -> dict[str, Any]:
        return {"source": self.source, "target": self.target, "condition": self.condition}


@dataclass(frozen=True, slots=True)
class Iterations:
    """Some iterations of a foreach: those that went wrong or run now first, then the newest. ``total`` counts all."""

    step: str
    total: int
    shown: tuple[tuple[int, str, str], ...]

    def to_dict(self) -> dict[str, Any]:
        shown = [{"iteration": number, "run_id": run_id, "status": status} for number, run_id, status in self.shown]
        return {"step": self.step, "total": self.total, "shown": shown}


@dataclass(frozen=True, slots=True)
class RunDetails:
    """``verbs``: what can be done to the run now; ``skippable``: steps that can be skipped; ``restartable``: steps to start from."""

    run: RunView
    edges: tuple[StepEdge, ...]
    failure: Failure | None
    verbs: frozenset[str]
    skippable: frozenset[str]
    restartable: tuple[str, ...]
    iterations: dict[str, Iterations]
    audits: tuple[AuditRecord, ...]
    latest_version: int
    root_id: str
    worker_alive: bool
    waits_behind: str | None = None
    seen: str = ""
    """What a form about this run carries, to notice that somebody was faster."""
    usual_seconds: dict[str, float] = field(default_factory=dict)
    """How long each step took in the last run that succeeded."""

    def to_dict(self) -> dict[str, Any]:
        return {
            "run": self.run.to_dict(),
            "edges": [edge.to_dict() for edge in self.edges],
            "failure": self.failure.to_dict() if self.failure else None,
            "verbs": sorted(self.verbs),
            "skippable": sorted(self.skippable),
            "iterations": [each.to_dict() for each in self.iterations.values()],
            "audits": [record.to_dict() for record in self.audits],
        }


def run_details(client: Client, run_id: str) -> RunDetails:
    view = client.runs.show(run_id)
    with client.database.read() as connection:
        record = runs.load(connection, run_id)
        if record is None:  # deleted in between
            raise NotFoundError(f"there is no run {run_id!r}", hint="icefloe runs")
        graph = client.conductor.definitions.get(connection, record.workflow_id, record.version).graph(record.path)
        workflow = definitions.load(connection, record.workflow_id)
        done = audits.listing(connection, subject=run_id, most=20)
        loops = {
            step.id: Iterations(
                step.id,
                int((step.iterations or {}).get("total") or 0),
                _iterations(connection, run_id, step.id),
            )
            for step in view.steps
            if step.type == FOREACH and step.attempts
        }
    failure = _failure(client, view)
    edges = tuple(StepEdge(edge.source, edge.target, edge.condition) for edge in graph.edges)
    ahead = client.runs.ahead_of(run_id) if view.status == RunStatus.CREATED else []
    is_root = record.root_id == record.id
    return RunDetails(
        run=view,
        edges=edges,
        failure=failure,
        verbs=verbs_of(view, is_root=is_root),
        skippable=skippable_of(view) if is_root else frozenset(),
        restartable=tuple(step.id for step in view.steps) if is_root and view.ended else (),
        iterations=loops,
        audits=tuple(done),
        latest_version=workflow.latest_version if workflow else view.version,
        root_id=record.root_id,
        worker_alive=view.ended or client.worker_alive(),
        usual_seconds={} if view.ended else _usual_seconds(client, view),
        waits_behind=ahead[0] if ahead else None,
        seen=seen(view),
    )


def verbs_of(view: RunView, *, is_root: bool = True) -> frozenset[str]:
    """What makes sense now. The engine refuses what does not."""
    status = RunStatus(view.status)
    if status.ended:
        return frozenset({"restart"}) if is_root else frozenset()
    verbs = {"kill"}
    if view.request is None:
        verbs.add("stop")
        verbs |= {"pause"} if status is RunStatus.IN_PROGRESS else set()
    if status is RunStatus.PAUSED:
        verbs.add("resume")
    return frozenset(verbs)


def skippable_of(view: RunView) -> frozenset[str]:
    """Steps that have failed, wait for something, or run."""
    if view.status == RunStatus.CREATED or view.request is not None:
        return frozenset()
    return frozenset(
        step.id
        for step in view.steps
        if (status := StepStatus(step.status)).failed or status in PENDING or status.active
    )


def _failure(client: Client, view: RunView) -> Failure | None:
    if view.status not in _BAD and not any(StepStatus(step.status).failed for step in view.steps):
        return None
    failed = failed_steps(view)
    if not failed:
        if view.cause is None:
            return None
        cause = view.cause
        return Failure(
            "", 0, view.status, str(cause.get("message", "")), cause.get("code"), cause.get("hint"), None, None
        )
    first = failed[0]
    tail = client.runs.log_tail(view.run_id, first.id, first.attempts, LAST_LINES) if first.attempts else ""
    found = failure_of(view, tail, first, tuple(step.id for step in failed[1:]))
    if found.hint is None and first.child_run is not None:
        return replace(found, hint=f"it failed inside: look at run {first.child_run}")
    return found


def _usual_seconds(client: Client, view: RunView) -> dict[str, float]:
    with client.database.read() as connection:
        good = run_history.lines(connection, workflow_id=view.workflow_id, status=RunStatus.SUCCEEDED.value, most=1)
        outcomes = run_history.step_outcomes(connection, [run.id for run in good])
    return {
        outcome.step_id: outcome.ended_at - outcome.started_at
        for outcome in outcomes
        if outcome.started_at is not None and outcome.ended_at is not None
    }


def _iterations(connection: Connection, run_id: str, step_id: str) -> tuple[tuple[int, str, str], ...]:
    wrong = run_history.iterations(
        connection, run_id, step_id, statuses=(*_BAD, "IN_PROGRESS", "PAUSED"), most=MOST_ITERATIONS
    )
    rest = run_history.iterations(connection, run_id, step_id, most=MOST_ITERATIONS)
    known = {number for number, _, _ in wrong}
    return tuple((wrong + [each for each in rest if each[0] not in known])[:MOST_ITERATIONS])
