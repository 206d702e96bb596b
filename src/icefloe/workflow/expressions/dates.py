"""Dates of the expression language: Joda's names and behaviour on Python's calendar (years 1 to 9999).

Adding days, weeks, months and years keeps the local time of day; adding hours and less adds elapsed time. A local time
that does not exist (clocks go forward) moves forward by the gap.
"""

from __future__ import annotations

import re
from calendar import monthrange
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo

from icefloe.workflow.values import clip

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLI = timedelta(milliseconds=1)


class DateProblem(ValueError):  # noqa: N818 - becomes an ExpressionValueError with a column
    pass


@dataclass(frozen=True, slots=True)
class Zone:
    id: str

    @property
    def info(self) -> tzinfo:
        return _info(self.id)


UTC_ZONE = Zone("UTC")


@lru_cache(maxsize=256)
def _info(name: str) -> tzinfo:
    if name == "UTC":
        return UTC
    return ZoneInfo(name)


def zone(name: str) -> Zone:
    """A zone by its id. Offsets such as +02:00 are zones too."""
    if name in ("UTC", "Z", "GMT"):
        return UTC_ZONE
    if not re.fullmatch(r"[A-Za-z0-9_+\-/]{1,64}", name) or name.startswith(("/", "-", "+")):
        raise DateProblem(f"there is no time zone '{clip(name)}'")
    try:
        _info(name)
    except Exception:  # unknown names, folders and broken files of the zone database alike
        raise DateProblem(f"there is no time zone '{clip(name)}'") from None
    return Zone(name)


@dataclass(frozen=True, slots=True)
class Moment:
    """Joda's DateTime: an instant in milliseconds, seen in a zone."""

    millis: int
    zone: Zone = UTC_ZONE

    @property
    def local(self) -> datetime:
        try:
            return (_EPOCH + self.millis * _MILLI).astimezone(self.zone.info)
        except (OverflowError, ValueError):
            raise DateProblem("the date is outside the years 1 to 9999") from None


