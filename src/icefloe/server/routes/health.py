"""Whether the server and the state database behind it are there. Needs no token, and tells nothing else."""

from __future__ import annotations

from fastapi import APIRouter

from icefloe.server.routes.connection import Project

router = APIRouter(tags=["health"])


@router.get("/health")
def health(project: Project) -> dict[str, str]:
    """503 with an error document when the state database does not answer."""
    project.workers()
    return {"status": "ok"}
