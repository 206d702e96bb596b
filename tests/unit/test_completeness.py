"""How far a target is complete with a capture: by its column's maximum, or by its sources' watermarks."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from icefloe.capture import completeness
from icefloe.capture.completeness import ColumnError, WatermarkGoal, reached, stated_watermark
from icefloe.capture.sources import Source
from icefloe.lake.ranges import Range
from icefloe.lake.values import Nanoseconds
from icefloe.workflow.matching import moment

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def latest(value: Any, kind: str, zone: str = "UTC", known: bool = True) -> float | None:
    return completeness._latest("db.events", Range("ts", kind, None, value, True, known, 0, 0), zone)


@pytest.mark.parametrize(
    ("value", "kind", "zone", "expected"),
    [
        (date(2026, 3, 1), "date", "UTC", "2026-03-01T00:00:00Z"),
        (date(2026, 3, 1), "date", "Europe/Berlin", "2026-02-28T23:00:00Z"),
        (datetime(2026, 7, 1, 12), "timestamp", "Europe/Berlin", "2026-07-01T10:00:00Z"),
        (NOON, "timestamptz", "Europe/Berlin", "2026-03-01T12:00:00Z"),
        (Nanoseconds(int(NOON.timestamp()) * 10**9 + 999, True), "timestamptz_ns", "UTC", "2026-03-01T12:00:00Z"),
        (Nanoseconds(int(NOON.timestamp()) * 10**9, False), "timestamp_ns", "Europe/Berlin", "2026-03-01T11:00:00Z"),
        (20260301, "int", "UTC", "2026-03-01"),
        (20260301, "long", "Europe/Berlin", "2026-02-28T23:00:00Z"),
        (int(NOON.timestamp()) * 1000, "long", "Europe/Berlin", "2026-03-01T12:00:00Z"),
    ],
)  # fmt: skip
def test_a_day_counts_from_its_start_and_a_moment_is_itself(value: Any, kind: str, zone: str, expected: str) -> None:
    assert latest(value, kind, zone) == moment(expected)


def test_what_is_not_known_is_not_guessed() -> None:
    assert latest(date(2026, 3, 1), "date", known=False) is None
    assert latest(None, "date") is None
    assert latest(17, "long") is None
    assert completeness._latest("db.events", None, "UTC") is None


@pytest.mark.parametrize(("value", "kind"), [("2026-03-01", "string"), (True, "boolean"), (1.5, "double")])
def test_a_column_that_holds_no_time_is_refused(value: Any, kind: str) -> None:
    with pytest.raises(ColumnError, match=f"which is a {kind}"):
        latest(value, kind)


def test_a_source_is_as_complete_as_the_further_of_what_was_said_and_its_property() -> None:
    named = {completeness.VALID_THROUGH: "2026-03-02"}
    assert stated_watermark(None, {}) is None
    assert stated_watermark(5.0, {}) == 5.0
    assert stated_watermark(5.0, named) == moment("2026-03-02")
    assert stated_watermark(math.inf, named) == math.inf
    assert stated_watermark(5.0, {completeness.VALID_THROUGH: "soon"}) == 5.0


throughs = st.none() | st.floats(allow_nan=False, allow_infinity=False)


@given(st.lists(throughs, min_size=1, max_size=6))
def test_a_target_is_as_complete_as_the_least_complete_of_its_sources(parts: list[float | None]) -> None:
    sources = [Source(f"db.s{n}", "main", None, None, completes="db.t", through=one) for n, one in enumerate(parts)]
    assert all(Source.from_json(source.to_json()) == source for source in sources)
    known = [one for one in parts if one is not None]
    assert reached(sources) == (("db.t", min(known)) if len(known) == len(parts) else None)


def test_a_capture_that_derives_nothing_reaches_nothing() -> None:
    assert reached([Source("db.s", "main", None, None, through=1.0)]) is None


class Found:
    """A change set, as far as it is looked at."""

    def __init__(self, day: int | None) -> None:
        self.ranges = {
            "day": Range("day", "date", None, date.fromordinal(739_000 + day) if day else None, True, True, 0, 0)
        }


@given(
    st.lists(st.tuples(st.none() | st.integers(1, 400), st.none() | st.integers(1, 400)), min_size=1, max_size=20),
    st.integers(0, 10),
    st.integers(1, 400),
)
def test_batch_after_batch_it_never_goes_back_and_never_says_too_much(
    batches: list[tuple[int | None, int | None]], lateness_days: int, today: int
) -> None:
    day = 86_400.0
    start = (739_000 - date(1970, 1, 1).toordinal()) * day
    goal = WatermarkGoal("db.t", {"db.a": "day", "db.b": "day"}, lateness_days * day)
    now = start + today * day
    before: dict[str, float] = {}
    last = -math.inf
    seen: dict[str, list[int]] = {"db.a": [], "db.b": []}
    for batch in batches:
        sources = [Source(name, "main", None, None, completes="db.t") for name in seen]
        found: Any = [Found(one) for one in batch]
        done = completeness.by_column(goal, sources, found, before=before, now=now)
        for name, one in zip(seen, batch, strict=True):
            seen[name] += [one] if one is not None else []
        complete = reached(done)
        if all(seen.values()):
            oracle = min(min(max(days), today) for days in seen.values()) * day + start - lateness_days * day
            assert complete == ("db.t", oracle)
            assert oracle >= last
            last = oracle
        else:
            assert complete is None
        before = {one.table: one.through for one in done if one.through is not None}
