"""Which columns can be read here: those whose values mean the same to Arrow as they do to Spark."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

_KEYS = frozenset({"boolean", "int", "long", "date", "timestamp", "timestamptz", "string", "binary"})
_FLOATS = frozenset({"float", "double"})
_DECIMAL = re.compile(r"decimal\((\d+), ?(\d+)\)")


def is_plain(kind: str) -> bool:
    """By Iceberg's word."""
    return kind in _KEYS or kind in _FLOATS or _DECIMAL.fullmatch(kind) is not None


def is_key(kind: str) -> bool:
    """Whether values can be looked up: equal for Spark if and only if they are for Arrow. Of floats, not all are (NaN, -0.0)."""
    return is_plain(kind) and kind not in _FLOATS


def arrow_type(kind: str) -> pa.DataType:
    """What a plain column is in Arrow."""
    import pyarrow as pa

    decimal = _DECIMAL.fullmatch(kind)
    if decimal is not None:
        return pa.decimal128(int(decimal[1]), int(decimal[2]))
    return {
        "boolean": pa.bool_(),
        "int": pa.int32(),
        "long": pa.int64(),
        "float": pa.float32(),
        "double": pa.float64(),
        "date": pa.date32(),
        "timestamp": pa.timestamp("us"),
        "timestamptz": pa.timestamp("us", tz="UTC"),
        "string": pa.string(),
        "binary": pa.binary(),
    }[kind]


def is_alike(stored: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether a file has the same values in another type: from before a column was widened, or by another writer's taste."""
    import pyarrow as pa

    if pa.types.is_decimal128(stored) and pa.types.is_decimal128(wanted):
        return bool(stored.scale == wanted.scale and stored.precision < wanted.precision)
    return (stored, wanted) in (
        (pa.int32(), pa.int64()),
        (pa.float32(), pa.float64()),
        (pa.large_string(), pa.string()),
        (pa.large_binary(), pa.binary()),
    )
