"""Whether the server and the state database behind it are there. Needs no token, and tells nothing else."""

from __future__ import annotations

from fastapi import APIRouter
from pydantic import BaseModel

from icefloe.server.routes.connection import Project

router = APIRouter(tags=["health"])


class Health(BaseModel):
    status: str = "ok"


@router.get("/health")
def get_health(project: Project) -> Health:
    """503 with an error document when the state database does not answer."""
    project.workers()
    return Health()
