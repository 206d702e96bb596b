"""How late the late rows are: each partition's distance from the newest one, where partitions are in time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from icefloe.lake import PartitionChange


@dataclass(frozen=True)
class Lateness:
    """``field`` is the partition field that is a time; ``newest`` its largest value in the change set."""

    field: str
    newest: datetime
    late_rows: int
    all_rows: int
    most: timedelta

    def of(self, change: PartitionChange) -> str:
        moment = moment_of(change, self.field)
        return "" if moment is None or moment == self.newest else _span(self.newest - moment)

    def sentence(self) -> str:
        if not self.late_rows:
            return "no late rows: all of them are in the newest partition"
        share = 100 * self.late_rows / self.all_rows
        return f"{self.late_rows:,} rows ({share:.1f} %) are late, by up to {_span(self.most)}"


def lateness_of(partitions: Sequence[PartitionChange]) -> Lateness | None:
    """``None`` where no partition field is a time, or all rows are in one partition."""
    added = [change for change in partitions if change.rows]
    for field in added[0].values if added else ():
        moments = [moment_of(change, field) for change in added]
        known = [moment for moment in moments if moment is not None]
        if len(known) < 2:
            continue
        newest = max(known)
        late = sum(change.rows for change, moment in zip(added, moments, strict=True) if moment and moment < newest)
        return Lateness(field, newest, late, sum(change.rows for change in added), newest - min(known))
    return None


def moment_of(change: PartitionChange, field: str) -> datetime | None:
    """When a partition begins. Hours, months and years are numbers counted from 1970."""
    value, transform = change.values.get(field), change.transforms.get(field)
    if isinstance(value, datetime):
        return value.replace(tzinfo=None)
    if isinstance(value, date):
        return datetime(value.year, value.month, value.day)
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    try:
        if transform == "hour":
            return datetime(1970, 1, 1) + timedelta(hours=value)
        if transform == "month":
            return datetime(1970 + value // 12, value % 12 + 1, 1)
        if transform == "year":
            return datetime(1970 + value, 1, 1)
    except (OverflowError, ValueError):
        return None
    return None


def _span(gap: timedelta) -> str:
    hours = gap.total_seconds() / 3600
    return f"{gap.days} d" if hours >= 24 else f"{hours:.0f} h"
