"""How late the late rows are, in whatever the partitions count time."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any

import pytest

from icefloe.cli.lateness import lateness_of
from icefloe.lake import PartitionChange


def change(value: Any, rows: int, transform: str = "identity", field: str = "p") -> PartitionChange:
    return PartitionChange(0, {field: value}, 1, rows, 1, transforms={field: transform})


@pytest.mark.parametrize(
    ("transform", "newest", "older", "span"),
    [
        ("identity", date(2026, 3, 10), date(2026, 3, 7), "3 d"),
        ("day", date(2026, 3, 10), date(2026, 3, 9), "1 d"),
        ("identity", datetime(2026, 3, 10, 12), datetime(2026, 3, 10, 7), "5 h"),
        ("hour", 492_500, 492_497, "3 h"),
        ("hour", 492_500, 492_400, "4 d"),
        ("month", 674, 673, "28 d"),
        ("year", 56, 55, "365 d"),
    ],
)
def test_rows_in_older_partitions_are_late_by_their_distance(
    transform: str, newest: Any, older: Any, span: str
) -> None:
    partitions = [change(older, 1, transform), change(newest, 3, transform)]
    found = lateness_of(partitions)
    assert found is not None
    assert found.sentence() == f"1 rows (25.0 %) are late, by up to {span}"
    assert [found.of(one) for one in partitions] == [span, ""]


def test_numbers_and_words_are_no_times() -> None:
    assert lateness_of([change(1, 1), change(2, 1)]) is None
    assert lateness_of([change("DE", 1), change("FR", 1)]) is None
    assert lateness_of([change(3, 1, "bucket[4]"), change(2, 1, "bucket[4]")]) is None
    assert lateness_of([change(True, 1), change(False, 1)]) is None


def test_one_partition_alone_is_neither_late_nor_on_time() -> None:
    assert lateness_of([change(date(2026, 3, 1), 5)]) is None
    assert lateness_of([]) is None


def test_partitions_that_only_lost_rows_do_not_count() -> None:
    removed = PartitionChange(0, {"p": date(2020, 1, 1)}, 0, 0, 0, removed_rows=9)
    assert lateness_of([removed, change(date(2026, 3, 1), 5)]) is None


def test_null_and_times_beyond_the_calendar_are_left_out() -> None:
    partitions = [change(None, 1), change(2**31 - 1, 1, "year"), change(50, 1, "year"), change(51, 2, "year")]
    found = lateness_of(partitions)
    assert found is not None
    assert (found.late_rows, found.all_rows) == (1, 5)
    assert found.of(partitions[0]) == ""


def test_all_rows_in_the_newest_partition_of_two_tables_is_not_late() -> None:
    found = lateness_of([change(date(2026, 3, 1), 5), change(date(2026, 3, 1), 5)])
    assert found is not None
    assert found.sentence().startswith("no late rows")
