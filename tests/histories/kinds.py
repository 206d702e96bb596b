"""Column types: how a random value is drawn, written as Spark SQL, and made comparable between engines.

A value lives in the shadow as plain Python: naive datetimes in UTC, ``bytes``, ``Decimal``, tuples for structs and lists,
frozensets of pairs for maps, JSON text for variants. ``None`` is SQL's NULL for every kind.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any

# Short enough to be the name of a partition's folder, long enough to have their bounds cut at 16 characters.
STRINGS = [
    "",
    "a",
    "Oslo",
    "O'Brien",
    'say "hi"',
    "back\\slash",
    "tab\there",
    "per%cent_under",
    "Ærøskøbing",
    "東京",
    "🦭",
    "🦭" * 17,
    "the same sixteen characters, one",
    "the same sixteen characters, two",
    "\U0010ffff" * 17,
    "￿" * 17,
    "zzzzzzzzzzzzzzzzzzzzzzzz",
]


@dataclass(frozen=True)
class Kind:
    """One column type. ``grows_to`` names the kinds a column may be promoted to; ``transforms`` what may partition by it."""

    name: str
    sql: str
    draw: Callable[[Random], Any]
    literal: Callable[[Any], str]
    read: str = "{}"
    grows_to: tuple[str, ...] = ()
    transforms: tuple[str, ...] = ()
    since_version: int = 1
    bounded: bool = True
    """Iceberg keeps minimum and maximum for it."""

    def sql_of(self, value: Any) -> str:
        return f"CAST({'NULL' if value is None else self.literal(value)} AS {self.sql})"


def comparable(value: Any) -> Any:
    """Engine values in the shadow's form, hashable; NaN equals itself and -0.0 equals 0.0."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    if isinstance(value, datetime):
        return value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo else value
    if isinstance(value, bytearray):
        return bytes(value)
    if isinstance(value, Mapping):
        return frozenset((comparable(k), comparable(v)) for k, v in value.items())
    if isinstance(value, list | tuple):
        return tuple(comparable(item) for item in value)
    return value


def wrong_in_orc(value: Any) -> bool:
    """Values that ORC itself gets wrong: fractions of the last second before 1970, and the order of U+FFFF in filters."""
    if isinstance(value, datetime):
        return datetime(1969, 12, 31, 23, 59, 59) <= value < datetime(1970, 1, 1)
    return isinstance(value, str) and "\uffff" in value


def arrow_value(kind: Kind, value: Any) -> Any:
    """A shadow's value as pyarrow takes it."""
    if value is None:
        return None
    if kind.name == "timestamp":
        return value.replace(tzinfo=UTC)
    if kind.name == "struct":
        return {"a": value[0], "b": value[1]}
    return list(value) if kind.name in ("map", "array") else value


def from_arrow(kind: Kind, value: Any) -> Any:
    """The reverse: what ``to_pylist`` gives, in the shadow's form."""
    if value is None:
        return None
    if kind.name == "struct":
        return tuple(value.values())
    return frozenset(value) if kind.name == "map" else comparable(value)


