"""Workflows: push, list, show, compare versions, draw, explain; whether they are started, and why they are not."""

from __future__ import annotations

import json
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from icefloe.server.access import CurrentActor, Operator
from icefloe.server.answers import API
from icefloe.server.routes.bodies import Body
from icefloe.server.routes.connection import Project
from icefloe.server.routes.definitions import TEXTS, Definition, GraphFormat, drawing
from icefloe.server.routes.listings import After, Limit, page_model, page_of
from icefloe.server.routes.preconditions import IfMatch, seen, tag
from icefloe.service import definition_versions, sent_definitions
from icefloe.service.client import Client
from icefloe.service.definition_versions import VersionLine
from icefloe.service.definitions import installed_types
from icefloe.service.views import Pushed, WorkflowView
from icefloe.workflow.versions import WorkflowVersion
from icefloe.workflow.yaml_writer import to_yaml

router = APIRouter(prefix="/workflows", tags=["workflows"])
WorkflowId = Annotated[str, Path(max_length=300, examples=["playback.agg"])]
Version = Annotated[int | None, Query(ge=1, le=2**31 - 1, description="Without it, the latest.")]


class ListedWorkflow(BaseModel):
    """``next_fire``: when a trigger by time starts it next, in seconds since 1970."""

    id: str
    version: int
    owner: str | None
    description: str | None
    steps: int
    run_strategy: str
    triggers: list[str]
    paused: bool
    active: bool
    last_run: str | None
    last_status: str | None
    pushed_at: float
    next_fire: float | None


class Versions(BaseModel):
    versions: list[VersionLine]


class DefinitionText(BaseModel):
    """``yaml`` is the canonical form, ``source`` what was pushed, ``definition`` the model as it is stored."""

    workflow_id: str
    version: int
    yaml: str
    source: str
    source_name: str
    pushed_at: float
    pushed_by: str
    files: list[dict[str, Any]]
    definition: dict[str, Any]


class VersionDifference(BaseModel):
    workflow_id: str
    before: int
    after: int
    changed: bool
    changes: list[dict[str, Any]]
    text: str


class WhyNot(BaseModel):
    """``triggers``: each with ``trigger``, ``what``, ``verdict``, ``reason``, ``hint``, ``in_seconds`` and ``next_fires``."""

    workflow_id: str
    triggers: list[dict[str, Any]]
    remarks: list[str]
    incidents: list[dict[str, Any]]


class ExplainedSteps(BaseModel):
    """One entry for each step with ``write:``: its target, pattern, reason, refusals, costs and statements."""

    steps: list[dict[str, Any]]


class Explain(Body):
    model_config = ConfigDict(json_schema_extra={"examples": [{"params": {"DAY": 20260301}}]})

    params: dict[str, Any] = Field({}, description="Parameters of the run that is thought of.")


# -- looking -----------------------------------------------------------------------------------------------------------------


@router.get("", response_model=page_model("workflows", ListedWorkflow))
def list_workflows(
    request: Request,
    response: Response,
    project: Project,
    _actor: CurrentActor,
    limit: Limit = 100,
    after: After = None,
) -> dict[str, Any]:
    """By id."""
    found = [_listed(project, view) for view in project.workflows.listing(after, limit + 1)]
    return page_of(request, response, "workflows", found, limit, lambda workflow: workflow["id"])


@router.get("/{workflow_id}")
def get_workflow(workflow_id: WorkflowId, project: Project, response: Response, _actor: CurrentActor) -> ListedWorkflow:
    """One workflow as its latest version says."""
    return _answer(project, workflow_id, response)


@router.get("/{workflow_id}/versions", response_model=Versions)
def list_versions(workflow_id: WorkflowId, project: Project, _actor: CurrentActor) -> dict[str, Any]:
    """The newest first, 200 at most."""
    return {"versions": definition_versions.versions(project, workflow_id)}


@router.get("/{workflow_id}/definition", response_model=DefinitionText)
def get_definition(
    workflow_id: WorkflowId, project: Project, _actor: CurrentActor, version: Version = None
) -> dict[str, Any]:
    """What a version says."""
    record = project.workflows.version(workflow_id, version or project.workflows.latest(workflow_id).version)
    stored = json.loads(record.definition)
    return {
        **{name: getattr(record, name) for name in ("workflow_id", "version", "source", "source_name", "pushed_at", "pushed_by")},
        "yaml": to_yaml(WorkflowVersion.from_dict(stored).workflow, installed_types()),
        "files": stored["files"],
        "definition": stored["workflow"],
    }  # fmt: skip


