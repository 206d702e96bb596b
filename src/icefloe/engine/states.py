"""The statuses of runs and steps, and which moves between them are allowed. The one place where they are written."""

from __future__ import annotations

from enum import StrEnum


class RunStatus(StrEnum):
    __hash__ = str.__hash__  # Enum's own is a Python function, and these are looked up by the million

    CREATED = "CREATED"  # waits for its turn by the workflow's run strategy
    IN_PROGRESS = "IN_PROGRESS"
    PAUSED = "PAUSED"  # what runs goes on, nothing new starts
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    STOPPED = "STOPPED"
    TIMED_OUT = "TIMED_OUT"

    @property
    def ended(self) -> bool:
        return self in _ENDED_RUN


class StepStatus(StrEnum):
    __hash__ = str.__hash__

    CREATED = "CREATED"  # its predecessors have not all ended
    INITIALIZED = "INITIALIZED"  # ready: waits for a worker, or for its retry delay
    PAUSED = "PAUSED"
    WAITING_FOR_SIGNALS = "WAITING_FOR_SIGNALS"
    STARTING = "STARTING"  # claimed by a worker
    RUNNING = "RUNNING"
    UNSATISFIED = "UNSATISFIED"  # no incoming condition held
    SKIPPED = "SKIPPED"
    SUCCEEDED = "SUCCEEDED"
    COMPLETED_WITH_ERROR = "COMPLETED_WITH_ERROR"  # failed, and the definition says to ignore it
    USER_FAILED = "USER_FAILED"
    PLATFORM_FAILED = "PLATFORM_FAILED"
    TIMEOUT_FAILED = "TIMEOUT_FAILED"
    FATALLY_FAILED = "FATALLY_FAILED"  # trying again cannot help
    STOPPED = "STOPPED"
    TIMED_OUT = "TIMED_OUT"  # the run's time was over

    @property
    def ended(self) -> bool:
        return self in _ENDED_STEP

    @property
    def complete(self) -> bool:
        """Ended so that successors may go on."""
        return self in COMPLETE

    @property
    def failed(self) -> bool:
        """Ended so that successors may not go on: what a restart does again."""
        return self in FAILED

    @property
    def active(self) -> bool:
        """Somebody works on it: a worker, or the runs it started."""
        return self in ACTIVE

    @property
    def ready(self) -> bool:
        return self in READY


READY = frozenset({StepStatus.INITIALIZED})
PENDING = READY | {StepStatus.PAUSED, StepStatus.WAITING_FOR_SIGNALS}
ACTIVE = frozenset({StepStatus.STARTING, StepStatus.RUNNING})
COMPLETE = frozenset(
    {
        StepStatus.UNSATISFIED,
        StepStatus.SKIPPED,
        StepStatus.SUCCEEDED,
        StepStatus.COMPLETED_WITH_ERROR,
    }
)
FAILED = frozenset(
    {
        StepStatus.USER_FAILED,
        StepStatus.PLATFORM_FAILED,
        StepStatus.TIMEOUT_FAILED,
        StepStatus.FATALLY_FAILED,
        StepStatus.STOPPED,
        StepStatus.TIMED_OUT,
    }
)
_ENDED_STEP = COMPLETE | FAILED
_ENDED_ATTEMPT = (_ENDED_STEP - {StepStatus.UNSATISFIED}) | {StepStatus.INITIALIZED, StepStatus.PAUSED}
_ENDED_RUN = frozenset({RunStatus.SUCCEEDED, RunStatus.FAILED, RunStatus.STOPPED, RunStatus.TIMED_OUT})

RUN_MOVES: dict[RunStatus, frozenset[RunStatus]] = {
    RunStatus.CREATED: frozenset({RunStatus.IN_PROGRESS, RunStatus.STOPPED, RunStatus.FAILED}),
    RunStatus.IN_PROGRESS: _ENDED_RUN | {RunStatus.PAUSED},
    RunStatus.PAUSED: _ENDED_RUN | {RunStatus.IN_PROGRESS},
    # An ended run is restarted in place: it waits for its turn again.
    **{status: frozenset({RunStatus.CREATED}) for status in _ENDED_RUN},
}

STEP_MOVES: dict[StepStatus, frozenset[StepStatus]] = {
    StepStatus.CREATED: frozenset(
        {
            StepStatus.INITIALIZED,
            StepStatus.PAUSED,
            StepStatus.WAITING_FOR_SIGNALS,
            StepStatus.UNSATISFIED,
            StepStatus.SKIPPED,
            StepStatus.FATALLY_FAILED,
            StepStatus.COMPLETED_WITH_ERROR,
        }
    ),
    StepStatus.PAUSED: frozenset(
        {StepStatus.INITIALIZED, StepStatus.SKIPPED, StepStatus.STOPPED, StepStatus.TIMED_OUT}
    ),
    StepStatus.WAITING_FOR_SIGNALS: frozenset(
        {
            StepStatus.INITIALIZED,
            StepStatus.PAUSED,
            StepStatus.SKIPPED,
            StepStatus.STOPPED,
            StepStatus.TIMED_OUT,
            StepStatus.FATALLY_FAILED,
            StepStatus.COMPLETED_WITH_ERROR,
        }
    ),
    StepStatus.INITIALIZED: frozenset(
        {StepStatus.STARTING, StepStatus.PAUSED, StepStatus.SKIPPED, StepStatus.STOPPED, StepStatus.TIMED_OUT}
    ),
    # An attempt ends for good, or goes back to wait for the next one.
    StepStatus.STARTING: _ENDED_ATTEMPT | {StepStatus.RUNNING},
    StepStatus.RUNNING: _ENDED_ATTEMPT,
    # A restart resets; a failed step may be skipped afterwards.
    **{status: frozenset({StepStatus.CREATED}) for status in COMPLETE},
    **{status: frozenset({StepStatus.CREATED, StepStatus.SKIPPED}) for status in FAILED},
}
