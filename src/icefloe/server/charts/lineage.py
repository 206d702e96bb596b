"""Tables and workflows, each box right of what feeds it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from markupsafe import Markup

from icefloe.server.charts import marks
from icefloe.server.charts.layout import Placement, Point, layered

_COLUMN, _ROW, _WIDTH, _HEIGHT, _MARGIN = 250.0, 62.0, 196.0, 46.0, 10.0
MOST = 300


@dataclass(frozen=True, slots=True)
class LineageBox:
    """``tone``: good, bad, warn, busy or still, which ``detail`` says in words. Workflows are round, tables are not."""

    id: str
    name: str
    detail: str
    link: str
    tone: str
    is_table: bool
    chosen: bool = False


def lineage_graph(boxes: Sequence[LineageBox], edges: Sequence[tuple[str, str]], *, label: str) -> Markup:
    if not boxes or len(boxes) > MOST:
        return marks.drawing(
            320, 30, label, marks.text(0, 18, "nothing to draw" if not boxes else "too much to draw", "faint")
        )
    placement = layered([box.id for box in boxes], acyclic([box.id for box in boxes], edges))
    lines = [_line(placement, ends, back=False) for ends in placement.ways]
    # What closes a circle has no place in the order: it is drawn straight, and dotted.
    lines += [
        _line(placement, (source, target), back=True)
        for source, target in dict.fromkeys(edges)
        if (source, target) not in placement.ways and source != target and {source, target} <= set(placement.points)
    ]
    content = marks.joined([_HEAD, *lines, *(_box(box, placement.points[box.id]) for box in boxes)])
    width = 2 * _MARGIN + max(placement.columns - 1, 0) * _COLUMN + _WIDTH
    height = 2 * _MARGIN + max(placement.rows - 1, 0) * _ROW + _HEIGHT
    return marks.drawing(width, height, label, content)


def acyclic(nodes: Sequence[str], edges: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """The edges without those that close a circle: a table may be read by the workflow that writes it."""
    after: dict[str, list[str]] = {node: [] for node in nodes}
    for source, target in dict.fromkeys(edges):
        if source in after and target in after and source != target:
            after[source].append(target)
    kept: list[tuple[str, str]] = []
    state: dict[str, int] = {}
    for start in nodes:
        if start in state:
            continue
        state[start] = 1
        stack = [(start, iter(after[start]))]
        while stack:
            node, rest = stack[-1]
            following = next(rest, None)
            if following is None:
                state[node] = 2
                stack.pop()
            elif state.get(following) != 1:
                kept.append((node, following))
                if following not in state:
                    state[following] = 1
                    stack.append((following, iter(after[following])))
    return kept


_HEAD = Markup(
    '<defs><marker id="lineage-head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
    '<path d="M0 0L8 4L0 8z" class="arrow-head"/></marker></defs>'
)


def _box(box: LineageBox, point: Point) -> Markup:
    x, y = _place(point)
    told = f"{'table' if box.is_table else 'workflow'} {box.name}: {box.detail}"
    shape = Markup('<rect x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}" rx="{}" class="{}">{}</rect>').format(
        x,
        y,
        _WIDTH,
        _HEIGHT,
        3 if box.is_table else 20,
        f"{box.tone}-box{' chosen' if box.chosen else ''}",
        marks.title(told),
    )
    sign = "▤" if box.is_table else "⚙"
    inside = marks.joined(
        (
            shape,
            marks.text(x + 14, y + 19, f"{sign} {_ending(box.name, 21)}", "strong"),
            marks.text(x + 14, y + 36, box.detail, "faint small", limit=30),
        )
    )
    linked = marks.link(box.link, inside, told)
    return Markup('<g data-focus="">{}</g>').format(linked) if box.chosen else linked


def _ending(name: str, most: int) -> str:
    """A table's name tells more at its end."""
    return name if len(name) <= most else "…" + name[-(most - 1) :]


def _line(placement: Placement, ends: tuple[str, str], *, back: bool) -> Markup:
    source, target = (_place(placement.points[one]) for one in ends)
    if back:
        path = f"M{source[0] + _WIDTH / 2:.1f} {source[1] + _HEIGHT:.1f}L{target[0] + _WIDTH / 2:.1f} {target[1] + _HEIGHT:.1f}"
        return Markup('<path d="{}" class="edge conditional" marker-end="url(#lineage-head)"/>').format(path)
    way = [(source[0] + _WIDTH, source[1] + _HEIGHT / 2)]
    for x, y in (_place(point) for point in placement.ways[ends]):
        way += [(x, y + _HEIGHT / 2), (x + _WIDTH, y + _HEIGHT / 2)]
    way.append((target[0] - 1, target[1] + _HEIGHT / 2))
    path = f"M{way[0][0]:.1f} {way[0][1]:.1f}"
    for number, ((ax, ay), (bx, by)) in enumerate(pairwise(way)):
        middle = (ax + bx) / 2
        path += (
            f"L{bx:.1f} {by:.1f}" if number % 2 else f"C{middle:.1f} {ay:.1f} {middle:.1f} {by:.1f} {bx:.1f} {by:.1f}"
        )
    return Markup('<path d="{}" class="edge" marker-end="url(#lineage-head)"/>').format(path)


def _place(point: Point) -> Point:
    return _MARGIN + point[0] * _COLUMN, _MARGIN + point[1] * _ROW
