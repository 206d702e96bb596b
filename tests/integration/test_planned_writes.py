"""``write:`` from the definition to the published table: real runs on the warm server."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from icefloe.config import FILE_NAME
from icefloe.lake import Lake
from icefloe.service.client import Client
from icefloe.service.explain import Explaining
from tests.projects import Project as Runs
from tests.spark_server import Project

if TYPE_CHECKING:
    from pyspark.sql.connect.session import SparkSession

AGGREGATE = """
Description: Minutes watched per account and day, kept exact while late events arrive
Workflow:
  id: {id}
  owner: playback-team
  TARGET: {n}.playback_agg
  jobs:
    - job:
        id: capture_change
        type: IpCapture
        ip_capture: {{source_tables: [{n}.playback_daily], capture_mode: ICDC, data_operations: [append], columns: [event_day]}}
    - job:
        id: aggregate
        type: Spark
        spark:
          script: |
            {select}
          write: {write}
    - job:
        id: commit_checkpoint
        type: IpCommit
        ip_commit: {{capture_step: capture_change}}
  dag: sequential
"""
SELECT = """SELECT account_id, country, event_day, count(*) AS views, sum(view_min) AS view_min
            FROM {n}.playback_daily GROUP BY account_id, country, event_day"""
WRITE = '{table: "${TARGET}", keys: [account_id, country, event_day], pattern: auto}'


class Bench:
    """One namespace with a playback table, and runs of workflows on it."""

    def __init__(self, project: Project, spark: SparkSession) -> None:
        self.spark = spark
        self.config = project.config
        self.namespace = project.namespace
        self.lake = Lake.open(project.config)
        self.runs = Runs(project.config, Client(project.config))
        spark.sql(
            f"CREATE TABLE {self.namespace}.playback_daily (account_id BIGINT, country STRING, event_day DATE, view_min INT) "
            "USING iceberg PARTITIONED BY (event_day)"
        )
        self.load("(1, 'NO', DATE'2026-03-01', 10), (1, 'NO', DATE'2026-03-01', 5), (2, NULL, DATE'2026-03-01', 7)")

    def load(self, rows: str) -> None:
        self.spark.sql(f"INSERT INTO {self.namespace}.playback_daily VALUES {rows}").collect()

    def push(self, *, select: str = SELECT, write: str = WRITE) -> str:
        text = AGGREGATE.format(
            id=f"agg_{self.namespace}", n=self.namespace, select=select.format(n=self.namespace), write=write
        )
        return self.runs.push(text)

    def rows(self, table: str = "playback_agg") -> list[tuple[Any, ...]]:
        found = self.spark.sql(f"SELECT * FROM {self.namespace}.{table}").collect()
        return sorted((tuple(row) for row in found), key=str)

    def recomputed(self, select: str = SELECT) -> list[tuple[Any, ...]]:
        return sorted((tuple(row) for row in self.spark.sql(select.format(n=self.namespace)).collect()), key=str)

    def snapshots(self) -> int:
        return len(self.lake.table(f"{self.namespace}.playback_agg").metadata.snapshots)


@pytest.fixture
def bench(project: Project, spark: SparkSession) -> Iterator[Bench]:
    made = Bench(project, spark)
    yield made
    made.runs.client.close()


def cause(view: Any, step: str = "aggregate") -> dict[str, Any]:
    found = next(one for one in view.steps if one.id == step)
    return dict(found.cause or {})


def test_the_design_s_example_is_kept_exact_while_late_events_arrive(bench: Bench) -> None:
    workflow = bench.push()
    first = bench.runs.execute(workflow)
    assert first.status == "SUCCEEDED", cause(first)
    assert bench.rows() == bench.recomputed()
    bench.load("(2, NULL, DATE'2026-03-01', 2), (3, 'DE', DATE'2026-03-02', 3)")
    (explained,) = Explaining(bench.runs.client, bench.lake).explain(workflow)
    assert explained.plan.pattern == "key_filter"
    second = bench.runs.execute(workflow)
    assert second.status == "SUCCEEDED", cause(second)
    assert bench.rows() == bench.recomputed()
    log = bench.runs.log(second.run_id, "aggregate")
    assert "new partitions of event_day: 2026-03-02" in log and "late partitions of event_day: 2026-03-01" in log
    metadata = bench.lake.table(f"{bench.namespace}.playback_agg").metadata
    assert set(metadata.refs) == {"main"}, "the attempt's branch is gone"
    assert metadata.properties["write.delete.mode"] == "merge-on-read"
    third = bench.runs.execute(workflow)
    assert {one.id: one.status for one in third.steps}["aggregate"] == "SKIPPED"


def test_duplicate_keys_publish_nothing_and_name_the_row(bench: Bench) -> None:
    write = '{table: "${TARGET}", keys: [account_id]}'
    view = bench.runs.execute(bench.push(select="SELECT account_id, view_min FROM {n}.playback_daily", write=write))
    assert view.status == "FAILED"
    assert cause(view)["code"] == "planner.keys-not-unique" and "account_id = 1" in cause(view)["message"]
    assert bench.rows() == []


@pytest.mark.parametrize(
    ("select", "write", "code"),
    [
        (SELECT, '{table: "${TARGET}", keys: [acount_id]}', "planner.keys-missing"),
        (SELECT, '{table: "${TARGET}", pattern: append}', "planner.unsound-pattern"),
        ("SELECT 1; SELECT 2", '{table: "${TARGET}"}', "planner.not-a-select"),
        ("INSERT INTO {n}.playback_agg SELECT 1", '{table: "${TARGET}"}', "planner.not-a-select"),
        ("SELECT account_id, view_min FROM {n}.playback_daily", '{table: "${TARGET}"}', "planner.target-mismatch"),
        (
            "SELECT account_id, country, event_day, 'x' AS views, 1L AS view_min FROM {n}.playback_daily",
            '{table: "${TARGET}"}',
            "planner.target-mismatch",
        ),
    ],
)
def test_bad_input_is_refused_before_anything_is_published(bench: Bench, select: str, write: str, code: str) -> None:
    assert bench.runs.execute(bench.push()).status == "SUCCEEDED"
    before, snapshots = bench.rows(), bench.snapshots()
    bench.load("(1, 'NO', DATE'2026-03-01', 1)")
    view = bench.runs.execute(bench.push(select=select, write=write))
    assert view.status == "FAILED"
    assert cause(view)["code"] == code
    assert cause(view)["hint"]
    assert (bench.rows(), bench.snapshots()) == (before, snapshots)


def test_explain_on_the_command_line_shows_pattern_reasons_and_sql(bench: Bench) -> None:
    workflow = bench.push()
    command = [
        sys.executable,
        "-m",
        "icefloe.cli.main",
        "--config",
        str(bench.config.root / FILE_NAME),
        "explain",
        workflow,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "full" in done.stdout and "the target has no rows yet" in done.stdout and "INSERT INTO" in done.stdout
    told = json.loads(subprocess.run([*command, "-o", "json"], capture_output=True, text=True, check=True).stdout)
    assert told[0]["step"] == "aggregate" and told[0]["statements"][0]["role"] == "append"
