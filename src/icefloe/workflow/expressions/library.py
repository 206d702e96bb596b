"""Everything that an expression can reach: one table of methods, fields and constructors.

The checker reads the kinds, the interpreter calls the functions; what is not in these tables does not exist. Receivers
are matched by the *kind* of the value (``kinds.py``), never by looking at a Python object's attributes.

Functions take the :class:`Machine`, then the receiver (absent for a class's own functions), then the arguments.
Regular expressions are not offered: ``split`` and ``replaceAll`` take texts without pattern characters, since a pattern
can take for ever.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from icefloe.workflow import durations
from icefloe.workflow.expressions import dates
from icefloe.workflow.expressions.arithmetic import double_text, wrap
from icefloe.workflow.expressions.errors import ExpressionValueError
from icefloe.workflow.expressions.kinds import (
    ANY,
    ARRAYS,
    BOOLEAN,
    DATETIME,
    DAYS,
    DIGITS,
    DOUBLE,
    FORMATTER,
    IDENTIFIER,
    LONG,
    MAP,
    NUMBER,
    PARAMS,
    PROPERTY,
    STRING,
    ZONE,
    Days,
    Identifier,
    Property,
    kind_of,
)
from icefloe.workflow.scope import Scope
from icefloe.workflow.values import LONG_MAX, LONG_MIN, clip

VARIADIC = "…"


class Machine(Protocol):
    """What functions may ask of the interpreter: the scope, and room for what they build."""

    scope: Scope

    def text(self, length: int) -> None:
        """Announces a text of this length before it is built; refuses one that is too long."""

    def array(self, length: int) -> None:
        """Likewise for an array."""


@dataclass(frozen=True, slots=True)
class Function:
    """One overload: the kinds it takes, the kind it gives, and what it does."""

    takes: tuple[str, ...]
    gives: str
    call: Callable[..., Any]

    def arity(self, count: int) -> bool:
        if self.takes and self.takes[-1] == VARIADIC:
            return count >= len(self.takes) - 1
        return count == len(self.takes)

    def wanted(self, index: int) -> str:
        return ANY if index >= len(self.takes) or self.takes[index] == VARIADIC else self.takes[index]


def as_text(value: object) -> str:
    """What ``String.valueOf`` and ``+`` make of a value."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return double_text(value)
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str):
        return value
    if isinstance(value, dates.Moment):
        return dates.iso_text(value)
    if isinstance(value, dates.Zone):
        return value.id
    if isinstance(value, Identifier):
        return value.text
    if isinstance(value, Property):
        return str(dates.field_of(value.moment, value.field))
    raise ExpressionValueError(f"a {kind_of(value)} has no text form", hint="use String.join(',', array)")


# --- strings -----------------------------------------------------------------------------------------------------------

_PATTERN_CHARACTERS = re.compile(r"[.$|()\[{^?*+\\]")


def literal_pattern(pattern: str) -> str:
    """A pattern that only means itself; ``\\|``, ``\\.`` and the like are taken as the character."""
    plain = re.sub(
        r"\\([^A-Za-z0-9])", lambda found: "\0" if found.group(1) == "\0" else f"\1{found.group(1)}", pattern
    )
    bare = re.sub(r"\x01.", "", plain)
    if _PATTERN_CHARACTERS.search(bare):
        raise ExpressionValueError(
            f"'{clip(pattern)}' is a pattern; only plain texts are allowed here", hint="escape the character: '\\.'"
        )
    return plain.replace("\1", "")


def _split(m: Machine, text: str, pattern: str, limit: int = 0) -> tuple[str, ...]:
    separator = literal_pattern(pattern)
    if not separator:
        raise ExpressionValueError("split needs a separator")
    m.array(text.count(separator) + 1)
    parts = text.split(separator, limit - 1) if limit > 0 else text.split(separator)
    while limit == 0 and len(parts) > 1 and not parts[-1]:  # as Java drops them
        parts.pop()
    return tuple(parts)


def _replace(m: Machine, text: str, old: str, new: str) -> str:
    count = text.count(old)
    m.text(len(text) + count * (len(new) - len(old)))
    return text.replace(old, new)


