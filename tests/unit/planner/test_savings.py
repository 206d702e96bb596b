"""The arithmetic of the savings ledger."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from icefloe.planner.inputs import Size
from icefloe.planner.savings import SavingsEstimate, WriteTotals, bytes_text, line, percent, ratio

sizes = st.builds(Size, *(st.integers(0, 10**12) for _ in range(3)))


def test_the_line_says_how_much_was_read_of_how_much() -> None:
    assert line(12_000_000, 1_400_000_000) == "read 12.0 MB of 1.4 GB, 0.9 %"


def test_where_nothing_would_have_been_read_there_is_no_share() -> None:
    assert ratio(5, 0) is None
    assert line(5, 0) == "read 5 B of 0 B"
    assert percent(None) == "-"


@pytest.mark.parametrize(
    ("part", "text"),
    [(0.0, "0.0 %"), (0.000_01, "< 0.1 %"), (0.009, "0.9 %"), (0.5, "50 %"), (1.0, "100 %"), (7.3, "730 %")],
)
def test_a_share_that_is_small_is_not_rounded_to_nothing_and_one_above_all_is_told(part: float, text: str) -> None:
    assert percent(part) == text


@pytest.mark.parametrize(
    ("size", "text"), [(999, "999 B"), (1_000, "1.0 KB"), (10**15, "1.0 PB"), (10**19, "10000.0 PB")]
)
def test_bytes_for_people(size: int, text: str) -> None:
    assert bytes_text(size) == text


def test_what_was_written_is_summed_over_the_snapshots_with_delete_files_apart() -> None:
    written = WriteTotals.of(
        [
            {"added-data-files": "2", "added-records": "10", "added-files-size": "700"},
            {"added-delete-files": "1", "added-position-deletes": "4", "added-files-size": "50"},
            {"deleted-data-files": "9"},
            {"added-data-files": "who knows"},
        ]
    )
    assert written == WriteTotals(Size(3, 10, 750), 1)


@given(sizes, sizes, sizes, st.booleans())
def test_what_is_looked_at_again_counts_once_however_often_it_is_settled(
    read: Size, instead: Size, new: Size, rechecked: bool
) -> None:
    counted = SavingsEstimate("merge", read, instead, "a full recomputation", ("a note",), rechecked)
    written = WriteTotals(new, 0)
    settled = counted.settled(written)
    assert settled.read == (read + new if rechecked else read)
    assert settled.settled(written) == settled
    assert SavingsEstimate.from_json(json.loads(json.dumps(counted.to_json()))) == counted
