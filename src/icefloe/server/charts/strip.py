"""The last outcomes of a workflow as a strip of bars, oldest left. A failed run stands taller than a good one and is crossed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from icefloe.server.charts import marks

WIDTH, HEIGHT, GAP = 8.0, 22.0, 2.0


@dataclass(frozen=True, slots=True)
class Outcome:
    run_id: str
    status: str
    words: str
    target: str


def draw(outcomes: Sequence[Outcome], label: str) -> Markup:
    """``outcomes`` oldest first."""
    parts = []
    for number, outcome in enumerate(outcomes):
        x = number * (WIDTH + GAP)
        tone = marks.tone(outcome.status)
        height = {"bad": HEIGHT, "good": HEIGHT * 0.62, "busy": HEIGHT * 0.4}.get(tone, HEIGHT * 0.3)
        top = HEIGHT - height
        told = f"{outcome.run_id}: {marks.words(outcome.status)} {outcome.words}"
        mark = marks.rect(x, top, WIDTH, height, tone, marks.title(told))
        if tone == "bad":
            cross = '<path d="M{0:.0f} 4L{1:.0f} 10M{1:.0f} 4L{0:.0f} 10" class="cross"/>'
            mark += Markup(cross).format(x + 1, x + WIDTH - 1)
        parts.append(marks.link(outcome.target, mark, told))
    width = max(len(outcomes) * (WIDTH + GAP), WIDTH)
    return marks.drawing(width, HEIGHT, label, marks.joined(parts), "strip")
