"""One random pipeline: captures taken and committed as the steps do it, the SQL of one pattern in between."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass
from pathlib import Path

from icefloe.capture import commits, published, release
from icefloe.capture.build import CaptureOptions
from icefloe.capture.capture_attempt import BuiltCapture, CaptureAttempt, CaptureRequest
from icefloe.capture.snapshot_ranges import Bounds
from icefloe.lake import Lake
from icefloe.store import migrations
from icefloe.store.database import Database
from icefloe.workflow.values import Value
from tests.equivalence.source import Source, Sql
from tests.examples import difference_by

PATTERNS = ("append", "changed-keys", "range-overwrite")


@dataclass
class Pipeline:
    """``check`` is called after every micro-batch, and must find the target equal to a full recomputation."""

    sql: Sql
    lake: Lake
    folder: Path
    namespace: str
    seed: int
    pattern: str

    def __post_init__(self) -> None:
        self.chance = random.Random(f"{self.pattern}/{self.seed}")
        self.source = Source(
            self.sql, f"{self.namespace}.source", self.chance, rewrites=self.pattern == "range-overwrite"
        )
        self.target = f"{self.namespace}.target"
        self._database = Database(f"sqlite:///{self.folder}/equivalence-{self.namespace}.db")
        migrations.upgrade(self._database)
        self._expires = self.chance.random() < 0.5
        self._number = 0

    def run(self, batches: int) -> None:
        try:
            self.source.create()
            self._create_target()
            for _ in range(batches):
                self._batch()
                if self.chance.random() < 0.8:
                    self.source.live_a_little()
            self._batch()
        finally:
            self._database.close()

    def _batch(self) -> None:
        self._number += 1
        taken = self._capturing().take()
        assert isinstance(taken, BuiltCapture)
        (source,) = taken.sources
        if self._expires and source.end is not None and source.end.snapshot_id == self._head():
            # Only what the pins and the checkpoint's tag hold stays. A backlog's history would be lost, and said so.
            self.source.expire()
        # What happens to the source while the batch is computed belongs to the next one.
        if self.chance.random() < 0.3:
            self.source.append()
        values = {
            name: item.value
            for name, item in published.parameters(
                [source], capture_id=taken.capture.id, catalog=self.lake.tables.name, range_columns={}
            ).items()
        }
        if taken.has_changes:
            for statement in self._statements(values):
                self.sql(statement)
        expected = self._expected(str(values["source_at_to"]))
        found = difference_by(self.sql, self.target, expected)
        assert not found, self._story(found)
        with self._database.write() as connection:
            commits.commit(connection, [taken.capture], time.time())
        release.settle(self.lake, self._database, [taken.capture])
        # Now and then the keep time is over at once: pins and change tables of this batch are gone before the next.
        release.sweep(self.lake, self._database, time.time() + (1e9 if self.chance.random() < 0.3 else 0))

    def _head(self) -> int | None:
        head = self.lake.checkpoint(self.source.name)
        return head.snapshot_id if head is not None else None

    def _capturing(self) -> CaptureAttempt:
        request = CaptureRequest(
            consumer=f"{self.namespace}/capture",
            workflow_id=self.namespace,
            run_id=f"run-{self._number}",
            step_path="capture",
            claim=str(self._number),
            tables=(self.source.name,),
            ref="main",
            start=None,
            bounds=Bounds(snapshots=self.chance.choice((None, None, 1, 2))),
            options=CaptureOptions(
                operations=("append", "overwrite", "delete") if self.source.rewrites else ("append",),
                on_other_operations="fail",
                on_gap="fail",
                columns={"*": ("day",)},
                pin="require",
                keep_seconds=3600,
                change_tables=True,
                alias=None,
                skip_empty=True,
            ),
        )
        return CaptureAttempt(self.lake, self._database, request, run_has_ended=lambda run: True, log=lambda line: None)

    # -- the three patterns ------------------------------------------------------------------------------------------------

    def _create_target(self) -> None:
        self.sql(
            f"CREATE TABLE {self.target} USING iceberg PARTITIONED BY (day) AS {self._select(self.source.name)} LIMIT 0"
        )

    def _select(self, table: str) -> str:
        keys, amount = ", ".join(self.source.keys), self.source.amount
        if self.pattern == "append":
            return f"SELECT {keys}, day, {amount} * 2 AS doubled FROM {table}"
        return (
            f"SELECT {keys}, day, count(*) AS rows, sum({amount}) AS total, count(DISTINCT {amount}) AS different "
            f"FROM {table} GROUP BY {keys}, day"
        )

    def _expected(self, at_to: str) -> str:
        return self._select(at_to)

    def _statements(self, values: dict[str, Value]) -> list[str]:
        changes, at_to = values.get("icdc_table"), values["source_at_to"]
        if self.pattern == "append":
            return [f"INSERT INTO {self.target} {self._select(str(changes))}"]
        if self.pattern == "changed-keys":
            groups = [*self.source.keys, "day"]
            same = " AND ".join(f"t.{name} <=> k.{name}" for name in groups)
            keys = f"(SELECT DISTINCT {', '.join(groups)} FROM {changes})"
            return [
                f"DELETE FROM {self.target} AS t WHERE EXISTS (SELECT 1 FROM {keys} AS k WHERE {same})",
                f"INSERT INTO {self.target} {self._select(f'(SELECT t.* FROM {at_to} AS t LEFT SEMI JOIN {keys} AS k ON {same})')}",
            ]
        # A day may have lost all its rows, so what changed is taken out by range first. Unknown bounds: everything.
        low, high = values.get("day_min"), values.get("day_max")
        reach = f"day BETWEEN DATE'{low}' AND DATE'{high}'" if low is not None and high is not None else "TRUE"
        return [
            f"DELETE FROM {self.target} WHERE {reach}",
            f"INSERT INTO {self.target} {self._select(f'(SELECT * FROM {at_to} WHERE {reach})')}",
        ]

    def _story(self, found: list[str]) -> str:
        lines = "\n".join(self.source.log)
        return (
            f"pattern {self.pattern}, seed {self.seed}, batch {self._number}: {found}\n{lines}\n"
            f"again: python -m tests.equivalence.run --pattern {self.pattern} --seed {self.seed} --pipelines 1"
        )
