"""What a step type promises the engine, and what the engine promises a step type.

A step type is one small class, a :class:`StepRuntime`. ``start`` looks at the settings and answers with one of three values:

- :class:`Launch`: run this command in a supervised process. When it has ended, ``ended`` says what that means.
- :class:`Waiting`: the work goes on elsewhere, and this handle finds it again. The handle is stored before anything waits
  for it; then ``poll`` is called until it answers :class:`Done`. After a crash another worker goes on polling: the work is
  re-attached to, not started again.
- :class:`Done`: finished already. For what is quick and needs no process.

**Idempotence.** A step may be started more than once: the worker may die after ``start`` has acted and before anything was
recorded. Its *recorded* result is exactly one. Whoever must act exactly once does so in the transaction that records the
result (``Done.in_transaction``), which only the holder of the claim can commit, or fences by ``context.attempt_key``.

The engine calls one attempt's methods one at a time, in a thread unless it is not ``blocking``.

**Time.** ``timeout`` and ``stop`` hold for work in a thread too, but a thread cannot be ended: the attempt is recorded as over, and what
the thread still comes to is thrown away. So that it ends soon, a method passes :meth:`StepContext.patience` to what it waits for and
calls :meth:`StepContext.check` between its phases.
"""

from __future__ import annotations

import time
from abc import ABC
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, ClassVar, TypeAlias

from pydantic import BaseModel
from sqlalchemy.engine import Connection

from icefloe.config import Config
from icefloe.errors import IcefloeError
from icefloe.store.database import Database
from icefloe.workflow.files import script_key
from icefloe.workflow.step_types import BUILTIN, StepType
from icefloe.workflow.values import TypedValue

Json: TypeAlias = Any


class OutcomeKind(StrEnum):
    """How an attempt ended."""

    SUCCEEDED = "SUCCEEDED"
    ERROR = "ERROR"  # the user's code failed
    PLATFORM = "PLATFORM"  # the worker, the machine, a service that should be there
    TIMEOUT = "TIMEOUT"
    FATAL = "FATAL"  # trying again cannot help
    STOPPED = "STOPPED"  # ended because it was told to


@dataclass(frozen=True, slots=True)
class Cause:
    """Why: for people, with the code of the error when there was one."""

    message: str
    code: str | None = None
    hint: str | None = None

    @staticmethod
    def of(error: BaseException) -> Cause:
        if isinstance(error, IcefloeError):
            return Cause(str(error), error.code, error.hint)
        return Cause(f"{type(error).__name__}: {error}")

    def to_json(self) -> dict[str, str]:
        return {key: value for key in ("message", "code", "hint") if (value := getattr(self, key)) is not None}

    @staticmethod
    def from_json(data: Mapping[str, str] | None) -> Cause | None:
        return None if data is None else Cause(data["message"], data.get("code"), data.get("hint"))


@dataclass(frozen=True, slots=True)
class Outcome:
    """An attempt's end. ``outputs`` are what other steps read as ``${step__name}``."""

    kind: OutcomeKind
    outputs: Mapping[str, TypedValue] = field(default_factory=dict)
    cause: Cause | None = None
    retry_at_once: bool = False
    skips_rest: str | None = None
    """With success: why everything behind this step has nothing to do. Those steps end as SKIPPED."""


@dataclass(frozen=True, slots=True)
class AttemptKey:
    """Names one claim of one attempt of one step, for ever. A later claim has a higher generation."""

    run_id: str
    step_id: str
    attempt: int
    generation: int

    def __str__(self) -> str:
        return f"{self.run_id}/{self.step_id}/{self.attempt}/{self.generation}"


class AttemptOverError(IcefloeError):
    """The attempt was stopped, or its time is over: whatever comes of it is not recorded."""

    code = "step.over"


