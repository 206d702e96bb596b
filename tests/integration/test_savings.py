"""The savings ledger of real runs, against Spark's own tables of files."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from icefloe.config import FILE_NAME
from icefloe.planner.inputs import WriteRequest
from icefloe.steps.write import execution
from icefloe.steps.write.write_job import WriteJob
from icefloe.steps.write.write_report import WriteReport
from icefloe.store import savings as stored
from icefloe.store.savings import SavingsRecord
from tests.integration.test_planned_writes import Bench, cause
from tests.planner.world import World, fencing
from tests.spark_server import Project

if TYPE_CHECKING:
    from pyspark.sql.connect.session import SparkSession

Files = dict[str, tuple[str, int, int, int]]
"""Path (of a deletion vector also what it is of: several lie in one file) -> day, content (0: data), rows and bytes."""
WRITE = '{table: "${TARGET}", keys: [account_id, country, event_day], lookback: 3d}'


class Measured(Bench):
    """A bench whose tables' files are looked at through Spark, as they are now."""

    def files(self, table: str) -> Files:
        found = self.spark.sql(
            "SELECT file_path || COALESCE(referenced_data_file, ''), CAST(partition.event_day AS STRING) AS day, content, "
            "record_count, COALESCE(content_size_in_bytes, file_size_in_bytes) "
            f"FROM {self.namespace}.{table}.files"
        ).collect()
        return {row[0]: (row[1], row[2], row[3], row[4]) for row in found}

    def run(self, workflow: str) -> SavingsRecord:
        view = self.runs.execute(workflow)
        assert view.status == "SUCCEEDED", cause(view)
        return self.recorded()[-1]

    def recorded(self) -> list[SavingsRecord]:
        with self.runs.client.database.read() as connection:
            return stored.listing(connection, workflow_id=f"agg_{self.namespace}")


def total(*many: Files, days: tuple[str, ...] | None = None) -> tuple[int, int, int]:
    kept = [one for files in many for one in files.values() if days is None or one[0] in days]
    return len(kept), sum(rows for _, content, rows, _ in kept if content == 0), sum(size for *_, size in kept)


def new(after: Files, before: Files) -> Files:
    return {path: one for path, one in after.items() if path not in before}


def plus(*many: tuple[int, int, int]) -> tuple[int, ...]:
    return tuple(map(sum, zip(*many, strict=True)))


def read(one: SavingsRecord) -> tuple[int, int, int]:
    return one.read_files, one.read_rows, one.read_bytes


def instead(one: SavingsRecord) -> tuple[int, int, int]:
    return one.instead_files, one.instead_rows, one.instead_bytes


def written(one: SavingsRecord) -> tuple[int, int, int]:
    return one.written_files, one.written_rows, one.written_bytes


@pytest.fixture
def bench(project: Project, spark: SparkSession) -> Iterator[Measured]:
    made = Measured(project, spark)
    for day in range(2, 7):
        made.load(", ".join(f"({account}, 'NO', DATE'2026-03-0{day}', {account})" for account in range(40)))
    yield made
    made.runs.client.close()


def test_first_run_late_new_and_overwritten_partitions_are_counted_as_spark_lists_their_files(bench: Measured) -> None:
    workflow = bench.push(write=WRITE)

    # The first run reads everything, more than the lookback would.
    source = bench.files("playback_daily")
    first = bench.run(workflow)
    assert (first.pattern, first.compared_with) == ("full", "a lookback over the newest 3 days")
    assert read(first) == total(source)
    assert instead(first) == total(source, days=("2026-03-04", "2026-03-05", "2026-03-06"))
    assert written(first) == total(bench.files("playback_agg"))
    assert first.seconds is not None and first.seconds > 0

    # A late row on the 2nd, a new day, and a day of which most is new.
    target = bench.files("playback_agg")
    many = ", ".join(f"({account}, 'DE', DATE'2026-03-01', 1)" for account in range(30))
    bench.load(f"(1, 'NO', DATE'2026-03-02', 5), (7, 'SE', DATE'2026-03-07', 5), {many}")
    now = bench.files("playback_daily")
    changes = new(now, source)
    second = bench.run(workflow)
    log = bench.runs.log(second.root_id, "aggregate")
    for kind, day in (("new", 7), ("late", 2), ("overwritten", 1)):
        assert f"{kind} partitions of event_day: 2026-03-0{day}" in log
    assert read(second) == plus(
        total(target, days=("2026-03-02",)),  # scanned for rows to delete
        total(changes, days=("2026-03-02",)),  # the keys, for the delete and for the append
        total(now, days=("2026-03-02",)),
        total(now, days=("2026-03-01",)),
        total(changes, days=("2026-03-07",)),
    )
    assert instead(second) == total(now, days=("2026-03-05", "2026-03-06", "2026-03-07"))
    assert written(second) == total(new(bench.files("playback_agg"), target))
    assert second.written_delete_files == 1
    assert bench.rows() == bench.recomputed()

    # The next late row finds the delete file in the target, too.
    target = bench.files("playback_agg")
    assert any(content for _, content, _, _ in target.values())
    bench.load("(2, 'NO', DATE'2026-03-02', 5)")
    changes = new(bench.files("playback_daily"), now)
    third = bench.run(workflow)
    assert read(third) == plus(
        total(target, days=("2026-03-02",)),
        total(changes),
        total(bench.files("playback_daily"), days=("2026-03-02",)),
    )

    view = bench.runs.show(third.root_id)
    line = next(step.outputs["savings"] for step in view.steps if step.id == "aggregate")
    assert line.startswith("read ") and line in bench.runs.log(third.root_id, "aggregate")
    command = [sys.executable, "-m", "icefloe.cli.main", "--config", str(bench.config.root / FILE_NAME)]
    told = json.loads(
        subprocess.run(
            [*command, "savings", workflow, "--since", "1d", "-o", "json"], capture_output=True, text=True, check=True
        ).stdout
    )
    assert told["total"]["runs"] == 3
    assert told["total"]["read"]["bytes"] == sum(one.read_bytes for one in (first, second, third))
    shown = subprocess.run([*command, "savings", workflow], capture_output=True, text=True, check=True).stdout
    assert "playback_agg" in shown and "total" in shown and "a lookback over the newest 3 days" in shown
    assert line in subprocess.run([*command, "show", third.root_id], capture_output=True, text=True, check=True).stdout


