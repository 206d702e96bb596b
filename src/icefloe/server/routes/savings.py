"""Savings: what planned writes have read, against what the lookback or recomputation they replace would have."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import BaseModel

from icefloe.server.access import CurrentActor
from icefloe.server.routes.bodies import Moment
from icefloe.server.routes.connection import Project

router = APIRouter(prefix="/savings", tags=["savings"])


class SavingsReport(BaseModel):
    """``lines``: one for each step and target; ``left_out_until``: older batches are on record as one sum, and not counted with
    ``since``."""

    lines: list[dict[str, Any]]
    total: dict[str, Any]
    left_out_until: float | None


@router.get("", response_model=SavingsReport)
def get_savings(
    project: Project,
    _actor: CurrentActor,
    workflow: Annotated[str | None, Query(description="Only this workflow's.")] = None,
    since: Moment = None,
) -> dict[str, Any]:
    """What was read, and what would have been."""
    return project.savings(workflow, since=since).to_dict()
