"""Ready SQL predicates: ranges and partitions as typed Spark literals.

A predicate is a superset: it may let other rows through, and never loses one of the change set's. ``TRUE`` says nothing is
known, ``FALSE`` that nothing changed. Literals carry the column's type, and moments their zone, so that they prune files
and mean the same whatever the session's time zone is.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Context, Decimal
from itertools import pairwise
from uuid import UUID

from icefloe.lake.partitions import PartitionChange
from icefloe.lake.ranges import Range
from icefloe.lake.schema import Field, PartitionField, PartitionSpec, Schema
from icefloe.lake.values import Value, decimal, decimal_precision, decimal_scale

MOST_PARTITIONS = 1000
"""Beyond this many partitions a predicate lists no single ones: Spark's parser and planner would take longer than the scan."""

_SURE, _NEVER = "TRUE", "FALSE"
_EXACT = Context(prec=60)
_REFORM = date(1582, 10, 15)


def quote(path: Sequence[str]) -> str:
    """A column's name as Spark SQL wants it, whatever characters it has."""
    return ".".join("`" + part.replace("`", "``") + "`" for part in path)


def literal(value: Value, kind: str) -> str | None:
    """A value as a Spark literal of its column's type; ``None`` if Spark has no such literal."""
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, int):
        return f"{value}L" if kind == "long" else str(value)
    if isinstance(value, float):
        word = "FLOAT" if kind == "float" else "DOUBLE"
        return f"CAST('{value!r}' AS {word})" if math.isfinite(value) else f"{word}('{value}')"
    if isinstance(value, Decimal):
        return f"CAST('{value:f}' AS {kind.upper()})"
    if isinstance(value, datetime):
        if value.tzinfo is not None:
            return f"TIMESTAMP'{value.astimezone(UTC).replace(tzinfo=None).isoformat(sep=' ')}Z'"
        return f"TIMESTAMP_NTZ'{value.isoformat(sep=' ')}'"
    if isinstance(value, date):
        return f"DATE'{value.isoformat()}'"
    if isinstance(value, time):
        return f"TIME'{value.isoformat()}'"
    if isinstance(value, UUID):
        return string_literal(str(value))
    if isinstance(value, str):
        return string_literal(value)
    if isinstance(value, bytes):
        return f"X'{value.hex().upper()}'"
    # Nanoseconds: Spark has no literal as fine as that.
    return None


def string_literal(text: str) -> str:
    r"""A string in Spark's quotes. Control characters are spelt ``\uXXXX``, so that a predicate is one printable line.

    So is the dollar sign: Spark replaces ``${…}`` anywhere in a statement's text (``spark.sql.variable.substitute``).
    """
    out = []
    for character in text:
        if character in "'\\":
            out.append("\\" + character)
        elif character == "$" or (not character.isprintable() and ord(character) < 0x10000):
            out.append(f"\\u{ord(character):04X}")
        else:
            out.append(character)
    return "'" + "".join(out) + "'"


def range_filter(
    ranges: Iterable[tuple[Field, Range]], *, anything_changed: bool, specs: Iterable[PartitionSpec] = ()
) -> str:
    """Every row of the change set satisfies this. ``specs`` are the partition specs the table ever had."""
    if not anything_changed:
        return _NEVER
    specs = tuple(specs)
    parts = [
        part
        for field, range_ in ranges
        if not _wraps(field, range_, specs) and (part := _one_range(field, range_)) != _SURE
    ]
    return " AND ".join(parts) or _SURE


def _one_range(field: Field, range_: Range) -> str:
    name = quote(field.path)
    exceptions = []
    if range_.nulls != 0:
        exceptions.append(f"{name} IS NULL")
    if field.type in ("float", "double") and range_.nans != 0:
        exceptions.append(f"isnan({name})")
    if range_.empty:
        return _any_of(exceptions) if exceptions else _NEVER
    bounds = []
    for value, known, sign in ((range_.min, range_.min_known, ">="), (range_.max, range_.max_known, "<=")):
        text = literal(value, field.type) if known and value is not None and not _before_gregory(value) else None
        if text is not None:
            bounds.append(f"{name} {sign} {text}")
    if not bounds:
        return _SURE
    inside = " AND ".join(bounds)
    return _any_of([f"({inside})" if len(bounds) > 1 else inside, *exceptions]) if exceptions else inside


