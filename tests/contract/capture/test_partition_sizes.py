"""How much lies in which partition, from manifests."""

from __future__ import annotations

from datetime import date
from random import Random

import pyarrow as pa

from icefloe.lake.partition_sizes import PartitionSizes, identity_columns, sizes_by_value
from tests.contract.capture.conftest import Bench, opened_files

FIRST, SECOND, THIRD = (date(2026, 3, day) for day in (1, 2, 3))


def test_only_partitions_with_live_files_are_told_with_their_rows(bench: Bench) -> None:
    bench.create("db.events")
    bench.append("db.events", 1, 2, day=1)
    head = bench.append("db.events", 3, day=2)
    table = bench.lake.table("db.events")
    found = sizes_by_value(table, head, "day", [FIRST, SECOND, THIRD])
    assert found is not None
    assert {day: (size.files, size.rows) for day, size in found.by_value.items()} == {FIRST: (1, 2), SECOND: (1, 1)}
    assert sizes_by_value(table, head, "day", None) == found, "without values: all there are"
    for value, counts in found.by_value.items():
        (sizes,) = found.files[value]
        assert (len(sizes), sum(sizes)) == (counts.files, counts.bytes)


def test_a_table_without_a_snapshot_has_nothing_anywhere(bench: Bench) -> None:
    bench.create("db.events")
    assert sizes_by_value(bench.lake.table("db.events"), None, "day", [FIRST]) == PartitionSizes({}, {})


def test_a_column_that_the_table_is_not_partitioned_by_tells_nothing(bench: Bench) -> None:
    bench.create("db.events")
    head = bench.append("db.events", 1)
    assert sizes_by_value(bench.lake.table("db.events"), head, "id", [1]) is None


def test_a_column_takes_as_many_bits_as_it_has_different_values(bench: Bench) -> None:
    bench.create("db.events")
    chance = Random(5)
    table = bench.catalog.load_table("db.events")
    rows = 50_000
    columns = {field.name: field.field_type for field in table.schema().fields}
    few = [chance.randrange(4) * 10**15 for _ in range(rows)]
    many = [chance.randrange(10**15) for _ in range(rows)]
    other = {name: [None] * rows for name in columns if name not in ("id", "day")}
    for ids in (few, many):
        bench.catalog.load_table("db.events").append(
            pa.table(
                {"id": ids, "day": [FIRST if ids is few else SECOND] * rows, **other}, schema=table.schema().as_arrow()
            )
        )
    loaded = bench.lake.table("db.events")
    head = loaded.metadata.refs["main"].snapshot_id
    bits = {}
    for name, day in (("few", FIRST), ("many", SECOND)):
        found = sizes_by_value(loaded, head, "day", [day], measured=["id"])
        assert found is not None
        bits[name] = found.bits["id"]
    assert bits["few"] < 4 and bits["many"] > 40


def test_small_files_do_not_tell_how_many_bits_a_column_takes(bench: Bench) -> None:
    bench.create("db.events")
    head = bench.append("db.events", 1, 2)
    found = sizes_by_value(bench.lake.table("db.events"), head, "day", [FIRST], measured=["id"])
    assert found is not None and found.bits == {}


def test_manifests_that_cannot_hold_a_wanted_value_are_not_opened(bench: Bench) -> None:
    bench.create("db.events")
    bench.append("db.events", 1, day=1)
    head = bench.append("db.events", 2, day=2)
    table = bench.lake.table("db.events")
    opened = opened_files(table)
    assert sizes_by_value(table, head, "day", [THIRD]) == PartitionSizes({}, {})
    assert len(opened) == 1, "the manifest list alone"


def test_identity_columns_are_those_of_every_spec_in_use(bench: Bench) -> None:
    bench.create("db.events")
    head = bench.append("db.events", 1)
    assert identity_columns(bench.lake.table("db.events"), head) == ("day",)
    with bench.catalog.load_table("db.events").update_spec() as update:
        update.remove_field("day")
    assert identity_columns(bench.lake.table("db.events"), head) == ()
