"""Micro-batches of a planned write whose late keys the step looks up itself, killed at any point of that."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from icefloe.config import Config
from icefloe.lake import history
from tests.chaos.spark_batches import Arena, Reader

SEARCH_POINTS = ("search.found", "search.before_commit")
DAYS, ACCOUNTS, FIRST, ROWS = 3, 10, 90, 6
"""So many rows are there at first that the few of a batch are a small part of each day. A multiple of a batch's."""

WORKFLOW = """
Workflow:
  id: copy
  retry: {{error: 0, platform: 100, backoff: {{initial: 0.05}}}}
  jobs:
    - job: {{id: look, type: IpCapture, ip_capture: {{source_tables: [{db}.source]}}}}
    - job:
        id: group
        type: Spark
        spark:
          script: SELECT account, day, count(*) AS n, sum(id) AS total FROM {db}.source GROUP BY account, day
          write: {{table: {db}.grouped, keys: [account, day]}}
    - job: {{id: commit, type: IpCommit, ip_commit: {{capture_step: look}}}}
  dag: sequential
"""


@dataclass
class PlannedArena(Arena):
    """A source by day, and its rows grouped by account and day."""

    target_table: str = "grouped"
    rows: list[tuple[int, int, int]] = field(default_factory=list)
    """Id, account and day of all that was appended."""

    @classmethod
    def make(cls, config: Config, spark: Any, url: str, *, slow_rows: int = 0) -> PlannedArena:
        arena = super().make(config, spark, url, slow_rows=slow_rows)
        assert isinstance(arena, PlannedArena)
        spark.sql(f"DROP TABLE {arena.db}.source")
        spark.sql(f"CREATE TABLE {arena.db}.source (id BIGINT, account BIGINT, day DATE) PARTITIONED BY (day)")
        arena._append(FIRST)
        return arena

    def define(self, slow_rows: int) -> None:
        self.project.push(WORKFLOW.format(db=self.db))

    def append(self) -> None:
        """Late rows for all days, some of them of new accounts, and after the first two batches for a new day, too."""
        self._append(ROWS)

    def _append(self, many: int) -> None:
        days = DAYS + len(self.rows) // (FIRST + 2 * ROWS)
        new = [
            (self.appended + n, (self.appended + n) * 7 % (ACCOUNTS + self.rounds), n % days + 1) for n in range(many)
        ]
        values = ", ".join(f"({one}, {account}, DATE'2026-03-{day:02}')" for one, account, day in new)
        self.spark.sql(f"INSERT INTO {self.db}.source VALUES {values}")
        self.appended += many
        self.rows += new

    def grouped(self) -> list[tuple[int, int, int, int]]:
        found = self.lake.tables.catalog.load_table(f"{self.db}.grouped").scan().to_arrow().to_pylist()
        return sorted((row["account"], row["day"].day, row["n"], row["total"]) for row in found)

    def check(self) -> None:
        counts, totals = Counter[tuple[int, int]](), Counter[tuple[int, int]]()
        for one, account, day in self.rows:
            counts[account, day] += 1
            totals[account, day] += one
        assert self.grouped() == sorted((*key, counts[key], totals[key]) for key in counts)

    def searches(self) -> int:
        """Published snapshots that deleted rows without Spark."""
        metadata = self.lake.table(f"{self.db}.grouped").metadata
        past = history.ancestors(metadata, metadata.refs["main"].snapshot_id)
        return sum(one.summary.get("engine-name") == "icefloe" for one in past)


class PlannedReader(Reader):
    def look(self) -> None:
        rows = sum(n for _, _, n, _ in self._arena.grouped())  # type: ignore[attr-defined]
        self.seen += 1
        if rows % ROWS:
            self.partial.append(f"{rows} rows are counted")
