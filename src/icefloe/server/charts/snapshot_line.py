"""Snapshots along time, in one lane for each operation, so that what happened is told by place and shape, not by colour alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from markupsafe import Markup

from icefloe.server.charts import marks

MOST = 200
_LEFT, _WIDTH, _LANE = 80, 900, 34
_KINDS = {"append": "good", "overwrite": "warn", "delete": "bad", "replace": "still"}


@dataclass(frozen=True, slots=True)
class SnapshotMark:
    """``weight``: rows, which make a mark larger. ``ours``: a batch that Icefloe has published, which is filled."""

    at: float
    operation: str
    weight: int
    ours: bool
    text: str
    link: str | None = None


def snapshot_line(snapshots: Sequence[SnapshotMark], *, label: str) -> Markup:
    shown = sorted(snapshots, key=lambda one: one.at)[-MOST:]
    if not shown:
        return marks.drawing(320, 30, label, marks.text(0, 18, "no snapshot yet", "faint"))
    there = [one.operation for one in shown]
    lanes = list(dict.fromkeys([*(kind for kind in _KINDS if kind in there), *there]))
    first, last = shown[0].at, shown[-1].at
    heaviest = max(one.weight for one in shown)
    height = len(lanes) * _LANE
    parts: list[Markup] = []
    for place, lane in enumerate(lanes):
        middle = place * _LANE + _LANE / 2
        parts.append(marks.text(_LEFT - 14, middle + 4, lane, limit=12, anchor="end"))
        parts.append(marks.line(_LEFT, middle, _LEFT + _WIDTH, middle, "axis"))
    for one in shown:
        x = _LEFT + 10 + (_WIDTH - 20) * ((one.at - first) / (last - first) if last > first else 0.5)
        middle = lanes.index(one.operation) * _LANE + _LANE / 2
        size = 4 + (8 * math.log1p(one.weight) / math.log1p(heaviest) if heaviest else 0)
        kind = _KINDS.get(one.operation, "busy")
        mark = Markup('<circle cx="{:.1f}" cy="{:.1f}" r="{:.1f}" class="{}">{}</circle>').format(
            x, middle, size, kind if one.ours else f"{kind}-box", marks.title(one.text)
        )
        parts.append(marks.link(one.link, mark, one.text) if one.link else mark)
    parts.append(marks.text(_LEFT, height + 16, _when(first), "faint"))
    if last > first:
        parts.append(marks.text(_LEFT + _WIDTH, height + 16, _when(last), "faint", anchor="end"))
    return marks.drawing(_LEFT + _WIDTH + 10, height + 24, label, marks.joined(parts))


def _when(at: float) -> str:
    try:
        return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M UTC")
    except (OverflowError, ValueError, OSError):
        return "?"