def _wraps(field: Field, range_: Range, specs: Iterable[PartitionSpec]) -> bool:
    """Whether a comparison of this column could lose rows, because Iceberg truncates with wrap-around.

    A table may be partitioned by ``truncate`` of the column. The lowest values of its type then lie in partitions near the
    highest, and Iceberg 1.12 skips those for any comparison (its literals wrap around, too). Nothing is said then.
    """
    least = {"int": -(2**31), "long": -(2**63)}.get(field.type)
    widths = [
        _width(partition_field.transform)
        for spec in specs
        for partition_field in spec.fields
        if partition_field.source_id == field.id
    ]
    if least is None or not any(widths):
        return False
    return not range_.min_known or (range_.min is not None and range_.min - max(widths) < least)


def _width(transform: str) -> int:
    """How much ``truncate`` leaves together; 0 for any other transform."""
    return int(transform[len("truncate[") : -1]) if transform.startswith("truncate[") else 0


def partition_filter(partitions: Sequence[PartitionChange], specs: Mapping[int, PartitionSpec], schema: Schema) -> str:
    """Every row of a changed partition satisfies this, as a predicate on the source's columns."""
    if not partitions:
        return _NEVER
    parts = []
    for spec_id in sorted({change.spec_id for change in partitions}):
        tuples = [change.values for change in partitions if change.spec_id == spec_id]
        part = _one_spec(specs[spec_id], tuples, schema)
        if part == _SURE:
            # One spec whose partitions cannot be told by their columns lets every row through.
            return _SURE
        parts.append(part)
    return _any_of(parts)


def days_filter(name: str, kind: str, days: Sequence[date | None]) -> str:
    """The moments of these days (in UTC where the column has a zone), as comparisons of the column ``name`` of type ``kind``."""
    field = Field(0, (name,), kind)
    known = [day for day in days if day is not None]
    parts = [
        f"({name} >= {literal(low, kind)} AND {name} < {literal(high, kind)})"
        for low, high in _joined([_interval("day", day, field) for day in known])
    ]
    if len(known) < len(days):
        parts.append(f"{name} IS NULL")
    return _any_of(parts)


def _one_spec(spec: PartitionSpec, tuples: Sequence[Mapping[str, Value]], schema: Schema) -> str:
    tellable = [field for field in spec.fields if _can_tell(field, schema)]
    if not tellable:
        return _SURE
    if len(tellable) == 1 or len(tuples) > MOST_PARTITIONS:
        parts = [_one_field(field, [values[field.name] for values in tuples], schema) for field in tellable]
        return _all_of([part for part in parts if part != _SURE]) or _SURE
    # The last field's values are gathered per combination of the others: two fields of 30 x 24 values give 30 terms.
    groups: dict[tuple[Value, ...], list[Value]] = {}
    for values in tuples:
        *others, last = (values[field.name] for field in tellable)
        groups.setdefault(tuple(others), []).append(last)
    terms = []
    for others_key, last_values in groups.items():
        term = [_one_field(f, [v], schema) for f, v in zip(tellable[:-1], others_key, strict=True)]
        term.append(_one_field(tellable[-1], last_values, schema))
        term = [part for part in term if part != _SURE]
        if not term:
            return _SURE
        terms.append(_all_of(term))
    return _any_of(terms)


def _can_tell(field: PartitionField, schema: Schema) -> bool:
    source = schema.fields.get(field.source_id)
    if source is None or field.transform == "void" or field.transform.startswith("bucket"):
        return False
    if field.transform.startswith("truncate"):
        return source.type in ("int", "long", "string") or source.type.startswith("decimal")
    return not source.type.endswith("_ns") and field.transform in ("identity", "year", "month", "day", "hour")


def _one_field(field: PartitionField, values: Sequence[Value], schema: Schema) -> str:
    source = schema.fields[field.source_id]
    name = quote(source.path)
    present = list({repr(value): value for value in values if value is not None}.values())
    parts = []
    if any(_beyond_calendar(field, value, source) or _before_gregory(value) for value in present):
        return _SURE
    if field.transform == "identity":
        parts += _identities(name, present, source)
    elif field.transform.startswith("truncate") and source.type == "string":
        parts += [_prefix(name, value, _width(field.transform)) for value in present]
    else:
        try:
            intervals = _joined([_interval(field.transform, value, source) for value in present])
        except (OverflowError, ValueError):
            # The last day that Python's calendar has ends beyond it, the last truncated number beyond its type.
            return _SURE
        if len(intervals) > MOST_PARTITIONS:
            intervals = [(intervals[0][0], intervals[-1][1])]
        if any(_before_gregory(low) for low, _ in intervals):
            return _SURE
        for low, high in intervals:
            lower, upper = literal(low, source.type), literal(high, source.type)
            if lower is None or upper is None:
                return _SURE
            parts.append(f"({name} >= {lower} AND {name} < {upper})")
    if None in values:
        parts.append(f"{name} IS NULL")
    return _any_of(parts)


