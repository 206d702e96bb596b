"""How long a workflow's runs took, over time: a dot for a run that succeeded, a cross for one that did not."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from icefloe.server.charts import marks
from icefloe.server.rendering import duration, iso

LEFT, WIDTH, HEIGHT, TOP, BOTTOM = 64.0, 1150.0, 190.0, 10.0, 26.0
MOST = 500
_NICE = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400)


@dataclass(frozen=True, slots=True)
class RunTime:
    run_id: str
    status: str
    at: float
    seconds: float
    target: str


def draw(runs: Sequence[RunTime], label: str) -> Markup:
    shown = sorted(runs, key=lambda run: run.at)[-MOST:]
    if not shown:
        return Markup("")
    first, last = shown[0].at, shown[-1].at
    highest = max(run.seconds for run in shown) or 1.0
    step: float = next((step for step in _NICE if highest / step <= 4), math.ceil(highest / 4 / 86400) * 86400)
    if highest < 1:
        step = highest / 3
    top = math.ceil(highest / step) * step
    parts = []
    for number in range(round(top / step) + 1):
        y = TOP + HEIGHT * (1 - number * step / top)
        parts.append(marks.line(LEFT, y, LEFT + WIDTH, y, "axis"))
        parts.append(
            marks.text(LEFT - 8, y + 4, duration(number * step) if number else "0", "faint small", anchor="end")
        )
    for run in shown:
        x = LEFT + 8 + (WIDTH - 16) * ((run.at - first) / (last - first) if last > first else 0.5)
        y = TOP + HEIGHT * (1 - run.seconds / top)
        told = f"{run.run_id}: {marks.words(run.status)}, {duration(run.seconds)}"
        parts.append(marks.link(run.target, _mark(run.status, x, y, told), told))
    foot = TOP + HEIGHT + 18
    parts.append(marks.text(LEFT, foot, iso(first)[:16].replace("T", " "), "faint small"))
    parts.append(marks.text(LEFT + WIDTH, foot, iso(last)[:16].replace("T", " ") + " UTC", "faint small", anchor="end"))
    return marks.drawing(LEFT + WIDTH + 10, TOP + HEIGHT + BOTTOM, label, marks.joined(parts), "durations")


def _mark(status: str, x: float, y: float, told: str) -> Markup:
    tone = marks.tone(status)
    if tone in ("bad", "warn"):
        shape = Markup('<path d="M{0} {2}L{1} {3}M{1} {2}L{0} {3}" class="cross-mark {4}-line"/>').format(
            f"{x - 4:.1f}", f"{x + 4:.1f}", f"{y - 4:.1f}", f"{y + 4:.1f}", tone
        )
    else:
        shape = Markup('<circle cx="{:.1f}" cy="{:.1f}" r="4" class="{}"/>').format(x, y, tone)
    return Markup("<g>{}{}</g>").format(marks.title(told), shape)
