"""Playback events, made up, with the entropy of real ones: files of them are as large as those of a player's events would be.

Ids have 128 random bits and times a random millisecond of an evening-heavy day. Few accounts watch a lot and many a little, titles have
hits, an account stays in its country and on its few devices, and a few percent of a load are late: most by a day or two, some by twelve.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from numpy.typing import NDArray

FIRST_DAY = date(2026, 3, 1)
LATE_SHARE = 0.03
LATE_DAYS = 12
LATE_DECAY = 0.6
"""Of the events that are late by a number of days, how many are for one day more."""
TITLES = 20_000
COUNTRIES = {
    "in": 1429, "us": 340, "id": 277, "pk": 240, "ng": 224, "br": 216, "bd": 173, "mx": 128, "jp": 123, "ph": 117,
    "eg": 113, "vn": 99, "tr": 86, "de": 83, "th": 72, "gb": 68, "fr": 65, "za": 60, "it": 59, "co": 52,
    "kr": 52, "es": 48, "ar": 46, "ca": 39, "pl": 38, "au": 26, "nl": 18, "cl": 20, "se": 11, "pt": 10,
}  # fmt: skip
"""Millions of people."""
DEVICES = ("tv", "phone", "tablet", "web", "console")
MODELS_PER_DEVICE = 400
SCHEMA = pa.schema(
    [
        ("event_id", pa.string()),
        ("event_time", pa.timestamp("us", tz="UTC")),
        ("account_id", pa.int64()),
        ("device", pa.string()),
        ("country", pa.string()),
        ("title_id", pa.int32()),
        ("position_ms", pa.int64()),
        ("view_min", pa.int32()),
        ("event_day", pa.date32()),
    ]
)
_DAY_MS = 86_400_000
_HEX = np.frombuffer(b"0123456789abcdef", np.uint8)
_EPOCH = date(1970, 1, 1)


@dataclass(frozen=True)
class Events:
    """A stream of events: ``per_day`` of them, from as many accounts. The same ``seed`` and load give the same events."""

    per_day: int
    seed: int

    def load(self, day: date, *, number: int, count: int | None = None, late: float = LATE_SHARE) -> pa.Table:
        """What arrives on ``day``, or ``count`` events of it; ``late``: which share of them happened on the days before, none of them before
        :data:`FIRST_DAY`. ``number`` tells loads of one day apart."""
        size = self.per_day if count is None else count
        chance = np.random.default_rng([self.seed, (day - _EPOCH).days, number])
        account = _skewed(chance, size, self.per_day, head=500, bend=0.6)
        days_late = _days_late(chance, size, late, min(LATE_DAYS, (day - FIRST_DAY).days))
        days = (day - _EPOCH).days - days_late
        # Two dice: a peak in the middle, moved to the evening.
        clock = (
            chance.integers(0, _DAY_MS // 2, size) + chance.integers(0, _DAY_MS // 2, size) + _DAY_MS // 3
        ) % _DAY_MS
        position = chance.integers(0, 7_200_000, size)
        columns = [
            _uuids(chance, size),
            pa.array((days * _DAY_MS + clock) * 1000).cast(SCHEMA.field("event_time").type),
            pa.array(account * 7919 + 1_000_003),
            _devices(chance, account),
            _countries(account),
            pa.array(_skewed(chance, size, TITLES, head=200, bend=0.8).astype(np.int32)),
            pa.array(position),
            pa.array(np.minimum(chance.exponential(18, size), position / 60_000).astype(np.int32)),
            pa.array(days.astype(np.int32)).cast(pa.date32()),
        ]
        return pa.table(columns, schema=SCHEMA)


def _skewed(chance: np.random.Generator, size: int, kinds: int, *, head: int, bend: float) -> NDArray[np.int64]:
    """Numbers below ``kinds`` by the law of Zipf and Mandelbrot: some ``kinds / head`` share the top."""
    shift, power = kinds / head, 1 - bend
    low, high = shift**power, (kinds + shift) ** power
    drawn = (low + chance.random(size) * (high - low)) ** (1 / power) - shift
    numbers: NDArray[np.int64] = np.clip(drawn.astype(np.int64), 0, kinds - 1)
    return numbers


def _days_late(chance: np.random.Generator, size: int, share: float, most: int) -> NDArray[np.int64]:
    """Zero for those in time; else at least one, and ever fewer for each day more."""
    if most < 1:
        return np.zeros(size, np.int64)
    drawn = chance.random(size) * (1 - LATE_DECAY**most)
    days = 1 + np.floor(np.log1p(-drawn) / np.log(LATE_DECAY)).astype(np.int64)
    return np.where(chance.random(size) < share, np.minimum(days, most), 0)


def _uuids(chance: np.random.Generator, size: int) -> pa.Array:
    """Texts of 36 characters, without a Python object for each."""
    drawn = np.frombuffer(chance.bytes(16 * size), np.uint8).reshape(size, 16)
    digits = np.empty((size, 32), np.uint8)
    digits[:, 0::2], digits[:, 1::2] = _HEX[drawn >> 4], _HEX[drawn & 15]
    text = np.full((size, 36), ord("-"), np.uint8)
    start = 0
    for place, length in ((0, 8), (9, 4), (14, 4), (19, 4), (24, 12)):
        text[:, place : place + length] = digits[:, start : start + length]
        start += length
    offsets = np.arange(0, 36 * (size + 1), 36, dtype=np.int32)
    return pa.StringArray.from_buffers(size, pa.py_buffer(offsets), pa.py_buffer(text))


def _devices(chance: np.random.Generator, account: NDArray[np.int64]) -> pa.Array:
    """One of an account's three."""
    own = _mixed(account * 3 + chance.integers(0, 3, len(account)))
    names = [f"{kind}-{model:03d}" for kind in DEVICES for model in range(MODELS_PER_DEVICE)]
    return pa.array(names).take(pa.array(own % len(names)))


def _countries(account: NDArray[np.int64]) -> pa.Array:
    """The account's: by population, and always the same."""
    bounds = np.cumsum(list(COUNTRIES.values()))
    place = np.searchsorted(bounds, _mixed(account) % int(bounds[-1]), side="right")
    return pa.array(list(COUNTRIES)).take(pa.array(place))


def _mixed(numbers: NDArray[np.int64]) -> NDArray[Any]:
    """A number that looks random and is a function of the given one."""
    mixed = (numbers.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)) * np.uint64(0xBF58476D1CE4E5B9)
    return ((mixed ^ (mixed >> np.uint64(29))) * np.uint64(0x94D049BB133111EB) >> np.uint64(20)).astype(np.int64)


def day_number(number: int) -> date:
    """The day of a load, counted from zero."""
    return FIRST_DAY + timedelta(days=number)
