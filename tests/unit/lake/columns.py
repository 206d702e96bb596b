"""Columns of every type with values for them, and the bounds that writers store of such values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st
from pyiceberg.conversions import to_bytes
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    LongType,
    PrimitiveType,
    StringType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)
from pyiceberg.utils.truncate import truncate_upper_bound_binary_string, truncate_upper_bound_text_string

characters = st.characters(exclude_categories=["Cs"])


@dataclass(frozen=True)
class Column:
    """A type of the spec, and a strategy for its values (NaN included where there is one)."""

    type: PrimitiveType
    values: st.SearchStrategy[Any]

    @property
    def kind(self) -> str:
        return str(self.type)


def decimal_column(precision: int, scale: int) -> Column:
    unscaled = st.integers(-(10**precision) + 1, 10**precision - 1)
    return Column(DecimalType(precision, scale), unscaled.map(lambda number: Decimal(f"{number}E-{scale}")))


COLUMNS = (
    Column(BooleanType(), st.booleans()),
    Column(IntegerType(), st.integers(-(2**31), 2**31 - 1)),
    Column(LongType(), st.integers(-(2**63), 2**63 - 1)),
    Column(FloatType(), st.floats(width=32)),
    Column(DoubleType(), st.floats()),
    decimal_column(9, 2),
    decimal_column(38, 0),
    decimal_column(38, 38),
    Column(DateType(), st.dates()),
    Column(TimeType(), st.times()),
    Column(TimestampType(), st.datetimes()),
    Column(TimestamptzType(), st.datetimes(timezones=st.just(UTC))),
    Column(StringType(), st.text(characters, max_size=40)),
    Column(UUIDType(), st.uuids()),
    Column(BinaryType(), st.binary(max_size=40)),
    Column(FixedType(20), st.binary(min_size=20, max_size=20)),
)
columns = st.sampled_from(COLUMNS)


def is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def bounds(column: Column, values: Sequence[Any], *, width: int = 16) -> tuple[bytes | None, bytes | None]:
    """What a writer stores: min and max without NULL and NaN; text and bytes cut to ``width``, the upper one raised."""
    present = [value for value in values if value is not None and not is_nan(value)]
    if not present:
        return None, None
    # Iceberg orders -0.0 before 0.0.
    ordered = sorted(present, key=lambda v: (v, math.copysign(1, v)) if isinstance(v, float) else v)
    low, high = ordered[0], ordered[-1]
    if isinstance(column.type, StringType):
        low, high = low[:width], truncate_upper_bound_text_string(high, width)
    elif isinstance(column.type, BinaryType):
        low, high = low[:width], truncate_upper_bound_binary_string(high, width)
    return to_bytes(column.type, low), None if high is None else to_bytes(column.type, high)


def data_file(column: Column, values: Sequence[Any], *, field_id: int = 1, **extra: Any) -> dict[str, Any]:
    """A manifest's ``data_file`` with full metrics of one column."""
    low, high = bounds(column, values)

    def pairs(value: Any) -> dict[int, Any]:
        return {} if value is None else {field_id: value}

    return {
        "record_count": len(values),
        "file_size_in_bytes": 1000,
        "partition": {},
        "null_value_counts": pairs(sum(value is None for value in values)),
        "nan_value_counts": pairs(sum(map(is_nan, values))) if column.kind in ("float", "double") else {},
        "lower_bounds": pairs(low),
        "upper_bounds": pairs(high),
        **extra,
    }