def _replace_all(m: Machine, text: str, pattern: str, new: str) -> str:
    if "$" in new or "\\" in new:
        raise ExpressionValueError("the replacement may hold no $ and no \\")
    return _replace(m, text, literal_pattern(pattern), new)


def _substring(m: Machine, text: str, start: int, end: int | None = None) -> str:
    end = len(text) if end is None else end
    if not 0 <= start <= end <= len(text):
        raise ExpressionValueError(f"substring({start}, {end}) of a text of length {len(text)}")
    return text[start:end]


def _char_at(m: Machine, text: str, index: int) -> str:
    if not 0 <= index < len(text):
        raise ExpressionValueError(f"index {index} in a text of length {len(text)}")
    return text[index]


def _compare_to(m: Machine, one: str, other: str) -> int:
    for a, b in zip(one, other, strict=False):
        if a != b:
            return ord(a) - ord(b)
    return len(one) - len(other)


def _join(m: Machine, separator: str, *items: Any) -> str:
    flat = items[0] if len(items) == 1 and isinstance(items[0], tuple) else items
    texts = [as_text(item) for item in flat]
    m.text(sum(map(len, texts)) + len(separator) * max(0, len(texts) - 1))
    return separator.join(texts)


_FORMAT = re.compile(r"%(?:(%)|(n)|([-0,+ ]{0,4})(\d{0,3})(?:\.(\d{1,2}))?([sdfxXb]))")


def _format(m: Machine, pattern: str, *items: Any) -> str:
    """``%s %d %f %x %b %n %%`` with flags, width and precision. Nothing is ever looked up in an argument."""
    out: list[str] = []
    at, used, size = 0, 0, 0
    while at < len(pattern):
        step = pattern.find("%", at)
        if step < 0:
            out.append(pattern[at:])
            break
        out.append(pattern[at:step])
        found = _FORMAT.match(pattern, step)
        if found is None:
            raise ExpressionValueError(
                f"'{clip(pattern[step : step + 10])}' is no format", hint="%s, %d, %05d, %.2f, %x, %%"
            )
        if found.group(1) or found.group(2):
            out.append("%" if found.group(1) else "\n")
        else:
            if used >= len(items):
                raise ExpressionValueError("the format asks for more values than are given")
            out.append(_formatted(found, items[used]))
            used += 1
        size += len(out[-1])
        m.text(size)
        at = found.end()
    m.text(sum(map(len, out)))
    return "".join(out)


def check_format(pattern: str, given: list[str]) -> None:
    """Whether a format can be filled with values of these kinds. Raises :class:`ExpressionValueError`."""
    at, used = pattern.find("%"), 0
    while at >= 0:
        found = _FORMAT.match(pattern, at)
        if found is None:
            raise ExpressionValueError(
                f"'{clip(pattern[at : at + 10])}' is no format", hint="%s, %d, %05d, %.2f, %x, %%"
            )
        if found.group(6):
            if used >= len(given):
                raise ExpressionValueError("the format asks for more values than are given")
            letter = found.group(6)
            fits = {"d": (LONG,), "x": (LONG,), "X": (LONG,), "f": (LONG, DOUBLE)}.get(letter)
            if fits is not None and given[used] not in (*fits, ANY):
                raise ExpressionValueError(f"%{letter} needs a {fits[-1]}, this is a {given[used]}")
            used += 1
        at = pattern.find("%", found.end())


def _formatted(found: re.Match[str], value: Any) -> str:
    flags, width, precision, letter = found.group(3), int(found.group(4) or 0), found.group(5), found.group(6)
    if letter in "dxX":
        if isinstance(value, bool) or not isinstance(value, int):
            raise ExpressionValueError(f"%{letter} needs a whole number, this is a {kind_of(value)}")
        digits = f"{abs(value):,}" if letter == "d" and "," in flags else str(abs(value)) if letter == "d" else ""
        if letter != "d":
            digits = format(value % 2**64, letter)
            value = 0
    elif letter == "f":
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ExpressionValueError(f"%f needs a number, this is a {kind_of(value)}")
        digits = format(abs(float(value)), f"{',' if ',' in flags else ''}.{int(precision or 6)}f")
    else:
        words = as_text(value)[: int(precision)] if precision else as_text(value)
        return words.ljust(width) if "-" in flags else words.rjust(width)
    sign = "-" if value < 0 else "+" if "+" in flags else " " if " " in flags else ""
    if "0" in flags and "-" not in flags:
        return sign + digits.rjust(width - len(sign), "0")
    return (sign + digits).ljust(width) if "-" in flags else (sign + digits).rjust(width)


