"""The graph of a workflow's steps, with how each is in one run. The step that matters now is marked for the page to scroll to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from markupsafe import Markup

from icefloe.server.charts import marks
from icefloe.server.charts.layout import Placement, Point, layered

COLUMN, ROW = 236.0, 58.0
WIDTH, HEIGHT = 186.0, 42.0
MARGIN = 10.0
MOST = 1000
"""Boxes that are drawn; a graph with more is shown by its tables alone."""


@dataclass(frozen=True, slots=True)
class GraphStep:
    """``detail`` is the second line of its box. ``target``: where a click leads."""

    id: str
    detail: str
    status: str | None = None
    target: str = ""


@dataclass(frozen=True, slots=True)
class GraphArrow:
    source: str
    target: str
    condition: str | None = None


def draw(steps: Sequence[GraphStep], arrows: Sequence[GraphArrow], label: str, focus: str | None = None) -> Markup:
    """``focus``: the step to show first."""
    if not steps or len(steps) > MOST:
        return Markup("")
    placement = layered([step.id for step in steps], [(arrow.source, arrow.target) for arrow in arrows])
    conditions: dict[tuple[str, str], list[str]] = {}
    for arrow in arrows:
        if arrow.condition:
            conditions.setdefault((arrow.source, arrow.target), []).append(arrow.condition)
    lines = [_arrow(placement, ends, conditions.get(ends, [])) for ends in placement.ways]
    boxes = [_box(step, placement.points[step.id], step.id == focus) for step in steps]
    width = 2 * MARGIN + (placement.columns - 1) * COLUMN + WIDTH
    height = 2 * MARGIN + max(placement.rows - 1, 0) * ROW + HEIGHT
    return marks.drawing(width, height, label, _HEAD + marks.joined(lines) + marks.joined(boxes), "graph")


_HEAD = Markup(
    '<defs><marker id="arrow-head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
    '<path d="M0 0L8 4L0 8z" class="arrow-head"/></marker></defs>'
)


def _box(step: GraphStep, point: Point, in_focus: bool) -> Markup:
    x, y = _place(point)
    tone = marks.tone(step.status)
    state = f"{marks.sign(step.status)} " if step.status else ""
    told = f"{step.id}: {marks.words(step.status)}" if step.status else step.id
    inside = marks.joined(
        (
            marks.title(f"{told} · {step.detail}" if step.detail else told),
            marks.rect(x, y, WIDTH, HEIGHT, f"{tone}-box" if step.status else "box"),
            marks.text(x + 9, y + 17, step.id, "strong", limit=25),
            marks.text(x + 9, y + 33, f"{state}{step.detail}", "faint small", limit=30),
        )
    )
    marked = Markup(' data-focus="1"') if in_focus else Markup("")
    group = Markup("<g{}>{}</g>").format(marked, inside)
    return marks.link(step.target, group, told) if step.target else group


def _arrow(placement: Placement, ends: tuple[str, str], conditions: list[str]) -> Markup:
    """A curve that leaves a box on its right and enters the next one on its left."""
    (x1, y1), (x2, y2) = _place(placement.points[ends[0]]), _place(placement.points[ends[1]])
    passed = [_place(point) for point in placement.ways[ends]]
    way = [(x1 + WIDTH, y1 + HEIGHT / 2)]
    for x, y in passed:
        way += [(x, y + HEIGHT / 2), (x + WIDTH, y + HEIGHT / 2)]
    way.append((x2 - 1, y2 + HEIGHT / 2))
    path = f"M{way[0][0]:.1f} {way[0][1]:.1f}"
    for number, ((ax, ay), (bx, by)) in enumerate(pairwise(way)):
        if number % 2:
            path += f"L{bx:.1f} {by:.1f}"
        else:
            middle = (ax + bx) / 2
            path += f"C{middle:.1f} {ay:.1f} {middle:.1f} {by:.1f} {bx:.1f} {by:.1f}"
    if not conditions:
        return Markup('<path d="{}" class="edge" marker-end="url(#arrow-head)"/>').format(path)
    told = " or ".join(conditions)
    return Markup('<path d="{}" class="edge conditional" marker-end="url(#arrow-head)">{}</path>').format(
        path, marks.title(f"if {told}")
    )


def _place(point: Point) -> Point:
    return MARGIN + point[0] * COLUMN, MARGIN + point[1] * ROW
