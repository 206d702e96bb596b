"""Runs: all of them by pages, one of them with what to do about it, its logs."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from urllib.parse import quote

from fastapi import APIRouter, Query, Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response

from icefloe.errors import NotFoundError, UsageError
from icefloe.server.access import CurrentActor, Operator
from icefloe.server.pages import run_view
from icefloe.server.pages.forms import Fields, back, is_live
from icefloe.server.rendering import page
from icefloe.server.routes.connection import Project
from icefloe.service.failures import plain_text
from icefloe.service.run_actions import RunActions
from icefloe.service.run_details import run_details
from icefloe.service.run_history import STATUSES

router = APIRouter(prefix="/runs")
PER_PAGE = 50
PIECE = 400_000
"""Bytes of a log in one answer to who follows it."""
_DONE = {
    "stop": "It is being stopped.",
    "kill": "It was killed.",
    "pause": "It is paused: what runs goes on, nothing new starts.",
    "resume": "It goes on.",
}


@router.get("")
def runs(
    request: Request,
    project: Project,
    _actor: CurrentActor,
    workflow: str = "",
    status: str = "",
    since: str = "",
    until: str = "",
    before: int | None = Query(default=None, ge=0, lt=2**63),
    after: int | None = Query(default=None, ge=0, lt=2**63),
) -> HTMLResponse:
    listed = project.history.listing(
        workflow_id=workflow or None,
        status=status or None,
        since=_moment(since, "since"),
        until=_moment(until, "until"),
        before=before,
        after=after,
        most=PER_PAGE,
    )
    chosen = {"workflow": workflow, "status": status, "since": since, "until": until}
    names = [] if is_live(request) else project.history.workflow_names()[:1000]
    return page(request, "runs.html", listed=listed, chosen=chosen, statuses=STATUSES, names=names, now_at=time.time())


@router.get("/{run_id}/log")
def log(
    request: Request,
    project: Project,
    _actor: CurrentActor,
    run_id: str,
    step: str,
    attempt: int = Query(default=1, ge=1, lt=2**31),
    begin: str = "0:0",
) -> Response:
    """The log as text, from a place on: ``X-Next`` is the place to go on from, ``X-Ended`` says that nothing more comes."""
    view = project.runs.show(run_id, events=False)
    chosen = next((each for each in view.steps if each.id == step), None)
    if chosen is None:
        raise NotFoundError(f"run {run_id} has no step {step!r}", hint=f"icefloe show {run_id}")
    number, offset = run_view.log_place(begin)
    part = project.runs.log(run_id, step, attempt, number, offset)
    ended = attempt < chosen.attempts or chosen.ended_at is not None
    content, place = run_view.whole_lines(part, ended=ended)
    shown = plain_text(content.decode("utf-8", "replace"))
    headers = {"X-Next": place, "X-Ended": str(int(ended))}
    return PlainTextResponse(shown, headers=headers)


@router.post("/{run_id}/restart")
def restart(project: Project, actor: Operator, run_id: str, fields: Fields) -> RedirectResponse:
    start = fields.get("start", "incomplete")
    step = fields.get("step") or None if start == "step" else None
    if start == "step" and step is None:
        raise UsageError("which step to start from is not said", hint="choose a step")
    RunActions(project).restart(
        run_id,
        by=actor.name,
        seen=fields.get("seen", ""),
        step=step,
        from_beginning=start == "beginning",
        version=fields.get("version") or None,
        typed={name[2:]: text for name, text in fields.items() if name.startswith("p.")},
    )
    return back(_path(run_id), "It was restarted.")


@router.post("/{run_id}/skip")
def skip(project: Project, actor: Operator, run_id: str, fields: Fields) -> RedirectResponse:
    step = fields.get("step", "")
    RunActions(project).skip(run_id, step, by=actor.name, seen=fields.get("seen", ""))
    return back(_path(run_id), f"Step {step} is skipped.")


@router.post("/{run_id}/{verb}")
def act(project: Project, actor: Operator, run_id: str, verb: str, fields: Fields) -> RedirectResponse:
    """Stop, kill, pause, resume."""
    RunActions(project).act(verb, run_id, by=actor.name, seen=fields.get("seen", ""))
    return back(_path(run_id), _DONE[verb])


@router.get("/{run_id:path}")
def run(
    request: Request,
    project: Project,
    actor: CurrentActor,
    run_id: str,
    step: str = "",
    attempt: int | None = Query(default=None, ge=1, lt=2**31),
) -> HTMLResponse:
    details = run_details(project, run_id)
    live = is_live(request)
    shown = run_view.assemble(project, details, step, attempt, with_log=not live)
    return page(request, "run.html", details=details, run=details.run, shown=shown, now_at=time.time())


def _path(run_id: str) -> str:
    return f"/runs/{quote(run_id, safe='')}"


def _moment(text: str, field: str) -> float | None:
    """A day or a minute, in UTC."""
    if not text:
        return None
    try:
        at = datetime.fromisoformat(text.strip())
    except ValueError:
        raise UsageError(
            f"{text[:40]!r} is not a moment", where=field, hint="2026-03-01 or 2026-03-01T12:00, in UTC"
        ) from None
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