def _escape(m: Machine, text: str) -> str:
    m.text(2 * len(text))
    for plain, escaped in (
        ("\\", "\\\\"),
        ("\t", "\\t"),
        ("\b", "\\b"),
        ("\n", "\\n"),
        ("\r", "\\r"),
        ("\f", "\\f"),
        ('"', '\\"'),
    ):
        text = text.replace(plain, escaped)
    return text


# --- numbers -----------------------------------------------------------------------------------------------------------


def _to_long(m: Machine, value: Any) -> int:
    if isinstance(value, float):
        return max(LONG_MIN, min(LONG_MAX, int(value)))
    if isinstance(value, int):
        return value
    if not re.fullmatch(r"[-+]?[0-9]{1,19}", value) or not LONG_MIN <= int(value) <= LONG_MAX:
        raise ExpressionValueError(f"'{clip(value)}' is no whole number of 64 bits")
    return int(value)


def _to_double(m: Machine, value: Any) -> float:
    if isinstance(value, str):
        if not re.fullmatch(
            r"\s*[-+]?(?:[0-9]{1,400}\.?[0-9]{0,400}|\.[0-9]{1,400})(?:[eE][-+]?[0-9]{1,4})?\s*", value
        ):
            raise ExpressionValueError(f"'{clip(value)}' is no number")
        value = float(value)
    return _finite(float(value))


def _finite(value: float) -> float:
    if not math.isfinite(value):
        raise ExpressionValueError("the result is no finite number")
    return value


def _power(m: Machine, base: float, exponent: float) -> float:
    try:
        return _finite(math.pow(base, exponent))
    except (OverflowError, ValueError):
        raise ExpressionValueError("the result is no finite number") from None


def _absolute(m: Machine, value: int | float) -> int | float:
    return wrap(abs(value)) if isinstance(value, int) else abs(value)


def _smaller(m: Machine, one: Any, other: Any) -> Any:
    return min(float(one), float(other)) if isinstance(one, float) or isinstance(other, float) else min(one, other)


def _larger(m: Machine, one: Any, other: Any) -> Any:
    return max(float(one), float(other)) if isinstance(one, float) or isinstance(other, float) else max(one, other)


def _rounded(m: Machine, value: int | float) -> int:
    return _to_long(m, math.floor(value + 0.5) if isinstance(value, float) and abs(value) < 2**62 else value)


# --- date ints ---------------------------------------------------------------------------------------------------------

_DATEINT = dates.Formatter("yyyyMMdd", dates.UTC_ZONE)


def _dateint(value: Any) -> dates.Moment:
    return dates.parse_date(_DATEINT, str(value))


