"""The graph as SVG: no script, no outside reference, readable on light and dark pages."""

from __future__ import annotations

from dataclasses import dataclass
from xml.sax.saxutils import escape

from icefloe.workflow.drawing.figure import Arrow, Box, Figure, cells, figure, printable, shortened
from icefloe.workflow.drawing.layout import Placed, place
from icefloe.workflow.model import Workflow

ROW_GAP, COLUMN_GAP, MARGIN, LABEL_ROW = 46.0, 34.0, 24.0, 22.0
BOX_HEIGHT, PLAIN_HEIGHT, HEAD = 48.0, 34.0, 44.0
PER_CELL, PER_SMALL_CELL = 7.7, 6.4
TITLE_CELLS, SUBTITLE_CELLS, LABEL_CELLS = 40, 46, 42

_STYLE = """
.f{font-family:ui-sans-serif,system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}
.page{fill:#ffffff}.box{fill:#ffffff;stroke:#cbd5e1;stroke-width:1.2}.group{fill:#f8fafc;stroke:#94a3b8;stroke-dasharray:5 4}
.t{font-size:13px;font-weight:600;fill:#0f172a}.s{font-size:11px;fill:#64748b}
.e{fill:none;stroke:#94a3b8;stroke-width:1.5}.ec{stroke:#d97706}.h{fill:#94a3b8}.hc{fill:#d97706}
.l{font-size:10.5px;fill:#92400e}.lb{fill:#fffbeb;stroke:#fcd34d}
.k-spark{fill:#e25a1c}.k-ipcapture{fill:#0284c7}.k-ipcommit{fill:#059669}.k-subworkflow{fill:#7c3aed}
.k-noop{fill:#94a3b8}.k-foreach{fill:#475569}.k-other{fill:#64748b}
@media (prefers-color-scheme:dark){.page{fill:#0b1220}.box{fill:#111a2e;stroke:#334155}.group{fill:#0f172a;stroke:#475569}
.t{fill:#e2e8f0}.s{fill:#94a3b8}.e{stroke:#64748b}.h{fill:#64748b}.ec{stroke:#f59e0b}.hc{fill:#f59e0b}
.l{fill:#fcd34d}.lb{fill:#1c1917;stroke:#92400e}}
""".replace("\n", "")
_COLOURED = ("spark", "ipcapture", "ipcommit", "subworkflow", "noop", "foreach")


def to_svg(workflow: Workflow) -> str:
    """One ``<svg>`` element. Every text a user wrote is escaped and stripped of control characters."""
    drawing = _arrange(figure(workflow))
    width, height = drawing.width + 2 * MARGIN, drawing.height + 2 * MARGIN
    parts: list[str] = []
    _draw(drawing, MARGIN, MARGIN, parts)
    title = _clean(f"Workflow {workflow.id}")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" role="img" class="f">'
        f"<title>{title}</title><style>{_STYLE}</style>{_heads()}"
        f'<rect class="page" width="100%" height="100%" rx="10"/>{"".join(parts)}</svg>\n'
    )


def _heads() -> str:
    """Arrow heads, one per colour: a marker cannot take the colour of its line everywhere."""
    shape = '<path d="M0 0L8 4L0 8z"/>'
    marker = 'viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto"'
    return f'<defs><marker id="h" class="h" {marker}>{shape}</marker><marker id="hc" class="hc" {marker}>{shape}</marker></defs>'


@dataclass(slots=True)
class _Drawing:
    """A figure with the size and place of everything in it."""

    figure: Figure
    placed: Placed
    sizes: dict[str, tuple[float, float]]
    inner: dict[str, _Drawing]
    labels: dict[int, _Label]
    tops: list[float]
    height: float

    @property
    def width(self) -> float:
        return max((self.placed.width, *(label.x + label.width / 2 for label in self.labels.values())))


@dataclass(frozen=True, slots=True)
class _Label:
    """A condition beside its arrow; labels that would cover each other stand on different levels."""

    words: str
    x: float
    width: float
    level: int


def _labels(placed: Placed, row_of: dict[str, int]) -> dict[int, _Label]:
    found: dict[int, _Label] = {}
    taken: dict[tuple[int, int], list[tuple[float, float]]] = {}
    for number, (arrow, way) in enumerate(placed.ways):
        if not arrow.label:
            continue
        words = shortened(arrow.label, LABEL_CELLS)
        width = cells(words) * 6.0 + 14
        x = (placed.spots[way[0]].x + 2 * placed.spots[way[1]].x) / 3
        level = 0
        while any(
            abs(x - other) < (width + other_width) / 2 + 4
            for other, other_width in taken.get((row_of[arrow.source], level), ())
        ):
            level += 1
        taken.setdefault((row_of[arrow.source], level), []).append((x, width))
        found[number] = _Label(words, x, width, level)
    return found


