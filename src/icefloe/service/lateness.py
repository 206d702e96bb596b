"""How late rows arrive: the time of the append that brought them against the partition they are in. Pure.

An append is as late for a partition as many whole days (hours, months, years: the coarsest that the table's partition specs tell) lie between
the two, in UTC. A lookback of so many days before the day of the run would have read the rows again. Partitions are in time when their field
is a ``day``, ``hour``, ``month`` or ``year``, or the identity of a date, a timestamp, a number such as 20260301 or a text such as 2026-03-01.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum
from typing import Any

from icefloe.lake.arrivals import Arrival
from icefloe.lake.partitions import PartitionChange
from icefloe.lake.values import Nanoseconds

_EPOCH = date(1970, 1, 1)
SHARES = ((99, 100), (999, 1000), (1, 1))
"""Of the rows: the lookbacks that are told."""


class Unit(StrEnum):
    """From the finest to the coarsest."""

    HOUR = "hour"
    DAY = "day"
    MONTH = "month"
    YEAR = "year"


_ORDER = list(Unit)


@dataclass(frozen=True, slots=True)
class EventRows:
    """Rows of one event time: the ``index``-th hour, day, month or year since 1970."""

    unit: Unit
    index: int
    rows: int
    files: int


@dataclass(frozen=True, slots=True)
class DatedArrival:
    """One append by event time. ``untimed_rows`` are in partitions without one."""

    snapshot_id: int
    at_ms: int
    first: bool
    events: tuple[EventRows, ...]
    untimed_rows: int
    fields: frozenset[str] = frozenset()
    """The partition fields that tell the time."""


@dataclass(frozen=True, slots=True)
class Lookback:
    """``units`` before the one of the run would have read ``share`` of the rows again, or more."""

    share: float
    units: int


@dataclass(frozen=True, slots=True)
class LatenessProfile:
    """``lags``: how many units late, and how many rows; a negative lag is ahead of time. The first load is left out of it: it brings what
    happened before there was a table."""

    unit: Unit
    fields: tuple[str, ...]
    appends: int
    rows: int
    lags: tuple[tuple[int, int], ...]
    lookbacks: tuple[Lookback, ...]
    first_load_rows: int = 0
    untimed_rows: int = 0
    from_ms: int | None = None
    to_ms: int | None = None

    @property
    def late_rows(self) -> int:
        return sum(rows for lag, rows in self.lags if lag > 0)

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "late_rows": self.late_rows}


@dataclass(frozen=True, slots=True)
class ArrivalMap:
    """Rows by the day they arrived and by the time they belong to: a day, or what is coarser. Days are in UTC."""

    unit: Unit
    cells: Mapping[tuple[int, int], int] = field(default_factory=dict)
    """(day of arrival since 1970, event time's index) -> rows."""


def dated(arrival: Arrival) -> DatedArrival:
    """An append with its partitions read as times."""
    by_spec: dict[int, list[PartitionChange]] = {}
    for change in arrival.partitions:
        by_spec.setdefault(change.spec_id, []).append(change)
    rows: Counter[tuple[Unit, int]] = Counter()
    files: Counter[tuple[Unit, int]] = Counter()
    untimed = 0
    fields = set()
    for changes in by_spec.values():
        name = _time_field(changes)
        for change in changes:
            event = event_of(change, name) if name is not None else None
            if event is None or name is None:
                untimed += change.rows
            else:
                rows[event] += change.rows
                files[event] += change.files
                fields.add(name)
    events = tuple(EventRows(*event, rows[event], files[event]) for event in sorted(rows))
    return DatedArrival(arrival.snapshot_id, arrival.at_ms, arrival.first, events, untimed, frozenset(fields))


def profile(arrivals: Sequence[DatedArrival]) -> LatenessProfile | None:
    """``None``: no partition tells a time."""
    unit = unit_of(arrivals)
    if unit is None:
        return None
    counted = [one for one in arrivals if not one.first]
    lags: Counter[int] = Counter()
    for one in counted:
        now = index_at(one.at_ms, unit)
        for event in one.events:
            lags[now - coarser(event.index, event.unit, unit)] += event.rows
    ordered = tuple(sorted((lag, rows) for lag, rows in lags.items() if rows))
    times = [one.at_ms for one in counted]
    return LatenessProfile(
        unit,
        tuple(sorted({name for one in arrivals for name in one.fields})),
        len(counted),
        sum(rows for _, rows in ordered),
        ordered,
        tuple(lookbacks(ordered)),
        sum(event.rows for one in arrivals if one.first for event in one.events),
        sum(one.untimed_rows for one in arrivals),
        min(times, default=None),
        max(times, default=None),
    )


def lookbacks(lags: Sequence[tuple[int, int]]) -> Iterable[Lookback]:
    """The shortest for each share. None is needed for what comes in time or ahead of it. Nothing without rows."""
    total = sum(rows for _, rows in lags)
    for part, whole in SHARES if total else ():
        covered = 0
        for lag, rows in lags:
            covered += rows
            if covered * whole >= total * part:
                yield Lookback(part / whole, max(lag, 0))
                break


def arrival_map(arrivals: Sequence[DatedArrival]) -> ArrivalMap | None:
    """``None``: no partition tells a time."""
    unit = unit_of(arrivals)
    if unit is None:
        return None
    unit = max(unit, Unit.DAY, key=_ORDER.index)
    cells: Counter[tuple[int, int]] = Counter()
    for one in arrivals:
        day = index_at(one.at_ms, Unit.DAY)
        for event in one.events:
            cells[day, coarser(event.index, event.unit, unit)] += event.rows
    return ArrivalMap(unit, dict(cells))


def unit_of(arrivals: Iterable[DatedArrival]) -> Unit | None:
    """The coarsest in use: what is told in days cannot be told in hours."""
    return max((event.unit for one in arrivals for event in one.events), key=_ORDER.index, default=None)


def index_at(at_ms: int, unit: Unit) -> int:
    """Which hour, day, month or year since 1970 a moment is in."""
    if unit is Unit.HOUR:
        return at_ms // 3_600_000
    return coarser(at_ms // 86_400_000, Unit.DAY, unit)


def coarser(index: int, unit: Unit, to: Unit) -> int:
    """The hour's day, the day's month and so on."""
    if unit is to:
        return index
    if unit is Unit.HOUR:
        return coarser(index // 24, Unit.DAY, to)
    if unit is Unit.DAY:
        day = _EPOCH + timedelta(days=index)
        return coarser((day.year - 1970) * 12 + day.month - 1, Unit.MONTH, to)
    return index // 12


def label(index: int, unit: Unit) -> str:
    """An event time for people."""
    if unit is Unit.YEAR:
        return str(1970 + index)
    if unit is Unit.MONTH:
        return f"{1970 + index // 12}-{index % 12 + 1:02d}"
    try:
        if unit is Unit.HOUR:
            return (datetime(1970, 1, 1) + timedelta(hours=index)).strftime("%Y-%m-%d %H:00")
        return (_EPOCH + timedelta(days=index)).isoformat()
    except OverflowError:
        return f"{unit} {index}"


def event_of(change: PartitionChange, name: str) -> tuple[Unit, int] | None:
    """When a partition's rows happened. None: its value is NULL, or stands for no time that the calendar has."""
    value, transform = change.values.get(name), change.transforms.get(name)
    if transform in ("hour", "month", "year"):
        unit = Unit(transform)
        return (unit, value) if isinstance(value, int) and _is_in_calendar(value, unit) else None
    if transform not in ("day", "identity"):
        return None
    if transform == "day" and not isinstance(value, date):
        return None  # a day that the calendar does not have is a number
    day = _day(value)
    return None if day is None else (Unit.DAY, (day - _EPOCH).days)


def _is_in_calendar(index: int, unit: Unit) -> bool:
    years = index / {Unit.HOUR: 24 * 365.25, Unit.MONTH: 12, Unit.YEAR: 1}[unit]
    return -1960 < years < 8000


def _day(value: Any) -> date | None:
    if isinstance(value, datetime):
        return (value.astimezone(UTC) if value.tzinfo else value).date()
    if isinstance(value, date):
        return value
    if isinstance(value, Nanoseconds):
        return date.fromisoformat(value.isoformat()[:10])
    text = str(value) if isinstance(value, int | str) and not isinstance(value, bool) else ""
    if not _DATE.fullmatch(text) or (isinstance(value, int) and len(text) != 8):
        return None
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None


_DATE = re.compile(r"(19|20)\d\d(-?)[01]\d\2[0-3]\d", re.ASCII)


def _time_field(changes: Sequence[PartitionChange]) -> str | None:
    """The partition field that tells the time, by one spec's partitions: a time transform, else a date, else what reads as dates."""
    first = changes[0]
    for name, transform in first.transforms.items():
        if transform in ("hour", "day", "month", "year"):
            return name
    candidates = [name for name, transform in first.transforms.items() if transform == "identity"]
    for kinds in ((date, Nanoseconds), (int, str)):
        for name in candidates:
            values = [change.values.get(name) for change in changes]
            there = [value for value in values if value is not None]
            if there and all(isinstance(value, kinds) and _day(value) is not None for value in there):
                return name
    return None
