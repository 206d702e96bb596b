"""Shares as horizontal bars, each with its number: one line for each value."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from icefloe.server.charts import marks

_LINE, _LABEL, _BAR, _NUMBERS = 22, 130, 260, 170


@dataclass(frozen=True, slots=True)
class Bar:
    """``kind``: a class of the style sheet, which says by colour what the label says in words."""

    label: str
    count: int
    kind: str = "busy"


def bars(values: Sequence[Bar], *, label: str, unit: str = "rows", most: int = 40) -> Markup:
    """Lengths go by magnitude, so that one row in a million is seen; the numbers beside them are exact."""
    shown = list(values[:most])
    total = sum(one.count for one in values)
    largest = max((one.count for one in shown), default=0)
    parts: list[Markup] = []
    for line, one in enumerate(shown):
        top = line * _LINE
        length = _BAR * math.log1p(one.count) / math.log1p(largest) if largest else 0.0
        share = 100 * one.count / total if total else 0.0
        told = f"{one.label}: {one.count:,} {unit}, {_percent(share)}"
        parts += [
            marks.text(_LABEL - 8, top + 15, one.label, limit=22, anchor="end"),
            marks.rect(_LABEL, top + 3, max(length, 1.0), _LINE - 7, one.kind, marks.title(told)),
            marks.text(_LABEL + length + 8, top + 15, f"{one.count:,} · {_percent(share)}", "faint"),
        ]
    if not shown:
        parts.append(marks.text(0, 15, "nothing to show", "faint"))
    return marks.drawing(_LABEL + _BAR + _NUMBERS, max(len(shown), 1) * _LINE, label, marks.joined(parts))


def _percent(share: float) -> str:
    if 0 < share < 0.01:
        return "under 0.01 %"
    if 99.99 < share < 100:
        return "over 99.99 %"
    return f"{share:.2f} %" if share < 1 or 99 < share < 100 else f"{share:.1f} %"
