"""Which of a time trigger's fires are due now, and which of those start a run. Pure.

The trigger's *cursor* is the moment up to which everything has been decided. Fires after it whose time has come are due; the
catch-up policy says which of them start a run, and the cursor moves past all of them. So a fire is decided once, whoever
looks how often, and fires that passed while nobody looked are treated as the policy says.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime

from icefloe.triggers.fire_times import FireTimes
from icefloe.workflow.model import CatchUp

MOST_AT_ONCE = 100


@dataclass(frozen=True, slots=True)
class Due:
    """Fires to start a run for, in order, and where the cursor goes. ``passed_over``: some were not started."""

    starts: tuple[float, ...]
    cursor: float
    passed_over: bool = False


@dataclass(frozen=True, slots=True)
class Delay:
    """A delay per fire, up to ``most`` seconds: the same on every scheduler, spread evenly over workflows."""

    seed: str
    most: float

    def of(self, fire: float) -> float:
        if self.most <= 0:
            return 0.0
        digest = hashlib.sha256(f"{self.seed}@{fire!r}".encode()).digest()
        return self.most * int.from_bytes(digest[:7], "big") / 2**56


def due(times: FireTimes, cursor: float, now: float, *, catch_up: CatchUp, grace: float, delay: Delay) -> Due | None:
    """What is to be done about the fires in (cursor, now]; None: nothing is due. ``grace``: how late is still in time."""
    first = times.after(cursor)
    if first is None or first + delay.of(first) > now:
        return None
    if catch_up is CatchUp.ALL:
        starts = [first]
        while len(starts) < MOST_AT_ONCE:
            following = times.after(starts[-1])
            if following is None or following + delay.of(following) > now:
                break
            starts.append(following)
        return Due(tuple(starts), starts[-1])
    last = _last_due(times, first, now, delay)
    if catch_up is CatchUp.NONE and now - last - delay.of(last) > grace:
        return Due((), last, passed_over=True)
    return Due((last,), last, passed_over=last > first)


def next_fire(times: FireTimes, cursor: float, delay: Delay) -> float | None:
    """When something is due next, delay included."""
    fire = times.after(cursor)
    return None if fire is None else fire + delay.of(fire)


def upcoming(times: FireTimes, after: float, most: int) -> list[float]:
    """The next fires, for people to see."""
    fires: list[float] = []
    while len(fires) < most:
        fire = times.after(fires[-1] if fires else after)
        if fire is None:
            break
        fires.append(fire)
    return fires


def name_of(fire: float) -> str:
    """A fire's name in an occasion: its time in UTC, to the microsecond where it has any."""
    moment = datetime.fromtimestamp(round(fire * 1e6) // 1_000_000, UTC).replace(
        microsecond=round(fire * 1e6) % 1_000_000
    )
    return moment.isoformat().replace("+00:00", "Z")


def _last_due(times: FireTimes, first: float, now: float, delay: Delay) -> float:
    """The last fire that is due. Looks back in growing windows: after a year away nobody walks through every minute of it."""
    reach, low = 60.0 + delay.most, now
    while low > first:
        low = max(first, now - reach)
        due = _walk(times, low, now, delay)
        if due is not None:
            return due
        reach *= 4
    return first


def _walk(times: FireTimes, after: float, now: float, delay: Delay) -> float | None:
    """The last due fire in (after, now]; fires are taken in order, so one that is delayed holds back those behind it."""
    last, fire = None, times.after(after)
    while fire is not None and fire + delay.of(fire) <= now:
        last, fire = fire, times.after(fire)
    return last
