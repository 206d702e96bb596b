"""Lineage: which tables feed which workflows, and which workflows fill which tables."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query

from icefloe.server.access import CurrentActor
from icefloe.server.routes.connection import Project
from icefloe.service import lineage as service

router = APIRouter(prefix="/lineage", tags=["lineage"])


@router.get("")
def get_lineage(
    project: Project,
    _actor: CurrentActor,
    table: Annotated[str | None, Query(max_length=1000)] = None,
    depth: Annotated[int, Query(ge=1, le=5)] = 1,
) -> dict[str, Any]:
    """One table's neighbourhood, ``depth`` workflows far; without a table all there is, when it is small."""
    return service.lineage(project, table=table, depth=depth).to_dict()
