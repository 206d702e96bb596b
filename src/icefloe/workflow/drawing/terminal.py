"""The graph with box-drawing characters, for a terminal of a given width; a plain list where it does not fit."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from icefloe.workflow.drawing.figure import Arrow, Figure, cells, figure, shortened
from icefloe.workflow.drawing.layout import Placed, place
from icefloe.workflow.model import Workflow

UP, DOWN, LEFT, RIGHT = 1, 2, 4, 8
_LINES = dict(
    zip(
        (UP | DOWN, LEFT | RIGHT, DOWN | RIGHT, DOWN | LEFT, UP | RIGHT, UP | LEFT),
        "│─╭╮╰╯",
        strict=True,
    )
) | {
    UP | DOWN | RIGHT: "├", UP | DOWN | LEFT: "┤", DOWN | LEFT | RIGHT: "┬", UP | LEFT | RIGHT: "┴",
    UP | DOWN | LEFT | RIGHT: "┼", UP: "╵", DOWN: "╷", LEFT: "╴", RIGHT: "╶",
}  # fmt: skip
TITLE_CELLS = 46


def to_terminal(workflow: Workflow, width: int = 100) -> str:
    """The graph, and below it the conditions of its arrows."""
    drawn = figure(workflow)
    lines = _draw(drawn, width)
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _draw(drawn: Figure, width: int) -> list[str]:
    widths = {key: float(max(cells(line) for line in _words(drawn, key)) + 4) for key in drawn.boxes}
    placed = place(drawn, widths, 3.0, 1.0)
    fits = placed.width <= width and len(drawn.boxes) <= 200
    lines = _grid(drawn, placed) if fits else list(_listed(drawn))
    if fits:
        lines += _conditions(drawn)
    for box in drawn.boxes.values():
        if box.inner is not None:
            lines += ["", f"  {box.title} ({box.subtitle}):"]
            lines += [f"    {line}" for line in _draw(box.inner, width - 4)]
    return lines


def _words(drawn: Figure, key: str) -> list[str]:
    box = drawn.boxes[key]
    lines = [shortened(box.title, TITLE_CELLS)]
    return [*lines, shortened(box.subtitle, TITLE_CELLS)] if box.subtitle else lines


def _conditions(drawn: Figure) -> list[str]:
    labelled = [arrow for arrow in drawn.arrows if arrow.label]
    titles = {key: shortened(box.title, TITLE_CELLS) for key, box in drawn.boxes.items()}
    lines = [f"  {titles[arrow.source]} → {titles[arrow.target]}  {arrow.label}" for arrow in labelled]
    return ["", *lines] if lines else []


def _listed(drawn: Figure) -> Iterator[str]:
    """Each step with what it leads to."""
    targets: dict[str, list[Arrow]] = {key: [] for key in drawn.boxes}
    for arrow in drawn.arrows:
        targets[arrow.source].append(arrow)
    for row in drawn.rows:
        for key in row:
            box = drawn.boxes[key]
            yield f"● {box.title}" + (f"  {box.subtitle}" if box.subtitle else "")
            for arrow in targets[key]:
                yield f"  └─▶ {drawn.boxes[arrow.target].title}" + (f"  {arrow.label}" if arrow.label else "")


class _Canvas:
    """Cells with texts and with lines; lines that meet join."""

    def __init__(self) -> None:
        self._lines: dict[tuple[int, int], int] = {}
        self._texts: dict[tuple[int, int], str] = {}

    def text(self, x: int, y: int, words: str) -> None:
        for letter in words:
            self._texts[(x, y)] = letter
            for extra in range(1, cells(letter)):
                self._texts[(x + extra, y)] = ""
            x += max(1, cells(letter))

    def vertical(self, x: int, top: int, bottom: int) -> None:
        """From the cell above ``top`` to ``bottom``."""
        for y in range(top, bottom + 1):
            self._join(x, y, UP | (DOWN if y < bottom else 0))

    def horizontal(self, y: int, one: int, other: int) -> None:
        left, right = sorted((one, other))
        for x in range(left, right + 1):
            self._join(x, y, (LEFT if x > left else 0) | (RIGHT if x < right else 0))

    def down(self, x: int, y: int) -> None:
        self._join(x, y, DOWN)

    def _join(self, x: int, y: int, directions: int) -> None:
        self._lines[(x, y)] = self._lines.get((x, y), 0) | directions

    def rows(self) -> list[str]:
        used = [*self._lines, *self._texts]
        width, height = max(x for x, _ in used) + 1, max(y for _, y in used) + 1
        grid = [[" "] * width for _ in range(height)]
        for (x, y), directions in self._lines.items():
            grid[y][x] = _LINES.get(directions, " ")
        for (x, y), letter in self._texts.items():
            grid[y][x] = letter
        return ["".join(row) for row in grid]


def _grid(drawn: Figure, placed: Placed) -> list[str]:
    if not drawn.boxes:
        return []
    canvas = _Canvas()
    hops: list[list[tuple[str, str]]] = [[] for _ in placed.rows]
    row_of = {key: number for number, row in enumerate(placed.rows) for key in row}
    for _, way in placed.ways:
        for above, below in pairwise(way):
            if row_of[below] == row_of[above] + 1:
                hops[row_of[above]].append((above, below))
    centre = _straightened({key: round(spot.x) for key, spot in placed.spots.items()}, hops, drawn)
    top = 0
    for number, row in enumerate(placed.rows):
        height = 2 + max(len(_words(drawn, key)) for key in row if key in drawn.boxes)
        bottoms = {}
        for key in row:
            if key in drawn.boxes:
                bottoms[key] = _box(canvas, drawn, key, centre[key], top)
            else:
                canvas.vertical(centre[key], top, top + height)
                bottoms[key] = top + height - 1
        top = _channel(canvas, hops[number], centre, bottoms, top + height, drawn)
    return canvas.rows()


def _straightened(centre: dict[str, int], hops: list[list[tuple[str, str]]], drawn: Figure) -> dict[str, int]:
    """Waypoints a cell or two beside what they come from move over it: a small jog only looks like a mistake."""
    taken: set[tuple[int, int]] = set()
    for number, row in enumerate(hops):
        for above, below in row:
            near = abs(centre[above] - centre[below]) <= 2 and (number, centre[above]) not in taken
            if below not in drawn.boxes and near:
                centre[below] = centre[above]
                taken.add((number, centre[above]))
    return centre


def _box(canvas: _Canvas, drawn: Figure, key: str, centre: int, top: int) -> int:
    """Draws a box; returns the row of its lower edge."""
    words = _words(drawn, key)
    inside = max(cells(line) for line in words) + 2
    left = centre - (inside + 2) // 2
    canvas.text(left, top, f"╭{'─' * inside}╮")
    for number, line in enumerate(words, 1):
        canvas.text(left, top + number, f"│ {line}{' ' * (inside - 1 - cells(line))}│")
    bottom = top + len(words) + 1
    canvas.text(left, bottom, f"╰{'─' * inside}╯")
    return bottom


def _channel(
    canvas: _Canvas,
    hops: list[tuple[str, str]],
    centre: dict[str, int],
    bottoms: dict[str, int],
    top: int,
    drawn: Figure,
) -> int:
    """The arrows between two rows: down, across on a track, down. Returns the next row's top."""
    if not hops:
        return top + 1
    tracks: list[list[tuple[int, int, str]]] = []
    chosen: dict[tuple[str, str], int] = {}
    for above, below in sorted(set(hops), key=lambda hop: (abs(centre[hop[0]] - centre[hop[1]]), hop)):
        low, high = sorted((centre[above], centre[below]))
        if high - low > (2 if below in drawn.boxes else 0):
            chosen[(above, below)] = _track(tracks, low, high, above)
    end = top + len(tracks) + 1 if tracks else top
    for above, below in hops:
        start = bottoms[above] + 1
        if above in drawn.boxes:
            canvas.text(centre[above], bottoms[above], "┬")
        number = chosen.get((above, below))
        if number is None:  # straight down; into a box a cell or two beside its middle
            x = centre[above]
            canvas.vertical(x, start, end)
        else:
            x = centre[below]
            canvas.vertical(centre[above], start, top + number)
            canvas.horizontal(top + number, centre[above], x)
            canvas.vertical(x, top + number + 1, end)
            canvas.down(x, top + number)
        if below in drawn.boxes:
            canvas.text(x, end, "▼")
        else:
            canvas.down(x, end)
    return end + 1


def _track(tracks: list[list[tuple[int, int, str]]], low: int, high: int, above: str) -> int:
    """The first track with room between ``low`` and ``high``; arrows that leave one box may share a track."""
    for number, track in enumerate(tracks):
        if all(
            high < other_low - 1 or low > other_high + 1 or owner == above for other_low, other_high, owner in track
        ):
            track.append((low, high, above))
            return number
    tracks.append([(low, high, above)])
    return len(tracks) - 1
