"""What the verbs answer: frozen values with a JSON form, the same for command line, REST and Python."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Pushed:
    """``created`` False: the text was the same as the latest version's."""

    workflow_id: str
    version: int
    created: bool
    warnings: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        return {
            "workflow_id": self.workflow_id,
            "version": self.version,
            "created": self.created,
            "warnings": list(self.warnings),
        }


@dataclass(frozen=True, slots=True)
class WorkflowView:
    id: str
    version: int
    owner: str | None
    description: str | None
    steps: int
    run_strategy: str
    triggers: tuple[str, ...]
    paused: bool
    active: bool
    last_run: str | None
    last_status: str | None
    pushed_at: float

    @property
    def state(self) -> str:
        """Another one when somebody has pushed, paused, resumed, activated or deactivated it."""
        return state_of_workflow(self.version, self.paused, self.active)

    def to_dict(self) -> dict[str, Any]:
        values = {name: getattr(self, name) for name in self.__slots__}
        return {**values, "triggers": list(self.triggers)}


def state_of_workflow(version: int, paused: bool, active: bool) -> str:
    return f"{version}{'p' if paused else ''}{'' if active else 'd'}"


@dataclass(frozen=True, slots=True)
class AttemptView:
    attempt: int
    status: str
    cause: dict[str, Any] | None
    worker: str | None
    started_at: float | None
    ended_at: float | None

    def to_dict(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True)
class StepView:
    """``attempts`` counts them; ``history`` has those that have ended. A foreach has ``iterations``. ``note``: what it waits for now."""

    id: str
    type: str
    status: str
    attempts: int
    started_at: float | None
    ended_at: float | None
    worker: str | None
    cause: dict[str, Any] | None
    retry_in: float | None
    params: dict[str, Any]
    outputs: dict[str, Any]
    iterations: dict[str, Any] | None
    child_run: str | None
    history: tuple[AttemptView, ...] = ()
    note: str | None = None

    def to_dict(self) -> dict[str, Any]:
        values = {name: getattr(self, name) for name in self.__slots__}
        return {**values, "history": [attempt.to_dict() for attempt in self.history]}


@dataclass(frozen=True, slots=True)
class EventView:
    at: float
    step: str | None
    attempt: int | None
    previous: str | None
    status: str
    cause: str | None

    def to_dict(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True)
class RunView:
    run_id: str
    workflow_id: str
    version: int
    status: str
    request: str | None
    created_at: float
    started_at: float | None
    ended_at: float | None
    restarts: int
    initiator: dict[str, Any]
    cause: dict[str, Any] | None
    params: dict[str, Any] = field(default_factory=dict)
    parent_run: str | None = None
    parent_step: str | None = None
    iteration: int | None = None
    steps: tuple[StepView, ...] = ()
    events: tuple[EventView, ...] = ()
    warnings: tuple[str, ...] = ()
    """What went wrong without failing a step: after its commit, with its signals."""
    revision: int = 0
    """Goes up with each change of the run."""
    seq: int | None = None
    """Its place among all runs, newest last."""

    @property
    def ended(self) -> bool:
        return self.status in ("SUCCEEDED", "FAILED", "STOPPED", "TIMED_OUT")

    def to_dict(self) -> dict[str, Any]:
        values = {name: getattr(self, name) for name in self.__slots__}
        return {
            **values,
            "steps": [step.to_dict() for step in self.steps],
            "events": [event.to_dict() for event in self.events],
            "warnings": list(self.warnings),
        }


@dataclass(frozen=True, slots=True)
class Started:
    """A run that now exists. ``created`` False: the occasion had started it before. ``url`` None: it has no page."""

    run_id: str
    url: str | None
    created: bool
    worker_alive: bool

    def to_dict(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True)
class LogPart:
    """A piece of a log, and where the next one begins. ``gap`` True: something before it was left out."""

    content: bytes
    next_number: int
    next_offset: int
    gap: bool
