"""Which partitions a change set touches, and with how much."""

from __future__ import annotations

import math
from datetime import date
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from icefloe.lake.partitions import PartitionsBuilder
from icefloe.lake.schema import Field, PartitionField, PartitionSpec, Schema

DAY = PartitionSpec(0, (PartitionField(1000, "ts_day", 1, "day"),))
COUNTRY = PartitionSpec(1, (PartitionField(1001, "country", 2, "identity"),))
SCORE = PartitionSpec(2, (PartitionField(1002, "score", 3, "identity"),))
SCHEMA = Schema(
    0, {1: Field(1, ("ts",), "timestamp"), 2: Field(2, ("country",), "string"), 3: Field(3, ("s",), "double")}
)
SPECS = {spec.id: spec for spec in (DAY, COUNTRY, SCORE)}


def file(value: Any, rows: int = 1, size: int = 10) -> dict[str, Any]:
    return {"partition": {"x": value}, "record_count": rows, "file_size_in_bytes": size}


def test_files_are_counted_per_partition_and_side() -> None:
    builder = PartitionsBuilder(SPECS, SCHEMA)
    builder.add(0, file(0, rows=3), side="added")
    builder.add(0, file(0, rows=4), side="added")
    builder.add(0, file(0, rows=5), side="removed")
    builder.add(0, file(0, rows=6), side="deletes")
    (found,) = builder.result()
    assert found.values == {"ts_day": date(1970, 1, 1)}
    assert (found.files, found.rows, found.bytes) == (2, 7, 20)
    assert (found.removed_files, found.removed_rows, found.delete_files) == (1, 5, 1)


def test_partitions_of_two_specs_are_never_merged() -> None:
    builder = PartitionsBuilder(SPECS, SCHEMA)
    builder.add(1, file(None), side="added")
    builder.add(2, file(None), side="added")
    assert [found.spec_id for found in builder.result()] == [1, 2]


def test_nan_is_one_partition_and_the_two_zeros_are_two() -> None:
    builder = PartitionsBuilder(SPECS, SCHEMA)
    for value in (float("nan"), -0.0, math.nan, 0.0, float("nan"), None):
        builder.add(2, file(value), side="added")
    found = builder.result()
    assert [repr(one.values["score"]) for one in found] == ["None", "-0.0", "0.0", "nan"]
    assert [one.files for one in found] == [1, 1, 1, 3]


def test_a_day_beyond_the_calendar_stays_a_number_and_sorts() -> None:
    builder = PartitionsBuilder(SPECS, SCHEMA)
    for value in (1, 2**31 - 1, None, -(2**31), 0):
        builder.add(0, file(value), side="added")
    found = [one.to_dict()["values"]["ts_day"] for one in builder.result()]
    assert found == [None, -(2**31), 2**31 - 1, "1970-01-01", "1970-01-02"]


@given(st.lists(st.tuples(st.sampled_from(["DE", "FR", None]), st.integers(0, 100)), max_size=20))
def test_no_row_is_lost_or_counted_twice(files: list[tuple[str | None, int]]) -> None:
    builder = PartitionsBuilder(SPECS, SCHEMA)
    for country, rows in files:
        builder.add(1, file(country, rows), side="added")
    found = builder.result()
    assert sum(one.rows for one in found) == sum(rows for _, rows in files)
    assert len(found) == len({country for country, _ in files})
    for one in found:
        assert one.rows == sum(rows for country, rows in files if country == one.values["country"])
