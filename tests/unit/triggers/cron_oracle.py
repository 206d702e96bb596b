"""What a cron does, said a second time and in the slowest way: look at every minute, and at what the wall shows then.

Knows nothing of croniter, of intervals between fires, or of how the scheduler finds clock changes.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_DAYS = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]
_LIMITS = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7))


def _numbers(field: str, low: int, high: int, names: list[str], first: int) -> set[int]:
    found: set[int] = set()
    for part in field.lower().split(","):
        span, _, step = part.partition("/")
        for index, name in enumerate(names):
            span = span.replace(name, str(index + first))
        if span == "*":
            start, end = low, high
        elif "-" in span:
            start, end = map(int, span.split("-"))
        else:
            start = int(span)
            end = high if step else start
        found |= set(range(start, end + 1, int(step or 1)))
    return found


@dataclass(frozen=True)
class Cron:
    minutes: set[int]
    hours: set[int]
    days: set[int]
    months: set[int]
    weekdays: set[int]
    either: bool

    @staticmethod
    def parse(expression: str) -> Cron:
        fields = expression.split()
        minutes, hours, days, months, weekdays = (
            _numbers(field, *limits, _MONTHS if index == 3 else _DAYS if index == 4 else [], 1 if index == 3 else 0)
            for index, (field, limits) in enumerate(zip(fields, _LIMITS, strict=True))
        )
        restricted = not fields[2].startswith("*") and not fields[4].startswith("*")
        return Cron(minutes, hours, days, months, {day % 7 for day in weekdays}, restricted)

    def shows(self, wall: datetime) -> bool:
        day = wall.day in self.days
        weekday = wall.isoweekday() % 7 in self.weekdays
        date = (day or weekday) if self.either else (day and weekday)
        return wall.minute in self.minutes and wall.hour in self.hours and wall.month in self.months and date

    @property
    def in_every_hour(self) -> bool:
        return self.hours == set(range(24))


def fires(expression: str, zone: str, start: datetime, end: datetime) -> list[datetime]:
    """The fires in [start, end), in UTC."""
    cron, place = Cron.parse(expression), ZoneInfo(zone)
    found: list[datetime] = []
    moment, minute = start, timedelta(minutes=1)
    before = (moment - minute).astimezone(place).replace(tzinfo=None)
    # Wall times that were shown before the window may come again in it.
    seen = set() if cron.in_every_hour else _shown(cron, place, start - timedelta(hours=26), start)
    while moment < end:
        wall = moment.astimezone(place).replace(tzinfo=None)
        if cron.in_every_hour:
            fire = cron.shows(wall)
        else:
            # Every wall time up to now that was skipped counts now; one that was shown before does not count again.
            skipped = [before + minute * n for n in range(1, max(1, round((wall - before) / minute)))]
            fire = any(cron.shows(one) for one in skipped) or (cron.shows(wall) and wall not in seen)
            if cron.shows(wall):
                seen.add(wall)
        if fire:
            found.append(moment)
        moment, before = moment + minute, wall
    return found


def _shown(cron: Cron, place: ZoneInfo, start: datetime, end: datetime) -> set[datetime]:
    found, moment = set(), start
    while moment < end:
        wall = moment.astimezone(place).replace(tzinfo=None)
        if cron.shows(wall):
            found.add(wall)
        moment += timedelta(minutes=1)
    return found


def utc(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)  # type: ignore[arg-type]
