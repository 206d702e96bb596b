"""Incidents: what is or was wrong with workflows."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from icefloe.server.access import CurrentActor
from icefloe.server.routes.connection import Project
from icefloe.server.routes.listings import After, Limit, number_after, page_model, page_of
from icefloe.store.incidents import IncidentRecord

router = APIRouter(prefix="/incidents", tags=["incidents"])


@router.get("", response_model=page_model("incidents", IncidentRecord))
def list_incidents(
    request: Request,
    response: Response,
    project: Project,
    _actor: CurrentActor,
    workflow: str | None = None,
    open: Annotated[bool, Query(description="Only those that go on.")] = False,
    limit: Limit = 20,
    after: After = None,
) -> dict[str, Any]:
    """Newest first. ``closed_at`` null: it goes on."""
    found = project.triggers.incidents(workflow, limit + 1, number_after(after), open)
    return page_of(request, response, "incidents", found, limit, lambda incident: incident.seq)
