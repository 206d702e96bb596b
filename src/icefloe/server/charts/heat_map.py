"""Counts in two dimensions: a column for each day something arrived, a row for each time it belongs to, the newest at the top right."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping

from markupsafe import Markup

from icefloe.server.charts import marks

MOST = 60
"""Columns, and rows; what is older is gathered in one more."""
_SIZE, _STEP, _LEFT, _TOP = 13, 15, 112, 22
LEVELS = 5


def heat_map(
    cells: Mapping[tuple[int, int], int],
    *,
    column: Callable[[int], str],
    row: Callable[[int], str],
    label: str,
    unit: str = "rows",
    on_time: Callable[[int], int] = lambda day: day,
) -> Markup:
    """``cells``: (column, row) -> count. ``on_time``: the row that a column would fill if nothing were late; it is framed."""
    shown = {cell: count for cell, count in cells.items() if count > 0}
    if not shown:
        return marks.drawing(320, 30, label, marks.text(0, 18, "nothing to show", "faint"))
    columns, first_column = _window([x for x, _ in shown])
    rows, first_row = _window([y for _, y in shown])
    gathered: Counter[tuple[int | None, int | None]] = Counter()
    for (at, event), count in shown.items():
        gathered[at if at >= first_column else None, event if event >= first_row else None] += count
    xs: list[int | None] = [*([None] if any(x is None for x, _ in gathered) else []), *columns]
    ys: list[int | None] = [*reversed(rows), *([None] if any(y is None for _, y in gathered) else [])]
    most = max(gathered.values())
    parts: list[Markup] = [marks.text(0, 12, "belongs to ↓   arrived →", "faint")]
    every_row, every_column = math.ceil(len(ys) / 20), math.ceil(len(xs) / 8)
    for line, y in enumerate(ys):
        top = _TOP + line * _STEP
        name = "older" if y is None else row(y)
        if y is None or line % every_row == 0:
            parts.append(marks.text(_LEFT - 6, top + 11, name, "faint", anchor="end"))
        for place, x in enumerate(xs):
            count = gathered[x, y]
            is_on_time = x is not None and y == on_time(x)
            if count or is_on_time:
                told = f"{'earlier' if x is None else column(x)} brought {count:,} {unit} of {name}"
                classes = f"scale-{level(count, most)}{' on-time' if is_on_time else ''}"
                mark = marks.rect(_LEFT + place * _STEP, top, _SIZE, _SIZE, classes, marks.title(told))
                is_newest = x == columns[-1] and y == rows[-1]
                parts.append(Markup('<g data-focus="">{}</g>').format(mark) if is_newest else mark)
    bottom = _TOP + len(ys) * _STEP
    for place, x in enumerate(xs):
        if x is None or (place - (xs[0] is None)) % every_column == 0:
            name = "earlier" if x is None else column(x)
            parts.append(marks.text(_LEFT + place * _STEP, bottom + 14, name, "faint"))
    width = max(_LEFT + len(xs) * _STEP + 80, 400)
    return marks.drawing(width, bottom + 46, label, marks.joined([*parts, *_legend(bottom + 26, most, unit)]))


def level(count: int, most: int) -> int:
    """From 0 (nothing) to 5, by magnitude: late rows are few, and are what one looks for."""
    if count <= 0:
        return 0
    return 1 + min(LEVELS - 1, int(LEVELS * math.log1p(count) / (math.log1p(most) * 1.0001)))


def _window(values: list[int]) -> tuple[list[int], int]:
    """The newest so many, without gaps."""
    last, first = max(values), max(min(values), max(values) - MOST + 1)
    return list(range(first, last + 1)), first


def _legend(top: float, most: int, unit: str) -> list[Markup]:
    right = _LEFT + LEVELS * _STEP + 6
    return [
        marks.text(_LEFT - 6, top + 11, f"1 {unit.removesuffix('s')}", "faint", anchor="end"),
        *(marks.rect(_LEFT + step * _STEP, top, _SIZE, _SIZE, f"scale-{step + 1}") for step in range(LEVELS)),
        marks.text(right, top + 11, f"{most:,} {unit}", "faint"),
        marks.rect(right + 120, top, _SIZE, _SIZE, "scale-0 on-time"),
        marks.text(right + 138, top + 11, "on time", "faint"),
    ]
