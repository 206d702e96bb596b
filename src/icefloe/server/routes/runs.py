"""Runs: start, list, show, act on them, read their logs."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from icefloe.server.access import CurrentActor, Operator
from icefloe.server.answers import API
from icefloe.server.routes.bodies import Body, Moment
from icefloe.server.routes.connection import Project
from icefloe.server.routes.listings import COUNTED, After, Count, Limit, number_after, page_model, page_of
from icefloe.server.routes.preconditions import IfMatch, seen_number, tag
from icefloe.service.views import AttemptView, EventView, RunView, Started

router = APIRouter(prefix="/runs", tags=["runs"])
RunId = Annotated[str, Path(max_length=500, examples=["playback.agg-41"])]


class NewRun(Body):
    model_config = ConfigDict(
        json_schema_extra={"examples": [{"workflow": "playback.agg", "params": {"DAY": 20260301}}]}
    )

    workflow: str
    params: dict[str, Any] = Field({}, description="Values for the workflow's parameters.")
    texts: dict[str, str] = Field({}, description="The same as typed on a command line: read by the parameters' types.")
    version: int | None = Field(None, ge=1, description="Without it, the latest.")
    occasion: str | None = Field(
        None, max_length=500, description="What it is started for: the same occasion of a workflow starts one run."
    )


class Restart(Body):
    model_config = ConfigDict(json_schema_extra={"examples": [{"step": "aggregate", "version": "latest"}]})

    step: str | None = Field(None, description="This step and everything after it; without it, what is incomplete.")
    from_beginning: bool = False
    params: dict[str, Any] = Field({})
    texts: dict[str, str] = Field({})
    version: str | None = Field(None, description="`latest`, or a number.")


class SkipStep(Body):
    model_config = ConfigDict(json_schema_extra={"examples": [{"step": "aggregate"}]})

    step: str


@dataclass(frozen=True, slots=True)
class StepAttempts:
    """``attempts``: those that have ended, oldest first."""

    step: str
    attempts: int
    history: tuple[AttemptView, ...]


class Attempts(BaseModel):
    attempts: list[StepAttempts]


class Events(BaseModel):
    events: list[EventView]


class LogText(BaseModel):
    """``content`` is base64: logs are bytes. ``number`` and ``offset``: where to go on reading."""

    step: str
    attempt: int
    content: str
    number: int
    offset: int
    gap: bool = Field(description="Something before this was left out, since the log was longer than what is kept.")
    ended: bool = Field(description="The run has ended: nothing more will come, unless it is restarted.")


class LogTail(BaseModel):
    step: str
    attempt: int
    lines: list[str]


# -- starting and looking ----------------------------------------------------------------------------------------------------


@router.post(
    "", status_code=201, responses={200: {"model": Started, "description": "The occasion had started it before."}}
)
def start_run(run: NewRun, project: Project, response: Response, actor: Operator) -> Started:
    """Start a run. It waits for its turn and for a worker; its address is in ``Location``."""
    started = project.runs.start(
        run.workflow,
        run.params,
        texts=run.texts,
        version=run.version,
        occasion=run.occasion,
        initiator={"kind": "user", "by": actor.name},
    )
    response.status_code = 201 if started.created else 200
    response.headers["Location"] = f"{API}/runs/{started.run_id}"
    return started


@router.get("", response_model=page_model("runs", RunView))
def list_runs(
    request: Request,
    response: Response,
    project: Project,
    _actor: CurrentActor,
    workflow: Annotated[str | None, Query(description="Only this workflow's.")] = None,
    status: Annotated[str | None, Query(examples=["FAILED"])] = None,
    since: Moment = None,
    until: Moment = None,
    limit: Limit = 50,
    after: After = None,
    count: Count = False,
) -> dict[str, Any]:
    """Newest first, without their steps. ``since`` and ``until``: created then; ``count`` does not heed them."""
    wanted = status.upper() if status else None
    found = project.runs.listing(workflow, wanted, limit + 1, since=since, until=until, below=number_after(after))
    counted = project.runs.count(workflow, wanted, COUNTED) if count else None
    return page_of(request, response, "runs", found, limit, lambda run: run.seq, counted)


@router.get("/{run_id}")
def get_run(run_id: RunId, project: Project, response: Response, _actor: CurrentActor, events: bool = True) -> RunView:
    """One run with its steps; ``events``: and every transition."""
    return _answer(project.runs.show(run_id, events=events), response)


@router.get("/{run_id}/attempts", response_model=Attempts)
def list_attempts(run_id: RunId, project: Project, _actor: CurrentActor) -> dict[str, Any]:
    """How often each step was tried, and how each try ended."""
    view = project.runs.show(run_id, events=False)
    return {"attempts": [StepAttempts(step.id, step.attempts, step.history) for step in view.steps]}


@router.get("/{run_id}/events", response_model=Events)
def list_events(run_id: RunId, project: Project, _actor: CurrentActor) -> dict[str, Any]:
    """Every transition of the run and its steps, oldest first; of very many the last."""
    return {"events": project.runs.show(run_id).events}


# -- logs --------------------------------------------------------------------------------------------------------------------

StepQuery = Annotated[str, Query(max_length=300, description="The step's id.")]
AttemptQuery = Annotated[int | None, Query(ge=1, le=1_000_000, description="Without it, the last.")]


@router.get("/{run_id}/log")
def get_log(
    run_id: RunId,
    project: Project,
    _actor: CurrentActor,
    step: StepQuery,
    attempt: AttemptQuery = None,
    number: Annotated[int, Query(ge=0, le=10**9, description="Go on from here: `number` of the answer before.")] = 0,
    offset: Annotated[int, Query(ge=0, le=10**9, description="And here: `offset` of the answer before.")] = 0,
) -> LogText:
    """What the log of a step's attempt has from a place on."""
    view = project.runs.show(run_id, events=False)
    chosen = attempt or max((tries for _, tries in project.runs.log_attempts(run_id, step)), default=1)
    part = project.runs.log(run_id, step, chosen, number, offset)
    content = base64.b64encode(part.content).decode("ascii")
    return LogText(
        step=step, attempt=chosen, content=content, number=part.next_number, offset=part.next_offset, gap=part.gap,
        ended=view.ended,
    )  # fmt: skip


