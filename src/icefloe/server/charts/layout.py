"""Where the boxes of a graph stand: in columns from left to right, so that arrows go right and cross little.

``layered`` is what drawings call. Behind it is fast-sugiyama, which is compiled; where it cannot be loaded, the program's own
layout in ``workflow/drawing`` does it, slower and with more crossings. What one version of a definition looks like never
changes, so layouts are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import TypeAlias

from icefloe.workflow.drawing.figure import Arrow, Box, Figure
from icefloe.workflow.drawing.layout import place

Point: TypeAlias = tuple[float, float]
"""Column, and place in it: both count boxes."""
Edges: TypeAlias = tuple[tuple[str, str], ...]
ALONE_IN_A_ROW = 6


@dataclass(frozen=True, slots=True)
class Placement:
    """``ways`` has, by arrow, the points it passes between its ends. ``columns`` and ``rows`` are the whole's size."""

    points: dict[str, Point]
    ways: dict[tuple[str, str], tuple[Point, ...]]
    columns: int
    rows: float


Layout: TypeAlias = Callable[[tuple[str, ...], Edges], Placement]
"""Places steps that all have an arrow. ``edges`` are without circles and doubles."""


def layered(steps: Iterable[str], edges: Iterable[tuple[str, str]]) -> Placement:
    known = tuple(dict.fromkeys(steps))
    members = set(known)
    drawn = tuple(dict.fromkeys((a, b) for a, b in edges if a in members and b in members and a != b))
    return _kept(known, drawn)


@lru_cache(maxsize=64)
def _kept(steps: tuple[str, ...], edges: Edges) -> Placement:
    linked = {end for edge in edges for end in edge}
    with_arrows = tuple(step for step in steps if step in linked)
    alone = [step for step in steps if step not in linked]
    try:
        placed = by_sugiyama(with_arrows, edges)
    except ImportError:
        placed = by_own_layout(with_arrows, edges)
    points, rows, columns = dict(placed.points), placed.rows, placed.columns
    for number, step in enumerate(alone):
        points[step] = (number % ALONE_IN_A_ROW, rows + number // ALONE_IN_A_ROW)
    if alone:
        rows += (len(alone) - 1) // ALONE_IN_A_ROW + 1
        columns = max(columns, min(len(alone), ALONE_IN_A_ROW))
    return Placement(points, placed.ways, columns, rows)


def by_sugiyama(steps: tuple[str, ...], edges: Edges) -> Placement:
    if not edges:
        return Placement({}, {}, 0, 0.0)
    from fast_sugiyama import from_edges

    number = {step: at for at, step in enumerate(steps)}
    parts = from_edges(
        [(number[a], number[b]) for a, b in edges], minimum_length=1, vertex_spacing=1, dummy_vertices=True
    )
    points: dict[str, Point] = {}
    ways: dict[tuple[str, str], tuple[Point, ...]] = {}
    rows, columns = 0.0, 0
    for positions, _, _, pieces in sorted(parts, key=lambda part: min(int(node) for node, _ in part[0])):
        top = max(y for _, (_, y) in positions)
        left = min(x for _, (x, _) in positions)
        at: dict[int, Point] = {int(node): (float(round(top - y)), rows + x - left) for node, (x, y) in positions}
        points |= {steps[node]: point for node, point in at.items() if node < len(steps)}
        ways |= _ways(steps, at, [(int(a), int(b)) for a, b in pieces or ()])
        columns = max(columns, 1 + max(int(column) for column, _ in at.values()))
        rows += max(x for _, (x, _) in positions) - left + 1
    return Placement(points, ways, columns, rows)


def _ways(
    steps: tuple[str, ...], at: dict[int, Point], pieces: list[tuple[int, int]]
) -> dict[tuple[str, str], tuple[Point, ...]]:
    """Follow each arrow over the waypoints that the layout has put in."""
    after = {a: b for a, b in pieces if a >= len(steps)}
    found = {}
    for source, target in pieces:
        if source >= len(steps):
            continue
        passed = []
        while target >= len(steps):
            passed.append(at[target])
            target = after[target]
        found[steps[source], steps[target]] = tuple(passed)
    return found


def by_own_layout(steps: tuple[str, ...], edges: Edges) -> Placement:
    if not edges:
        return Placement({}, {}, 0, 0.0)
    column = _columns(steps, edges)
    rows: list[list[str]] = [[] for _ in range(max(column.values()) + 1)]
    for step in steps:
        rows[column[step]].append(step)
    boxes = {step: Box(step, step, "", "") for step in steps}
    figure = Figure(boxes, tuple(Arrow(a, b) for a, b in edges), tuple(tuple(row) for row in rows))
    placed = place(figure, dict.fromkeys(steps, 0.8), 0.2, 0.3)
    at = {key: (float(number), placed.spots[key].x) for number, row in enumerate(placed.rows) for key in row}
    top = min(y for _, y in at.values())
    at = {key: (x, y - top) for key, (x, y) in at.items()}
    ways = {(arrow.source, arrow.target): tuple(at[key] for key in way[1:-1]) for arrow, way in placed.ways}
    return Placement({step: at[step] for step in steps}, ways, len(rows), max(y for _, y in at.values()) + 1)


def _columns(steps: tuple[str, ...], edges: Edges) -> dict[str, int]:
    """Each step right of all that come before it."""
    before: dict[str, int] = dict.fromkeys(steps, 0)
    after: dict[str, list[str]] = {step: [] for step in steps}
    for source, target in edges:
        before[target] += 1
        after[source].append(target)
    column = dict.fromkeys(steps, 0)
    ready = [step for step in steps if not before[step]]
    while ready:
        step = ready.pop()
        for target in after[step]:
            column[target] = max(column[target], column[step] + 1)
            before[target] -= 1
            if not before[target]:
                ready.append(target)
    return column


def crossings(placement: Placement) -> int:
    """Pairs of arrows that cross between neighbouring columns: what a layout is judged by."""
    pieces: dict[int, list[tuple[float, float]]] = {}
    for (source, target), passed in placement.ways.items():
        way = (placement.points[source], *passed, placement.points[target])
        for (column, above), (_, below) in pairwise(way):
            pieces.setdefault(int(column), []).append((above, below))
    return sum(
        (a[0] - b[0]) * (a[1] - b[1]) < 0
        for each in pieces.values()
        for number, a in enumerate(each)
        for b in each[:number]
    )
