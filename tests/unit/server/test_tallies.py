"""Counters with a bounded number of names never go down."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from icefloe.service.tallies import OTHER, SECONDS, Counter, Distribution, Names, largest


@given(st.lists(st.lists(st.text("abcdefghij", min_size=1, max_size=1), max_size=20), max_size=20))
def test_no_line_of_a_counter_ever_goes_down(batches: list[list[str]]) -> None:
    names, counter, total = Names(most=3), Counter(), 0
    before: dict[tuple[str, ...], float] = {}
    for batch in batches:
        names.admit(batch)
        for name in batch:
            counter.add((names.of(name),))
            total += 1
        assert all(counter.values[labels] >= number for labels, number in before.items())
        before = dict(counter.values)
        assert len(before) <= 4
    assert sum(counter.values.values()) == total


@given(st.dictionaries(st.tuples(st.text(max_size=3), st.text(max_size=3)), st.integers(0, 1000), max_size=20))
def test_the_largest_stay_and_the_rest_is_summed_up(values: dict[tuple[str, str], int]) -> None:
    found = largest({labels: float(number) for labels, number in values.items()}, most=5)
    assert sum(found.values()) == sum(values.values())
    assert len(found) <= 6
    kept = [number for labels, number in found.items() if labels != (OTHER, OTHER)]
    assert sorted(kept, reverse=True) == sorted((float(n) for n in values.values()), reverse=True)[: len(kept)]


@given(st.lists(st.floats(0, 1e6)))
def test_buckets_are_cumulated_and_the_last_has_all(seconds: list[float]) -> None:
    distribution = Distribution()
    for one in seconds:
        distribution.add(one)
    buckets = distribution.buckets()
    assert [number for _, number in buckets] == sorted(number for _, number in buckets)
    assert buckets[-1] == ("+Inf", float(len(seconds)))
    for end, number in zip(SECONDS, (number for _, number in buckets), strict=False):
        assert number == sum(one <= end for one in seconds)
