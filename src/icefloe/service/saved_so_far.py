"""What incremental processing has saved, in all: summed up by the database, and kept for a minute."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from icefloe.planner.savings import ratio
from icefloe.store.database import Database
from icefloe.store.tables import savings, savings_totals

KEPT_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Saved:
    """``read`` is what was read, ``instead`` what would have been. In bytes and rows, of ``runs`` batches."""

    runs: int
    read_bytes: int
    instead_bytes: int
    read_rows: int
    instead_rows: int

    @property
    def ratio(self) -> float | None:
        return ratio(self.read_bytes, self.instead_bytes)

    def to_dict(self) -> dict[str, Any]:
        return {**{name: getattr(self, name) for name in self.__slots__}, "ratio": self.ratio}


class SavedSoFar:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._saved: Saved | None = None
        self._summed_at = float("-inf")

    def latest(self) -> Saved:
        with self._lock:
            if self._saved is None or time.monotonic() - self._summed_at > KEPT_SECONDS:
                self._saved = self._sum()
                self._summed_at = time.monotonic()
            return self._saved

    def _sum(self) -> Saved:
        sums = []
        with self._database.read() as connection:
            for table, runs in ((savings, sa.func.count()), (savings_totals, sa.func.sum(savings_totals.c.runs))):
                columns = (table.c.read_bytes, table.c.instead_bytes, table.c.read_rows, table.c.instead_rows)
                row = connection.execute(sa.select(runs, *(sa.func.sum(column) for column in columns))).one()
                sums.append([int(value or 0) for value in row])
        return Saved(*(sum(pair) for pair in zip(*sums, strict=True)))
