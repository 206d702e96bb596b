"""New events for a project that the demonstration has left behind: what ``icefloe demo --folder DIR --feed`` does."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path

from icefloe import config as configuration
from icefloe.demo.events import Events, day_number
from icefloe.demo.source import PlaybackTable
from icefloe.demo.story import NAMESPACE
from icefloe.errors import UsageError

FILE = "demo.json"
LATE_SHARE = 0.1
"""More than in a day's load, so that there is something to see in every batch."""
BATCHES_A_DAY = 96


@dataclass(frozen=True, slots=True)
class DemoState:
    """What the feed has to know of a project that was kept."""

    events_per_day: int
    days: int
    """Loaded so far."""
    seed: int

    def save(self, folder: Path) -> None:
        (folder / FILE).write_text(json.dumps(asdict(self)) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, folder: Path) -> DemoState:
        try:
            return cls(**json.loads((folder / FILE).read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            raise UsageError(
                "has no project of the demo", where=str(folder), hint=f"make one first: icefloe demo --folder {folder}"
            ) from None


@dataclass(frozen=True, slots=True)
class Batch:
    number: int
    events: int
    late: int
    day: date


def feed(folder: Path, *, batches: int | None, every: float) -> Iterator[Batch]:
    """Append a quarter of an hour's share of a day's events in one commit each, some of them late. ``batches`` None: without end."""
    state = DemoState.load(folder)
    config = configuration.load(folder / configuration.FILE_NAME)
    source = PlaybackTable(config, NAMESPACE, Events(state.events_per_day, state.seed))
    day, count = day_number(state.days - 1), max(state.events_per_day // BATCHES_A_DAY, 20)
    number = 0
    while batches is None or number < batches:
        if number:
            time.sleep(every)
        number += 1
        # A number that no earlier feed has used: by the table's own count of commits.
        late = source.load(day, number=len(source.table().snapshots()), count=count, late=LATE_SHARE)
        yield Batch(number, count, late, day)
