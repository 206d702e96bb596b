"""What is broken, late, or waits for somebody, over all workflows; and what to do about each. Reads the state database alone."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from icefloe.service.run_actions import seen
from icefloe.service.workflow_overview import WorkflowOverview
from icefloe.store import triggers, workers

if TYPE_CHECKING:
    from icefloe.service.client import Client

SILENT_SECONDS = 30.0
_INCIDENTS = {
    "failure": "failed",
    "late": "late",
    "lag": "behind",
    "lost_history": "history lost",
    "watermark": "watermark unreadable",
}


@dataclass(frozen=True, slots=True)
class Matter:
    """One thing that somebody should know of. ``rank`` 0 is broken, 1 late or waiting, 2 switched off by somebody.

    ``verb`` is what helps, if one thing does: ``restart`` a run, ``unblock``, ``resume`` or ``activate`` a workflow.
    """

    rank: int
    kind: str
    text: str
    hint: str | None = None
    workflow_id: str | None = None
    run_id: str | None = None
    verb: str | None = None
    since: float | None = None
    seen: str = ""
    """What a form about the run carries (see ``run_actions``)."""

    def to_dict(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}


def attention(client: Client, overviews: list[WorkflowOverview]) -> list[Matter]:
    """The worst first, then the newest."""
    found = _machinery(client, overviews)
    for overview in overviews:
        found += _of_workflow(overview)
    return sorted(found, key=lambda matter: (matter.rank, -(matter.since or 0.0)))


def _machinery(client: Client, overviews: list[WorkflowOverview]) -> list[Matter]:
    """Whether anybody starts and executes runs at all."""
    with client.database.read() as connection:
        living = workers.living(connection)
        schedulers = triggers.all_schedulers(connection)
    waiting = [run for overview in overviews for run in overview.running]
    found = []
    if overviews and not any(worker.serves == "*" and worker.status == workers.ALIVE for worker in living):
        wait = f": {len(waiting)} {'run waits' if len(waiting) == 1 else 'runs wait'}" if waiting else ""
        found.append(
            Matter(0 if waiting else 1, "worker", f"No worker is alive{wait}", "icefloe serve, or icefloe worker")
        )
    alive = [each for each in schedulers if time.time() - each.seen_at < SILENT_SECONDS]
    if any(overview.triggers and overview.active for overview in overviews) and not alive:
        found.append(Matter(0, "scheduler", "No scheduler is running: triggers start nothing", "icefloe serve"))
    found += [Matter(1, "scheduler", f"The scheduler has trouble: {each.trouble}") for each in alive if each.trouble]
    return found


def _of_workflow(overview: WorkflowOverview) -> list[Matter]:
    name, last = overview.id, overview.last_ended
    if not overview.active:
        return [Matter(2, "deactivated", "Deactivated: nothing starts it", None, name, None, "activate")]
    found = []
    bad = last is not None and last.status in ("FAILED", "TIMED_OUT")
    for incident in overview.incidents:
        failure = incident.kind == "failure"
        found.append(
            Matter(
                0 if failure or incident.kind == "lost_history" else 1,
                _INCIDENTS.get(incident.kind, incident.kind),
                incident.message,
                _hint(incident.kind),
                name,
                last.id if failure and last else None,
                "restart" if failure and bad else None,
                incident.opened_at,
                seen(last) if failure and last else "",
            )
        )
    if last is not None and bad and not any(incident.kind == "failure" for incident in overview.incidents):
        message = str((last.cause or {}).get("message") or last.status.replace("_", " ").lower())
        text = f"The last run failed: {message}"
        found.append(Matter(0, "failed", text, None, name, last.id, "restart", last.ended_at, seen(last)))
    if overview.blocked_by:
        text = f"Blocked: run {overview.blocked_by} ended badly, and it runs strictly in sequence"
        since = last.ended_at if last else None
        found.append(Matter(0, "blocked", text, None, name, overview.blocked_by, "unblock", since))
    if overview.paused and overview.triggers:
        found.append(Matter(2, "paused", "Paused: its triggers start no runs", None, name, None, "resume"))
    return found


def _hint(kind: str) -> str | None:
    return {
        "late": "see why it has not started",
        "lag": "see why it has not started",
        "lost_history": "set on_gap: full or on_gap: diff on the capture step, and push",
    }.get(kind)
