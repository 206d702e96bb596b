"""When the steps of a run ran: one row a step, one bar an attempt, and what is still to come as far as it can be told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from icefloe.server.charts import marks
from icefloe.server.rendering import duration

LABELS, BARS, ROW, HEAD = 210.0, 1000.0, 22.0, 24.0
MOST = 400
_STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400, 172800, 604800)


@dataclass(frozen=True, slots=True)
class Bar:
    """One attempt, or (``expected``) one that is still to come. ``ended_at`` None: it runs."""

    status: str
    started_at: float
    ended_at: float | None
    words: str
    expected: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    step: str
    status: str
    bars: tuple[Bar, ...]
    target: str = ""


def expected_bars(
    order: Sequence[str],
    arrows: Sequence[tuple[str, str]],
    ends: Mapping[str, float],
    usual: Mapping[str, float],
    now: float,
) -> dict[str, tuple[float, float]]:
    """When steps that have not begun would run, if each took as long as it usually does. ``ends``: of all others, when
    they ended or should end. Steps of which nobody knows how long they take are left out, and so is what follows them."""
    before: dict[str, list[str]] = {step: [] for step in order}
    for source, target in arrows:
        if target in before:
            before[target].append(source)
    known = dict(ends)
    found: dict[str, tuple[float, float]] = {}
    waiting = [step for step in order if step not in known]
    while waiting:
        left = []
        for step in waiting:
            if step in usual and all(source in known for source in before[step]):
                start = max([now, *(known[source] for source in before[step])])
                found[step] = (start, start + usual[step])
                known[step] = start + usual[step]
            else:
                left.append(step)
        if len(left) == len(waiting):
            break
        waiting = left
    return found


def draw(rows: Sequence[Row], now: float, label: str) -> Markup:
    shown = rows[:MOST]
    times = [bar.started_at for row in shown for bar in row.bars]
    if not times:
        return Markup("")
    begin = min(times)
    end = max([bar.ended_at or now for row in shown for bar in row.bars])
    span = max(end - begin, 0.001)
    height = HEAD + ROW * len(shown) + 6
    parts = _axis(span, height)
    for number, row in enumerate(shown):
        top = HEAD + number * ROW
        named = marks.text(4, top + 15, f"{marks.sign(row.status)} {row.step}", "", limit=29)
        parts.append(marks.link(row.target, named, row.step) if row.target else named)
        parts += [_bar(bar, top, begin, span, now, bar is row.bars[-1]) for bar in row.bars]
    if begin < now < end:
        x = LABELS + BARS * (now - begin) / span
        parts.append(marks.line(x, HEAD - 6, x, height, "now-line"))
    return marks.drawing(LABELS + BARS + 60, height, label, marks.joined(parts), "timeline")


def _bar(bar: Bar, top: float, begin: float, span: float, now: float, is_last: bool) -> Markup:
    until = bar.ended_at if bar.ended_at is not None else now
    x = LABELS + BARS * (bar.started_at - begin) / span
    width = max(BARS * (until - bar.started_at) / span, 2.0)
    took = duration(max(until - bar.started_at, 0.0))
    classes = "expected" if bar.expected else marks.tone(bar.status)
    told = marks.title(f"{bar.words}: {'about ' if bar.expected else ''}{took}")
    shape = marks.rect(x, top + 4, width, ROW - 8, classes, told)
    if bar.expected or not is_last:
        return shape
    return shape + (marks.text(x + width + 4, top + 15, took, "faint small") if x + width < LABELS + BARS - 30 else "")


def _axis(span: float, height: float) -> list[Markup]:
    step = next((step for step in _STEPS if span / step <= 8), span / 8)
    if span < 2:
        step = span / 4
    parts = []
    at = 0.0
    while at <= span * 1.0001:
        x = LABELS + BARS * at / span
        parts.append(marks.line(x, HEAD - 6, x, height, "axis"))
        parts.append(marks.text(x, HEAD - 10, duration(at) if at else "0", "faint small", anchor="middle"))
        at += step
    return parts
