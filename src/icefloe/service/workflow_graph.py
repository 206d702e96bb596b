"""A workflow's steps and the arrows between them, the steps of a foreach inside their own group of arrows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from icefloe.workflow.drawing.figure import Figure, figure

if TYPE_CHECKING:
    from icefloe.service.client import Client


@dataclass(frozen=True, slots=True)
class StepBox:
    id: str
    detail: str

    def to_dict(self) -> dict[str, Any]:
        return {"id": self.id, "detail": self.detail}


@dataclass(frozen=True, slots=True)
class WorkflowGraph:
    """``steps`` are those of the workflow itself; ``boxes`` have those inside a foreach too. Arrows: source, target, condition."""

    steps: tuple[str, ...]
    boxes: tuple[StepBox, ...]
    arrows: tuple[tuple[str, str, str | None], ...]

    def to_dict(self) -> dict[str, Any]:
        return {"steps": [box.to_dict() for box in self.boxes], "arrows": [list(arrow) for arrow in self.arrows]}


def workflow_graph(client: Client, workflow_id: str) -> WorkflowGraph:
    """Of the latest version."""
    workflow = client.workflows.latest(workflow_id).workflow
    boxes: list[StepBox] = []
    arrows: list[tuple[str, str, str | None]] = []
    _add(figure(workflow), boxes, arrows)
    return WorkflowGraph(tuple(step.id for step in workflow.steps), tuple(boxes), tuple(arrows))


def _add(drawn: Figure, boxes: list[StepBox], arrows: list[tuple[str, str, str | None]]) -> None:
    for box in drawn.boxes.values():
        boxes.append(StepBox(box.id, box.subtitle or box.kind))
        if box.inner is not None:
            entered = {arrow.target for arrow in box.inner.arrows}
            arrows += [(box.id, first, "for each") for first in box.inner.boxes if first not in entered]
            _add(box.inner, boxes, arrows)
    arrows += [(arrow.source, arrow.target, arrow.full_label or None) for arrow in drawn.arrows]
