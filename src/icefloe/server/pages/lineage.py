"""Lineage: what feeds a table and what follows from it, with how fresh each is."""

from __future__ import annotations

import time
from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import HTMLResponse

from icefloe.server.access import CurrentActor
from icefloe.server.charts.lineage import LineageBox, lineage_graph
from icefloe.server.rendering import address, duration, page, workflow_address
from icefloe.server.routes.connection import Project
from icefloe.service import lineage as service
from icefloe.service.lineage import LineageNode

router = APIRouter(prefix="/lineage")


@router.get("")
def lineage(
    request: Request,
    project: Project,
    _actor: CurrentActor,
    table: Annotated[str, Query(max_length=1000)] = "",
    depth: Annotated[int, Query(ge=1, le=service.DEEPEST)] = 1,
) -> HTMLResponse:
    found = service.lineage(project, table=table.strip() or None, depth=depth)
    around = f"table:{found.around}" if found.around else None
    boxes = [_box(node, depth, node.id == around) for node in found.nodes]
    edges = [(edge.source, edge.target) for edge in found.edges]
    label = f"What feeds {found.around} and follows from it" if found.around else "All tables and workflows"
    return page(
        request,
        "lineage.html",
        lineage=found,
        names={node.id: node for node in found.nodes},
        detail=detail,
        graph=lineage_graph(boxes, edges, label=label) if boxes else None,
        label=label,
        table=table,
        depth=depth,
        deepest=service.DEEPEST,
    )


def _box(node: LineageNode, depth: int, chosen: bool) -> LineageBox:
    link = address("/lineage", table=node.name, depth=depth) if node.kind == "table" else workflow_address(node.name)
    return LineageBox(node.id, node.name, detail(node), link, _tone(node), node.kind == "table", chosen)


def _tone(node: LineageNode) -> str:
    if node.table is None:
        return "busy"
    if node.table.problem and not node.table.missing:
        return "bad"
    if node.table.goal is not None and node.table.goal.state != "unknown":
        return "good" if node.table.goal.state == "fresh" else "warn"
    return "still"


def detail(node: LineageNode) -> str:
    """A node in a few words: how fresh a table is."""
    more = " · more beyond" if node.more else ""
    if node.table is None:
        return ("paused" if node.paused else "workflow") + more
    goal = node.table.goal
    state = goal.state if goal is not None and goal.state != "unknown" else ""
    if node.table.problem:
        age = "not there" if node.table.missing else "cannot be read"
    elif node.table.newest_at is None:
        age = "no data yet"
    else:
        age = f"{duration(max(time.time() - node.table.newest_at, 0))} old"
    return ", ".join(part for part in (state, age) if part) + more
