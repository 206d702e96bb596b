"""Watermarks: say how far a table is complete, list what has been said."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, StrictBool, StrictInt, StrictStr

from icefloe.server.access import Operator
from icefloe.server.routes.connection import Project

router = APIRouter(prefix="/watermarks", tags=["watermarks"])


class NewWatermark(BaseModel):
    """``valid_through``: a moment as ``icefloe watermark`` takes it, or milliseconds. ``back``: let it go back as well."""

    model_config = ConfigDict(extra="forbid")

    table: StrictStr
    valid_through: StrictStr | StrictInt
    back: StrictBool = False


@router.post("")
def put(watermark: NewWatermark, project: Project, actor: Operator) -> dict[str, Any]:
    """``moved`` is false when it was as far already; ``watermark`` is what holds."""
    held, moved = project.triggers.set_watermark(
        watermark.table, watermark.valid_through, back=watermark.back, by=actor.name
    )
    return {"watermark": asdict(held), "moved": moved}


@router.get("")
def listing(project: Project, table: str | None = None) -> dict[str, list[dict[str, Any]]]:
    return {"watermarks": [asdict(one) for one in project.triggers.watermarks(table)]}
