"""What is to be drawn, before anybody decides how: boxes with titles, arrows with labels, boxes inside boxes."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from icefloe.workflow.graph import Graph
from icefloe.workflow.model import (
    Container,
    FailureMode,
    ForeachStep,
    NoOpStep,
    Step,
    SubworkflowStep,
    Transition,
    TypedStep,
    Workflow,
)


@dataclass(frozen=True, slots=True)
class Box:
    """A step. ``kind`` chooses its colour, ``inner`` is a foreach's body."""

    id: str
    title: str
    subtitle: str
    kind: str
    inner: Figure | None = None


@dataclass(frozen=True, slots=True)
class Arrow:
    source: str
    target: str
    label: str = ""
    full_label: str = ""


@dataclass(frozen=True, slots=True)
class Figure:
    """Boxes by id, arrows, and the rows that the boxes stand in."""

    boxes: Mapping[str, Box]
    arrows: tuple[Arrow, ...]
    rows: tuple[tuple[str, ...], ...]


def figure(workflow: Workflow) -> Figure:
    return _figure(workflow)


def _figure(container: Container) -> Figure:
    graph = Graph.of(container)
    boxes = {step.id: _box(step) for step in container.steps}
    arrows = tuple(_arrow(edge) for edge in graph.edges)
    return Figure(boxes, arrows, graph.layers())


def _box(step: Step) -> Box:
    title = printable(step.id)
    match step:
        case ForeachStep():
            names = ", ".join(param.name for param in step.loop_params)
            return Box(step.id, title, printable(f"foreach {names}"), "foreach", _figure(step))
        case SubworkflowStep():
            return Box(step.id, title, printable(f"subworkflow {step.workflow_id}{_ignored(step)}"), "subworkflow")
        case NoOpStep():
            return Box(step.id, title, "", "noop")
        case TypedStep():
            return Box(step.id, title, printable(f"{step.type}{_detail(step)}{_ignored(step)}"), step.type.lower())


def _ignored(step: Step) -> str:
    return " · failure ignored" if step.failure_mode is FailureMode.IGNORE_FAILURE else ""


def _detail(step: TypedStep) -> str:
    """The one thing about a job that says most."""
    settings: Mapping[str, Any] = step.settings
    if step.type in ("IpCapture", "IpCommit"):
        named = settings.get("source_tables" if step.type == "IpCapture" else "capture_step", ())
        return " " + ", ".join(map(str, named if isinstance(named, list | tuple) else (named,)))
    write = settings.get("write")
    if isinstance(write, Mapping) and write.get("table"):
        return f" → {write['table']}"
    script = settings.get("script")
    if isinstance(script, str) and "\n" not in script and len(script) <= 40:
        return f" {script}"
    return f" {settings['url']}" if isinstance(settings.get("url"), str) else ""


def _arrow(edge: Transition) -> Arrow:
    if edge.condition is None:
        return Arrow(edge.source, edge.target)
    words = "otherwise" if edge.otherwise else f"if {printable(edge.condition)}"
    return Arrow(edge.source, edge.target, words, printable(edge.condition))


def printable(text: str) -> str:
    """A user's text on one line, without control characters or direction overrides that could fool a reader."""
    kept = (" " if letter.isspace() else letter for letter in text)
    return "".join(letter for letter in kept if unicodedata.category(letter) not in ("Cc", "Cf", "Cs", "Co", "Cn"))


def cells(text: str) -> int:
    """How many terminal cells a text takes."""
    wide = sum(unicodedata.east_asian_width(letter) in ("W", "F") for letter in text)
    zero = sum(unicodedata.combining(letter) != 0 for letter in text)
    return len(text) + wide - zero


def shortened(text: str, limit: int) -> str:
    """At most ``limit`` cells, with an ellipsis where something was cut."""
    if cells(text) <= limit:
        return text
    kept = ""
    for letter in text:
        if cells(kept + letter) > limit - 1:
            break
        kept += letter
    return f"{kept}…"