def of_local(local: datetime, zone_: Zone) -> Moment:
    """A local time of a zone; one in a gap moves forward by the gap, an ambiguous one is the earlier."""
    try:
        return Moment((local.replace(tzinfo=zone_.info).astimezone(UTC) - _EPOCH) // _MILLI, zone_)
    except (OverflowError, ValueError):
        raise DateProblem("the date is outside the years 1 to 9999") from None


def checked(millis: int, zone_: Zone = UTC_ZONE) -> Moment:
    moment = Moment(millis, zone_)
    _ = moment.local
    return moment


_MILLIS = {"Hours": 3_600_000, "Minutes": 60_000, "Seconds": 1000, "Millis": 1}


def plus(moment: Moment, unit: str, amount: int) -> Moment:
    """``unit`` is Years, Months, Weeks, Days, Hours, Minutes, Seconds or Millis."""
    if abs(amount) > 10**15:
        raise DateProblem("the date is outside the years 1 to 9999")
    if unit in _MILLIS:
        return checked(moment.millis + amount * _MILLIS[unit], moment.zone)
    local = moment.local.replace(tzinfo=None)
    try:
        if unit in ("Weeks", "Days"):
            return of_local(local + timedelta(days=amount * (7 if unit == "Weeks" else 1)), moment.zone)
        months = local.year * 12 + local.month - 1 + amount * (12 if unit == "Years" else 1)
        year, month = divmod(months, 12)
        day = min(local.day, monthrange(year, month + 1)[1])
        return of_local(local.replace(year=year, month=month + 1, day=day), moment.zone)
    except (OverflowError, ValueError):
        raise DateProblem("the date is outside the years 1 to 9999") from None


def days_between(start: Moment, end: Moment) -> int:
    """Whole days, as Joda counts them: in local time, towards zero."""
    begin, until = start.local.replace(tzinfo=None), end.local.astimezone(start.zone.info).replace(tzinfo=None)
    delta = until - begin
    return delta.days if delta >= timedelta(0) else -((-delta).days)


FIELDS = {
    "Year": lambda at: at.year,
    "MonthOfYear": lambda at: at.month,
    "DayOfMonth": lambda at: at.day,
    "DayOfYear": lambda at: at.timetuple().tm_yday,
    "DayOfWeek": lambda at: at.isoweekday(),
    "Weekyear": lambda at: at.isocalendar().year,
    "WeekOfWeekyear": lambda at: at.isocalendar().week,
    "HourOfDay": lambda at: at.hour,
    "MinuteOfHour": lambda at: at.minute,
    "MinuteOfDay": lambda at: at.hour * 60 + at.minute,
    "SecondOfMinute": lambda at: at.second,
    "SecondOfDay": lambda at: at.hour * 3600 + at.minute * 60 + at.second,
    "MillisOfSecond": lambda at: at.microsecond // 1000,
    "MillisOfDay": lambda at: ((at.hour * 60 + at.minute) * 60 + at.second) * 1000 + at.microsecond // 1000,
}


def field_of(moment: Moment, name: str) -> int:
    return int(FIELDS[name](moment.local))


def with_field(moment: Moment, name: str, value: int) -> Moment:
    """The moment with one calendar field set."""
    local = moment.local.replace(tzinfo=None)
    try:
        if name == "Year":
            day = min(local.day, monthrange(value, local.month)[1])
            return of_local(local.replace(year=value, day=day), moment.zone)
        if name == "MonthOfYear":
            day = min(local.day, monthrange(local.year, value)[1])
            return of_local(local.replace(month=value, day=day), moment.zone)
        simple = {"DayOfMonth": "day", "HourOfDay": "hour", "MinuteOfHour": "minute", "SecondOfMinute": "second"}
        if name in simple:
            return of_local(local.replace(**{simple[name]: value}), moment.zone)  # type: ignore[arg-type]
        if name == "MillisOfSecond":
            return of_local(local.replace(microsecond=value * 1000), moment.zone)
        if name == "MillisOfDay" and 0 <= value < 86_400_000:
            start = local.replace(hour=0, minute=0, second=0, microsecond=0)
            return of_local(start + value * _MILLI, moment.zone)
        week = local.isocalendar()
        days = {"DayOfWeek": value - week.weekday, "WeekOfWeekyear": 7 * (value - week.week)}
        if name == "DayOfYear" and 1 <= value <= (366 if monthrange(local.year, 2)[1] == 29 else 365):
            return of_local(local + timedelta(days=value - local.timetuple().tm_yday), moment.zone)
        if (name == "DayOfWeek" and 1 <= value <= 7) or (name == "WeekOfWeekyear" and 1 <= value <= 53):
            return of_local(local + timedelta(days=days[name]), moment.zone)
        if name == "Weekyear":
            target = datetime.fromisocalendar(value, min(week.week, 52), week.weekday)
            return of_local(datetime.combine(target.date(), local.time()), moment.zone)
    except (OverflowError, ValueError):
        pass
    raise DateProblem(f"{value} is no {name[0].lower()}{name[1:]} here")


def start_of_day(moment: Moment) -> Moment:
    return of_local(moment.local.replace(tzinfo=None, hour=0, minute=0, second=0, microsecond=0), moment.zone)


def iso_text(moment: Moment) -> str:
    """As Joda's toString: 2020-01-31T06:00:00.000Z, or with an offset."""
    local = moment.local
    return f"{local.year:04d}-{local:%m-%dT%H:%M:%S}.{local.microsecond // 1000:03d}{_offset(local, ':', zero='Z')}"


def _offset(local: datetime, separator: str, zero: str | None = None) -> str:
    minutes = int((local.utcoffset() or timedelta(0)).total_seconds()) // 60
    if minutes == 0 and zero is not None:
        return zero
    sign, minutes = ("-", -minutes) if minutes < 0 else ("+", minutes)
    return f"{sign}{minutes // 60:02d}{separator}{minutes % 60:02d}"


def offset_millis(moment: Moment, zone_: Zone) -> int:
    """What to add to UTC to get the zone's local time at a moment."""
    return int((Moment(moment.millis, zone_).local.utcoffset() or timedelta(0)) / _MILLI)


MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December")  # fmt: skip
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_PATTERN = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|[^A-Za-z']")
_NUMBERS = {
    "y": "Year", "Y": "Year", "x": "Weekyear", "w": "WeekOfWeekyear", "e": "DayOfWeek", "D": "DayOfYear",
    "M": "MonthOfYear", "d": "DayOfMonth", "H": "HourOfDay", "m": "MinuteOfHour", "s": "SecondOfMinute",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Formatter:
    """Joda's DateTimeFormatter for a pattern; without a zone it prints in the moment's and parses in UTC."""

    pattern: str
    zone: Zone | None = None


@lru_cache(maxsize=256)
def _pieces(pattern: str) -> tuple[tuple[str, int, str], ...]:
    """(letter, count, literal text) per piece of a pattern."""
    if len(pattern) > 100:
        raise DateProblem("a date pattern may have 100 characters")
    pieces, at = [], 0
    while at < len(pattern):
        found = _PATTERN.match(pattern, at)
        if found is None:
            raise DateProblem(f"'{clip(pattern)}': a quote is not closed")
        letter = found.group(2)
        if letter is None:
            quoted = found.group(1)
            pieces.append(("", 0, "'" if quoted == "" else (quoted or found.group()).replace("''", "'")))
        elif letter in _NUMBERS or letter in "ESahKkZz":
            pieces.append((letter, len(found.group()), ""))
        else:
            raise DateProblem(f"'{letter}' means nothing in a date pattern")
        at = found.end()
    return tuple(pieces)


def formatter(pattern: str) -> Formatter:
    _pieces(pattern)
    return Formatter(pattern)


def print_date(form: Formatter, moment: Moment) -> str:
    if form.zone is not None:
        moment = Moment(moment.millis, form.zone)
    local = moment.local
    return "".join(
        literal or _print_piece(letter, count, local, moment) for letter, count, literal in _pieces(form.pattern)
    )


def _print_piece(letter: str, count: int, local: datetime, moment: Moment) -> str:
    if letter == "M" and count >= 3:
        return MONTHS[local.month - 1][: 3 if count == 3 else None]
    if letter == "E":
        return WEEKDAYS[local.weekday()][: 3 if count < 4 else None]
    if letter in "yYx" and count == 2:
        return f"{field_of(moment, _NUMBERS[letter]) % 100:02d}"
    if letter in _NUMBERS:
        return str(field_of(moment, _NUMBERS[letter])).rjust(count, "0")
    if letter == "S":
        return f"{local.microsecond:06d}000"[:count].ljust(count, "0")
    if letter == "a":
        return "AM" if local.hour < 12 else "PM"
    if letter in "hKk":
        hour = {"h": (local.hour + 11) % 12 + 1, "K": local.hour % 12, "k": local.hour or 24}[letter]
        return str(hour).rjust(count, "0")
    if letter == "Z":
        return moment.zone.id if count > 2 else _offset(local, ":" if count == 2 else "")
    return local.tzname() or moment.zone.id


@lru_cache(maxsize=256)
def _parse_pattern(pattern: str) -> re.Pattern[str]:
    parts, seen = [], set()
    for letter, count, literal in _pieces(pattern):
        if literal:
            parts.append(re.escape(literal))
            continue
        if letter in seen:
            raise DateProblem(f"'{letter}' stands twice in the pattern, so nothing can be parsed with it")
        seen.add(letter)
        if letter == "M" and count >= 3:
            parts.append(f"(?P<M>{'|'.join(name[: 3 if count == 3 else None] for name in MONTHS)})")
        elif letter == "E":
            parts.append(f"(?P<E>{'|'.join(name[: 3 if count < 4 else None] for name in WEEKDAYS)})")
        elif letter in "yYMdHhmsSDkK":
            parts.append(f"(?P<{letter}>[0-9]{{{count}}})" if count > 1 else f"(?P<{letter}>[0-9]{{1,2}})")
        elif letter == "a":
            parts.append("(?P<a>[aApP][mM])")
        elif letter == "Z":
            parts.append(r"(?P<Z>Z|[+-][0-9]{2}:?[0-9]{2})")
        else:
            raise DateProblem(f"'{letter}' cannot be parsed")
    return re.compile("".join(parts))


def parse_date(form: Formatter, text: str) -> Moment:
    found = _parse_pattern(form.pattern).fullmatch(text) if len(text) <= 200 else None
    if found is None:
        raise DateProblem(f"'{clip(text)}' is not of the form {clip(form.pattern)}")
    groups = found.groupdict()
    zone_ = form.zone or UTC_ZONE
    try:
        local = _local(groups)
        if groups.get("Z"):
            offset = groups["Z"].replace("Z", "+00:00")
            fixed = datetime.fromisoformat(
                f"{local:%Y-%m-%dT%H:%M:%S.%f}".rjust(26, "0") + f"{offset[:3]}:{offset[-2:]}"
            )
            return Moment((fixed - _EPOCH) // _MILLI, zone_)
    except (ValueError, OverflowError):
        raise DateProblem(f"'{clip(text)}' is no date of the form {clip(form.pattern)}") from None
    return of_local(local, zone_)


def _local(groups: dict[str, str]) -> datetime:
    year_text = groups.get("y") or groups.get("Y") or "2000"
    year = int(year_text)
    if len(year_text) == 2:
        year += 1900 if year >= 70 else 2000
    month_text = groups.get("M") or "1"
    month = (
        int(month_text)
        if month_text.isdigit()
        else next(i for i, name in enumerate(MONTHS, 1) if name.startswith(month_text))
    )
    hour = int(groups.get("H") or 0)
    if groups.get("h"):
        hour = int(groups["h"]) % 12
    if (groups.get("a") or "").lower() == "pm":
        hour = hour % 12 + 12
    fraction = (groups.get("S") or "").ljust(6, "0")[:6]
    local = datetime(
        year,
        month,
        int(groups.get("d") or 1),
        hour,
        int(groups.get("m") or 0),
        int(groups.get("s") or 0),
        int(fraction),
    )
    if groups.get("D"):
        local = local.replace(month=1, day=1) + timedelta(days=int(groups["D"]) - 1)
        if local.year != year:
            raise ValueError("day of year")
    return local
