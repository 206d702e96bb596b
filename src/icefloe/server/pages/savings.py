"""Savings: what was read, against what the lookback or full run that it stands in for would have read."""

from __future__ import annotations

import time
from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import HTMLResponse

from icefloe.server.access import CurrentActor
from icefloe.server.charts.paired_days import DayPair, paired_days
from icefloe.server.rendering import page, size
from icefloe.server.routes.connection import Project
from icefloe.service.savings import savings, savings_by_day

router = APIRouter(prefix="/savings")
SPANS = (("7", "the last 7 days"), ("30", "the last 30 days"), ("90", "the last 90 days"), ("0", "all there ever were"))
MOST = 300
"""Lines, and workflows to choose from."""


@router.get("")
def show(
    request: Request,
    project: Project,
    _actor: CurrentActor,
    workflow: Annotated[str, Query(max_length=1000)] = "",
    days: Annotated[int, Query(ge=0, le=3650)] = 30,
) -> HTMLResponse:
    since = time.time() - days * 86_400 if days else None
    found = savings(project.database, workflow_id=workflow or None, since=since)
    series = savings_by_day(project.database, workflow_id=workflow or None, days=days or 120)
    chart = paired_days(
        [DayPair(one.day, one.read.bytes, one.instead.bytes) for one in series],
        inner="was read",
        outer="would have been read",
        label="Bytes read by day, and what would have been read instead",
        amount=size,
    )
    ordered = sorted(found.lines, key=lambda line: line.read.bytes - line.instead.bytes)
    return page(
        request,
        "savings.html",
        savings=found,
        lines=ordered[:MOST],
        more=len(ordered) - MOST,
        series=series,
        chart=chart,
        workflow=workflow,
        days=days,
        spans=SPANS,
    )
