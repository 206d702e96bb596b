"""Run strategies: whose turn it is among the runs of one workflow. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from icefloe.workflow.model import RunRule, RunStrategy

DEFAULT_PARALLEL = 10


@dataclass(frozen=True, slots=True)
class Candidate:
    """A run that has not ended."""

    run_id: str
    running: bool


@dataclass(frozen=True, slots=True)
class Admissions:
    """Runs to begin, and runs to stop with the reason."""

    begin: tuple[str, ...] = ()
    stop: tuple[tuple[str, str], ...] = ()


def admissions(strategy: RunStrategy, candidates: Sequence[Candidate], *, blocked_by: str | None = None) -> Admissions:
    """``candidates`` oldest first. ``blocked_by`` is the last run when it ended badly and nobody has unblocked it."""
    running = [c.run_id for c in candidates if c.running]
    waiting = [c.run_id for c in candidates if not c.running]
    if not waiting:
        return Admissions()
    match strategy.rule:
        case RunRule.PARALLEL:
            room = (strategy.concurrency or DEFAULT_PARALLEL) - len(running)
            return Admissions(begin=tuple(waiting[: max(0, room)]))
        case RunRule.FIRST_ONLY:
            first = running[0] if running else waiting[0]
            others = [run for run in waiting if run != first]
            begin = () if running else (first,)
            return Admissions(begin, tuple((run, f"run {first} is still running (FIRST_ONLY)") for run in others))
        case RunRule.LAST_ONLY:
            last = waiting[-1]
            older = [*running, *waiting[:-1]]
            # It begins when the one before it has really ended: two never run at once.
            begin = () if running else (last,)
            return Admissions(begin, tuple((run, f"run {last} came after it (LAST_ONLY)") for run in older))
        case RunRule.STRICT_SEQUENTIAL if blocked_by is not None and blocked_by not in waiting:
            return Admissions()
        case _:
            return Admissions() if running else Admissions(begin=(waiting[0],))
