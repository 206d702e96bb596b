"""Two amounts for each day: what would have been read behind what was read, on one scale from zero."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from icefloe.server.charts import marks

MOST = 120
_LEFT, _HEIGHT, _TOP, _BOTTOM = 78, 180, 26, 22


@dataclass(frozen=True, slots=True)
class DayPair:
    """``outer`` is what it is compared with."""

    day: str
    inner: int
    outer: int


def paired_days(
    days: Sequence[DayPair], *, inner: str, outer: str, label: str, amount: Callable[[float], str]
) -> Markup:
    """``amount`` writes a number for people. The newest :data:`MOST` days are drawn."""
    shown = list(days[-MOST:])
    if not shown:
        return marks.drawing(320, 30, label, marks.text(0, 18, "nothing to show", "faint"))
    step = max(8, min(26, 900 // len(shown)))
    width = _LEFT + max(len(shown) * step, 320) + 10
    most = max(1, *(max(one.inner, one.outer) for one in shown))
    floor = _TOP + _HEIGHT
    parts = [
        marks.rect(_LEFT, 4, 11, 11, "still-box"),
        marks.text(_LEFT + 16, 14, outer, "faint"),
        marks.rect(_LEFT + 190, 4, 11, 11, "busy"),
        marks.text(_LEFT + 206, 14, inner, "faint"),
    ]
    for share in (0, 0.5, 1):
        y = floor - _HEIGHT * share
        parts.append(marks.line(_LEFT, y, width - 10, y, "axis"))
        parts.append(marks.text(_LEFT - 8, y + 4, amount(most * share), "faint", anchor="end"))
    every = max(1, len(shown) * step // 700 + 1, 90 // step)
    for place, one in enumerate(shown):
        x = _LEFT + place * step
        told = f"{one.day}: {inner} {amount(one.inner)}, {outer} {amount(one.outer)}"
        for value, classes, margin in ((one.outer, "still-box", 1), (one.inner, "busy", max(2, step // 5))):
            tall = _HEIGHT * value / most
            if value:
                parts.append(marks.rect(x + margin, floor - tall, step - 2 * margin, tall, classes, marks.title(told)))
        if place % every == 0:
            parts.append(marks.text(x, floor + 16, one.day, "faint"))
    return marks.drawing(width, floor + _BOTTOM, label, marks.joined(parts))