@router.get("/{workflow_id}/diff", response_model=VersionDifference)
def diff_versions(
    workflow_id: WorkflowId,
    project: Project,
    _actor: CurrentActor,
    before: Annotated[int, Query(ge=1, le=2**31 - 1)],
    after: Annotated[int, Query(ge=1, le=2**31 - 1)],
) -> dict[str, Any]:
    """What differs between two versions."""
    found = definition_versions.compare(project, workflow_id, before, after)
    return {**found.to_dict(), "text": found.diff.text}


@router.get("/{workflow_id}/graph", response_class=Response, responses=TEXTS)
def get_graph(
    workflow_id: WorkflowId,
    project: Project,
    _actor: CurrentActor,
    format: GraphFormat = "svg",
    version: Version = None,
) -> Response:
    """Its steps and the way they follow each other, as a drawing."""
    record = project.workflows.version(workflow_id, version or project.workflows.latest(workflow_id).version)
    return drawing(WorkflowVersion.from_dict(json.loads(record.definition)).workflow, format)


@router.get("/{workflow_id}/why", response_model=WhyNot)
def why_not(workflow_id: WorkflowId, project: Project, _actor: CurrentActor) -> dict[str, Any]:
    """Why it has not started, and when or after what it will: the scheduler's own judgement, made now."""
    return project.triggers.why(workflow_id).to_dict()


@router.post("/{workflow_id}/explain", response_model=ExplainedSteps)
def explain_workflow(
    workflow_id: WorkflowId, explain: Explain, project: Project, _actor: CurrentActor
) -> dict[str, Any]:
    """How the next run would write its targets, why not more cheaply, and the SQL. Runs and writes nothing."""
    return {"steps": [step.to_dict() for step in project.explain(workflow_id, explain.params)]}


# -- acting ------------------------------------------------------------------------------------------------------------------


@router.post(
    "", status_code=201, responses={200: {"model": Pushed, "description": "It is what the latest version says."}}
)
def push_workflow(
    definition: Definition, project: Project, response: Response, actor: Operator, if_match: IfMatch = None
) -> Pushed:
    """Store a definition as the next version. An unchanged one makes no new version."""
    pushed = sent_definitions.push(
        project.config, project.workflows, definition.sent(), by=actor.name, seen=seen(if_match)
    )
    response.status_code = 201 if pushed.created else 200
    response.headers["Location"] = f"{API}/workflows/{pushed.workflow_id}"
    return pushed


@router.post("/{workflow_id}/pause")
def pause_workflow(
    workflow_id: WorkflowId, project: Project, response: Response, actor: Operator, if_match: IfMatch = None
) -> ListedWorkflow:
    """Its triggers start no more runs. Runs that exist go on, and people may start it."""
    project.workflows.set_paused(workflow_id, True, by=actor.name, seen=seen(if_match))
    return _answer(project, workflow_id, response)


@router.post("/{workflow_id}/resume")
def resume_workflow(
    workflow_id: WorkflowId, project: Project, response: Response, actor: Operator, if_match: IfMatch = None
) -> ListedWorkflow:
    """Its triggers go on; failures that held them back are forgiven."""
    project.workflows.set_paused(workflow_id, False, by=actor.name, seen=seen(if_match))
    return _answer(project, workflow_id, response)


@router.post("/{workflow_id}/activate")
def activate_workflow(
    workflow_id: WorkflowId, project: Project, response: Response, actor: Operator, if_match: IfMatch = None
) -> ListedWorkflow:
    """It may be started again; its triggers begin anew from now."""
    project.workflows.set_active(workflow_id, True, by=actor.name, seen=seen(if_match))
    return _answer(project, workflow_id, response)


@router.post("/{workflow_id}/deactivate")
def deactivate_workflow(
    workflow_id: WorkflowId, project: Project, response: Response, actor: Operator, if_match: IfMatch = None
) -> ListedWorkflow:
    """Nothing starts it, neither triggers nor people. Runs that exist go on."""
    project.workflows.set_active(workflow_id, False, by=actor.name, seen=seen(if_match))
    return _answer(project, workflow_id, response)


@router.post("/{workflow_id}/unblock")
def unblock_workflow(workflow_id: WorkflowId, project: Project, response: Response, actor: Operator) -> ListedWorkflow:
    """Let a STRICT_SEQUENTIAL workflow go on although its last run ended badly."""
    project.runs.unblock(workflow_id, by=actor.name)
    return _answer(project, workflow_id, response)


def _answer(project: Client, workflow_id: str, response: Response) -> ListedWorkflow:
    view = project.workflows.show(workflow_id)
    tag(response, view.state)
    return ListedWorkflow(**_listed(project, view))


def _listed(project: Client, view: WorkflowView) -> dict[str, Any]:
    by_time = bool({"cron", "interval"} & set(view.triggers))
    return {**view.to_dict(), "next_fire": project.triggers.next_fire(view.id) if by_time else None}
