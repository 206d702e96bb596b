"""What the marks in a target's history say about the work at hand."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from icefloe.lake.metadata import Snapshot
from icefloe.spark.marks import CREATED, STATEMENT, CapturedRange, ForeignBatchError, Mark, created, published


def batch(
    start: int, end: int, *, version: int = 3, capture: str = "c1", place: str = "use", consumer: str = "w/look"
) -> Mark:
    return Mark(place, "run-1", 0, (CapturedRange(capture, consumer, version, (f"db.s@{start}",), (f"db.s@{end}",)),))


def snapshot(number: int, summary: dict[str, str]) -> Snapshot:
    return Snapshot(number, number - 1, number, 0, None, {"operation": "append", **summary})


def history(*marks: Mark | None) -> list[Snapshot]:
    """Oldest first in, newest first out."""
    return [snapshot(number, one.properties() if one else {}) for number, one in enumerate(marks, 1)][::-1]


def find(mark: Mark, *past: Mark | None) -> int | None:
    return published(history(*past), mark, table="db.t")


def test_a_batch_is_found_by_its_mark_whatever_came_after() -> None:
    assert find(batch(1, 2), None, batch(1, 2), None) == 2
    assert find(batch(1, 2), None, None) is None
    assert find(batch(1, 2)) is None


def test_the_same_range_captured_again_after_a_restored_backup_counts_as_published() -> None:
    assert find(batch(1, 2, capture="c9"), batch(1, 2, capture="c1")) == 1


def test_the_same_capture_counts_under_another_consumer_spelling_of_the_range() -> None:
    again = Mark("use", "run-2", 0, (CapturedRange("c1", "w/look", 3, ("db.s@-",), ("db.s@2",)),))
    assert find(again, batch(1, 2)) == 1


def test_after_a_rewind_the_same_range_is_written_again() -> None:
    assert find(batch(1, 2, version=5, capture="c7"), batch(1, 2, version=3)) is None


def test_another_range_where_this_batch_belongs_is_refused_with_what_to_type() -> None:
    with pytest.raises(ForeignBatchError, match="part of this batch is in the target already") as caught:
        find(batch(1, 9, capture="c9"), batch(1, 2), batch(2, 5, version=4))
    assert "icefloe consumers fast-forward w/look" in (caught.value.hint or "")


def test_earlier_batches_of_the_consumer_are_the_past() -> None:
    assert find(batch(5, 9, version=5), batch(1, 2, version=3), batch(2, 5, version=4)) is None


def test_a_batch_that_ends_where_this_one_begins_is_the_past_whatever_its_version() -> None:
    """As after a fast-forward that followed a restored backup: the versions of the target are still ahead."""
    past = history(batch(1, 2, version=3), batch(2, 5, version=4))
    assert published(past, batch(5, 9, version=3, capture="c9"), table="t", is_before=lambda a, b: a <= b) is None
    with pytest.raises(ForeignBatchError):
        published(past, batch(2, 9, version=3, capture="c9"), table="t", is_before=lambda a, b: a <= b)


def test_other_steps_and_other_consumers_do_not_matter() -> None:
    assert find(batch(1, 2), batch(1, 9, place="other"), batch(1, 9, consumer="x/look")) is None


def test_two_captures_are_the_same_work_only_together() -> None:
    def both(first: int, second: int, version: int) -> Mark:
        taken = (
            CapturedRange(f"a{first}", "w/a", first, (f"s@{first}",), (f"s@{first + 1}",)),
            CapturedRange(f"b{second}", "w/b", second, (f"r@{second}",), (f"r@{second + 1}",)),
        )
        return Mark("use", f"run-{version}", 0, taken)

    assert find(both(1, 1, 1), both(1, 1, 1)) == 1
    assert find(both(2, 1, 2), both(1, 1, 1)) is None, "one of them was committed alone: this is the next batch"


def test_without_captures_the_run_and_its_era_are_the_work() -> None:
    work = Mark("use", "run-1", 0)
    assert find(work, work) == 1
    assert find(Mark("use", "run-1", 1), work) is None, "begun anew by a restart"
    assert find(Mark("use", "run-2", 0), work) is None
    assert find(Mark("each:1/use", "run-1", 0), work) is None


def test_a_statement_is_told_from_the_others() -> None:
    mark = batch(1, 2)
    past = [snapshot(1, {**mark.properties(), STATEMENT: "1"})]
    assert published(past, mark, table="t", statement=1) == 1
    assert published(past, mark, table="t", statement=2) is None


def test_a_filled_table_is_no_published_batch() -> None:
    mark = batch(1, 2)
    past = [snapshot(1, {CREATED: mark.text})]
    assert created(past, mark) and not created(past, batch(2, 3))
    assert published(past, mark, table="t") is None


names = st.text(st.characters(codec="utf-8", exclude_categories=("Cs",)), min_size=1, max_size=12)


@given(names, names, st.integers(0, 2**40), st.lists(st.integers(1, 2**63 - 1), min_size=2, max_size=2))
def test_a_mark_survives_the_way_into_the_process(place: str, consumer: str, version: int, ends: list[int]) -> None:
    taken = CapturedRange("c", consumer, version, (f"db.s@{ends[0]}",), (f"db.s@{ends[1]}",))
    for mark in (Mark(place, "r", 2, (taken,)), Mark(place, "r", 2)):
        assert Mark.from_json(json.loads(json.dumps(mark.to_json()))) == mark
        assert published([snapshot(1, mark.properties())], mark, table="t") == 1
