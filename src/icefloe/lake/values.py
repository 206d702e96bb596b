"""Single values as Iceberg stores them in bounds and partition tuples, turned into Python values.

==================  ==========================================
Iceberg type        Python value
==================  ==========================================
boolean             ``bool``
int, long           ``int``
float, double       ``float``
decimal             ``decimal.Decimal``
date                ``datetime.date``
time                ``datetime.time``
timestamp           ``datetime.datetime`` without zone
timestamptz         ``datetime.datetime`` in UTC
timestamp_ns (tz)   :class:`Nanoseconds`
string              ``str``
uuid                ``uuid.UUID``
fixed, binary       ``bytes``
==================  ==========================================
"""

from __future__ import annotations

import base64
import re
import struct
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

_EPOCH = datetime(1970, 1, 1)
_EPOCH_DAY = date(1970, 1, 1).toordinal()

Value = Any
"""One of the Python values in the table above."""


@dataclass(frozen=True, order=True)
class Nanoseconds:
    """A timestamp in nanoseconds since 1970, finer than ``datetime`` can hold."""

    value: int
    utc: bool

    def isoformat(self) -> str:
        seconds, nanos = divmod(self.value, 1_000_000_000)
        base = (_EPOCH + timedelta(seconds=seconds)).isoformat()
        return f"{base}.{nanos:09d}" + ("+00:00" if self.utc else "")


class UndecodableError(ValueError):
    """A stored value that no Python value can stand for (a date beyond year 9999). Its range is then unknown."""


def decode(kind: str, data: bytes) -> Value:
    """A bound's bytes as a value of the column's *current* type.

    Files written before a promotion keep the old type's bytes: four of them under long, double or a timestamp are a
    promoted int, float or date.
    """
    try:
        return _decode(kind, data)
    except (struct.error, OverflowError, ValueError) as error:
        raise UndecodableError(f"{data!r} is no {kind}: {error}") from error


_SIZES = {
    "boolean": (1,),
    "int": (4,),
    "long": (4, 8),
    "float": (4,),
    "double": (4, 8),
    "date": (4,),
    "time": (8,),
    "timestamp": (4, 8),
    "timestamptz": (4, 8),
    "timestamp_ns": (4, 8),
    "timestamptz_ns": (4, 8),
    "uuid": (16,),
}
"""How many bytes a value may have. Where there are two, the shorter is the type that may be promoted to this one."""


def _decode(kind: str, data: bytes) -> Value:
    if len(data) not in _SIZES.get(kind, (len(data),)) or (kind.startswith("decimal") and not 1 <= len(data) <= 16):
        raise ValueError(f"{len(data)} bytes")
    if kind in ("int", "long"):
        return int.from_bytes(data, "little", signed=True)
    if kind == "string":
        return data.decode("utf-8")
    if kind == "date":
        return _date(int.from_bytes(data, "little", signed=True))
    if kind.startswith("timestamp"):
        number = int.from_bytes(data, "little", signed=True)
        if len(data) == 4:
            number *= 86_400 * (1_000_000_000 if kind.endswith("_ns") else 1_000_000)
        return from_number(kind, number)
    if kind in ("float", "double"):
        return float(struct.unpack("<f" if len(data) == 4 else "<d", data)[0])
    if kind.startswith("decimal"):
        return decimal(int.from_bytes(data, "big", signed=True), decimal_scale(kind))
    if kind == "boolean":
        return data != b"\x00"
    if kind == "time":
        return from_number(kind, int.from_bytes(data, "little", signed=True))
    if kind == "uuid":
        return UUID(bytes=data)
    if kind == "binary" or kind.startswith("fixed"):
        return data
    raise ValueError("bounds of this type are not comparable")


def from_number(kind: str, number: int) -> Value:
    """A date, time or timestamp from the number that Iceberg counts it with."""
    if kind == "date":
        return _date(number)
    if kind == "time":
        if not 0 <= number < 86_400_000_000:
            raise ValueError(f"{number} microseconds are not a time of day")
        return (_EPOCH + timedelta(microseconds=number)).time()
    if kind.endswith("_ns"):
        if not -(2**63) <= number < 2**63:
            raise OverflowError("beyond what nanoseconds can count in 64 bits")
        return Nanoseconds(number, kind == "timestamptz_ns")
    moment = _EPOCH + timedelta(microseconds=number)
    return moment.replace(tzinfo=UTC) if kind == "timestamptz" else moment


def from_avro(kind: str, value: Value) -> Value:
    """A partition tuple's member, as a manifest has it (without Avro's logical types), as a value of an Iceberg type."""
    try:
        if isinstance(value, bytes):
            if kind.startswith("decimal"):
                return decimal(int.from_bytes(value, "big", signed=True), decimal_scale(kind))
            return UUID(bytes=value) if kind == "uuid" else value
        if isinstance(value, str) and kind == "uuid":
            return UUID(value)
        if isinstance(value, int) and (kind in ("date", "time") or kind.startswith("timestamp")):
            return from_number(kind, value)
    except (OverflowError, ValueError) as error:
        raise UndecodableError(f"{value!r} is no {kind}: {error}") from error
    return float(value) if kind in ("float", "double") and isinstance(value, int) else value


def from_json(kind: str, value: Any) -> Value:
    """A default value from a schema's JSON (v3 ``initial-default``)."""
    if value is None:
        return None
    if kind == "date":
        return date.fromisoformat(value)
    if kind == "time":
        return time.fromisoformat(value)
    if kind in ("timestamp", "timestamptz"):
        moment = datetime.fromisoformat(value)
        if kind == "timestamp":
            return moment.replace(tzinfo=None)
        return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    if kind.startswith("decimal"):
        return Decimal(str(value))
    if kind == "uuid":
        return UUID(value)
    if kind == "binary" or kind.startswith("fixed"):
        return bytes.fromhex(value)
    if kind in ("float", "double"):
        return float(value)
    if type(value) is {"boolean": bool, "int": int, "long": int, "string": str}.get(kind):
        return value
    raise UndecodableError(f"a default of type {kind} is not understood: {value!r}")


def to_json(value: Value) -> Any:
    """What ``--output json`` prints: ISO strings for times, base64 for bytes, strings for decimals and uuids."""
    if isinstance(value, date | datetime | time | Nanoseconds):
        return value.isoformat()
    if isinstance(value, Decimal | UUID):
        return str(value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return str(value)
    return value


def decimal(unscaled: int, scale: int) -> Decimal:
    """Built from its text: arithmetic on Decimals would round to 28 digits, and Iceberg has 38."""
    return Decimal(f"{unscaled}E-{scale}")


def decimal_scale(kind: str) -> int:
    return _decimal_parameters(kind)[1]


def decimal_precision(kind: str) -> int:
    return _decimal_parameters(kind)[0]


def _decimal_parameters(kind: str) -> tuple[int, int]:
    match = re.fullmatch(r"decimal\(\s*(\d+)\s*,\s*(\d+)\s*\)", kind)
    if match is None:
        raise ValueError(f"{kind!r} is no decimal type")
    return int(match[1]), int(match[2])


def _date(days: int) -> date:
    return date.fromordinal(days + _EPOCH_DAY)
