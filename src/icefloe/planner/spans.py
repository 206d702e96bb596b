"""A range of the result that is written anew: its values, of the column's own type, and the condition that they make.

The same condition is put to the target's rows and to the SELECT's, so it has to mean the same on both sides and to whatever prunes
files by it. Types of which that is not sure are refused: floats (NaN is the largest number to Spark and none to Iceberg's bounds),
UUIDs (texts to Spark, in any letter case), and whatever has no order.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from difflib import get_close_matches
from typing import Any

from icefloe.lake.predicates import literal
from icefloe.lake.values import decimal_precision, decimal_scale
from icefloe.planner.errors import RangeError
from icefloe.planner.inputs import Column
from icefloe.workflow.write_ranges import WriteRange

_WHOLE_NUMBERS = {"int": 31, "long": 63}
_REFORM = date(1582, 10, 15)
_DAY_ALONE = re.compile(r"\d{4}-\d{2}-\d{2}|\d{8}")
"""Also as ``${RUN_DATE}`` has it."""
_EXAMPLES = {"date": "2026-01-31", "timestamp": "2026-01-31T12:00:00", "timestamptz": "2026-01-31T12:00:00Z"}


@dataclass(frozen=True, slots=True)
class Span:
    """Rows whose ``column`` lies between ``low`` and ``high``; ``None``: no bound on that side. NULL lies in no span."""

    column: str
    type: str
    low: Any = None
    high: Any = None
    below: bool = False
    """``high`` itself does not belong to it."""
    empty: bool = False
    """No row lies in it: a lookback over sources that have none."""

    def condition(self, column: str) -> str:
        """For the column under the name that a statement knows it by."""
        if self.empty or (self.low is None and self.high is None):
            return "FALSE"
        # Without a lower bound Iceberg 1.12 deletes a partition of NULLs, too: NULL is less than anything to it.
        parts = [f"{column} IS NOT NULL" if self.low is None else f"{column} >= {literal(self.low, self.type)}"]
        if self.high is not None:
            parts.append(f"{column} {'<' if self.below else '<='} {literal(self.high, self.type)}")
        return " AND ".join(parts)

    def may_hold(self, value: Any) -> bool:
        """Whether rows of a partition can lie in it: one of the column as it is, or of its days."""
        if value is None or self.empty:
            return False
        low, high = (_as_day(bound) if _is_day(value) else bound for bound in (self.low, self.high))
        try:
            return bool((low is None or low <= value) and (high is None or value <= high))
        except TypeError:
            return True  # partitions of something else

    def __str__(self) -> str:
        if self.empty:
            return f"no {self.column}"
        low, high = ("" if bound is None else str(bound) for bound in (self.low, self.high))
        return f"{self.column} {low}..{high}{' (excluded)' if self.below else ''}"


def column_of(write_range: WriteRange, columns: Sequence[Column], where: str) -> Column:
    """The column of the result that a range is over. Raises :class:`RangeError`."""
    by_name = {column.name.lower(): column for column in columns}
    named = write_range.column or ""
    column = by_name.get(named.lower())
    if column is None:
        near = get_close_matches(named.lower(), by_name, n=1)
        raise RangeError(
            f"the range {write_range.text!r} names {named!r}, which the SELECT does not give",
            where=where,
            hint=f"did you mean {by_name[near[0]].name!r}?"
            if near
            else f"it gives: {', '.join(column.name for column in columns)}",
        )
    supported = column.type in (*_WHOLE_NUMBERS, *_EXAMPLES, "string") or column.type.startswith("decimal")
    if not supported:
        kind = column.type or "of a type that only the run will know"
        raise RangeError(
            f"{column.name} is {kind}, and a range is over whole numbers, decimals, texts, dates or times",
            where=where,
            hint="choose another column of the result, or all",
        )
    return column


def between(write_range: WriteRange, column: Column, where: str) -> Span:
    """``FROM..TO`` with values of the column's type. Raises :class:`RangeError`."""
    low = _read(write_range.first, column, where)
    high = _read(write_range.last, column, where)
    below = False
    if (
        write_range.last is not None
        and column.type.startswith("timestamp")
        and _DAY_ALONE.fullmatch(write_range.last.strip())
    ):
        # A day as an end is the whole day.
        try:
            high, below = high + timedelta(days=1), True
        except OverflowError:
            raise _unreadable(write_range.last, column, where) from None
    if low is not None and high is not None and (low > high or (below and low == high)):
        raise RangeError(
            f"the range {write_range.text!r} ends before it begins",
            where=where,
            hint=f"{column.name} {write_range.last}..{write_range.first}",
        )
    return Span(column.name, column.type, low, high, below)


def _read(text: str | None, column: Column, where: str) -> Any:
    if text is None:
        return None
    try:
        value = _value(text if column.type == "string" else text.strip(), column.type)
    except (ValueError, InvalidOperation, OverflowError):
        raise _unreadable(text, column, where) from None
    if isinstance(value, date) and (value.date() if isinstance(value, datetime) else value) < _REFORM:
        # Over ORC files Iceberg 1.12 pushes such days down by another calendar, and rows are lost.
        raise RangeError(
            f"{text!r} is before {_REFORM}, where calendars differ", where=where, hint="leave that end of the range out"
        )
    return value


def _value(text: str, kind: str) -> Any:
    if kind in _WHOLE_NUMBERS:
        if not re.fullmatch(r"[+-]?\d{1,19}", text):
            raise ValueError(text)
        number, most = int(text), 2 ** _WHOLE_NUMBERS[kind]
        if not -most <= number < most:
            raise ValueError(text)
        return number
    if kind.startswith("decimal"):
        return _decimal(text, kind)
    if kind == "date":
        if not _DAY_ALONE.fullmatch(text):
            raise ValueError(text)
        return date.fromisoformat(text)
    if kind.startswith("timestamp"):
        return _moment(text, zoned=kind == "timestamptz")
    return text


def _decimal(text: str, kind: str) -> Decimal:
    number = Decimal(text)
    digits = number.as_tuple()
    scale, precision = decimal_scale(kind), decimal_precision(kind)
    # Cast to its type it would be rounded, and the range another one.
    if (
        not isinstance(digits.exponent, int)
        or -digits.exponent > scale
        or (number and number.adjusted() >= precision - scale)
    ):
        raise ValueError(text)
    return number


def _moment(text: str, *, zoned: bool) -> datetime:
    if re.search(r"[.,]\d{7}", text):
        raise ValueError(text)  # Python would cut it off
    moment = datetime.fromisoformat(text)
    if not zoned:
        if moment.tzinfo is not None:
            raise ValueError(text)
        return moment
    return (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).astimezone(UTC)


def _unreadable(text: str, column: Column, where: str) -> RangeError:
    example = _EXAMPLES.get(column.type)
    return RangeError(
        f"{text!r} is no value of {column.name}, which is {column.type}",
        where=where,
        hint=f"write it as {example}" if example else "write it as a number that fits into the type",
    )


def _is_day(value: Any) -> bool:
    return isinstance(value, date) and not isinstance(value, datetime)


def _as_day(bound: Any) -> Any:
    return bound.date() if isinstance(bound, datetime) else bound
