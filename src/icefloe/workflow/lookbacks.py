"""The lookback that a planned write replaces: ``14d`` (the newest days) or ``14`` (the newest partitions)."""

from __future__ import annotations

from dataclasses import dataclass

from icefloe.workflow import durations

_DAY = 86_400.0
_FORM = "a lookback is a number of days such as 14d or 2w, or a number of the newest partitions such as 14"


@dataclass(frozen=True, slots=True)
class Lookback:
    """``unit`` days: the newest day of the source and those before it. ``unit`` partitions: its newest partitions."""

    count: int
    unit: str

    def __str__(self) -> str:
        return f"the newest {f'{self.count} {self.unit}' if self.count > 1 else self.unit.removesuffix('s')}"


def parse(value: object) -> Lookback:
    """Raises ValueError with a reason fit for the user."""
    if isinstance(value, str) and value.strip().isdigit():
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool):
        if not 1 <= value <= 100_000:
            raise ValueError(_FORM)
        return Lookback(value, "partitions")
    if not isinstance(value, str):
        raise ValueError(_FORM)  # noqa: TRY004
    days = durations.parse(value) / _DAY
    if days < 1 or days != int(days):
        raise ValueError(_FORM)
    return Lookback(int(days), "days")
