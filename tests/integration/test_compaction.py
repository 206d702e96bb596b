"""Small files that batches leave in the target are joined after a batch is published, and nobody sees another row for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from icefloe.config import Config
from icefloe.lake.history import head
from icefloe.lake.predicates import string_literal
from icefloe.planner import compaction
from icefloe.planner.inputs import WriteRequest
from icefloe.spark.marks import MARK
from icefloe.steps.write import execution
from icefloe.steps.write.write_job import WriteJob
from icefloe.steps.write.write_report import WriteReport
from tests.planner.world import World, fencing

if TYPE_CHECKING:
    from pyspark.sql.connect.session import SparkSession

GROUPED = "SELECT account_id, country, count(*) AS n FROM {n}.plays GROUP BY account_id, country"
COPY = "SELECT account_id, country FROM {n}.plays"
PLACES = ("NO", "O'Neill", "a\\b ${c} % /", None)
"""Partitions may have any name."""


class Batches:
    """Planned writes of one batch after the other into a target that is partitioned by a text."""

    def __init__(self, config: Config, spark: SparkSession, text: str, **properties: str) -> None:
        self.world = World.make(spark, config, 1, only_appends=True)
        self.spark, self.text, self.properties = spark, text.format(n=self.world.namespace), properties
        self.keys = ("account_id", "country") if "GROUP BY" in text else ()
        self.source, self.target = (f"{self.world.namespace}.{name}" for name in ("plays", "compacted"))
        spark.sql(
            f"CREATE TABLE {self.source} (account_id BIGINT, country STRING) USING iceberg PARTITIONED BY (country)"
        )
        self.world.captured = ("plays",)

    def batch(
        self,
        session: Any = None,
        ref: str = "main",
        tell: Callable[[WriteReport], None] = lambda told: None,
        **more: Any,
    ) -> list[str]:
        said: list[str] = []
        places = ["NULL" if place is None else string_literal(place) for place in PLACES]
        rows = ", ".join(f"({account}, {place})" for account in (1, 2) for place in places)
        self.spark.sql(f"INSERT INTO {self.source} VALUES {rows}").collect()
        self.world.capture()
        request = WriteRequest(self.text, self.target, self.keys, partition_by=("country",), **more)
        work = WriteJob(request, tuple(self.world.sources), self.properties)
        fences = fencing(uuid4().hex, "run")
        execution.run(
            session or self.spark,
            self.world.lake,
            work,
            lambda number: replace(fences(number), ref=ref),
            said.append,
            tell=tell,
        )
        self.world.commit()
        return said

    def equal(self) -> bool:
        rows = [
            sorted(map(str, self.spark.sql(text).collect())) for text in (self.text, f"SELECT * FROM {self.target}")
        ]
        return rows[0] == rows[1]

    def files(self) -> tuple[int, int]:
        """Data files and delete files."""
        found = self.spark.sql(f"SELECT content, count(*) FROM {self.target}.files GROUP BY content").collect()
        counts = {row[0]: row[1] for row in found}
        return counts.get(0, 0), counts.get(1, 0)

    def head(self) -> int:
        found = head(self.world.lake.table(self.target).metadata, "main", table=self.target)
        assert found is not None
        return found


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "SMALL_FILES", 4)
    monkeypatch.setattr(compaction, "WEIGHT", 2)


@pytest.mark.parametrize("version", ["2", "3"])
def test_files_of_late_rows_and_of_their_deletes_are_joined_and_the_rows_stay(
    project_config: Config, spark: SparkSession, version: str
) -> None:
    batches = Batches(project_config, spark, GROUPED, **{"format-version": version})
    joined = []
    for number in range(9):
        said = batches.batch()
        assert batches.equal(), number
        if any(line.startswith("compaction: 4 partitions of country") for line in said):
            joined.append(number)
            assert batches.files()[0] == len(PLACES), "one file each"
            snapshots = batches.world.lake.table(batches.target).metadata.snapshots
            last = snapshots[batches.head()]
            assert last.operation == "replace" and MARK not in last.summary, "it is not the batch"
        assert batches.files()[0] <= 4 * len(PLACES)
    assert joined == [5, 8], (
        "batches 1 and 2 overwrite, since half and a third of all rows are new; then three files are added to that one"
    )
    if version == "2":
        assert batches.files()[1] <= 2 * len(PLACES)


def test_what_joining_reads_and_writes_is_in_the_ledger(project_config: Config, spark: SparkSession) -> None:
    batches = Batches(project_config, spark, COPY)
    for _ in range(3):
        batches.batch()
    heard: list[WriteReport] = []
    before = {
        row[0]: row[1]
        for row in spark.sql(f"SELECT file_path, file_size_in_bytes FROM {batches.target}.files").collect()
    }
    batches.batch(tell=heard.append)
    after = {
        row[0]: row[1]
        for row in spark.sql(f"SELECT file_path, file_size_in_bytes FROM {batches.target}.files").collect()
    }
    plain, whole = (one.savings for one in heard)
    assert plain is not None and whole is not None and not set(before) & set(after)
    added = plain.written.size
    assert whole.reckoning.read.files - plain.reckoning.read.files == len(before) + added.files
    assert whole.reckoning.read.bytes - plain.reckoning.read.bytes == sum(before.values()) + added.bytes
    assert whole.written.size.files - added.files == len(after) == len(PLACES)
    assert whole.written.size.bytes - added.bytes == sum(after.values())
    assert "to join small files" in whole.reckoning.notes[-1]
    assert plain.seconds is not None and whole.seconds is not None and whole.seconds > plain.seconds


def test_who_reads_the_target_incrementally_sees_no_change_in_it(project_config: Config, spark: SparkSession) -> None:
    batches = Batches(project_config, spark, COPY)
    for _ in range(3):
        batches.batch()
    before = batches.head()
    said = batches.batch()
    assert said[-1].startswith("compaction: 4 partitions")
    assert batches.files() == (len(PLACES), 0) and batches.equal()
    changes = batches.world.lake.changes(batches.target, since=before)
    assert (changes.added.rows, changes.removed.rows) == (2 * len(PLACES), 0)


class Failing:
    """A session in which procedures fail."""

    def __init__(self, session: SparkSession, words: str) -> None:
        self._session, self._words = session, words

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    def sql(self, text: str) -> Any:
        if "rewrite_" in text:
            raise RuntimeError(self._words)
        return self._session.sql(text)


def test_a_compaction_that_fails_or_is_not_wanted_is_no_matter_of_the_batch(
    project_config: Config, spark: SparkSession
) -> None:
    batches = Batches(project_config, spark, GROUPED)
    for _ in range(5):
        assert not any("compaction" in line for line in batches.batch(compact=False))
    said = batches.batch(Failing(spark, "no space left on device\nand much more"))
    assert said[-1] == "compaction: not done, the next batch tries again: no space left on device"
    assert batches.equal() and batches.files()[0] == 4 * len(PLACES)
    assert batches.batch(Failing(spark, ""))[-1] == "compaction: not done, the next batch tries again: RuntimeError"
    assert not any("compaction" in line for line in batches.batch(ref="staging")), "it would be main's files"
    assert batches.batch()[-1].startswith("compaction: 4 partitions")
    assert batches.equal() and batches.files()[0] == len(PLACES)