def _arrange(drawn: Figure) -> _Drawing:
    inner = {key: _arrange(box.inner) for key, box in drawn.boxes.items() if box.inner is not None}
    sizes = {key: _size(box, inner.get(key)) for key, box in drawn.boxes.items()}
    placed = place(drawn, {key: size[0] for key, size in sizes.items()}, COLUMN_GAP, 12.0)
    row_of = {key: number for number, row in enumerate(placed.rows) for key in row}
    labels = _labels(placed, row_of)
    room = [0.0] * len(placed.rows)
    for number, label in labels.items():
        row = row_of[placed.ways[number][0].source]
        room[row] = max(room[row], LABEL_ROW * (label.level + 1))
    tops, at = [], 0.0
    for number, row_keys in enumerate(placed.rows):
        tops.append(at)
        tallest = max((sizes[key][1] for key in row_keys if key in sizes), default=0.0)
        at += tallest + ROW_GAP + room[number]
    last = max((sizes[key][1] for key in placed.rows[-1] if key in sizes), default=0.0) if placed.rows else 0.0
    return _Drawing(drawn, placed, sizes, inner, labels, tops, (tops[-1] if tops else 0.0) + last)


def _size(box: Box, inner: _Drawing | None) -> tuple[float, float]:
    texts = max(
        cells(shortened(box.title, TITLE_CELLS)) * PER_CELL,
        cells(shortened(box.subtitle, SUBTITLE_CELLS)) * PER_SMALL_CELL,
    )
    width = max(110.0, texts + 38)
    if inner is not None:
        return max(width, inner.width + 2 * MARGIN), inner.height + HEAD + MARGIN
    return width, BOX_HEIGHT if box.subtitle else PLAIN_HEIGHT


def _draw(drawing: _Drawing, left: float, top: float, parts: list[str]) -> None:
    row_of = {key: number for number, row in enumerate(drawing.placed.rows) for key in row}
    labels: list[str] = []
    for number, (arrow, way) in enumerate(drawing.placed.ways):
        _draw_arrow(drawing, arrow, way, row_of, left, top, parts)
        if number in drawing.labels:
            label = drawing.labels[number]
            bottom = drawing.tops[row_of[arrow.source]] + drawing.sizes[arrow.source][1]
            _draw_label(label, arrow, left + label.x, top + bottom + 20 + LABEL_ROW * label.level, labels)
    for key, box in drawing.figure.boxes.items():
        width, height = drawing.sizes[key]
        x = left + drawing.placed.spots[key].x - width / 2
        y = top + drawing.tops[row_of[key]]
        _draw_box(box, x, y, width, height, parts)
        if key in drawing.inner:
            inner = drawing.inner[key]
            _draw(inner, x + (width - inner.width) / 2, y + HEAD, parts)
    parts.extend(labels)


def _draw_box(box: Box, x: float, y: float, width: float, height: float, parts: list[str]) -> None:
    kind = box.kind if box.kind in _COLOURED else "other"
    hover = _clean(f"{box.title}: {box.subtitle}" if box.subtitle else box.title)
    shape = "group" if box.inner is not None else "box"
    radius = height / 2 if box.kind == "noop" else 8
    parts.append(f"<g><title>{hover}</title>")
    parts.append(
        f'<rect class="{shape}" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="{radius:.1f}"/>'
    )
    parts.append(f'<circle class="k-{kind}" cx="{x + 16:.1f}" cy="{y + 17:.1f}" r="4.5"/>')
    title_y = y + 21.5
    parts.append(
        f'<text class="t" x="{x + 27:.1f}" y="{title_y:.1f}">{_clean(shortened(box.title, TITLE_CELLS))}</text>'
    )
    if box.subtitle:
        words = _clean(shortened(box.subtitle, SUBTITLE_CELLS))
        parts.append(f'<text class="s" x="{x + 27:.1f}" y="{title_y + 16:.1f}">{words}</text>')
    parts.append("</g>")


def _draw_arrow(
    drawing: _Drawing,
    arrow: Arrow,
    way: list[str],
    row_of: dict[str, int],
    left: float,
    top: float,
    parts: list[str],
) -> None:
    def point(key: str, bottom: bool) -> tuple[float, float]:
        height = drawing.sizes[key][1] if key in drawing.sizes else 0.0
        return left + drawing.placed.spots[key].x, top + drawing.tops[row_of[key]] + (height if bottom else 0.0)

    at = point(way[0], bottom=True)
    path = [f"M{at[0]:.1f} {at[1]:.1f}"]
    for key in way[1:]:
        end = point(key, bottom=False)
        bend = max(14.0, (end[1] - at[1]) / 2)
        path.append(f"C{at[0]:.1f} {at[1] + bend:.1f} {end[0]:.1f} {end[1] - bend:.1f} {end[0]:.1f} {end[1]:.1f}")
        at = end
        if key not in drawing.sizes:  # a waypoint: straight on through its row
            row = drawing.placed.rows[row_of[key]]
            through = max((drawing.sizes[other][1] for other in row if other in drawing.sizes), default=0.0)
            at = (end[0], end[1] + through)
            path.append(f"V{at[1]:.1f}")
    style = ("e ec", "hc") if arrow.label else ("e", "h")
    parts.append(f'<path class="{style[0]}" d="{"".join(path)}" marker-end="url(#{style[1]})"/>')


def _draw_label(label: _Label, arrow: Arrow, x: float, y: float, parts: list[str]) -> None:
    parts.append(
        f"<g><title>{_clean(arrow.full_label)}</title>"
        f'<rect class="lb" x="{x - label.width / 2:.1f}" y="{y - 9:.1f}" width="{label.width:.1f}" height="18" rx="9"/>'
        f'<text class="l" x="{x:.1f}" y="{y + 3.8:.1f}" text-anchor="middle">{_clean(label.words)}</text></g>'
    )


def _clean(text: str) -> str:
    return escape(printable(text))
