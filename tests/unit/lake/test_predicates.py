"""Predicates lose no row: transforms by PyIceberg, predicates read by an evaluator that does as Spark does."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Context, Decimal
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pyiceberg.transforms import parse_transform
from pyiceberg.types import DecimalType, PrimitiveType
from pyiceberg.utils.datetime import date_to_days, datetime_to_micros, time_to_micros

from icefloe.lake.partitions import PartitionsBuilder
from icefloe.lake.predicates import MOST_PARTITIONS, literal, partition_filter, quote, range_filter, string_literal
from icefloe.lake.ranges import Range
from icefloe.lake.schema import Field, PartitionField, PartitionSpec, Schema
from tests.unit.lake.columns import COLUMNS, Column, characters, decimal_column, is_nan
from tests.unit.lake.spark_predicate import evaluate, unquote

_EXACT = Context(prec=80)
BY_KIND = {column.kind: column for column in COLUMNS}
TIMES = ("year", "month", "day")
TRANSFORMS: list[tuple[str, Column]] = [
    *(("identity", column) for column in COLUMNS),
    *((name, BY_KIND[kind]) for name in TIMES for kind in ("date", "timestamp", "timestamptz")),
    *(("hour", BY_KIND[kind]) for kind in ("timestamp", "timestamptz")),
    *((f"truncate[{width}]", BY_KIND[kind]) for width in (1, 10, 1000) for kind in ("int", "long", "string")),
    *((f"truncate[{width}]", BY_KIND["binary"]) for width in (1, 10)),
    *((f"truncate[{width}]", decimal_column(*kind)) for width in (1, 50, 10**6) for kind in ((9, 2), (38, 10), (3, 1))),
    *((f"bucket[{count}]", column) for count in (1, 16) for column in COLUMNS if column.kind not in ("boolean", "float", "double")),
    *(("void", column) for column in COLUMNS),
]  # fmt: skip


def stored(kind: PrimitiveType | str, value: Any) -> Any:
    """A partition value as the manifest's Avro has it, without logical types."""
    if isinstance(value, datetime):
        return datetime_to_micros(value)
    if isinstance(value, date):
        return date_to_days(value)
    if hasattr(value, "hour"):
        return time_to_micros(value)
    if isinstance(value, Decimal):
        return unscaled(kind, value).to_bytes(17, "big", signed=True)
    if hasattr(value, "hex") and hasattr(value, "fields"):
        return value.bytes
    return value


def unscaled(kind: PrimitiveType | str, value: Decimal) -> int:
    return int(value.scaleb(int(str(kind).rstrip(")").rpartition(",")[2]), _EXACT))


def physical(column: Column, value: Any) -> Any:
    """PyIceberg's transforms of times work on the numbers that stand for them."""
    if isinstance(value, datetime):
        return datetime_to_micros(value)
    return date_to_days(value) if isinstance(value, date) else value


def transformer(transform: str, column: Column) -> Callable[[Any], Any]:
    if transform == "void":
        return lambda value: None
    if transform == "identity":
        return lambda value: value
    if isinstance(column.type, DecimalType) and transform.startswith("truncate"):
        # By the specification's formula: PyIceberg 0.12 rounds decimals of more than 28 digits on the way.
        width, scale = int(transform[9:-1]), column.type.scale

        def truncate(value: Decimal | None) -> Decimal | None:
            if value is None:
                return None
            number = unscaled(column.type, value)
            return Decimal(f"{number - number % width}E-{scale}")

        return truncate
    apply = parse_transform(transform).transform(column.type)
    return lambda value: None if value is None else apply(physical(column, value))


def filter_of(specs: list[PartitionSpec], schema: Schema, tuples: list[tuple[int, list[Any]]]) -> str:
    by_id = {spec.id: spec for spec in specs}
    builder = PartitionsBuilder(by_id, schema)
    for spec_id, values in tuples:
        partition = {str(position): value for position, value in enumerate(values)}
        builder.add(spec_id, {"partition": partition, "record_count": 1, "file_size_in_bytes": 1}, side="added")
    return partition_filter(builder.result(), by_id, schema)


