"""When a time trigger fires: the instants of a cron in its zone, or of an interval. Pure: no clock is looked at.

**Clock changes.** A cron that names hours (``0 3 * * *``) fires once for each time on the wall: a time that is skipped in
spring fires at the moment of the change, a time that comes twice in autumn fires the first time. A cron that runs in every
hour (``*/15 * * * *``) follows elapsed time instead: nothing in the hour that does not exist, and both of the doubled ones.

croniter (6.2) is asked about wall times only, where there are no zones. Its own handling of zones lost and doubled fires at
changes, so it is never given one.
"""

from __future__ import annotations

import math
import threading
from datetime import UTC, datetime, timedelta
from typing import Protocol
from zoneinfo import ZoneInfo

from croniter import croniter

from icefloe.triggers import zones
from icefloe.workflow.cron import croniter_form
from icefloe.workflow.model import CronTrigger, IntervalTrigger

_WALL = datetime(1970, 1, 1)
_YEARS = 60
"""A cron that does not fire within so many years has fired for the last time."""


class FireTimes(Protocol):
    """Instants in ascending order."""

    def after(self, moment: float) -> float | None:
        """The first instant later than ``moment``; None: there is none."""
        ...


class CronTimes:
    """The instants of a cron. ``start`` and ``end`` both belong to it."""

    def __init__(self, expression: str, zone: str, start: float | None = None, end: float | None = None) -> None:
        self._zone = zone
        self._start = start
        self._end = end
        self._walls = croniter(
            croniter_form(expression),
            _WALL,
            max_years_between_matches=_YEARS,
            # As cron does it: a day or weekday field that begins with * restricts, and does not make an "or" of the two.
            implement_cron_bug=True,
        )
        self._asking = threading.Lock()  # croniter keeps its place in itself
        hours = self._walls.expanded[1]
        self._every_hour = hours == ["*"] or set(range(24)) <= set(hours)

    def after(self, moment: float) -> float | None:
        if self._start is not None and moment < self._start:
            moment = math.ceil(self._start) - 1
        fire = self._after(math.floor(moment))
        return None if fire is None or (self._end is not None and fire > self._end) else float(fire)

    def _after(self, instant: int) -> int | None:
        while instant < zones.LAST:
            offset = zones.offset(self._zone, instant)
            wall = self._next_wall(instant + offset)
            until = zones.LAST if wall is None else wall - offset
            change = zones.next_change(self._zone, instant, min(until, instant + _YEARS * 366 * 86400))
            if change is None:
                if wall is None:
                    return None
                if not self._has_been(until, wall):
                    return until
                instant = until
                continue
            at, new = change
            skipped = self._next_wall(at + offset - 1)
            if new > offset and not self._every_hour and skipped is not None and skipped < at + new:
                return at
            if self._next_wall(at + new - 1) == at + new and not self._has_been(at, at + new):
                return at
            instant = at
        return None

    def _has_been(self, instant: int, wall: int) -> bool:
        """Whether the wall has shown this before, and the cron counts wall times."""
        if self._every_hour:
            return False
        first = zones.first_instant(self._zone, wall)
        return first < instant and first + zones.offset(self._zone, first) == wall

    def _next_wall(self, wall: int) -> int | None:
        try:
            with self._asking:
                self._walls.set_current(_WALL + timedelta(seconds=wall), force=True)
                next_wall: datetime = self._walls.get_next(datetime)
        except (
            Exception
        ):  # croniter raises what it has when there is no further date, and OverflowError at the end of time
            return None
        return round((next_wall - _WALL).total_seconds())


class IntervalTimes:
    """``anchor``, and every so many seconds after it. Counted in microseconds, so that a year of them does not drift."""

    def __init__(self, every: float, anchor: float, start: float | None = None, end: float | None = None) -> None:
        self._every = max(1, round(every * 1e6))
        self._anchor = round((anchor if start is None else start) * 1e6)
        self._end = end

    def after(self, moment: float) -> float | None:
        number = max(0, (round(moment * 1e6) - self._anchor) // self._every + 1)
        fire = (self._anchor + number * self._every) / 1e6
        return None if self._end is not None and fire > self._end else fire


def fire_times(trigger: CronTrigger | IntervalTrigger, anchor: float) -> FireTimes:
    """``anchor`` is when the trigger was first pushed: an interval without ``start`` counts from there."""
    zone = trigger.timezone if isinstance(trigger, CronTrigger) else "UTC"
    start, end = (_instant(text, zone) for text in (trigger.start, trigger.end))
    if isinstance(trigger, CronTrigger):
        return CronTimes(trigger.cron, zone, start, end)
    return IntervalTimes(trigger.every, anchor, start, end)


def _instant(text: str | None, zone: str) -> float | None:
    """A date as written; without an offset it is meant on the wall of the trigger's zone."""
    if text is None:
        return None
    moment = datetime.fromisoformat(text)
    return (moment if moment.tzinfo else moment.replace(tzinfo=ZoneInfo(zone))).astimezone(UTC).timestamp()