def _identities(name: str, values: Sequence[Value], source: Field) -> list[str]:
    parts = []
    if any(isinstance(value, float) and math.isnan(value) for value in values):
        parts.append(f"isnan({name})")
        values = [value for value in values if not math.isnan(value)]
    if len(values) > MOST_PARTITIONS:
        return [
            f"({name} >= {literal(min(values), source.type)} AND {name} <= {literal(max(values), source.type)})",
            *parts,
        ]
    literals = [literal(value, source.type) for value in sorted(values)]
    if len(literals) == 1:
        parts.insert(0, f"{name} = {literals[0]}")
    elif literals:
        parts.insert(0, f"{name} IN ({', '.join(str(text) for text in literals)})")
    return parts


def _interval(transform: str, value: Value, source: Field) -> tuple[Value, Value]:
    """The half-open interval of source values that a transform maps to ``value``."""
    if transform.startswith("truncate"):
        width = _width(transform)
        if source.type.startswith("decimal"):
            scale, limit = decimal_scale(source.type), 10 ** decimal_precision(source.type)
            low, high = _within(int(value.scaleb(scale, _EXACT)), width, 1 - limit, limit - 1)
            return decimal(low, scale), decimal(high, scale)
        limit = 2**31 if source.type == "int" else 2**63
        return _within(value, width, -limit, limit - 1)
    start, end = _moments(transform, value)
    if source.type == "date":
        return start.date(), end.date()
    if source.type == "timestamptz":
        return start.replace(tzinfo=UTC), end.replace(tzinfo=UTC)
    return start, end


def _within(low: int, width: int, least: int, most: int) -> tuple[int, int]:
    """Iceberg truncates downwards, so the lowest values leave their type or wrap around to its highest: nothing is told there."""
    if low < least or low + width > most:
        raise OverflowError(f"{low} to {low + width} is beyond the type")
    return low, low + width


def _before_gregory(value: Value) -> bool:
    """Days before the calendar's reform: over ORC files Iceberg 1.12 pushes them down by the Julian calendar, and rows are lost."""
    day = value.date() if isinstance(value, datetime) else value
    return isinstance(day, date) and day < _REFORM


def _beyond_calendar(field: PartitionField, value: Value, source: Field) -> bool:
    """A number where a date or a time should be: one that Python's calendar does not have."""
    is_moment = field.transform == "day" or (field.transform == "identity" and source.type.startswith(("date", "time")))
    return is_moment and isinstance(value, int)


def _prefix(name: str, value: str, width: int) -> str:
    """Strings whose first ``width`` characters are ``value``.

    Not said with ``startswith``: Iceberg 1.12 fails on it (NullPointerException) where the table has a partition of NULLs.
    """
    if len(value) < width:
        return f"{name} = {string_literal(value)}"
    low = f"{name} >= {string_literal(value)}"
    after = _after(value)
    return low if after is None else f"({low} AND {name} < {string_literal(after)})"


def _after(value: str) -> str | None:
    """The first string that sorts after all those that begin with ``value``; ``None`` if there is none."""
    kept = value.rstrip("\U0010ffff")
    if not kept:
        return None
    following = ord(kept[-1]) + 1
    # Surrogates are no characters of their own.
    return kept[:-1] + chr(0xE000 if 0xD800 <= following <= 0xDFFF else following)


def _moments(transform: str, value: Value) -> tuple[datetime, datetime]:
    if transform == "hour":
        low = datetime(1970, 1, 1) + timedelta(hours=value)
        return low, low + timedelta(hours=1)
    if transform == "day":
        low = datetime(value.year, value.month, value.day)
        return low, low + timedelta(days=1)
    if transform == "month":
        return datetime(1970 + value // 12, value % 12 + 1, 1), datetime(
            1970 + (value + 1) // 12, (value + 1) % 12 + 1, 1
        )
    return datetime(1970 + value, 1, 1), datetime(1971 + value, 1, 1)


def _joined(intervals: list[tuple[Value, Value]]) -> list[tuple[Value, Value]]:
    """Neighbouring intervals as one: thirty days in a row are one comparison."""
    if not intervals:
        return []
    ordered = sorted(intervals)
    out = [ordered[0]]
    for _, (low, high) in pairwise(ordered):
        if low <= out[-1][1]:
            out[-1] = (out[-1][0], max(high, out[-1][1]))
        else:
            out.append((low, high))
    return out


def _any_of(parts: Sequence[str]) -> str:
    if _SURE in parts:
        return _SURE
    parts = [part for part in parts if part != _NEVER]
    if not parts:
        return _NEVER
    return parts[0] if len(parts) == 1 else "(" + " OR ".join(parts) + ")"


def _all_of(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else ("(" + " AND ".join(parts) + ")" if parts else "")
