"""No value lies outside a known range, whatever a file's metrics tell or leave out."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.conversions import to_bytes
from pyiceberg.types import BinaryType, DoubleType, IntegerType, LongType, StringType

from icefloe.lake.predicates import range_filter
from icefloe.lake.ranges import Range, RangeBuilder
from icefloe.lake.schema import Field, PartitionField, PartitionSpec
from tests.unit.lake.columns import COLUMNS, Column, columns, data_file, is_nan
from tests.unit.lake.spark_predicate import evaluate

UNPARTITIONED = PartitionSpec(0, ())
METRICS = ("null_value_counts", "nan_value_counts", "lower_bounds", "upper_bounds")
STRING = Column(StringType(), st.text())
LONG = Column(LongType(), st.integers())
DOUBLE = Column(DoubleType(), st.floats())


def range_of(
    column: Column,
    *files: dict[str, Any],
    spec: PartitionSpec = UNPARTITIONED,
    column_exists: bool = True,
    default: Any = None,
) -> Range:
    builder = RangeBuilder(Field(1, ("c",), column.kind, default))
    for file in files:
        builder.add_file(file, spec=spec, column_exists=column_exists)
    return builder.result()


def inside(found: Range, value: Any) -> bool:
    low = not found.min_known or (found.min is not None and found.min <= value)
    return low and (not found.max_known or (found.max is not None and value <= found.max))


@st.composite
def files_of_a_column(draw: st.DrawFn) -> tuple[Column, list[list[Any]], list[dict[str, Any]]]:
    """Files with the metrics that a writer stores, some of them left out."""
    column = draw(columns)
    contents = draw(st.lists(st.lists(st.none() | column.values, max_size=5), max_size=4))
    files = []
    for values in contents:
        file = data_file(column, values)
        for name in draw(st.sets(st.sampled_from(METRICS))):
            file[name] = draw(st.sampled_from([None, {}]))
        files.append(file)
    return column, contents, files


@given(files_of_a_column())
def test_no_value_lies_outside_a_known_range(given_files: tuple[Column, list[list[Any]], list[dict[str, Any]]]) -> None:
    column, contents, files = given_files
    found = range_of(column, *files)
    for value in (value for values in contents for value in values):
        if value is None:
            assert found.nulls is None or found.nulls > 0
        elif is_nan(value):
            assert found.nans is None or found.nans > 0
        else:
            assert inside(found, value)
            assert not found.empty


@given(files_of_a_column())
def test_every_row_passes_the_range_filter(
    given_files: tuple[Column, list[list[Any]], list[dict[str, Any]]],
) -> None:
    column, contents, files = given_files
    predicate = range_filter([(Field(1, ("c",), column.kind), range_of(column, *files))], anything_changed=True)
    for value in (value for values in contents for value in values):
        assert evaluate(predicate, {("c",): value}) is True


@given(st.sampled_from([column for column in COLUMNS if column.kind not in ("string", "binary")]), st.data())
def test_with_all_metrics_the_range_is_exactly_the_smallest_and_largest_value(
    column: Column, data: st.DataObject
) -> None:
    contents = data.draw(st.lists(st.lists(st.none() | column.values, min_size=1, max_size=5), min_size=1, max_size=4))
    found = range_of(column, *(data_file(column, values) for values in contents))
    present = [value for values in contents for value in values if value is not None and not is_nan(value)]
    assert found.known
    assert (found.min, found.max) == ((min(present), max(present)) if present else (None, None))
    assert found.empty == (not present)
    assert found.nulls == sum(value is None for values in contents for value in values)
    assert found.nans == sum(is_nan(value) for values in contents for value in values)


@given(st.sampled_from(["float", "double"]), st.permutations([0.0, -0.0]))
def test_negative_zero_is_below_zero_as_iceberg_skips_files_by_it(kind: str, zeros: list[float]) -> None:
    column = next(one for one in COLUMNS if one.kind == kind)
    found = range_of(column, *(data_file(column, [value]) for value in zeros))
    assert (repr(found.min), repr(found.max)) == ("-0.0", "0.0")


def test_one_file_without_a_bound_makes_that_side_unknown_and_leaves_the_other() -> None:
    whole, lacking = data_file(LONG, [1, 9]), data_file(LONG, [5, 7])
    lacking["upper_bounds"] = {}
    found = range_of(LONG, whole, lacking)
    assert (found.min, found.min_known) == (1, True)
    assert (found.max, found.max_known, found.known) == (None, False, False)


def test_a_file_of_nulls_has_no_bounds_and_makes_nothing_unknown() -> None:
    found = range_of(LONG, data_file(LONG, [None, None]), data_file(LONG, [3]))
    assert (found.min, found.max, found.known, found.nulls) == (3, 3, True, 2)


def test_a_file_of_nan_and_nulls_has_no_bounds_and_makes_nothing_unknown() -> None:
    found = range_of(DOUBLE, data_file(DOUBLE, [float("nan"), None]))
    assert found.empty
    assert (found.nulls, found.nans) == (1, 1)


def test_a_file_without_bounds_and_counts_makes_both_sides_unknown() -> None:
    bare = {"record_count": 3, "file_size_in_bytes": 1, "partition": {}}
    found = range_of(LONG, bare, data_file(LONG, [3]))
    assert (found.min_known, found.max_known, found.nulls) == (False, False, None)
    assert not found.empty


def test_an_empty_file_tells_nothing_and_takes_nothing_away() -> None:
    bare = {"record_count": 0, "file_size_in_bytes": 1, "partition": {}}
    assert range_of(LONG, bare, data_file(LONG, [3])).known


def test_a_nan_in_the_bounds_bounds_nothing() -> None:
    file = data_file(DOUBLE, [1.0])
    file["lower_bounds"] = file["upper_bounds"] = {1: to_bytes(DoubleType(), float("nan"))}
    found = range_of(DOUBLE, file)
    assert (found.min_known, found.max_known) == (False, False)


def test_a_bound_that_cannot_be_read_makes_its_side_unknown() -> None:
    day = next(column for column in COLUMNS if column.kind == "date")
    file = data_file(day, [date(2024, 1, 1)])
    file["upper_bounds"] = {1: (2932897).to_bytes(4, "little")}
    found = range_of(day, file)
    assert (found.min, found.min_known, found.max_known) == (date(2024, 1, 1), True, False)


def test_a_column_younger_than_the_file_is_null_there() -> None:
    file = data_file(LONG, [1, 2], field_id=99)
    found = range_of(LONG, file, column_exists=False)
    assert found.empty
    assert found.nulls == 2


def test_a_column_younger_than_the_file_has_its_initial_default_there() -> None:
    file = data_file(LONG, [1, 2], field_id=99)
    assert range_of(LONG, file, column_exists=False, default=7) == Range("c", "long", 7, 7, True, True, 0, 0)
    assert not range_of(LONG, file, column_exists=False, default="not a number").known


def test_a_default_that_cannot_be_read_makes_the_range_unknown() -> None:
    nanos = Field(1, ("c",), "timestamp_ns", "2024-01-01T00:00:00.000000001")
    builder = RangeBuilder(nanos)
    file = data_file(LONG, [1], field_id=99)
    builder.add_file(file, spec=UNPARTITIONED, column_exists=False)
    assert not builder.result().known


def test_a_file_that_has_metrics_of_a_column_has_the_column_whatever_its_manifest_says() -> None:
    found = range_of(LONG, data_file(LONG, [4, 5]), column_exists=False, default=7)
    assert (found.min, found.max, found.nulls) == (4, 5, 0)


def test_an_identity_partition_stands_in_for_missing_bounds() -> None:
    spec = PartitionSpec(0, (PartitionField(1000, "odd name", 1, "identity"),))
    bare = {"record_count": 3, "file_size_in_bytes": 1, "partition": {"odd_x20name": 5}}
    found = range_of(LONG, bare, spec=spec)
    assert (found.min, found.max, found.known) == (5, 5, True)
    half = data_file(LONG, [5], partition={"odd_x20name": 5})
    half["upper_bounds"] = {}
    assert range_of(LONG, half, spec=spec).known


def test_other_transforms_do_not_stand_in_for_bounds() -> None:
    spec = PartitionSpec(0, (PartitionField(1000, "c_bucket", 1, "bucket[4]"),))
    bare = {"record_count": 3, "file_size_in_bytes": 1, "partition": {"c_bucket": 2}}
    assert not range_of(LONG, bare, spec=spec).max_known


@pytest.mark.parametrize("kind", ["struct", "list", "map", "variant", "unknown"])
def test_columns_without_an_order_have_unknown_ranges(kind: str) -> None:
    builder = RangeBuilder(Field(1, ("c",), kind))
    file = data_file(LONG, [1])
    builder.add_file(file, spec=UNPARTITIONED, column_exists=True)
    assert not builder.result().known


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=17, max_size=40))
def test_a_text_longer_than_the_truncation_still_lies_inside(text: str) -> None:
    assert inside(range_of(STRING, data_file(STRING, [text])), text)


@given(st.integers(17, 30))
def test_text_that_cannot_be_raised_has_an_unknown_upper_side(length: int) -> None:
    file = data_file(STRING, ["\U0010ffff" * length])
    assert not range_of(STRING, file).max_known
    binary = Column(BinaryType(), st.binary())
    assert not range_of(binary, data_file(binary, [b"\xff" * length])).max_known


def test_bounds_written_before_a_promotion_count_like_those_after_it() -> None:
    before = data_file(Column(IntegerType(), st.integers()), [-3, 4])
    found = range_of(LONG, before, data_file(LONG, [2**40]))
    assert (found.min, found.max, found.known) == (-3, 2**40, True)
