"""How far a target is complete once a capture is committed: its watermark, derived from the capture. Pure.

Two ways. *By column*: the latest moment among the captured rows, less the lateness that is allowed for. *By sources*: the earliest
of the sources' own watermarks, as they stood before the capture looked at the sources' heads, since what was said later may be
about rows that the capture does not hold. Where one source's part is not known the watermark stays; nothing is guessed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from zoneinfo import ZoneInfo

from icefloe.capture.sources import Source
from icefloe.errors import UsageError
from icefloe.lake import ChangeSet
from icefloe.lake.ranges import Range
from icefloe.lake.values import Nanoseconds
from icefloe.workflow.matching import MomentError, moment

VALID_THROUGH = "icefloe.valid-through"
"""The table property by which a table says itself how far it is complete."""


class ColumnError(UsageError):
    """A watermark cannot come from this column."""

    code = "capture.watermark"


@dataclass(frozen=True, slots=True)
class WatermarkGoal:
    """Whose watermark a capture derives. ``columns``: by source; None: from the sources' own watermarks."""

    target: str
    columns: Mapping[str, str] | None = None
    lateness: float = 0.0
    timezone: str = "UTC"


def stated_watermark(watermark: float | None, properties: Mapping[str, str]) -> float | None:
    """How far a source is complete: by what has been said, or by its own property, whichever is further."""
    watermarks = [] if watermark is None else [watermark]
    with suppress(KeyError, MomentError):  # a property that is no moment is told by the scheduler to whoever waits
        watermarks.append(moment(properties[VALID_THROUGH]))
    return max(watermarks, default=None)


def by_column(
    goal: WatermarkGoal,
    sources: Sequence[Source],
    change_sets: Sequence[ChangeSet],
    *,
    before: Mapping[str, float],
    now: float,
) -> list[Source]:
    """``before``: by source, how far the consumer's last committed capture had come. ``now``: nothing is complete beyond it."""
    if goal.columns is None:
        return list(sources)
    out = []
    for source, changes in zip(sources, change_sets, strict=True):
        latest = _latest(source.table, changes.ranges.get(goal.columns[source.table]), goal.timezone)
        fresh = None if latest is None else min(latest, now) - goal.lateness
        moments = [value for value in (fresh, before.get(source.table)) if value is not None]
        out.append(replace(source, through=max(moments, default=None)))
    return out


def _latest(table: str, range_: Range | None, timezone: str) -> float | None:
    """The start of the latest day, or the latest moment. None: there is none, or it is not known."""
    if range_ is None or not range_.max_known or range_.max is None:
        return None
    value, zone = range_.max, ZoneInfo(timezone)
    if isinstance(value, datetime):
        return (value if value.tzinfo else value.replace(tzinfo=zone)).timestamp()
    if isinstance(value, date):
        return datetime(value.year, value.month, value.day, tzinfo=zone).timestamp()
    if isinstance(value, Nanoseconds):
        text = datetime.fromisoformat(value.isoformat())
        return (text if text.tzinfo else text.replace(tzinfo=zone)).timestamp()
    if isinstance(value, int) and not isinstance(value, bool):
        try:
            at = moment(value)
        except MomentError:
            return None
        whole_day = len(str(value)) == 8
        return datetime.fromtimestamp(at, UTC).replace(tzinfo=zone).timestamp() if whole_day else at
    raise ColumnError(
        f"a watermark cannot come from column {range_.column}, which is a {range_.type}",
        where=table,
        hint="name a date, a timestamp, or whole numbers such as 20260301 or milliseconds",
    )


def reached(sources: Sequence[Source]) -> tuple[str, float] | None:
    """The target and how far it is complete with this capture. None: nothing was asked for, or one source's part is unknown."""
    targets = {source.completes for source in sources}
    throughs = [source.through for source in sources if source.through is not None]
    target = next(iter(targets), None)
    if target is None or len(targets) != 1 or len(throughs) != len(sources):
        return None
    return target, min(throughs)
