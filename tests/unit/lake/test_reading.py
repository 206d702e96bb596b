"""Which day a partition ends with."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

import pytest

from icefloe.lake.read_sizes import last_day


@pytest.mark.parametrize(
    ("value", "transform", "day"),
    [
        (date(2026, 3, 1), "identity", date(2026, 3, 1)),
        (date(2026, 3, 1), "day", date(2026, 3, 1)),
        (datetime(2026, 3, 1, 23, 59, tzinfo=UTC), "identity", date(2026, 3, 1)),
        (20260301, "identity", date(2026, 3, 1)),
        ("2026-03-01", "identity", date(2026, 3, 1)),
        ((date(2026, 3, 1) - date(1970, 1, 1)).days * 24 + 23, "hour", date(2026, 3, 1)),
        (-1, "hour", date(1969, 12, 31)),
        (12 * 56 + 1, "month", date(2026, 2, 28)),
        (12 * 54 + 1, "month", date(2024, 2, 29)),
        (-1, "month", date(1969, 12, 31)),
        (56, "year", date(2026, 12, 31)),
    ],
)
def test_of_dates_times_numbers_texts_hours_months_and_years(value: Any, transform: str, day: date) -> None:
    assert last_day(value, transform) == day


@pytest.mark.parametrize(
    ("value", "transform"),
    [
        ("DE", "identity"),
        (7, "identity"),
        (20261301, "identity"),
        (True, "identity"),
        (3_000_000, "day"),
        (1.5, "identity"),
    ],
)
def test_what_is_no_day_has_none(value: Any, transform: str) -> None:
    assert last_day(value, transform) is None
