"""What a running statement has done so far, as lines of the step's log. ``icefloe run --wait`` shows the last of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

QUIET_SECONDS = 2.0
"""A statement says nothing before it has run this long, and then at most this often."""


class ProgressLog:
    """A progress handler of a Connect session. Called by PySpark whenever the server reports, in the client's thread."""

    def __init__(self, say: Callable[[str], None], clock: Callable[[], float] = time.monotonic) -> None:
        self._say = say
        self._clock = clock
        self._operation: str | None = None
        self._next = 0.0
        self._last = ""

    def __call__(self, stages: Iterable[Any] | None, inflight_tasks: int, operation_id: str | None, done: bool) -> None:
        now = self._clock()
        if operation_id != self._operation:
            self._operation, self._next = operation_id, now + QUIET_SECONDS
        if done or now < self._next:
            return
        line = described(list(stages or ()), inflight_tasks)
        if line != self._last:
            self._say(line)
            self._last, self._next = line, now + QUIET_SECONDS


def described(stages: list[Any], running: int) -> str:
    tasks = sum(stage.num_tasks for stage in stages)
    finished = sum(stage.num_completed_tasks for stage in stages)
    ended = sum(1 for stage in stages if stage.done)
    read = sum(stage.num_bytes_read for stage in stages)
    parts = [
        f"stage {min(ended + 1, len(stages))} of {len(stages)}",
        f"{finished} of {tasks} tasks",
        f"{running} running",
    ]
    if read:
        parts.append(f"{_size(read)} read")
    return "  " + ", ".join(parts)


def _size(count: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"