def _text(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace("'", "\\'").replace("\t", "\\t").replace("\n", "\\n")
    return f"'{escaped}'"


def _float(value: float) -> str:
    return (
        f"'{'NaN' if math.isnan(value) else 'Infinity' if value > 0 else '-Infinity'}'"
        if not math.isfinite(value)
        else f"'{value!r}'"
    )


def _float32(value: float) -> float:
    return float(struct.unpack("<f", struct.pack("<f", value))[0])


def _draw_float(rng: Random) -> float:
    special = [math.nan, math.inf, -math.inf, -0.0, 0.0, 1e-40, 3.0e38, -3.0e38]
    return _float32(rng.choice(special) if rng.random() < 0.3 else rng.uniform(-100, 100))


def _draw_double(rng: Random) -> float:
    special = [math.nan, math.inf, -math.inf, -0.0, 5e-324, 1.7e308, -1.7e308, 0.1]
    return rng.choice(special) if rng.random() < 0.3 else rng.uniform(-1000, 1000)


# The lowest values stop short of the type's end: truncate() of those leaves the type's range.
def _draw_int(rng: Random) -> int:
    return rng.choice([9 - 2**31, 2**31 - 1, 0, -1]) if rng.random() < 0.15 else rng.randrange(-3, 7)


def _draw_long(rng: Random) -> int:
    return rng.choice([9 - 2**63, 2**63 - 1, 2**31, -(2**31) - 1]) if rng.random() < 0.2 else rng.randrange(-3, 7)


def _draw_decimal(precision: int, scale: int) -> Callable[[Random], Decimal]:
    top = 10**precision - 1

    def draw(rng: Random) -> Decimal:
        unscaled = rng.choice([top, 100 - top, 0]) if rng.random() < 0.2 else rng.randrange(-300, 300)
        # Built from text: arithmetic would round to the context's 28 digits.
        digits = str(abs(unscaled)).rjust(scale + 1, "0")
        return Decimal(f"{'-' if unscaled < 0 else ''}{digits[:-scale]}.{digits[-scale:]}")

    return draw


def _draw_date(rng: Random) -> date:
    special = [date(1969, 12, 31), date(1970, 1, 1), date(1, 1, 1), date(9999, 12, 31), date(1899, 2, 28)]
    return rng.choice(special) if rng.random() < 0.2 else date(2024, 2, 27) + timedelta(days=rng.randrange(6))


def _draw_timestamp(rng: Random) -> datetime:
    special = [
        datetime(1969, 12, 31, 23, 59, 59, 999999),
        datetime(1970, 1, 1),
        datetime(1899, 2, 28, 1, 2, 3),
        datetime(2400, 1, 1, 0, 0, 0, 1),
    ]
    if rng.random() < 0.2:
        return rng.choice(special)
    return datetime(2024, 2, 28, 22) + timedelta(
        minutes=rng.randrange(0, 60 * 48, 37), microseconds=rng.choice([0, 0, 1, 999999])
    )


def _draw_bytes(rng: Random) -> bytes:
    return rng.choice([b"", b"\x00", b"\xff" * 3, b"\xff" * 20, b"abc", bytes(range(20)), b"\x00" * 18, b"\x80\x7f"])


def _draw_struct(rng: Random) -> tuple[int | None, str | None]:
    return (rng.choice([None, 1, 2, 2**31 - 1]), rng.choice([None, *STRINGS[:8]]))


def _draw_variant(rng: Random) -> str:
    return json.dumps(rng.choice([1, "x", True, {"a": 1}, [1, 2], {"b": {"c": "d"}}]), separators=(",", ":"))


_ORDERED = ("identity", "bucket", "truncate")
_TIMES = ("years", "months", "days", "hours", "bucket")

KINDS: dict[str, Kind] = {
    kind.name: kind
    for kind in [
        Kind("boolean", "BOOLEAN", lambda r: r.random() < 0.5, lambda v: str(v).upper(), transforms=("identity",)),
        Kind("int", "INT", _draw_int, str, grows_to=("bigint",), transforms=_ORDERED),
        Kind("bigint", "BIGINT", _draw_long, lambda v: f"'{v}'", transforms=_ORDERED),
        Kind("float", "FLOAT", _draw_float, _float, grows_to=("double",)),
        Kind("double", "DOUBLE", _draw_double, _float),
        Kind(
            "decimal_9_2",
            "DECIMAL(9,2)",
            _draw_decimal(9, 2),
            lambda v: f"'{v}'",
            grows_to=("decimal_18_2",),
            transforms=_ORDERED,
        ),
        Kind(
            "decimal_18_2",
            "DECIMAL(18,2)",
            _draw_decimal(18, 2),
            lambda v: f"'{v}'",
            grows_to=("decimal_38_2",),
            transforms=_ORDERED,
        ),
        Kind("decimal_38_2", "DECIMAL(38,2)", _draw_decimal(38, 2), lambda v: f"'{v}'", transforms=_ORDERED),
        Kind(
            "date",
            "DATE",
            _draw_date,
            lambda v: f"'{v.isoformat()}'",
            transforms=("identity", "years", "months", "days", "bucket"),
        ),
        Kind(
            "timestamp",
            "TIMESTAMP",
            _draw_timestamp,
            lambda v: f"TIMESTAMP'{v.isoformat(' ')}Z'",
            read="CAST({} AS TIMESTAMP_NTZ)",
            transforms=_TIMES,
        ),
        Kind(
            "timestamp_ntz",
            "TIMESTAMP_NTZ",
            _draw_timestamp,
            lambda v: f"TIMESTAMP_NTZ'{v.isoformat(' ')}'",
            transforms=_TIMES,
        ),
        Kind("string", "STRING", lambda r: r.choice(STRINGS), _text, transforms=_ORDERED),
        Kind("binary", "BINARY", _draw_bytes, lambda v: f"X'{v.hex()}'", transforms=("bucket", "truncate")),
        Kind(
            "struct",
            "STRUCT<a: INT, b: STRING>",
            _draw_struct,
            lambda v: f"named_struct('a', {KINDS['int'].sql_of(v[0])}, 'b', {KINDS['string'].sql_of(v[1])})",
            bounded=False,
        ),
        Kind(
            "array",
            "ARRAY<INT>",
            lambda r: tuple(r.choice([None, 1, 2, 3]) for _ in range(r.randrange(3))),
            lambda v: f"array({', '.join(KINDS['int'].sql_of(item) for item in v)})",
            bounded=False,
        ),
        Kind(
            "map",
            "MAP<STRING, INT>",
            lambda r: frozenset({k: r.choice([None, 1, 2]) for k in r.sample(["k", "l", "m"], r.randrange(3))}.items()),
            lambda v: (
                "map("
                + ", ".join(f"{_text(k)}, {KINDS['int'].sql_of(x)}" for k, x in sorted(v, key=lambda p: p[0]))
                + ")"
            ),
            bounded=False,
        ),
        Kind(
            "variant",
            "VARIANT",
            _draw_variant,
            lambda v: f"parse_json({_text(v)})",
            read="to_json({})",
            since_version=3,
            bounded=False,
        ),
    ]
}
