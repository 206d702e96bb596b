"""How much a reader has to open, from manifests, against a look at every file."""

from __future__ import annotations

from datetime import date
from random import Random

import pyarrow as pa
import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform, Transform
from pyiceberg.types import IcebergType, LongType, NestedField, StringType

from icefloe.lake import read_sizes
from icefloe.lake.survey import FileCounts
from tests.contract.capture.conftest import Bench, opened_files


def oracle(bench: Bench, wanted: set[date] | None = None) -> tuple[int, int, int]:
    """By PyIceberg's own list of live files."""
    files = bench.catalog.load_table("db.events").inspect.files().to_pylist()
    kept = [one for one in files if wanted is None or one["partition"]["day"] in wanted]
    return len(kept), sum(one["record_count"] for one in kept), sum(one["file_size_in_bytes"] for one in kept)


def triple(counts: FileCounts | None) -> tuple[int, int, int | None]:
    assert counts is not None
    return counts.files, counts.rows, counts.bytes


@pytest.fixture
def events(bench: Bench) -> Bench:
    bench.create("db.events")
    return bench


@pytest.mark.parametrize("seed", range(5))
def test_all_some_and_the_newest_partitions_are_what_lies_in_them(events: Bench, seed: int) -> None:
    random = Random(seed)
    days = set()
    head = 0
    for _ in range(12):
        day = random.randint(1, 28)
        days.add(date(2026, 3, day))
        head = events.append("db.events", *range(random.randint(1, 5)), day=day)
    table = events.lake.table("db.events")
    assert triple(read_sizes.whole(table, head)) == oracle(events)
    some = set(random.sample(sorted(days), 3)) | {date(2026, 4, 1)}
    assert triple(read_sizes.in_partitions(table, head, "day", some)) == oracle(events, some)
    for count in (1, 3, 10, 400):
        newest = read_sizes.newest_days(table, head, count)
        window = {day for day in days if (max(days) - day).days < count}
        assert newest is not None and set(newest.values) == window
        assert triple(newest.counts) == oracle(events, window)
        last = read_sizes.newest_partitions(table, head, count)
        kept = set(sorted(days)[-count:])
        assert last is not None and set(last.values) == kept
        assert triple(last.counts) == oracle(events, kept)


def test_manifests_that_are_older_than_the_window_are_not_opened(events: Bench) -> None:
    head = 0
    for day in (5, 1, 2, 3, 9):
        head = events.append("db.events", 1, day=day)
    table = events.lake.table("db.events")
    opened = opened_files(table)
    found = read_sizes.newest_days(table, head, 5)
    assert found is not None and found.values == (date(2026, 3, 5), date(2026, 3, 9))
    assert len(opened) == 3, "the manifest list and two manifests"


def test_a_day_in_the_future_does_not_move_the_window_but_is_read(events: Bench) -> None:
    events.append("db.events", 1, day=1)
    events.append("db.events", 1, day=2)
    table = events.catalog.load_table("db.events")
    table.append(pa.table({"id": pa.array([1], pa.int64()), "day": pa.array([date(2999, 1, 1)], pa.date32())}))
    snapshot = table.current_snapshot()
    assert snapshot is not None
    found = read_sizes.newest_days(events.lake.table("db.events"), snapshot.snapshot_id, 1)
    assert found is not None and found.values == (date(2026, 3, 2), date(2999, 1, 1))


def test_a_row_without_a_day_is_in_no_window(events: Bench) -> None:
    events.append("db.events", 1, day=1)
    table = events.catalog.load_table("db.events")
    table.append(pa.table({"id": pa.array([1], pa.int64()), "day": pa.array([None], pa.date32())}))
    snapshot = table.current_snapshot()
    assert snapshot is not None
    found = read_sizes.newest_days(events.lake.table("db.events"), snapshot.snapshot_id, 400)
    assert found is not None and found.values == (date(2026, 3, 1),)


@pytest.mark.parametrize(
    ("kind", "transform", "values", "days", "kept"),
    [
        (LongType(), IdentityTransform(), [20260227, 20260301, 20260302], 3, 2),
        (StringType(), IdentityTransform(), ["2026-02-27", "2026-03-01", "20260302"], 3, 2),
        (StringType(), IdentityTransform(), ["a", "b"], 3, None),
        (LongType(), IdentityTransform(), [1, 2, 3], 3, None),
    ],
)
def test_days_are_found_in_numbers_and_texts_that_are_days_and_in_no_others(
    bench: Bench,
    kind: IcebergType,
    transform: Transform[object, object],
    values: list[object],
    days: int,
    kept: int | None,
) -> None:
    schema = Schema(NestedField(1, "p", kind))
    bench.catalog.create_table(
        "db.t", schema=schema, partition_spec=PartitionSpec(PartitionField(1, 1000, transform, "part"))
    )
    table = bench.catalog.load_table("db.t")
    for value in values:
        table.append(pa.table({"p": pa.array([value], schema.as_arrow().field("p").type)}))
    snapshot = table.current_snapshot()
    assert snapshot is not None
    found = read_sizes.newest_days(bench.lake.table("db.t"), snapshot.snapshot_id, days)
    assert (None if found is None else found.counts.files) == kept


def test_a_table_without_a_snapshot_has_nothing_to_read(events: Bench) -> None:
    table = events.lake.table("db.events")
    assert triple(read_sizes.whole(table, None)) == (0, 0, 0)
    assert triple(read_sizes.in_partitions(table, None, "day", [date(2026, 3, 1)])) == (0, 0, 0)


def test_a_summary_that_does_not_tell_is_replaced_by_the_manifests(events: Bench) -> None:
    head = events.append("db.events", 1, 2, 3)
    table = events.lake.table("db.events")
    told = triple(read_sizes.whole(table, head))
    table.metadata.snapshots[head].summary.pop("total-files-size")
    assert triple(read_sizes.whole(table, head)) == told
