"""Bounds and partition values against PyIceberg's own encoder: what it writes, we read back."""

from __future__ import annotations

import math
import struct
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from uuid import UUID

import pytest
from hypothesis import given
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
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from icefloe.lake.values import Nanoseconds, UndecodableError, decode, from_avro, from_json, to_json

ints = st.integers(-(2**31), 2**31 - 1)
longs = st.integers(-(2**63), 2**63 - 1)
floats = st.floats(width=32, allow_nan=False)
doubles = st.floats(allow_nan=False)
moments = st.datetimes()
aware = st.datetimes(timezones=st.just(UTC))


@st.composite
def decimals(draw: st.DrawFn) -> tuple[DecimalType, Decimal]:
    precision = draw(st.integers(1, 38))
    scale = draw(st.integers(0, precision))
    unscaled = draw(st.integers(-(10**precision) + 1, 10**precision - 1))
    return DecimalType(precision, scale), Decimal(f"{unscaled}E-{scale}")


@st.composite
def typed_values(draw: st.DrawFn) -> tuple[PrimitiveType, object]:
    """A type of the spec and a value of it, for every type whose values Python can hold."""
    plain: list[tuple[PrimitiveType, st.SearchStrategy[object]]] = [
        (BooleanType(), st.booleans()),
        (IntegerType(), ints),
        (LongType(), longs),
        (FloatType(), floats),
        (DoubleType(), doubles),
        (DateType(), st.dates()),
        (TimeType(), st.times()),
        (TimestampType(), moments),
        (TimestamptzType(), aware),
        (StringType(), st.text(st.characters(exclude_categories=["Cs"]))),
        (UUIDType(), st.uuids()),
        (BinaryType(), st.binary()),
        (FixedType(7), st.binary(min_size=7, max_size=7)),
    ]
    if draw(st.integers(0, len(plain))) == 0:
        return draw(decimals())
    kind, values = draw(st.sampled_from(plain))
    return kind, draw(values)


@given(typed_values())
def test_what_pyiceberg_encodes_is_decoded_to_the_same_value(typed: tuple[PrimitiveType, object]) -> None:
    kind, value = typed
    found = decode(str(kind), to_bytes(kind, value))
    assert found == value
    assert type(found) is type(value)


@given(longs, st.sampled_from([TimestampNanoType(), TimestamptzNanoType()]))
def test_nanoseconds_keep_every_digit(number: int, kind: PrimitiveType) -> None:
    found = decode(str(kind), struct.pack("<q", number))
    assert found == Nanoseconds(number, utc=kind == TimestamptzNanoType())
    seconds, nanos = divmod(number, 10**9)
    assert found.isoformat().startswith((datetime(1970, 1, 1) + timedelta(seconds=seconds)).isoformat())
    assert f".{nanos:09d}" in found.isoformat()


@given(ints)
def test_an_int_bound_is_read_under_long(value: int) -> None:
    assert decode("long", to_bytes(IntegerType(), value)) == value


@given(floats)
def test_a_float_bound_is_read_under_double(value: float) -> None:
    assert decode("double", to_bytes(FloatType(), value)) == value


@given(st.dates())
def test_a_date_bound_is_read_under_every_timestamp(value: date) -> None:
    stored = to_bytes(DateType(), value)
    midnight = datetime(value.year, value.month, value.day)
    assert decode("timestamp", stored) == midnight
    assert decode("timestamptz", stored) == midnight.replace(tzinfo=UTC)
    days = (value - date(1970, 1, 1)).days
    if abs(days) < 100_000:
        assert decode("timestamp_ns", stored) == Nanoseconds(days * 86_400 * 10**9, utc=False)


@given(decimals(), st.integers(0, 38))
def test_a_decimal_bound_is_read_under_a_wider_precision(typed: tuple[DecimalType, Decimal], more: int) -> None:
    kind, value = typed
    wider = f"decimal({min(kind.precision + more, 38)}, {kind.scale})"
    assert decode(wider, to_bytes(kind, value)) == value


@pytest.mark.parametrize("value", [math.inf, -math.inf, -0.0])
def test_infinities_and_the_sign_of_zero_survive(value: float) -> None:
    for kind, encoder in (("float", FloatType()), ("double", DoubleType())):
        found = decode(kind, to_bytes(encoder, value))
        assert repr(found) == repr(value)
    assert math.isnan(decode("double", struct.pack("<d", math.nan)))


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("date", struct.pack("<i", 2932897)),  # 1 January 10000
        ("date", struct.pack("<i", -719163)),  # 31 December of the year 0
        ("timestamp", struct.pack("<q", 2**62)),
        ("timestamptz", struct.pack("<q", -(2**62))),
        ("timestamp_ns", struct.pack("<i", 2**31 - 1)),
        ("time", struct.pack("<q", 86_400_000_000)),
        ("time", struct.pack("<q", -1)),
        ("string", b"\xff\xfe"),
        ("uuid", b"short"),
        ("variant", b"\x00"),
        ("geometry(srid:4326)", b"\x00" * 16),
        ("list", b"\x00"),
        ("decimal(9,2)", b"\x00" * 17),
    ],
)
def test_what_python_has_no_value_for_is_undecodable(kind: str, data: bytes) -> None:
    with pytest.raises(UndecodableError):
        decode(kind, data)