def _date_ints_between(m: Machine, start: Any, end: Any, step: Any) -> tuple[int, ...]:
    increment = _to_long(m, step)
    if increment == 0:
        raise ExpressionValueError("the increment must not be 0")
    first, last = (_dateint(start), _dateint(end)) if increment > 0 else (_dateint(end), _dateint(start))
    days = dates.days_between(first, last)
    m.array(max(0, -(-days // abs(increment))))
    found = [
        int(dates.print_date(_DATEINT, dates.plus(first, "Days", offset))) for offset in range(0, days, abs(increment))
    ]
    return tuple(found if increment > 0 else reversed(found))


def _ints_between(m: Machine, start: Any, end: Any, step: Any) -> tuple[int, ...]:
    first, last, increment = _to_long(m, start), _to_long(m, end), _to_long(m, step)
    if increment == 0:
        raise ExpressionValueError("the increment must not be 0")
    numbers = range(first, last, increment)
    m.array(len(numbers) if abs(last - first) < LONG_MAX else LONG_MAX)
    return tuple(numbers)


def _date_int_hour_to_ts(m: Machine, day: Any, hour: Any, zone: str, days: Any, hours: Any) -> int:
    form = dates.Formatter("yyyyMMddHH", dates.zone(zone))
    moment = dates.parse_date(form, f"{day}{str(hour).rjust(2, '0')}")
    moment = dates.plus(moment, "Days", -_to_long(m, days))
    return dates.plus(moment, "Hours", -_to_long(m, hours)).millis


def _timeout_for(m: Machine, moment: dates.Moment, duration: str) -> str:
    try:
        deadline = moment.millis + int(durations.parse(duration) * 1000)
    except ValueError as error:
        raise ExpressionValueError(str(error)) from None
    return f"{max(0, deadline - m.scope.now_ms())} milliseconds"


# --- parameters --------------------------------------------------------------------------------------------------------


def _getter(name: str) -> Callable[..., Any]:
    def get(m: Machine, receiver: Any, *args: str) -> Any:
        return getattr(m.scope, name)(*args)

    return get


def _or_default(m: Machine, receiver: Any, signal: str, name: str, default: Any) -> Any:
    values = m.scope.signals.get(signal, {})
    return values.get(name, default)


# --- the tables --------------------------------------------------------------------------------------------------------

_S_ARRAY, _L_ARRAY = ARRAYS[STRING], ARRAYS[LONG]


def _one(takes: tuple[str, ...], gives: str, call: Callable[..., Any]) -> tuple[Function, ...]:
    return (Function(takes, gives, call),)


def _contains_key(m: Machine, values: Mapping[str, Any], key: str) -> bool:
    return key in values


def _map_get(m: Machine, values: Mapping[str, Any], key: str) -> Any:
    if key not in values:
        raise ExpressionValueError(f"the map has no '{clip(key)}'")
    return values[key]


METHODS: dict[tuple[str, str], tuple[Function, ...]] = {
    (STRING, "length"): _one((), LONG, lambda m, s: len(s)),
    (STRING, "isEmpty"): _one((), BOOLEAN, lambda m, s: not s),
    (STRING, "contains"): _one((STRING,), BOOLEAN, lambda m, s, part: part in s),
    (STRING, "startsWith"): _one((STRING,), BOOLEAN, lambda m, s, part: s.startswith(part)),
    (STRING, "endsWith"): _one((STRING,), BOOLEAN, lambda m, s, part: s.endswith(part)),
    (STRING, "indexOf"): _one((STRING,), LONG, lambda m, s, part: s.find(part)),
    (STRING, "lastIndexOf"): _one((STRING,), LONG, lambda m, s, part: s.rfind(part)),
    (STRING, "substring"): (Function((LONG,), STRING, _substring), Function((LONG, LONG), STRING, _substring)),
    (STRING, "charAt"): _one((LONG,), STRING, _char_at),
    (STRING, "toUpperCase"): _one((), STRING, lambda m, s: (m.text(3 * len(s)), s.upper())[1]),
    (STRING, "toLowerCase"): _one((), STRING, lambda m, s: (m.text(3 * len(s)), s.lower())[1]),
    (STRING, "trim"): _one((), STRING, lambda m, s: s.strip("".join(map(chr, range(33))))),
    (STRING, "equals"): _one((ANY,), BOOLEAN, lambda m, s, other: isinstance(other, str) and s == other),
    (STRING, "equalsIgnoreCase"): _one((STRING,), BOOLEAN, lambda m, s, other: s.casefold() == other.casefold()),
    (STRING, "compareTo"): _one((STRING,), LONG, _compare_to),
    (STRING, "concat"): _one((STRING,), STRING, lambda m, s, other: (m.text(len(s) + len(other)), s + other)[1]),
    (STRING, "replace"): _one((STRING, STRING), STRING, _replace),
    (STRING, "replaceAll"): _one((STRING, STRING), STRING, _replace_all),
    (STRING, "split"): (Function((STRING,), _S_ARRAY, _split), Function((STRING, LONG), _S_ARRAY, _split)),
    (STRING, "escape"): _one((), STRING, _escape),
    (STRING, "toString"): _one((), STRING, lambda m, s: s),
    ("String", "valueOf"): _one((ANY,), STRING, lambda m, value: as_text(value)),
    ("String", "format"): _one((STRING, VARIADIC), STRING, _format),
    ("String", "join"): _one((STRING, VARIADIC), STRING, _join),
    ("String", "escape"): _one((STRING,), STRING, _escape),
    (LONG, "toString"): _one((), STRING, lambda m, value: str(value)),
    (LONG, "longValue"): _one((), LONG, lambda m, value: value),
    (LONG, "intValue"): _one((), LONG, lambda m, value: value),
    (LONG, "doubleValue"): _one((), DOUBLE, lambda m, value: float(value)),
    (DOUBLE, "toString"): _one((), STRING, lambda m, value: double_text(value)),
    (DOUBLE, "longValue"): _one((), LONG, _to_long),
    (DOUBLE, "intValue"): _one((), LONG, _to_long),
    (DOUBLE, "doubleValue"): _one((), DOUBLE, lambda m, value: value),
    (BOOLEAN, "toString"): _one((), STRING, lambda m, value: as_text(value)),
    ("Long", "valueOf"): (Function((DIGITS,), LONG, _to_long), Function((DOUBLE,), LONG, _to_long)),
    ("Long", "parseLong"): _one((STRING,), LONG, _to_long),
    ("Integer", "valueOf"): _one((DIGITS,), LONG, _to_long),
    ("Integer", "parseInt"): _one((STRING,), LONG, _to_long),
    ("Double", "valueOf"): (Function((STRING,), DOUBLE, _to_double), Function((NUMBER,), DOUBLE, _to_double)),
    ("Double", "parseDouble"): _one((STRING,), DOUBLE, _to_double),
    ("Boolean", "valueOf"): _one((STRING,), BOOLEAN, lambda m, s: s.lower() == "true"),
    ("Boolean", "parseBoolean"): _one((STRING,), BOOLEAN, lambda m, s: s.lower() == "true"),
    ("Math", "min"): (Function((LONG, LONG), LONG, _smaller), Function((NUMBER, NUMBER), DOUBLE, _smaller)),
    ("Math", "max"): (Function((LONG, LONG), LONG, _larger), Function((NUMBER, NUMBER), DOUBLE, _larger)),
    ("Math", "abs"): (Function((LONG,), LONG, _absolute), Function((DOUBLE,), DOUBLE, _absolute)),
    ("Math", "pow"): _one((NUMBER, NUMBER), DOUBLE, _power),
    ("Math", "floor"): _one((NUMBER,), DOUBLE, lambda m, value: float(math.floor(value))),
    ("Math", "ceil"): _one((NUMBER,), DOUBLE, lambda m, value: float(math.ceil(value))),
    ("Math", "round"): _one((NUMBER,), LONG, _rounded),
    ("Math", "random"): _one((), DOUBLE, lambda m: m.scope.random()),
    ("UUID", "randomUUID"): _one((), IDENTIFIER, lambda m: Identifier(m.scope.new_uuid())),
    (IDENTIFIER, "toString"): _one((), STRING, lambda m, value: value.text),
    ("System", "currentTimeMillis"): _one((), LONG, lambda m: m.scope.now_ms()),
    (MAP, "get"): _one((STRING,), ANY, _map_get),
    (MAP, "getOrDefault"): _one((STRING, ANY), ANY, lambda m, values, key, default: values.get(key, default)),
    (MAP, "containsKey"): _one((STRING,), BOOLEAN, _contains_key),
    (MAP, "size"): _one((), LONG, lambda m, values: len(values)),
    (MAP, "isEmpty"): _one((), BOOLEAN, lambda m, values: not values),
    ("Util", "dateIntToTs"): _one((DIGITS,), LONG, lambda m, day: _dateint(day).millis),
    ("Util", "tsToDateInt"): _one((DIGITS,), STRING, lambda m, ts: dates.print_date(_DATEINT, dates.checked(_to_long(m, ts)))),
    ("Util", "incrementDateInt"): _one((DIGITS, LONG), STRING, lambda m, day, days: dates.print_date(_DATEINT, dates.plus(_dateint(day), "Days", days))),
    ("Util", "dateIntHourToTs"): _one((DIGITS, DIGITS, STRING, DIGITS, DIGITS), LONG, _date_int_hour_to_ts),
    ("Util", "dateIntsBetween"): _one((DIGITS, DIGITS, DIGITS), _L_ARRAY, _date_ints_between),
    ("Util", "intsBetween"): _one((DIGITS, DIGITS, DIGITS), _L_ARRAY, _ints_between),
    ("Util", "timeoutForDateTimeDeadline"): _one((DATETIME, STRING), STRING, _timeout_for),
    ("Util", "timeoutForDateIntDeadline"): _one((DIGITS, STRING), STRING, lambda m, day, duration: _timeout_for(m, _dateint(day), duration)),
    (PARAMS, "get"): _one((STRING,), ANY, _getter("param")),
    (PARAMS, "containsKey"): _one((STRING,), BOOLEAN, _getter("has_param")),
    (PARAMS, "getFromStep"): (Function((STRING, STRING), ANY, _getter("from_step")), Function((STRING,), ANY, _getter("from_this_step"))),
    (PARAMS, "getFromSignal"): (Function((STRING, STRING), ANY, _getter("from_signal")), Function((STRING,), ANY, _getter("from_any_signal"))),
    (PARAMS, "getFromSignalOrDefault"): _one((STRING, STRING, ANY), ANY, _or_default),
    (PARAMS, "getFromSignalDependency"): _one((STRING, STRING), ANY, _getter("from_signal_dependency")),
    (PARAMS, "getFromForeach"): _one((STRING, STRING, STRING), ANY, _getter("from_foreach")),
    (PARAMS, "getFromSubworkflow"): _one((STRING, STRING, STRING), ANY, _getter("from_subworkflow")),
    (PARAMS, "getFromInstance"): _one((STRING,), ANY, _getter("from_run")),
    (PARAMS, "nextUniqueId"): _one((), LONG, lambda m, p: m.scope.unique_id()),
    ("DateTime", "now"): _one((), DATETIME, lambda m: dates.checked(m.scope.now_ms())),
    ("DateTime", "parse"): _one((STRING, FORMATTER), DATETIME, lambda m, text, form: dates.parse_date(form, text)),
    ("DateTimeZone", "forID"): _one((STRING,), ZONE, lambda m, name: dates.zone(name)),
    ("DateTimeFormat", "forPattern"): _one((STRING,), FORMATTER, lambda m, pattern: dates.formatter(pattern)),
    ("Days", "daysBetween"): _one((DATETIME, DATETIME), DAYS, lambda m, a, b: Days(dates.days_between(a, b))),
    (DAYS, "getDays"): _one((), LONG, lambda m, days: days.count),
    (FORMATTER, "withZone"): _one((ZONE,), FORMATTER, lambda m, form, zone: dates.Formatter(form.pattern, zone)),
    (FORMATTER, "withZoneUTC"): _one((), FORMATTER, lambda m, form: dates.Formatter(form.pattern, dates.UTC_ZONE)),
    (FORMATTER, "parseDateTime"): _one((DIGITS,), DATETIME, lambda m, form, text: dates.parse_date(form, str(text))),
    (FORMATTER, "parseMillis"): _one((DIGITS,), LONG, lambda m, form, text: dates.parse_date(form, str(text)).millis),
    (FORMATTER, "print"): (
        Function((DATETIME,), STRING, lambda m, form, moment: dates.print_date(form, moment)),
        Function((LONG,), STRING, lambda m, form, millis: dates.print_date(form, dates.checked(millis))),
    ),
    (ZONE, "getOffset"): _one((DATETIME,), LONG, lambda m, zone, moment: dates.offset_millis(moment, zone)),
    (ZONE, "toString"): _one((), STRING, lambda m, zone: zone.id),
    (DATETIME, "getMillis"): _one((), LONG, lambda m, moment: moment.millis),
    (DATETIME, "withZone"): _one((ZONE,), DATETIME, lambda m, moment, zone: dates.checked(moment.millis, zone)),
    (DATETIME, "toDateTime"): _one((ZONE,), DATETIME, lambda m, moment, zone: dates.checked(moment.millis, zone)),
    (DATETIME, "withTimeAtStartOfDay"): _one((), DATETIME, lambda m, moment: dates.start_of_day(moment)),
    (DATETIME, "isAfter"): _one((DATETIME,), BOOLEAN, lambda m, a, b: a.millis > b.millis),
    (DATETIME, "isBefore"): _one((DATETIME,), BOOLEAN, lambda m, a, b: a.millis < b.millis),
    (DATETIME, "isEqual"): _one((DATETIME,), BOOLEAN, lambda m, a, b: a.millis == b.millis),
    (DATETIME, "toString"): (
        Function((), STRING, lambda m, moment: dates.iso_text(moment)),
        Function((STRING,), STRING, lambda m, moment, pattern: dates.print_date(dates.formatter(pattern), moment)),
        Function((FORMATTER,), STRING, lambda m, moment, form: dates.print_date(form, moment)),
    ),
    (PROPERTY, "get"): _one((), LONG, lambda m, p: dates.field_of(p.moment, p.field)),
    (PROPERTY, "getAsString"): _one((), STRING, lambda m, p: str(dates.field_of(p.moment, p.field))),
    (PROPERTY, "getAsText"): _one((), STRING, lambda m, p: _property_text(p)),
    (PROPERTY, "getAsShortText"): _one((), STRING, lambda m, p: _property_text(p)[: 3 if p.field in ("MonthOfYear", "DayOfWeek") else None]),
}  # fmt: skip


def _property_text(found: Property) -> str:
    value = dates.field_of(found.moment, found.field)
    if found.field == "MonthOfYear":
        return dates.MONTHS[value - 1]
    return dates.WEEKDAYS[value - 1] if found.field == "DayOfWeek" else str(value)


def _calendar_methods() -> None:
    """``plusDays``, ``getYear``, ``withYear``, ``dayOfWeek()`` and the rest, one of each per field and unit."""
    for unit in ("Years", "Months", "Weeks", "Days", "Hours", "Minutes", "Seconds", "Millis"):
        METHODS[(DATETIME, f"plus{unit}")] = _one(
            (LONG,), DATETIME, lambda m, at, n, unit=unit: dates.plus(at, unit, n)
        )
        METHODS[(DATETIME, f"minus{unit}")] = _one(
            (LONG,), DATETIME, lambda m, at, n, unit=unit: dates.plus(at, unit, -n)
        )
    for name in dates.FIELDS:
        METHODS[(DATETIME, f"get{name}")] = _one((), LONG, lambda m, at, name=name: dates.field_of(at, name))
        METHODS[(DATETIME, f"{name[0].lower()}{name[1:]}")] = _one(
            (), PROPERTY, lambda m, at, name=name: Property(at, name)
        )
        if name not in ("MinuteOfDay", "SecondOfDay"):
            METHODS[(DATETIME, f"with{name}")] = _one(
                (LONG,), DATETIME, lambda m, at, n, name=name: dates.with_field(at, name, n)
            )


_calendar_methods()

FIELDS: dict[tuple[str, str], tuple[str, Callable[[Any], Any]]] = {
    ("DateTimeZone", "UTC"): (ZONE, lambda _: dates.UTC_ZONE),
    **{
        ("DateTimeConstants", day.upper()): (LONG, lambda _, number=number: number)  # type: ignore[misc]
        for number, day in enumerate(dates.WEEKDAYS, 1)
    },
    **{
        ("DateTimeConstants", month.upper()): (LONG, lambda _, number=number: number)  # type: ignore[misc]
        for number, month in enumerate(dates.MONTHS, 1)
    },
    **{(array, "length"): (LONG, len) for array in (*ARRAYS.values(), "ARRAY")},
}

CONSTRUCTORS: dict[str, tuple[Function, ...]] = {
    "DateTime": (
        Function((), DATETIME, lambda m: dates.checked(m.scope.now_ms())),
        Function((LONG,), DATETIME, lambda m, millis: dates.checked(millis)),
        Function((LONG, ZONE), DATETIME, lambda m, millis, zone: dates.checked(millis, zone)),
    ),
    "String": (Function((), STRING, lambda m: ""), Function((STRING,), STRING, lambda m, text: text)),
    "Map": (Function((), MAP, lambda m: {}),),
}

ARRAY_ELEMENTS = {
    "String": STRING, "long": LONG, "Long": LONG, "int": LONG, "Integer": LONG,
    "double": DOUBLE, "Double": DOUBLE, "float": DOUBLE, "boolean": BOOLEAN, "Boolean": BOOLEAN,
}  # fmt: skip

CLASSES = frozenset(owner for owner, _ in (*METHODS, *FIELDS)) & {
    "String", "Long", "Integer", "Double", "Boolean", "Math", "UUID", "System", "Util",
    "DateTime", "DateTimeZone", "DateTimeFormat", "DateTimeConstants", "Days",
}  # fmt: skip
