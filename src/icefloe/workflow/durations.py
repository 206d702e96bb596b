"""Durations as people write them (``30s``, ``15m``, ``2h``, ``1h 30min``, ``2 days``) in seconds."""

from __future__ import annotations

import re

from icefloe.workflow.values import clip

_UNITS = {
    "ms": 0.001, "milli": 0.001, "millis": 0.001, "millisecond": 0.001, "milliseconds": 0.001,
    "s": 1.0, "sec": 1.0, "secs": 1.0, "second": 1.0, "seconds": 1.0,
    "m": 60.0, "min": 60.0, "mins": 60.0, "minute": 60.0, "minutes": 60.0,
    "h": 3600.0, "hr": 3600.0, "hrs": 3600.0, "hour": 3600.0, "hours": 3600.0,
    "d": 86400.0, "day": 86400.0, "days": 86400.0,
    "w": 604800.0, "week": 604800.0, "weeks": 604800.0,
}  # fmt: skip
_PART = re.compile(r"\s*(\d{1,12}(?:\.\d{1,9})?)\s*([a-zA-Z]+)\s*(?:,|and\b)?")

LONGEST = 366 * 86400.0 * 100


def parse(value: object) -> float:
    """Seconds. A bare number is seconds. Raises ValueError with a reason fit for the user."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError("a duration is a number of seconds, or a text such as 30s, 15m, 2h, 1d")  # noqa: TRY004
    seconds = _parse_text(value) if isinstance(value, str) else _in_bounds(value)
    return _in_bounds(seconds)


def _in_bounds(seconds: int | float) -> float:
    if not 0 <= seconds <= LONGEST:  # also refuses NaN
        raise ValueError("a duration must be between 0 and 100 years")
    return float(seconds)


def _parse_text(text: str) -> float:
    words = text.strip()
    if not words or len(words) > 100:
        raise ValueError(f"'{clip(text)}' is not a duration: write 30s, 15m, 2h, 1d")
    if re.fullmatch(r"\d{1,15}(?:\.\d{1,9})?", words):
        return float(words)
    total, at = 0.0, 0
    while at < len(words):
        part = _PART.match(words, at)
        unit = _UNITS.get(part.group(2).lower()) if part else None
        if part is None or unit is None:
            raise ValueError(f"'{clip(text)}' is not a duration: write 30s, 15m, 2h, 1d")
        total += float(part.group(1)) * unit
        at = part.end()
    return total


def text(seconds: float) -> str:
    """The shortest way to write it that parses back to the same number."""
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60), ("s", 1)):
        if seconds >= size and seconds % size == 0:
            return f"{int(seconds // size)}{unit}"
    return f"{seconds!r}s" if "e" not in repr(seconds) else repr(seconds)