FIXED_WIDTH = [
    "boolean",
    "int",
    "long",
    "float",
    "double",
    "date",
    "time",
    "timestamp",
    "timestamptz",
    "timestamp_ns",
    "timestamptz_ns",
    "uuid",
]


@given(st.sampled_from(FIXED_WIDTH), st.binary(max_size=20))
def test_bytes_of_a_wrong_length_are_never_taken_for_a_value(kind: str, data: bytes) -> None:
    promoted = {"long", "double", "timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns"}
    right = {"boolean": 1, "int": 4, "float": 4, "date": 4, "uuid": 16}.get(kind, 8)
    if len(data) == right or (kind in promoted and len(data) == 4):
        return
    with pytest.raises(UndecodableError):
        decode(kind, data)


EVERY_KIND = [*FIXED_WIDTH, "string", "binary", "fixed[4]", "decimal(38,10)", "unknown", "variant"]


@given(st.sampled_from(EVERY_KIND), st.binary(max_size=20))
def test_any_bytes_give_a_value_or_undecodable_and_every_value_has_json(kind: str, data: bytes) -> None:
    import json

    try:
        value = decode(kind, data)
    except UndecodableError:
        return
    json.loads(json.dumps(to_json(value), allow_nan=False))


def test_partition_values_come_from_the_numbers_that_avro_stores() -> None:
    assert from_avro("date", 0) == date(1970, 1, 1)
    assert from_avro("time", 1_000_001) == time(0, 0, 1, 1)
    assert from_avro("timestamp", -1) == datetime(1969, 12, 31, 23, 59, 59, 999999)
    assert from_avro("timestamptz", 0) == datetime(1970, 1, 1, tzinfo=UTC)
    assert from_avro("timestamptz_ns", 5) == Nanoseconds(5, utc=True)
    assert from_avro("uuid", UUID(int=7).bytes) == UUID(int=7)
    assert from_avro("uuid", str(UUID(int=7))) == UUID(int=7)
    assert from_avro("decimal(38,2)", (-1).to_bytes(16, "big", signed=True)) == Decimal("-0.01")
    assert from_avro("binary", b"\x00\x01") == b"\x00\x01"
    assert from_avro("int", 3) == 3
    assert from_avro("boolean", True) is True
    assert from_avro("string", "x") == "x"
    assert from_avro("date", None) is None
    for kind, number in (("date", 2**31 - 1), ("timestamp", 2**62), ("time", -1)):
        with pytest.raises(UndecodableError):
            from_avro(kind, number)


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        ("boolean", True, True),
        ("int", 5, 5),
        ("double", 5, 5.0),
        ("decimal(9,2)", "14.20", Decimal("14.20")),
        ("date", "2017-11-16", date(2017, 11, 16)),
        ("time", "22:31:08.123456", time(22, 31, 8, 123456)),
        ("timestamp", "2017-11-16T22:31:08.123456", datetime(2017, 11, 16, 22, 31, 8, 123456)),
        ("timestamptz", "2017-11-16T22:31:08.123456+00:00", datetime(2017, 11, 16, 22, 31, 8, 123456, tzinfo=UTC)),
        ("timestamptz", "2017-11-16T22:31:08", datetime(2017, 11, 16, 22, 31, 8, tzinfo=UTC)),
        ("string", "iceberg", "iceberg"),
        ("uuid", "f79c3e09-677c-4bbd-a479-3f349cb785e7", UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7")),
        ("fixed[3]", "000102", b"\x00\x01\x02"),
        ("binary", "000102ff", b"\x00\x01\x02\xff"),
        ("long", None, None),
    ],
)
def test_defaults_are_read_as_the_specification_writes_them(kind: str, value: object, expected: object) -> None:
    assert from_json(kind, value) == expected


def test_json_has_iso_strings_for_times_and_text_for_what_json_has_not() -> None:
    assert to_json(date(2024, 2, 29)) == "2024-02-29"
    assert to_json(datetime(2024, 2, 29, 1, tzinfo=UTC)) == "2024-02-29T01:00:00+00:00"
    assert to_json(time(1, 2, 3)) == "01:02:03"
    assert to_json(Nanoseconds(1, utc=True)) == "1970-01-01T00:00:00.000000001+00:00"
    assert to_json(Decimal("1.10")) == "1.10"
    assert to_json(math.inf) == "inf"
    assert to_json(b"\x00\xff") == "AP8="
    assert to_json(None) is None
    assert to_json(True) is True
