"""Workflows: all of them at a glance; one of them with its history, what starts it, its definition; a form that starts a run."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from fastapi import APIRouter, Query, Request
from markupsafe import Markup
from starlette.responses import HTMLResponse, RedirectResponse

from icefloe.errors import NotFoundError, UsageError
from icefloe.server.access import CurrentActor, Operator
from icefloe.server.charts import durations, graph, marks, strip
from icefloe.server.charts.durations import RunTime
from icefloe.server.charts.graph import GraphArrow, GraphStep
from icefloe.server.charts.strip import Outcome
from icefloe.server.pages.forms import Fields, back
from icefloe.server.rendering import duration, page
from icefloe.server.routes.connection import Project
from icefloe.service import definition_versions, workflow_actions
from icefloe.service.client import Client
from icefloe.service.explain import Explaining
from icefloe.service.run_form import fields_of, fixed_of, shown_default, values_of
from icefloe.service.run_history import RunLine
from icefloe.service.waiting import waiting
from icefloe.service.workflow_graph import workflow_graph
from icefloe.service.workflow_overview import STATES, WorkflowOverview
from icefloe.workflow.model import Workflow

router = APIRouter(prefix="/workflows")
MOST_SHOWN = 500
LIST_OUTCOMES = 14
GRID_RUNS = 30
SCATTER_RUNS = 200
_DONE = {
    "pause": "Its triggers start no more runs.",
    "resume": "Its triggers go on.",
    "activate": "It is active: its triggers begin anew.",
    "deactivate": "It is deactivated: nothing starts it.",
    "unblock": "It goes on with its next run.",
}


@router.get("")
def workflows(
    request: Request, project: Project, _actor: CurrentActor, text: str = "", owner: str = "", state: str = ""
) -> HTMLResponse:
    overviews = project.overviews.all(outcomes=LIST_OUTCOMES)
    owners = sorted({overview.owner for overview in overviews if overview.owner})
    chosen = [overview for overview in overviews if _matches(overview, text, owner, state)]
    counts = {each: sum(overview.state == each for overview in overviews) for each in STATES}
    shown = chosen[:MOST_SHOWN]
    return page(
        request,
        "workflows.html",
        overviews=shown,
        strips={overview.id: _strip(overview.outcomes, overview.id) for overview in shown},
        left_out=len(chosen) - len(shown),
        total=len(overviews),
        owners=owners[:500],
        counts={each: number for each, number in counts.items() if number},
        filters={"text": text, "owner": owner, "state": state},
        lags=project.lags.latest(),
        now_at=time.time(),
    )


@router.get("/{workflow_id}/definition")
def definition(
    request: Request,
    project: Project,
    _actor: CurrentActor,
    workflow_id: str,
    version: int | None = Query(default=None, ge=1, lt=2**31),
    against: str = "",
) -> HTMLResponse:
    known = definition_versions.versions(project, workflow_id)
    chosen = project.workflows.version(workflow_id, version or known[0].version)
    compared = None
    if against.strip():
        if not (against.isascii() and against.isdigit()) or len(against) > 9:
            raise UsageError(f"{against[:40]!r} is not a version", where="against", hint="a number")
        compared = definition_versions.compare(project, workflow_id, int(against), chosen.version)
    return page(request, "definition.html", workflow_id=workflow_id, versions=known, chosen=chosen, compared=compared)


@router.get("/{workflow_id}/why")
def why(request: Request, project: Project, _actor: CurrentActor, workflow_id: str) -> HTMLResponse:
    overview = _overview(project, workflow_id)
    found = waiting(project, overview)
    return page(request, "why.html", overview=overview, waiting=found, seen=workflow_actions.state_of(overview))


@router.get("/{workflow_id}/explain")
def explain(request: Request, project: Project, _actor: CurrentActor, workflow_id: str) -> HTMLResponse:
    from icefloe.lake import Lake  # PyIceberg takes a second to import

    overview = _overview(project, workflow_id)
    try:
        found = Explaining(project, Lake.open(project.config)).explain(workflow_id)
    except NotFoundError as error:  # no step has write:
        return page(request, "explain.html", overview=overview, steps=(), nothing=error)
    return page(request, "explain.html", overview=overview, steps=found, nothing=None)


@router.get("/{workflow_id}/run")
def run_form(request: Request, project: Project, _actor: CurrentActor, workflow_id: str) -> HTMLResponse:
    return _run_form(request, project, workflow_id, {}, None)


@router.post("/{workflow_id}/run", response_model=None)
def run(
    request: Request, project: Project, actor: Operator, workflow_id: str, fields: Fields
) -> HTMLResponse | RedirectResponse:
    """Start a run. The form sent twice starts one: it carries its own occasion."""
    typed = {name[2:]: text for name, text in fields.items() if name.startswith("p.")}
    once = fields.get("once", "")[:64] or secrets.token_hex(8)
    number = project.workflows.latest(workflow_id).version
    try:
        version = int(fields["version"]) if fields.get("version") else number
        params = values_of(fields_of(_workflow(project, workflow_id, version)), typed)
        started = project.runs.start(
            workflow_id,
            params,
            version=version,
            occasion=f"form:{once}",
            initiator={"kind": "user", "by": actor.name, "from": "page"},
        )
    except (UsageError, ValueError) as error:
        shown = error if isinstance(error, UsageError) else UsageError("this is not a version", where="version")
        return _run_form(request, project, workflow_id, typed, shown)
    notice = "The run was started." if started.created else "This form has started this run before."
    return back(f"/runs/{quote(started.run_id, safe='')}", notice)


@router.post("/{workflow_id}/signal")
def signal(project: Project, actor: Operator, workflow_id: str, fields: Fields) -> RedirectResponse:
    _overview(project, workflow_id)
    try:
        params: Any = json.loads(fields.get("params") or "{}")
    except (ValueError, RecursionError):
        raise UsageError("the signal's parameters are not JSON", where="params", hint='{"name": "value"}') from None
    if not isinstance(params, dict):
        raise UsageError("the signal's parameters must be a map", where="params", hint='{"name": "value"}')
    name = fields.get("name", "")
    project.triggers.signal(name, params, by=actor.name)
    return back(f"{_path(workflow_id)}/why", f"Signal {name} was published.")


@router.post("/{workflow_id}/watermark")
def watermark(project: Project, actor: Operator, workflow_id: str, fields: Fields) -> RedirectResponse:
    _overview(project, workflow_id)
    table = fields.get("table", "")
    _, moved = project.triggers.set_watermark(table, fields.get("valid_through", ""), by=actor.name)
    told = f"{table} is complete up to there now." if moved else f"{table} was complete up to there already."
    return back(f"{_path(workflow_id)}/why", told)


@router.post("/{workflow_id}/{verb}")
def act(project: Project, actor: Operator, workflow_id: str, verb: str, fields: Fields) -> RedirectResponse:
    """Pause, resume, activate, deactivate, unblock."""
    workflow_actions.act(project, verb, workflow_id, by=actor.name, seen=fields.get("seen", ""))
    return back(_path(workflow_id), _DONE[verb])


@router.get("/{workflow_id}")
def workflow(request: Request, project: Project, _actor: CurrentActor, workflow_id: str) -> HTMLResponse:
    overview = _overview(project, workflow_id)
    drawn = workflow_graph(project, workflow_id)
    newest = project.history.newest(workflow_id, SCATTER_RUNS)
    grid = project.history.grid(newest[:GRID_RUNS], drawn.steps)
    times = [
        RunTime(line.id, line.status, line.started_at, line.ended_at - line.started_at, _run_path(line.id))
        for line in newest
        if line.started_at is not None and line.ended_at is not None
    ]
    steps = [GraphStep(each.id, each.detail) for each in drawn.boxes]
    arrows = [GraphArrow(*arrow) for arrow in drawn.arrows]
    return page(
        request,
        "workflow.html",
        overview=overview,
        strip=_strip(overview.outcomes, workflow_id),
        grid=grid,
        scatter=durations.draw(times, f"How long the last {len(times)} runs took"),
        times=times,
        graph=graph.draw(steps, arrows, f"Graph of {len(steps)} steps"),
        drawn=drawn,
        lags=project.lags.latest().by_workflow.get(workflow_id, ()),
        seen=workflow_actions.state_of(overview),
        sign=marks.sign,
        tone=marks.tone,
        words=marks.words,
        now_at=time.time(),
    )


def _run_form(
    request: Request, project: Client, workflow_id: str, typed: dict[str, str], error: UsageError | None
) -> HTMLResponse:
    overview = _overview(project, workflow_id)
    latest = _workflow(project, workflow_id, overview.version)
    return page(
        request,
        "run_form.html",
        status_code=400 if error is not None else 200,
        overview=overview,
        fields=fields_of(latest),
        fixed=[(param.name, param.type.notation, shown_default(param)) for param in fixed_of(latest)],
        typed=typed,
        error=error,
        versions=definition_versions.versions(project, workflow_id),
        once=secrets.token_hex(16),
    )


def _workflow(project: Client, workflow_id: str, version: int) -> Workflow:
    return definition_versions.workflow_of(project, workflow_id, version)


def _overview(project: Client, workflow_id: str) -> WorkflowOverview:
    found = project.overviews.one(workflow_id)
    if found is None:
        raise NotFoundError(f"there is no workflow {workflow_id!r}", hint="icefloe workflows, or: icefloe push FILE")
    return found


def _matches(overview: WorkflowOverview, text: str, owner: str, state: str) -> bool:
    if (owner and overview.owner != owner) or (state and overview.state != state):
        return False
    words = " ".join((overview.id, overview.name or "", overview.description or "", *overview.tags)).lower()
    return all(part in words for part in text.lower().split())


def _strip(outcomes: Sequence[RunLine], workflow_id: str) -> Markup:
    marked = [Outcome(run.id, run.status, _told(run), _run_path(run.id)) for run in reversed(outcomes)]
    return strip.draw(marked, f"Last {len(marked)} runs of {workflow_id}, oldest first") if marked else Markup("")


def _told(run: RunLine) -> str:
    if run.started_at is None or run.ended_at is None:
        return ""
    return f"in {duration(run.ended_at - run.started_at)}"


def _run_path(run_id: str) -> str:
    return f"/runs/{quote(run_id, safe='')}"


def _path(workflow_id: str) -> str:
    return f"/workflows/{quote(workflow_id, safe='')}"
