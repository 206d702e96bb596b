"""Which tables feed which workflows, and which workflows fill which tables: by definitions, and by what was read and published in fact."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from icefloe.errors import NotFoundError, UsageError
from icefloe.service.client import Client
from icefloe.service.definition_tables import KnownTables
from icefloe.service.tables import TableSummary, canonical_name, summaries

MOST_NODES = 200
"""That are drawn at once."""
DEEPEST = 5
Kind = Literal["table", "workflow"]


@dataclass(frozen=True, slots=True)
class LineageNode:
    """``id`` is ``table:NAME`` or ``workflow:ID``. ``table`` has a table's age and completeness; ``distance``: steps from the one that was
    asked for. ``more``: it has neighbours that are not shown."""

    id: str
    kind: Kind
    name: str
    distance: int = 0
    more: bool = False
    table: TableSummary | None = None
    paused: bool = False


@dataclass(frozen=True, slots=True)
class LineageEdge:
    """``source`` feeds ``target``; one of the two is a workflow. ``by``: ``definition``, or ``record`` when only what has happened tells."""

    source: str
    target: str
    by: str


@dataclass(frozen=True, slots=True)
class Lineage:
    """``around`` None: all there is. ``cut``: why there is more."""

    around: str | None
    nodes: tuple[LineageNode, ...]
    edges: tuple[LineageEdge, ...]
    cut: str | None = None

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def lineage(client: Client, *, table: str | None = None, depth: int = 1) -> Lineage:
    """One table's neighbourhood, ``depth`` workflows far; without a table the whole graph, when it is small enough to look at."""
    if not 1 <= depth <= DEEPEST:
        raise UsageError(f"a depth of {depth} is not shown", hint=f"choose from 1 to {DEEPEST}")
    known = client.definition_tables.known()
    edges = edges_of(known)
    if table is None:
        chosen, cut = _whole(edges), None
        if len(chosen) > MOST_NODES:
            chosen, cut = {}, f"there are {len(chosen)} tables and workflows: name a table to see what is around it"
    else:
        start = f"table:{canonical_name(client, table)}"
        if not any(start in (edge.source, edge.target) for edge in edges) and start[6:] not in known.tables:
            raise NotFoundError(
                f"nothing reads or writes a table {table!r}", hint="GET /tables lists those that are known"
            )
        chosen, cut = around(start, edges, 2 * depth)
    nodes = _nodes(client, known, chosen, edges)
    shown = tuple(edge for edge in edges if edge.source in chosen and edge.target in chosen)
    return Lineage(None if table is None else canonical_name(client, table), nodes, shown, cut)


def edges_of(known: KnownTables) -> list[LineageEdge]:
    """All edges, by definition first."""
    found: dict[tuple[str, str], str] = {}
    for name, one in known.workflows.items():
        found |= {(f"table:{table}", f"workflow:{name}"): "definition" for table in sorted(one.reads)}
        found |= {(f"workflow:{name}", f"table:{table}"): "definition" for table in sorted(one.writes)}
    for consumer, source in known.checkpoints:
        found.setdefault((f"table:{source}", f"workflow:{known.consumers[consumer]}"), "record")
    for consumer, target in known.published_by:
        found.setdefault((f"workflow:{known.consumers[consumer]}", f"table:{target}"), "record")
    return [LineageEdge(source, target, by) for (source, target), by in found.items()]


def around(start: str, edges: Collection[LineageEdge], steps: int) -> tuple[dict[str, int], str | None]:
    """What leads to a node and what follows from it, each so many steps far: siblings, which share only a source, are not in it. Nearest
    first, and cut there."""
    before: dict[str, list[str]] = {}
    after: dict[str, list[str]] = {}
    for edge in edges:
        before.setdefault(edge.target, []).append(edge.source)
        after.setdefault(edge.source, []).append(edge.target)
    chosen = {start: 0}
    queue = deque([(start, 0, before), (start, 0, after)])
    while queue:
        node, distance, way = queue.popleft()
        if distance == steps:
            continue
        for neighbour in way.get(node, ()):
            if neighbour in chosen:
                continue
            if len(chosen) >= MOST_NODES:
                return chosen, f"the nearest {MOST_NODES} are shown"
            chosen[neighbour] = distance + 1
            queue.append((neighbour, distance + 1, way))
    return chosen, None


def _whole(edges: Collection[LineageEdge]) -> dict[str, int]:
    return dict.fromkeys((end for edge in edges for end in (edge.source, edge.target)), 0)


def _nodes(
    client: Client, known: KnownTables, chosen: Mapping[str, int], edges: Collection[LineageEdge]
) -> tuple[LineageNode, ...]:
    names = [node.removeprefix("table:") for node in chosen if node.startswith("table:")]
    tables = {one.table: one for one in summaries(client, known, names)}
    hidden = {
        inner
        for edge in edges
        for inner, outer in ((edge.source, edge.target), (edge.target, edge.source))
        if inner in chosen and outer not in chosen
    }
    found = []
    for node, distance in chosen.items():
        kind, _, name = node.partition(":")
        if kind == "table":
            found.append(LineageNode(node, "table", name, distance, node in hidden, tables[name]))
        else:
            record = known.records.get(name)
            paused = record is not None and (record.paused or not record.active)
            found.append(replace(LineageNode(node, "workflow", name, distance, node in hidden), paused=paused))
    return tuple(found)
