"""What one run's page shows beside the run itself: its drawings, the chosen step, the end of its log, its restart form."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

from markupsafe import Markup

from icefloe.server.charts import graph, marks, timeline
from icefloe.server.charts.graph import GraphArrow, GraphStep
from icefloe.server.charts.timeline import Bar, Row
from icefloe.server.rendering import duration
from icefloe.service.client import Client
from icefloe.service.failures import plain_text
from icefloe.service.run_actions import RunActions
from icefloe.service.run_details import RunDetails
from icefloe.service.run_form import EVERY_RUN_HAS, ParameterField, fields_of
from icefloe.service.views import LogPart, RunView, StepView

LOG_END = 60_000
"""Characters of a log that the page itself shows; the rest is behind a link."""


@dataclass(frozen=True, slots=True)
class LogView:
    """The end of one attempt's log. ``place``: where it goes on; ``left_out``: characters before what is shown."""

    step: str
    attempt: int
    attempts: tuple[int, ...]
    text: str
    left_out: int
    place: str
    ended: bool


@dataclass(frozen=True, slots=True)
class Shown:
    """``step``: the chosen one. ``chosen``: by the address, not by itself. ``log`` None: it has none, or nobody asked."""

    graph: Markup
    timeline: Markup
    step: StepView | None
    chosen: bool
    log: LogView | None
    log_steps: tuple[StepView, ...]
    fields: tuple[ParameterField, ...]
    own_params: dict[str, Any]
    default_params: dict[str, Any]
    to_come: int
    remaining: float | None


def assemble(client: Client, details: RunDetails, step: str, attempt: int | None, *, with_log: bool) -> Shown:
    run, now = details.run, time.time()
    focus = _focus(details)
    chosen = next((each for each in run.steps if each.id == step), None)
    current = chosen or next((each for each in run.steps if each.id == focus), None)
    expected = _expected(details, now)
    given = run.initiator.get("given", {})
    last = max((end for _, end in expected.values()), default=None)
    known = not run.ended and last is not None
    return Shown(
        graph=_graph(details, focus),
        timeline=_timeline(run, expected, now),
        step=current,
        chosen=chosen is not None,
        log=_log(client, run, current, attempt) if with_log and current is not None else None,
        log_steps=tuple(each for each in run.steps if each.attempts),
        fields=fields_of(RunActions(client).definition(run.run_id), restart=True) if "restart" in details.verbs else (),
        own_params={name: value for name, value in run.params.items() if name in given or name not in EVERY_RUN_HAS},
        default_params={
            name: value for name, value in run.params.items() if name not in given and name in EVERY_RUN_HAS
        },
        to_come=sum(each.ended_at is None for each in run.steps) if not run.ended else 0,
        remaining=max(last - now, 0.0) if known and last is not None else None,
    )


def step_address(run_id: str, step: str, attempt: int | None = None) -> str:
    query = {"step": step, **({"attempt": str(attempt)} if attempt else {})}
    return f"/runs/{quote(run_id, safe='')}?{urlencode(query)}#step"


def log_place(text: str) -> tuple[int, int]:
    """``number:offset`` as :func:`whole_lines` has given it; the beginning when it is anything else."""
    number, _, offset = text.partition(":")
    if number.isascii() and number.isdigit() and offset.isascii() and offset.isdigit() and len(text) < 30:
        return int(number), int(offset)
    return 0, 0


def whole_lines(part: LogPart, *, ended: bool) -> tuple[bytes, str]:
    """A piece of a log up to its last whole line, and the place to go on from: a letter or an escape is not cut in two."""
    content, offset = part.content, part.next_offset
    rest = len(content) - (content.rfind(b"\n") + 1)
    if not ended and 0 < rest <= min(offset, 10_000):
        content, offset = content[:-rest], offset - rest
    return content, f"{part.next_number}:{offset}"


def _focus(details: RunDetails) -> str | None:
    """The step that matters now: the first that failed, else the first that runs or waits, else the last."""
    if details.failure is not None and details.failure.step:
        return details.failure.step
    steps = details.run.steps
    for tone in ("busy", "warn"):
        for step in steps:
            if marks.tone(step.status) == tone:
                return step.id
    started = [step for step in steps if step.started_at is not None]
    return max(started, key=lambda step: step.started_at or 0.0).id if started else None


def _graph(details: RunDetails, focus: str | None) -> Markup:
    run = details.run
    steps = [GraphStep(step.id, _detail(step), step.status, step_address(run.run_id, step.id)) for step in run.steps]
    arrows = [GraphArrow(edge.source, edge.target, edge.condition) for edge in details.edges]
    return graph.draw(steps, arrows, f"Graph of {len(steps)} steps", focus)


def _detail(step: StepView) -> str:
    if step.iterations:
        done = int(step.iterations.get("succeeded", 0))
        return f"{done:,} of {int(step.iterations.get('total', 0)):,} iterations"
    took = _took(step)
    tries = f" · attempt {step.attempts}" if step.attempts > 1 else ""
    return f"{marks.words(step.status)}{f' · {took}' if took else ''}{tries}"


def _took(step: StepView) -> str:
    if step.started_at is None:
        return ""
    return duration(max((step.ended_at or time.time()) - step.started_at, 0.0))


def _timeline(run: RunView, expected: dict[str, tuple[float, float]], now: float) -> Markup:
    rows = []
    for step in run.steps:
        bars = [
            Bar(past.status, past.started_at, past.ended_at, f"{step.id}, attempt {past.attempt}: {past.status}")
            for past in step.history
            if past.started_at is not None and past.ended_at is not None
        ]
        told = {past.attempt for past in step.history}
        if step.started_at is not None and (step.attempts not in told or step.iterations):
            words = f"{step.id}, attempt {step.attempts}: {step.status}"
            bars.append(Bar(step.status, step.started_at, step.ended_at, words))
        if step.id in expected:
            begin, end = expected[step.id]
            bars.append(Bar(step.status, begin, end, f"{step.id}, still to come", expected=True))
        rows.append(Row(step.id, step.status, tuple(bars), step_address(run.run_id, step.id)))
    return timeline.draw(rows, now, f"Timeline of {len(rows)} steps")


def _expected(details: RunDetails, now: float) -> dict[str, tuple[float, float]]:
    if details.run.ended or not details.usual_seconds:
        return {}
    ends = {}
    for step in details.run.steps:
        if step.ended_at is not None:
            ends[step.id] = step.ended_at
        elif step.started_at is not None:
            ends[step.id] = max(now, step.started_at + details.usual_seconds.get(step.id, 0.0))
    order = [step.id for step in details.run.steps]
    arrows = [(edge.source, edge.target) for edge in details.edges]
    return timeline.expected_bars(order, arrows, ends, details.usual_seconds, now)


def _log(client: Client, run: RunView, step: StepView, attempt: int | None) -> LogView | None:
    if not step.attempts:
        return None
    number = attempt if attempt is not None and attempt <= step.attempts else step.attempts
    part = client.runs.log(run.run_id, step.id, number)
    ended = number < step.attempts or step.ended_at is not None
    content, place = whole_lines(part, ended=ended)
    text = plain_text(content.decode("utf-8", "replace"))
    left_out = max(len(text) - LOG_END, 0)
    if left_out:
        left_out = text.find("\n", left_out) + 1 or left_out
    attempts = tuple(range(1, step.attempts + 1))[-50:]
    return LogView(step.id, number, attempts, text[left_out:], left_out, place, ended)
