"""One capture: what was found, what ran on it, what it published, and what it waits for."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import HTMLResponse

from icefloe.server.access import CurrentActor
from icefloe.server.rendering import page
from icefloe.server.routes.connection import Project
from icefloe.service import capture_details

router = APIRouter(prefix="/captures")


@router.get("/{capture_id:path}")
def capture(request: Request, project: Project, _actor: CurrentActor, capture_id: str) -> HTMLResponse:
    return page(request, "capture.html", details=capture_details.show(project, capture_id))
