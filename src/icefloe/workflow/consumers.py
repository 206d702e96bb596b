"""The consumers that a workflow's definition names: one for each of its capture steps."""

from __future__ import annotations

import re
from dataclasses import dataclass

from icefloe.workflow.model import TypedStep, Workflow, walk


def consumer_name(workflow_id: str, step_path: tuple[str, ...]) -> str:
    """A consumer's name unless ``consumer:`` says another: the workflow and the step's path."""
    return f"{workflow_id}/{'/'.join(step_path)}"


@dataclass(frozen=True, slots=True)
class NamedConsumer:
    """``name`` as the definition has it: with ``${…}`` it stands for every name that it can become."""

    name: str
    step_path: tuple[str, ...]
    operations: tuple[str, ...] = ("append",)

    @property
    def is_pattern(self) -> bool:
        return "${" in self.name

    def covers(self, name: str) -> bool:
        if not self.is_pattern:
            return name == self.name
        parts = re.split(r"\$\{[^}]*\}", self.name)
        return re.fullmatch(".+".join(re.escape(part) for part in parts), name) is not None


def consumers_of(workflow: Workflow) -> tuple[NamedConsumer, ...]:
    """In the order of the definition, those inside a foreach included."""
    return tuple(
        NamedConsumer(
            str(step.settings.get("consumer") or consumer_name(workflow.id, path)),
            path,
            _listed(step.settings.get("data_operations")) or ("append",),
        )
        for path, step in walk(workflow)
        if isinstance(step, TypedStep) and step.type == "IpCapture"
    )


def _listed(value: object) -> tuple[str, ...]:
    listed = value if isinstance(value, list | tuple) else () if value is None else (value,)
    return tuple(str(item).lower() for item in listed)
