"""Workers and schedulers: who is alive."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from pydantic import BaseModel

from icefloe.server.access import CurrentActor
from icefloe.server.routes.connection import Project

router = APIRouter(prefix="/workers", tags=["workers"])


class Worker(BaseModel):
    """``serves``: ``*``, or the runs it works for."""

    id: str
    host: str
    pid: int
    status: str
    slots: int
    serves: str
    program: str
    started_at: float
    seen_at: float


class Scheduler(BaseModel):
    id: str
    host: str
    pid: int
    started_at: float
    seen_at: float
    trouble: str | None


class Workers(BaseModel):
    workers: list[Worker]
    schedulers: list[Scheduler]


@router.get("", response_model=Workers)
def list_workers(project: Project, _actor: CurrentActor) -> dict[str, Any]:
    """The workers that have not been found gone, and the schedulers."""

    def fields(record: Any, model: type[BaseModel]) -> dict[str, Any]:
        return {name: getattr(record, name) for name in model.model_fields}

    return {
        "workers": [fields(worker, Worker) for worker in project.workers()],
        "schedulers": [fields(scheduler, Scheduler) for scheduler in project.triggers.schedulers()],
    }
