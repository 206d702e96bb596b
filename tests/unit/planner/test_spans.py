"""A range of the result: what people may write, and what values and conditions come of it."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from icefloe.planner import spans
from icefloe.planner.errors import RangeError
from icefloe.planner.inputs import Column
from icefloe.planner.spans import Span
from icefloe.workflow import write_ranges
from icefloe.workflow.lookbacks import Lookback
from icefloe.workflow.write_ranges import WriteRange

COLUMNS = [
    Column("event_day", "date"),
    Column("ts", "timestamptz"),
    Column("local_ts", "timestamp"),
    Column("n", "int"),
    Column("id", "long"),
    Column("price", "decimal(9, 2)"),
    Column("country", "string"),
    Column("share", "double"),
    Column("own", "uuid"),
    Column("tags", "list"),
]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("all", WriteRange("all")),
        ("  ALL ", WriteRange("ALL")),
        ("event_day 2026-01-01..2026-01-31", WriteRange("", "event_day", "2026-01-01", "2026-01-31")),
        ("event_day 2026-01-01 .. 2026-01-31", WriteRange("", "event_day", "2026-01-01", "2026-01-31")),
        ("event_day 2026-01-01..", WriteRange("", "event_day", "2026-01-01")),
        ("event_day ..2026-01-31", WriteRange("", "event_day", None, "2026-01-31")),
        ("price 1.5..2.5", WriteRange("", "price", "1.5", "2.5")),
        ("country 'a..b'..'it''s'", WriteRange("", "country", "a..b", "it's")),
        ("country ''..", WriteRange("", "country", "")),
        ("`my ``day``` 1..2", WriteRange("", "my `day`", "1", "2")),
        ("ts 2026-01-01 10:00:00..2026-01-01T12:00:00Z", WriteRange("", "ts", "2026-01-01 10:00:00", "2026-01-01T12:00:00Z")),
        ("event_day last 14d", WriteRange("", "event_day", lookback=Lookback(14, "days"))),
        ("event_day LAST 2w", WriteRange("", "event_day", lookback=Lookback(14, "days"))),
        ("event_day last 14", WriteRange("", "event_day", lookback=Lookback(14, "partitions"))),
        ("last last 1", WriteRange("", "last", lookback=Lookback(1, "partitions"))),
        ("all 1..2", WriteRange("", "all", "1", "2")),
    ],
)  # fmt: skip
def test_a_range_is_read_as_it_is_meant(text: str, expected: WriteRange) -> None:
    found = write_ranges.parse(text)
    assert (found.column, found.first, found.last, found.lookback) == (
        expected.column,
        expected.first,
        expected.last,
        expected.lookback,
    )
    assert write_ranges.parse(found.text) == found


@pytest.mark.parametrize(
    "text",
    ["", "event_day", "event_day 2026-01-01", "event_day ..", "2026-01-01..2026-01-31", "event_day last", "event_day last 5m",
     "event_day last 0", "everything", "event_day..", "event_day 'a..b"],
)  # fmt: skip
def test_what_is_no_range_is_refused_with_the_forms_there_are(text: str) -> None:
    with pytest.raises(ValueError, match=r"write|lookback"):
        write_ranges.parse(text)


def span_of(text: str) -> Span:
    asked = write_ranges.parse(text)
    return spans.between(asked, spans.column_of(asked, COLUMNS, "here"), "here")


@pytest.mark.parametrize(
    ("text", "low", "high", "condition"),
    [
        ("EVENT_DAY 2026-01-01..2026-01-31", date(2026, 1, 1), date(2026, 1, 31), "c >= DATE'2026-01-01' AND c <= DATE'2026-01-31'"),
        ("event_day 2026-01-01..", date(2026, 1, 1), None, "c >= DATE'2026-01-01'"),
        ("event_day 20260101..", date(2026, 1, 1), None, "c >= DATE'2026-01-01'"),
        ("n -3..7", -3, 7, "c >= -3 AND c <= 7"),
        ("id ..7", None, 7, "c IS NOT NULL AND c <= 7L"),
        ("price 0..1.50", Decimal(0), Decimal("1.50"), "c >= CAST('0' AS DECIMAL(9, 2)) AND c <= CAST('1.50' AS DECIMAL(9, 2))"),
        ("country DE..'NO'", "DE", "NO", "c >= 'DE' AND c <= 'NO'"),
        # A day as an end is the whole day.
        ("ts 2026-01-01..2026-01-31", datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 2, 1, tzinfo=UTC),
         "c >= TIMESTAMP'2026-01-01 00:00:00Z' AND c < TIMESTAMP'2026-02-01 00:00:00Z'"),
        ("local_ts ..20260131", None, datetime(2026, 2, 1), "c IS NOT NULL AND c < TIMESTAMP_NTZ'2026-02-01 00:00:00'"),
        ("ts 2026-01-01T10:00:00+02:00..", datetime(2026, 1, 1, 8, tzinfo=UTC), None, "c >= TIMESTAMP'2026-01-01 08:00:00Z'"),
        ("local_ts ..2026-01-01 10:00:00", None, datetime(2026, 1, 1, 10), "c IS NOT NULL AND c <= TIMESTAMP_NTZ'2026-01-01 10:00:00'"),
    ],
)  # fmt: skip
def test_values_are_of_the_column_s_type(text: str, low: Any, high: Any, condition: str) -> None:
    found = span_of(text)
    assert (found.low, found.high, found.condition("c")) == (low, high, condition)


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("event_dya 2026-01-01..", "'event_dya', which the SELECT does not give", "did you mean 'event_day'?"),
        ("zzz 1..2", "which the SELECT does not give", "it gives: event_day, ts"),
        ("event_day 2026-02-01..2026-01-01", "ends before it begins", "2026-01-01..2026-02-01"),
        ("event_day 2026-13-01..", "'2026-13-01' is no value of event_day, which is date", "2026-01-31"),
        ("event_day yesterday..", "no value of event_day", "2026-01-31"),
        ("event_day 2026-1-1..", "no value of event_day", "2026-01-31"),
        ("event_day 1500-01-01..", "calendars differ", "leave that end"),
        ("n 1.5..2", "no value of n, which is int", "fits"),
        ("n 3000000000..", "no value of n", "fits"),
        ("price 1.005..", "no value of price", "fits"),
        ("price 12345678..", "no value of price", "fits"),
        ("local_ts 2026-01-01T00:00:00Z..", "no value of local_ts", "2026-01-31T12:00:00"),
        ("ts 2026-01-01T00:00:00.1234567..", "no value of ts", "Z"),
        ("ts 2026-01-02..2026-01-01", "ends before", ""),
        ("ts ..9999-12-31", "no value of ts", ""),
        ("share 0..1", "share is double, and a range is over", "another column"),
        ("own a..b", "own is uuid", "another column"),
        ("tags a..b", "tags is list", "all"),
    ],
)  # fmt: skip
def test_a_range_without_sense_is_refused_with_what_to_type(text: str, message: str, hint: str) -> None:
    with pytest.raises(RangeError) as caught:
        span_of(text)
    assert message in caught.value.message and hint in (caught.value.hint or "")
    assert caught.value.where == "here" and caught.value.code == "planner.range"


def test_a_partition_that_can_hold_rows_of_the_range_is_known_by_its_value() -> None:
    days = span_of("event_day 2026-01-02..2026-01-03")
    assert [days.may_hold(date(2026, 1, day)) for day in (1, 2, 3, 4)] == [False, True, True, False]
    assert not days.may_hold(None)
    moments = span_of("ts 2026-01-02T10:00:00..")
    assert [moments.may_hold(date(2026, 1, day)) for day in (1, 2, 3)] == [False, True, True]
    assert span_of("n 1..2").may_hold("what is no number")
    assert not Span("n", "int", empty=True).may_hold(1)
