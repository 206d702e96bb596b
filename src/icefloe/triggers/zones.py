"""Time zones as the sequence of their offsets: when the clocks on the wall change, and by how much.

Instants are seconds since the epoch. A *wall time* is what a clock in the zone shows, as the seconds since the epoch at which a
clock in UTC would show the same.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

_PIECE = 30 * 86400
_STEP = 6 * 3600
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LAST = 253_000_000_000
"""The year 9987: nothing is asked about later moments."""


@lru_cache(maxsize=256)
def _zone(name: str) -> ZoneInfo:
    return ZoneInfo(name)


def offset(zone: str, instant: int) -> int:
    """By how many seconds the wall is ahead of UTC."""
    delta = (_EPOCH + timedelta(seconds=min(instant, LAST))).astimezone(_zone(zone)).utcoffset()
    assert delta is not None
    return int(delta.total_seconds())


def next_change(zone: str, after: int, until: int) -> tuple[int, int] | None:
    """The first change of the offset in (after, until]: its instant, and the offset from then on."""
    for piece in range(after // _PIECE, min(until, LAST) // _PIECE + 1):
        for instant, new in _changes(zone, piece):
            if after < instant <= until:
                return instant, new
    return None


def first_instant(zone: str, wall: int) -> int:
    """When the wall shows this for the first time. For a time that a change skips: some instant near it."""
    local = datetime(1970, 1, 1) + timedelta(seconds=wall)
    return round(local.replace(tzinfo=_zone(zone), fold=0).timestamp())


@lru_cache(maxsize=20_000)
def _changes(zone: str, piece: int) -> tuple[tuple[int, int], ...]:
    """The changes in (start, end] of one piece of time. Two that undo each other within hours would be missed; there are none."""
    start, end = piece * _PIECE - 1, (piece + 1) * _PIECE - 1
    changes = []
    low, current = start, offset(zone, start)
    while low < end:
        high = min(low + _STEP, end)
        new = offset(zone, high)
        if new != current:
            left, right = low, high
            while right - left > 1:
                middle = (left + right) // 2
                left, right = (left, middle) if offset(zone, middle) != current else (middle, right)
            changes.append((right, new))
        low, current = high, new
    return tuple(changes)