def test_without_a_lookback_the_whole_is_compared_with_and_appends_read_only_what_is_new(bench: Measured) -> None:
    workflow = bench.push(select="SELECT * FROM {n}.playback_daily", write='{table: "${TARGET}"}')
    bench.run(workflow)
    before = bench.files("playback_daily")
    bench.load("(1, 'NO', DATE'2026-03-02', 5), (7, 'SE', DATE'2026-03-07', 5)")
    now = bench.files("playback_daily")
    found = bench.run(workflow)
    assert (found.pattern, found.compared_with) == ("append", "a full recomputation")
    assert read(found) == total(new(now, before)) and instead(found) == total(now)


def test_keys_that_are_looked_for_twice_are_read_again_with_what_was_written(bench: Measured) -> None:
    select = (
        "SELECT account_id, country, event_day, view_min FROM {n}.playback_daily WHERE view_min > 10 AND account_id > 9"
    )
    write = '{table: "${TARGET}", keys: [account_id, country, event_day], partition_by: [event_day]}'
    workflow = bench.push(select=select, write=write)
    first = bench.run(workflow)
    assert read(first) == plus(total(bench.files("playback_daily")), total(bench.files("playback_agg")))
    target, source = bench.files("playback_agg"), bench.files("playback_daily")
    bench.load("(99, 'NO', DATE'2026-03-02', 50)")
    now = bench.files("playback_daily")
    second = bench.run(workflow)
    late = ("2026-03-02",)
    assert second.pattern == "merge"
    assert read(second) == plus(
        total(target, days=late),
        total(new(now, source)),
        total(now, days=late),
        total(target, days=late),
        total(new(bench.files("playback_agg"), target)),
    )


def test_a_source_that_has_no_days_is_compared_as_a_whole_and_says_so(bench: Measured) -> None:
    bench.spark.sql(f"ALTER TABLE {bench.namespace}.playback_daily DROP PARTITION FIELD event_day")
    bench.spark.sql(f"ALTER TABLE {bench.namespace}.playback_daily ADD PARTITION FIELD bucket(2, account_id)")
    found = bench.run(bench.push(write=WRITE))
    assert found.instead_files == found.read_files > 0
    assert any("is not partitioned by day" in note for note in found.notes)


def test_a_batch_that_was_published_and_not_told_is_counted_by_the_next_attempt(
    project: Project, spark: SparkSession
) -> None:
    world = World.make(spark, project.config, 7, only_appends=True)
    world.capture()
    heard: list[WriteReport] = []
    text = f"SELECT account_id, event_day, count(*) AS n FROM {world.namespace}.events GROUP BY account_id, event_day"
    request = WriteRequest(text, f"{world.namespace}.target", ("account_id", "event_day"))
    mark = uuid4().hex

    def attempt(run: str) -> Any:
        work = WriteJob(request, tuple(world.sources))
        execution.run(spark, world.lake, work, fencing(mark, run), lambda line: None, tell=heard.append)
        return heard[-1].savings

    first = attempt("run-1")
    again = attempt("run-1")
    assert first.seconds is not None and again.seconds is None
    assert (again.run, again.target) == ("run-1", first.target)
    assert (again.reckoning, again.written) == (first.reckoning, first.written)
    assert first.written.size.rows > 0
