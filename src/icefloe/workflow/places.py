"""Where each part of a workflow stands in its text. Kept beside the model, which carries no positions."""

from __future__ import annotations

from dataclasses import dataclass, field

from icefloe.workflow.model import Transition
from icefloe.workflow.problems import Position


@dataclass(slots=True)
class Places:
    """Positions by part; a definition built in Python has few or none."""

    workflow: Position | None = None
    steps: dict[str, Position] = field(default_factory=dict)
    params: dict[tuple[str | None, str], Position] = field(default_factory=dict)  # (step id or None, name)
    settings: dict[tuple[str, ...], Position] = field(default_factory=dict)  # (step id, *path)
    edges: dict[Transition, Position] = field(default_factory=dict)
    triggers: list[Position] = field(default_factory=list)

    def step(self, step_id: str) -> Position | None:
        return self.steps.get(step_id, self.workflow)

    def param(self, step_id: str | None, name: str) -> Position | None:
        fallback = self.workflow if step_id is None else self.step(step_id)
        return self.params.get((step_id, name), fallback)

    def setting(self, step_id: str, path: tuple[str, ...]) -> Position | None:
        """The place of a setting, or of the nearest thing around it."""
        for end in range(len(path), -1, -1):
            found = self.settings.get((step_id, *path[:end]))
            if found is not None:
                return found
        return self.step(step_id)

    def edge(self, edge: Transition) -> Position | None:
        return self.edges.get(edge) or self.step(edge.source)
