"""The audit record: who did what by hand, when, and why."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, Field

from icefloe.server.access import CurrentActor
from icefloe.server.routes.connection import Project
from icefloe.server.routes.listings import After, Limit, number_after, page_model, page_of

router = APIRouter(prefix="/audit", tags=["audit"])


class AuditEntry(BaseModel):
    at: float
    who: str
    verb: str
    subject: str = Field(description="The run, workflow, consumer or token.")
    details: dict[str, Any]
    seq: int


@router.get("", response_model=page_model("entries", AuditEntry))
def list_audit(
    request: Request,
    response: Response,
    project: Project,
    _actor: CurrentActor,
    subject: Annotated[str | None, Query(description="Only what was done to this run, workflow or consumer.")] = None,
    limit: Limit = 50,
    after: After = None,
) -> dict[str, Any]:
    """Newest first."""
    found = [asdict(entry) for entry in project.audit(subject, limit + 1, number_after(after))]
    return page_of(request, response, "entries", found, limit, lambda entry: entry["seq"])
