"""The scheduler's two clocks, and ages that do not trust other machines' clocks."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

YOUTH_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Clock:
    """``wall`` is compared with schedules only, ``monotonic`` with itself only."""

    wall: Callable[[], float] = time.time
    monotonic: Callable[[], float] = time.monotonic


@dataclass(slots=True)
class AgeTracker:
    """Since when something has been so, by this process's own clock.

    What is found in the first moments of this process's life may have been so for long: then the time that somebody else wrote
    down is believed, if it lies in the past. A foreign clock that is wrong then makes something start too early, or one pause
    too late; it never holds anything up for good.
    """

    clock: Clock
    _born: float = field(init=False)
    _seen: dict[Hashable, tuple[Hashable, float, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._born = self.clock.monotonic()

    def age(self, group: Hashable, state: Hashable, written: float | None, *, slack: float = 0.0) -> float:
        """Seconds since ``state`` has been so; a group holds one thing at a time.

        ``slack``: how long it may have been so before this process could see it.
        """
        now = self.clock.monotonic()
        since = self._seen.get(group)
        if since is None or since[0] != state:
            before = max(0.0, self.clock.wall() - written) if written is not None else 0.0
            if now - self._born > YOUTH_SECONDS:
                before = min(before, slack)
            since = self._seen[group] = state, now, before
        return now - since[1] + since[2]