@router.get("/{run_id}/log/tail")
def get_log_tail(
    run_id: RunId,
    project: Project,
    _actor: CurrentActor,
    step: StepQuery,
    attempt: AttemptQuery = None,
    lines: Annotated[int, Query(ge=1, le=1000)] = 20,
) -> LogTail:
    """The last lines of a step's attempt, as text."""
    chosen = attempt or max((tries for _, tries in project.runs.log_attempts(run_id, step)), default=1)
    text = project.runs.log_tail(run_id, step, chosen, lines)
    return LogTail(step=step, attempt=chosen, lines=text.split("\n") if text else [])


# -- acting ------------------------------------------------------------------------------------------------------------------


@router.post("/{run_id}/restart", status_code=202)
def restart_run(
    run_id: RunId, restart: Restart, project: Project, response: Response, actor: Operator, if_match: IfMatch = None
) -> RunView:
    """Do again what is incomplete, or more. The work begins afterwards: look at ``Location``."""
    view = project.runs.restart(
        run_id,
        step=restart.step,
        from_beginning=restart.from_beginning,
        texts=restart.texts,
        params=restart.params,
        version=restart.version,
        by=actor.name,
        seen=seen_number(if_match),
    )
    response.headers["Location"] = f"{API}/runs/{run_id}"
    return _answer(view, response)


@router.post("/{run_id}/stop", status_code=202)
def stop_run(run_id: RunId, project: Project, response: Response, actor: Operator, if_match: IfMatch = None) -> RunView:
    """End it gently: what runs is told to end, the run ends as STOPPED and can be restarted."""
    return _accepted(project.runs.stop(run_id, actor.name, seen=seen_number(if_match)), response)


@router.post("/{run_id}/kill", status_code=202)
def kill_run(run_id: RunId, project: Project, response: Response, actor: Operator, if_match: IfMatch = None) -> RunView:
    """End it at once, as FAILED."""
    return _accepted(project.runs.kill(run_id, actor.name, seen=seen_number(if_match)), response)


@router.post("/{run_id}/pause")
def pause_run(
    run_id: RunId, project: Project, response: Response, actor: Operator, if_match: IfMatch = None
) -> RunView:
    """Start nothing new in it; what runs goes on."""
    return _answer(project.runs.pause(run_id, actor.name, seen=seen_number(if_match)), response)


@router.post("/{run_id}/resume")
def resume_run(
    run_id: RunId, project: Project, response: Response, actor: Operator, if_match: IfMatch = None
) -> RunView:
    """Let a paused run go on."""
    return _answer(project.runs.resume(run_id, actor.name, seen=seen_number(if_match)), response)


@router.post("/{run_id}/skip", status_code=202)
def skip_step(
    run_id: RunId, skip: SkipStep, project: Project, response: Response, actor: Operator, if_match: IfMatch = None
) -> RunView:
    """Let it go on as if the step had succeeded; a step that runs is ended first."""
    return _accepted(project.runs.skip(run_id, skip.step, actor.name, seen=seen_number(if_match)), response)


def _accepted(view: RunView, response: Response) -> RunView:
    response.headers["Location"] = f"{API}/runs/{view.run_id}"
    return _answer(view, response)


def _answer(view: RunView, response: Response) -> RunView:
    tag(response, view.revision)
    return view
