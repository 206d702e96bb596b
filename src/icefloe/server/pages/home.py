"""Home: what is broken, late, or waits for somebody?"""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import HTMLResponse, Response

from icefloe.server.access import CurrentActor
from icefloe.server.rendering import page
from icefloe.server.routes.connection import Project

router = APIRouter()


@router.get("/")
def home(request: Request, project: Project, _actor: CurrentActor) -> HTMLResponse:
    return page(request, "home.html", runs=project.runs.listing(most=20))


@router.get("/favicon.ico")
def favicon() -> Response:
    return Response(status_code=204)
