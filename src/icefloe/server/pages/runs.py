"""Runs, and one run."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import HTMLResponse

from icefloe.server.access import CurrentActor
from icefloe.server.rendering import page
from icefloe.server.routes.connection import Project

router = APIRouter(prefix="/runs")


@router.get("")
def runs(
    request: Request, project: Project, _actor: CurrentActor, workflow: str | None = None, status: str | None = None
) -> HTMLResponse:
    listed = project.runs.listing(workflow_id=workflow or None, status=status or None, most=50)
    return page(request, "runs.html", runs=listed, workflow=workflow, status=status)


@router.get("/{run_id:path}")
def run(request: Request, project: Project, _actor: CurrentActor, run_id: str) -> HTMLResponse:
    return page(request, "run.html", run=project.runs.show(run_id))