@st.composite
def partitioned_rows(draw: st.DrawFn) -> tuple[list[PartitionSpec], Schema, list[tuple[int, dict[Any, Any]]]]:
    """Columns with up to two specs over them, and rows written under either."""
    chosen = draw(st.lists(st.sampled_from(TRANSFORMS), min_size=1, max_size=3))
    fields = {
        position: Field(position, (draw(st.sampled_from(["c", "odd `name`", "${x}"])), str(position)), column.kind)
        for position, (_, column) in enumerate(chosen)
    }
    specs = []
    for spec_id in range(draw(st.integers(1, 2))):
        used = draw(st.lists(st.sampled_from(range(len(chosen))), unique=True, max_size=3))
        members = [PartitionField(1000 + n, f"p{n}", n, chosen[n][0]) for n in used]
        specs.append(PartitionSpec(spec_id, tuple(members)))
    rows = []
    for _ in range(draw(st.integers(1, 6))):
        spec = draw(st.sampled_from(specs))
        values = {n: draw(st.none() | column.values) for n, (_, column) in enumerate(chosen)}
        rows.append((spec.id, values))
    tuples = []
    for spec_id, values in rows:
        members_of = next(spec for spec in specs if spec.id == spec_id).fields
        stored_values = [
            stored(chosen[f.source_id][1].type, transformer(f.transform, chosen[f.source_id][1])(values[f.source_id]))
            for f in members_of
        ]
        tuples.append((spec_id, stored_values))
    return specs, Schema(0, fields), list(zip(tuples, [values for _, values in rows], strict=True))  # type: ignore[arg-type]


@given(partitioned_rows())
def test_every_row_of_a_changed_partition_passes_the_partition_filter(case: Any) -> None:
    specs, schema, rows = case
    predicate = filter_of(specs, schema, [partition for partition, _ in rows])
    for _, values in rows:
        row = {schema.fields[n].path: value for n, value in values.items()}
        assert evaluate(predicate, row) is True, predicate


@pytest.mark.parametrize(("transform", "column"), TRANSFORMS, ids=lambda part: getattr(part, "kind", part))
@given(data=st.data())
def test_every_value_passes_the_filter_of_its_own_partition(
    transform: str, column: Column, data: st.DataObject
) -> None:
    value = data.draw(st.none() | column.values)
    partition = stored(column.type, transformer(transform, column)(value))
    schema = Schema(0, {1: Field(1, ("c",), column.kind)})
    spec = PartitionSpec(0, (PartitionField(1000, "p", 1, transform),))
    predicate = filter_of([spec], schema, [(0, [partition])])
    assert evaluate(predicate, {("c",): value}) is True, predicate


@pytest.mark.parametrize("transform", ["identity", "year", "month", "day", "hour"])
@given(data=st.data())
def test_a_filter_by_time_lets_nothing_through_from_other_partitions(transform: str, data: st.DataObject) -> None:
    """A superset is allowed; for these transforms it should be none, or nothing would be pruned."""
    column = BY_KIND["timestamp"]
    bounded = st.datetimes(datetime(1800, 1, 1), datetime(2200, 1, 1))
    one, other = data.draw(bounded), data.draw(bounded)
    apply = transformer(transform, column)
    schema = Schema(0, {1: Field(1, ("c",), "timestamp")})
    spec = PartitionSpec(0, (PartitionField(1000, "p", 1, transform),))
    predicate = filter_of([spec], schema, [(0, [stored("timestamp", apply(one))])])
    assert evaluate(predicate, {("c",): other}) is (apply(one) == apply(other))


def test_days_in_a_row_are_one_comparison() -> None:
    schema = Schema(0, {1: Field(1, ("c",), "timestamp")})
    spec = PartitionSpec(0, (PartitionField(1000, "p", 1, "day"),))
    assert filter_of([spec], schema, [(0, [day]) for day in (1, 2, 3, 9)]) == (
        "((`c` >= TIMESTAMP_NTZ'1970-01-02 00:00:00' AND `c` < TIMESTAMP_NTZ'1970-01-05 00:00:00') OR "
        "(`c` >= TIMESTAMP_NTZ'1970-01-10 00:00:00' AND `c` < TIMESTAMP_NTZ'1970-01-11 00:00:00'))"
    )


def test_thousands_of_partitions_give_a_short_filter_that_holds_them_all() -> None:
    schema = Schema(0, {1: Field(1, ("a",), "long"), 2: Field(2, ("b",), "string")})
    spec = PartitionSpec(0, (PartitionField(1000, "a", 1, "identity"), PartitionField(1001, "b", 2, "identity")))
    tuples = [(0, [number, f"v{number}"]) for number in range(MOST_PARTITIONS + 500)]
    predicate = filter_of([spec], schema, tuples)
    assert len(predicate) < 200
    for _, (a, b) in tuples:
        assert evaluate(predicate, {("a",): a, ("b",): b}) is True


