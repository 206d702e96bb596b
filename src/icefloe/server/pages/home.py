"""Home: what is broken, late, or waits for somebody?"""

from __future__ import annotations

import time

from fastapi import APIRouter, Request
from starlette.responses import HTMLResponse, Response

from icefloe.server.access import CurrentActor
from icefloe.server.rendering import page
from icefloe.server.routes.connection import Project
from icefloe.service.attention import attention

router = APIRouter()
MOST_MATTERS = 50
MOST_RUNS = 20


@router.get("/")
def home(request: Request, project: Project, _actor: CurrentActor) -> HTMLResponse:
    overviews = project.overviews.all(outcomes=5)
    matters = attention(project, overviews)
    lags = project.lags.latest()
    return page(
        request,
        "home.html",
        matters=matters[:MOST_MATTERS],
        more_matters=max(0, len(matters) - MOST_MATTERS),
        workflows=len(overviews),
        active=project.history.active(MOST_RUNS),
        latest=project.history.listing(most=8).runs,
        lags=lags,
        saved=project.saved.latest(),
        now_at=time.time(),
    )


@router.get("/favicon.ico")
def favicon() -> Response:
    return Response(status_code=204)
