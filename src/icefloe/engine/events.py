"""What the engine's decisions are made of: states, the events that change them, and the effects that follow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeAlias

from icefloe.engine.states import RunStatus, StepStatus
from icefloe.errors import ConflictError
from icefloe.steps.contract import Cause, Outcome
from icefloe.workflow.values import TypedValue

Json: TypeAlias = Any


class Refused(ConflictError):  # noqa: N818 - an answer, not an accident
    """The event does not fit the state; nothing was changed."""

    code = "refused"
    retryable = False


class RunRequest(StrEnum):
    """What was asked of a run or step that is still under way."""

    STOP = "STOP"
    FAIL = "FAIL"  # a FAIL_IMMEDIATELY step failed: end the others, then fail
    TIME_OUT = "TIME_OUT"
    SKIP = "SKIP"


class RestartFrom(StrEnum):
    INCOMPLETE = "INCOMPLETE"
    BEGINNING = "BEGINNING"
    STEP = "STEP"


@dataclass(frozen=True, slots=True)
class Tries:
    """Failed attempts so far, by kind."""

    error: int = 0
    platform: int = 0
    timeout: int = 0


@dataclass(frozen=True, slots=True)
class ForeachProgress:
    """How far a foreach is: counters only, so that its cost does not grow with the number of iterations.

    Iterations below ``next`` have been started. ``redo_after`` walks over the failed ones of the previous try; None when
    there are none left to do again.
    """

    total: int
    next: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    redo_after: int | None = None

    @property
    def exhausted(self) -> bool:
        return self.redo_after is None and self.next >= self.total


@dataclass(frozen=True, slots=True)
class StepState:
    id: str
    status: StepStatus = StepStatus.CREATED
    attempt: int = 0
    generation: int = 0
    owner: str | None = None
    request: RunRequest | None = None
    delay: float = 0.0
    tries: Tries = Tries()
    params: Mapping[str, TypedValue] | None = None
    outputs: Mapping[str, TypedValue] | None = None
    handle: Json = None
    loop: ForeachProgress | None = None
    resumes: bool = False
    """The runs it started before are taken up where they failed, not begun again."""
    cause: Cause | None = None
    available_at: float | None = None
    started_at: float | None = None
    ended_at: float | None = None
    era: int = 0
    """How often its work was begun anew by a restart. What an earlier era has done does not count for this one."""


@dataclass(frozen=True, slots=True)
class RunState:
    id: str
    status: RunStatus
    steps: Mapping[str, StepState]
    request: RunRequest | None = None
    cause: Cause | None = None
    restarts: int = 0
    started_at: float | None = None
    ended_at: float | None = None


# -- events ----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Begin:
    """The run's turn has come."""


@dataclass(frozen=True, slots=True)
class Claim:
    step: str
    owner: str


@dataclass(frozen=True, slots=True)
class Started:
    """The attempt is under way; ``handle`` finds it again. A step that starts runs has no owner from here on."""

    step: str
    generation: int
    params: Mapping[str, TypedValue] | None = None
    handle: Json = None
    loop: ForeachProgress | None = None
    note: str | None = None
    """What it waits for. Said again, it is recorded as a move from RUNNING to RUNNING."""


@dataclass(frozen=True, slots=True)
class Ended:
    step: str
    generation: int
    outcome: Outcome
    params: Mapping[str, TypedValue] | None = None


@dataclass(frozen=True, slots=True)
class ChildEnded:
    """A run that this step started has ended."""

    step: str
    status: RunStatus
    outputs: Mapping[str, TypedValue] = field(default_factory=dict)
    cause: Cause | None = None
    iteration: int | None = None


@dataclass(frozen=True, slots=True)
class IterationsStarted:
    step: str
    loop: ForeachProgress


@dataclass(frozen=True, slots=True)
class Lost:
    """The worker that held the claim is gone. A step with a handle that can be found again is only handed on."""

    step: str
    owner: str
    reattach: bool = False


@dataclass(frozen=True, slots=True)
class HandedOver:
    """The worker gives its claim back without having failed."""

    step: str
    generation: int


@dataclass(frozen=True, slots=True)
class SignalsArrived:
    step: str


@dataclass(frozen=True, slots=True)
class WaitingInVain:
    """What a step waits for cannot be told, and never will be: a moment that is none."""

    step: str
    cause: Cause


@dataclass(frozen=True, slots=True)
class Stop:
    by: str


@dataclass(frozen=True, slots=True)
class Kill:
    by: str


@dataclass(frozen=True, slots=True)
class TimeOut:
    seconds: float


@dataclass(frozen=True, slots=True)
class Pause:
    by: str


@dataclass(frozen=True, slots=True)
class Resume:
    by: str


@dataclass(frozen=True, slots=True)
class Skip:
    step: str
    by: str


@dataclass(frozen=True, slots=True)
class Restart:
    by: str
    scope: RestartFrom = RestartFrom.INCOMPLETE
    step: str | None = None


Event: TypeAlias = (
    Begin
    | Claim
    | Started
    | Ended
    | ChildEnded
    | IterationsStarted
    | Lost
    | HandedOver
    | SignalsArrived
    | WaitingInVain
    | Stop
    | Kill
    | TimeOut
    | Pause
    | Resume
    | Skip
    | Restart
)

# -- what is to be done ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Ready:
    """A worker may claim it, after ``delay``."""

    step: str
    delay: float = 0.0


@dataclass(frozen=True, slots=True)
class Cancel:
    """Its owner must end the attempt; ``lost``: the claim is gone already, nothing will be recorded."""

    step: str
    owner: str
    lost: bool = False


@dataclass(frozen=True, slots=True)
class ToChildren:
    """Pass the event on to the runs that this step started and that have not ended."""

    step: str
    event: Stop | Kill | Pause | Resume


@dataclass(frozen=True, slots=True)
class StartIterations:
    """The foreach has room for more iterations."""

    step: str


@dataclass(frozen=True, slots=True)
class RunEnded:
    status: RunStatus


Effect: TypeAlias = Ready | Cancel | ToChildren | StartIterations | RunEnded


@dataclass(frozen=True, slots=True)
class Move:
    """One recorded transition; ``step`` None is the run's own."""

    step: str | None
    attempt: int | None
    previous: str
    status: str
    cause: str | None


@dataclass(frozen=True, slots=True)
class AttemptEnded:
    """One try of a step is over, whether or not another follows."""

    step: str
    attempt: int
    status: StepStatus
    cause: Cause | None
    owner: str | None
    started_at: float | None


@dataclass(frozen=True, slots=True)
class Decision:
    run: RunState
    changed: frozenset[str]
    moves: tuple[Move, ...]
    attempts: tuple[AttemptEnded, ...]
    effects: tuple[Effect, ...]