def test_a_partition_beyond_the_calendar_lets_every_row_through() -> None:
    for kind, transform, value in (
        ("date", "identity", 2932897),
        ("timestamp", "day", 2**31 - 1),
        ("date", "year", 8030),
        ("date", "identity", -141_428),  # the day before the calendar's reform
        ("date", "month", -23_628),
        ("timestamp", "hour", -17_000_000),
    ):
        schema = Schema(0, {1: Field(1, ("c",), kind)})
        spec = PartitionSpec(0, (PartitionField(1000, "p", 1, transform),))
        assert filter_of([spec], schema, [(0, [value]), (0, [0])]) == "TRUE"


def test_a_truncated_number_that_wrapped_around_lets_every_row_through() -> None:
    """Java subtracts with wrap-around: truncate[10] of the lowest long is near the highest."""
    schema = Schema(0, {1: Field(1, ("c",), "long")})
    spec = PartitionSpec(0, (PartitionField(1000, "p", 1, "truncate[10]"),))
    assert filter_of([spec], schema, [(0, [2**63 - 2])]) == "TRUE"


def test_a_column_that_is_truncated_around_the_end_of_its_type_is_not_compared() -> None:
    """Iceberg 1.12 wraps around there and skips files that match; the integration suite has the table that shows it."""
    spec = PartitionSpec(0, (PartitionField(1000, "p", 1, "truncate[10]"),))
    for kind, least in (("int", -(2**31)), ("long", -(2**63))):
        field = Field(1, ("c",), kind)
        for low, known, told in ((least + 9, True, False), (least + 10, True, True), (None, False, False)):
            found = Range("c", kind, low, 100, known, True, 0, 0)
            predicate = range_filter([(field, found)], anything_changed=True, specs=[spec])
            assert (predicate != "TRUE") is told
            assert range_filter([(field, found)], anything_changed=True, specs=[PartitionSpec(1, ())]) != "TRUE"


def test_nothing_changed_lets_no_row_through_and_nothing_known_lets_all() -> None:
    schema = Schema(0, {1: Field(1, ("c",), "long")})
    assert filter_of([], schema, []) == "FALSE"
    assert filter_of([PartitionSpec(0, ())], schema, [(0, [])]) == "TRUE"
    assert range_filter([], anything_changed=False) == "FALSE"
    assert range_filter([], anything_changed=True) == "TRUE"
    unknown = Range("c", "long", None, None, False, False, None, 0)
    assert range_filter([(schema.fields[1], unknown)], anything_changed=True) == "TRUE"


def test_a_dropped_partition_column_tells_nothing() -> None:
    spec = PartitionSpec(0, (PartitionField(1000, "gone", 9, "identity"),))
    assert filter_of([spec], Schema(0, {1: Field(1, ("c",), "long")}), [(0, [5])]) == "TRUE"


@given(st.text(characters))
@example("it's a \\ 'quote' \n\t\x00 ${spark.app.name} ${env:HOME} `x` \u2028 \U0001f9ca %_\\%")
def test_a_string_literal_reads_back_as_the_string_in_one_printable_line(text: str) -> None:
    made = string_literal(text)
    assert unquote(made) == text
    assert all(character.isprintable() or ord(character) > 0xFFFF for character in made)


@given(st.lists(st.text(characters, min_size=1), min_size=1, max_size=3))
def test_quoted_names_are_found_again_whatever_characters_they_have(path: list[str]) -> None:
    assert evaluate(f"{quote(path)} IS NULL", {tuple(path): None}) is True


@pytest.mark.parametrize("column", COLUMNS, ids=lambda column: column.kind)
@given(data=st.data())
def test_a_literal_equals_its_value_in_spark(column: Column, data: st.DataObject) -> None:
    value = data.draw(column.values.filter(lambda value: not is_nan(value)))
    assert evaluate(f"`c` = {literal(value, column.kind)}", {("c",): value}) is True


def test_literals_carry_the_type_of_their_column() -> None:
    assert literal(5, "long") == "5L"
    assert literal(5, "int") == "5"
    assert literal(datetime(2024, 1, 1), "timestamp") == "TIMESTAMP_NTZ'2024-01-01 00:00:00'"
    assert literal(datetime(2024, 1, 1, tzinfo=UTC), "timestamptz") == "TIMESTAMP'2024-01-01 00:00:00Z'"
    assert literal(Decimal("1.5"), "decimal(9,2)") == "CAST('1.5' AS DECIMAL(9,2))"
    assert literal(b"\x01\xff", "binary") == "X'01FF'"
    assert literal(float("inf"), "double") == "DOUBLE('inf')"