@dataclass(frozen=True, slots=True)
class StepContext:
    """What an attempt knows. ``settings`` and ``params`` are resolved, ``secrets`` are the texts that logs must not show."""

    key: AttemptKey
    root_run_id: str
    workflow_id: str
    version: int
    step_path: tuple[str, ...]
    iteration: int | None
    era: int
    """Goes up when a restart begins the step's work anew; retries and restarts of what is incomplete keep it."""
    settings: Mapping[str, Json]
    params: Mapping[str, TypedValue]
    secrets: tuple[str, ...]
    folder: Path
    """The attempt's own folder, removed when its result has been recorded."""
    config: Config
    database: Database
    read_file: Callable[[str], bytes]
    """The content of a file that the workflow's version contains, by its key (``file:a.sql``, ``s3:bucket/key``)."""
    log: Callable[[str], None]
    """Write a line to the attempt's log, for steps that have no process."""
    steps: Callable[[], Mapping[str, str]]
    """The statuses of the run's other steps, as they are now."""
    deadline: float | None = None
    """When its timeout is over, on this process's monotonic clock."""
    cancelled: Callable[[], bool] = lambda: False
    """Whether it was told to end, or its claim is gone."""

    def patience(self, most: float) -> float:
        """How many seconds a call to others may take: ``most``, or as long as the attempt has.

        And a moment longer, so that the engine ends the attempt by its timeout before the call fails.
        """
        return most if self.deadline is None else min(most, max(0.0, self.deadline - time.monotonic()) + 1.0)

    def check(self) -> None:
        """Go no further when the attempt is over. Raises :class:`AttemptOverError`."""
        if self.cancelled() or (self.deadline is not None and time.monotonic() >= self.deadline):
            raise AttemptOverError(
                f"attempt {self.key.attempt} is over", where=f"run {self.key.run_id}, step {self.key.step_id}"
            )

    def script(self, setting: str) -> str:
        """A ``script:`` setting's text: itself, or the content of the file it names. A file's content is taken as it is."""
        key = script_key(setting)
        return setting if key is None else self.read_file(key).decode("utf-8")

    def parsed(self, step_type: StepType) -> BaseModel:
        """The settings as the type's own model."""
        return step_type.parse(self.settings, where=f"run {self.key.run_id}, step {self.key.step_id}")


@dataclass(frozen=True, slots=True)
class Command:
    """A program to run. ``env`` goes on top of what steps get of the worker's environment (:mod:`icefloe.environment`)."""

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: Path | None = None
    imports: tuple[str, ...] = ()
    """For ``python -m MODULE …`` that takes long to import these: MODULE's ``main()`` may be called in a fork of a process that has
    them."""

    @property
    def module(self) -> str:
        return self.argv[2]


@dataclass(frozen=True, slots=True)
class Launch:
    command: Command


@dataclass(frozen=True, slots=True)
class Waiting:
    """``handle`` is JSON without secrets. ``poll_after`` seconds is when to ask next; ``note`` is shown as what it waits for."""

    handle: Json
    poll_after: float = 1.0
    note: str | None = None


@dataclass(frozen=True, slots=True)
class Done:
    outcome: Outcome
    in_transaction: Callable[[Connection], None] | None = None
    """Runs in the transaction that records the result. Raising rolls both back and fails the attempt."""
    after_commit: Callable[[], None] | None = None
    """Runs once that transaction is committed. Best effort: the worker may die before it, and an error changes nothing any
    more, but is logged, counted and shown with the run. So it may only do what whoever comes next can find undone, and does then."""


Progress: TypeAlias = Launch | Waiting | Done


@dataclass(frozen=True, slots=True)
class ProcessResult:
    """How a supervised process ended. A negative exit code is the signal that ended it, None: it never started."""

    exit_code: int | None
    reason: str | None = None
    """Why it was ended from outside: ``timeout``, ``cancelled``, ``lease``, ``worker-gone``; None: by itself."""
    error: str | None = None


def builtin(name: str) -> StepType:
    """The description of one of this package's own types."""
    step_type = BUILTIN.find(name)
    assert step_type is not None, name
    return step_type


class StepRuntime(ABC):
    """One step type. Subclasses are registered under the entry point group ``icefloe.steps``; one instance serves all."""

    type: ClassVar[StepType]
    blocking: ClassVar[bool] = True
    """``start``, ``poll`` and ``ended`` may take a while: they are called in a thread."""
    instant: ClassVar[bool] = False
    """``start`` is Done at once and needs neither a folder nor a worker's slot."""

    def start(self, context: StepContext) -> Progress:
        """Begin an attempt. May be called again for the same step after a crash."""
        raise NotImplementedError

    def poll(self, context: StepContext, handle: Json) -> Progress:
        """How far is it? Called by any worker, also one that did not start it."""
        raise NotImplementedError(f"{type(self).__name__} gave out a handle but cannot poll it")

    def cancel(self, context: StepContext, handle: Json) -> None:  # noqa: B027 - most types have nothing to do here
        """End the work behind the handle. Supervised processes are ended by the engine itself."""

    def ended(self, context: StepContext, result: ProcessResult) -> Done:
        """What the end of a launched process means. The default: exit code 0 is success, and outputs are read."""
        from icefloe.steps.process import default_outcome

        return Done(default_outcome(context, result))
