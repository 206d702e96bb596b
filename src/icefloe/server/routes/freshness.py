"""Freshness of each target against its goal."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from icefloe.server.access import CurrentActor
from icefloe.server.routes.connection import Project
from icefloe.service.freshness import freshness

router = APIRouter(prefix="/freshness", tags=["tables"])


@router.get("")
def list_freshness(project: Project, _actor: CurrentActor) -> dict[str, list[dict[str, Any]]]:
    """Those that are late first."""
    return {"tables": [one.to_dict() for one in freshness(project)]}
