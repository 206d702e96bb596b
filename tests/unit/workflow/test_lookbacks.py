"""How a lookback is written."""

from __future__ import annotations

from typing import Any

import pytest

from icefloe.workflow.lookbacks import Lookback, parse
from icefloe.workflow.step_types import BUILTIN, SettingsError


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ("14d", Lookback(14, "days")),
        ("2w", Lookback(14, "days")),
        ("48h", Lookback(2, "days")),
        (14, Lookback(14, "partitions")),
        (" 3 ", Lookback(3, "partitions")),
    ],
)
def test_days_and_partitions(value: Any, found: Lookback) -> None:
    assert parse(value) == found


@pytest.mark.parametrize("value", ["36h", "0d", "0", 0, -1, True, 1.5, None, "", "soon", "-3d"])
def test_what_is_neither_is_refused(value: Any) -> None:
    with pytest.raises(ValueError):
        parse(value)


def test_it_is_checked_with_the_settings() -> None:
    spark = BUILTIN.find("spark")
    assert spark is not None
    settings: dict[str, Any] = {"script": "SELECT 1", "write": {"table": "db.t", "lookback": "14d"}}
    assert spark.parse(settings).write.lookback == "14d"  # type: ignore[attr-defined]
    with pytest.raises(SettingsError, match=r"lookback.*14d"):
        spark.parse({**settings, "write": {"table": "db.t", "lookback": "36h"}})


def test_one_is_said_as_one() -> None:
    assert str(parse("1d")) == "the newest day" and str(parse(14)) == "the newest 14 partitions"
