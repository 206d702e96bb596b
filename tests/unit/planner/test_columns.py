"""The result's columns against the target's, and what a step's process is told."""

from __future__ import annotations

import json
from datetime import date

import pytest

from icefloe.capture.sources import Source
from icefloe.lake import Checkpoint
from icefloe.lake.predicates import days_filter
from icefloe.planner.errors import TargetMismatchError
from icefloe.planner.inputs import Column, TargetState, WriteRequest
from icefloe.planner.logic import Logic, LogicVersion
from icefloe.steps.write.columns import ResultColumn, check, create_table
from icefloe.steps.write.versions import LogicOrder
from icefloe.steps.write.write_job import WriteJob

NEW = TargetState("db.t", "lake.db.t", "lake.db.t.branch_b")


def there(*columns: tuple[str, str]) -> TargetState:
    return TargetState("db.t", "lake.db.t", "b", exists=True, columns=tuple(Column(*pair) for pair in columns))


@pytest.mark.parametrize(
    ("spark", "iceberg"),
    [
        ("bigint", "long"),
        ("int", "long"),
        ("timestamp", "timestamptz"),
        ("timestamp_ntz", "timestamp"),
        ("decimal(9,2)", "decimal(12, 2)"),
        ("array<string>", "list"),
        ("string", "uuid"),
    ],
)
def test_a_type_that_fits_is_taken(spark: str, iceberg: str) -> None:
    check(there(("a", iceberg)), [ResultColumn("A", spark)])


@pytest.mark.parametrize(
    ("spark", "iceberg"),
    [("bigint", "int"), ("string", "long"), ("timestamp", "timestamp"), ("decimal(9,3)", "decimal(12, 2)")],
)
def test_a_type_that_does_not_fit_is_refused(spark: str, iceberg: str) -> None:
    with pytest.raises(TargetMismatchError):
        check(there(("a", iceberg)), [ResultColumn("a", spark)])


def test_a_new_target_is_made_with_the_columns_partitions_and_properties() -> None:
    made = create_table(
        NEW, [ResultColumn("a b", "bigint"), ResultColumn("day", "date")], ["DAY", "bucket(4, `a b`)"], {"x": "y"}
    )
    assert made == (
        "CREATE TABLE IF NOT EXISTS lake.db.t (`a b` bigint, `day` date) USING iceberg "
        "PARTITIONED BY (`day`, bucket(4, `a b`)) TBLPROPERTIES ('x'='y')"
    )


def test_a_column_without_a_type_and_a_partition_that_is_not_there_are_refused() -> None:
    with pytest.raises(TargetMismatchError):
        create_table(NEW, [ResultColumn("a", "void")], [], {})
    with pytest.raises(TargetMismatchError):
        create_table(NEW, [ResultColumn("a", "int")], ["b"], {})


def test_neighbouring_days_are_one_comparison_and_null_is_a_day() -> None:
    days = [date(2026, 3, 2), date(2026, 3, 1), None]
    assert days_filter("`ts`", "timestamp", days) == (
        "((`ts` >= TIMESTAMP_NTZ'2026-03-01 00:00:00' AND `ts` < TIMESTAMP_NTZ'2026-03-03 00:00:00') OR `ts` IS NULL)"
    )


def test_work_is_read_as_it_was_written() -> None:
    source = Source("db.events", "main", None, Checkpoint("u", 1, 2, 3), "icdc.x", "pin", {"kind": "full"})
    request = WriteRequest("SELECT 1", "db.t", ("a",), "merge", ("day",), ("db.d",), "here")
    logic = LogicOrder(
        "w/agg", "SELECT 1", "rebuild", (LogicVersion("a.b", "w-1", Logic("SELECT 2", (("a", "int"),))),), "w-2"
    )
    work = WriteJob(request, (source,), {"p": "q"}, "14d", logic)
    assert WriteJob.from_json(json.loads(json.dumps(work.to_json()))) == work
