"""Watermarks: say how far a table is complete, list what has been said."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field

from icefloe.server.access import CurrentActor, Operator
from icefloe.server.routes.bodies import Body
from icefloe.server.routes.connection import Project
from icefloe.store.signals import WatermarkRecord

router = APIRouter(prefix="/watermarks", tags=["watermarks"])


class NewWatermark(Body):
    model_config = ConfigDict(
        json_schema_extra={"examples": [{"table": "db.events", "valid_through": "2026-03-01T06:00:00Z"}]}
    )

    table: str
    valid_through: str | int = Field(description="A moment as `icefloe watermark` takes it, or milliseconds.")
    back: bool = Field(False, description="Let it go back as well.")


class SetWatermark(BaseModel):
    watermark: WatermarkRecord
    moved: bool = Field(description="False: it was as far already.")


class Watermarks(BaseModel):
    watermarks: list[WatermarkRecord]


@router.post("")
def set_watermark(watermark: NewWatermark, project: Project, actor: Operator) -> SetWatermark:
    """Say how far a table is complete. ``watermark`` in the answer is what holds."""
    held, moved = project.triggers.set_watermark(
        watermark.table, watermark.valid_through, back=watermark.back, by=actor.name
    )
    return SetWatermark(watermark=held, moved=moved)


@router.get("", response_model=Watermarks)
def list_watermarks(project: Project, _actor: CurrentActor, table: str | None = None) -> dict[str, Any]:
    """All of them, or one table's."""
    return {"watermarks": project.triggers.watermarks(table)}
