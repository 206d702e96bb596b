"""The product as its users have it: ``icefloe serve`` in a new project, real triggers, and a writer that is not Icefloe.

Nothing is warmed up or started by hand: what a fixture starts would hide what users meet.
"""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import textwrap
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.schema import Schema
from pyiceberg.types import IntegerType, LongType, NestedField

from icefloe.config import Config, load
from icefloe.spark import server
from icefloe.spark.server_process import ServerProcess
from icefloe.spark.server_record import ServerRecord
from tests.e2e.test_run_commands import ICEFLOE, Shell
from tests.projects import wait_until

EVENTS = Schema(
    NestedField(1, "id", LongType()), NestedField(2, "account", LongType()), NestedField(3, "minutes", LongType()),
    NestedField(4, "day", IntegerType()),
)  # fmt: skip
COLUMNS = {"id": pa.int64(), "account": pa.int64(), "minutes": pa.int64(), "day": pa.int32()}
STAGE = """
Trigger:
  incremental: {{tables: [{source}]}}
Workflow:
  id: {id}
  jobs:
    - job: {{id: take, type: IpCapture, ip_capture: {{source_tables: [{source}]}}}}
    - job:
        id: write
        type: Spark
        spark:
          script: {select}
          write: {{table: {target}, keys: [{keys}]}}
    - job: {{id: commit, type: IpCommit, ip_commit: {{capture_step: take}}}}
  dag: sequential
"""
STAGES = (
    STAGE.format(
        id="daily",
        source="db.events",
        target="db.daily",
        keys="id",
        select="SELECT id, account, minutes * 60 AS seconds, day FROM db.events WHERE minutes > 0",
    ),
    STAGE.format(
        id="totals",
        source="db.daily",
        target="db.totals",
        keys="account, day",
        select="SELECT account, day, sum(seconds) AS seconds, count(*) AS views FROM db.daily GROUP BY account, day",
    ),
)
Rows = list[tuple[int, int, int, int]]


class Unattended:
    """A project's folder, in which only commands of the README are typed, and a writer beside it."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.shell = Shell(folder)
        self.shell("init")
        file = folder / "icefloe.toml"
        file.write_text(file.read_text() + "\n[scheduler]\ntick_seconds = 0.5\n")
        self.config: Config = load(file, env={})
        self.chance = random.Random(seed)
        self.rows: Rows = []
        catalog = self.config.catalog
        self.writer = SqlCatalog(catalog.name, **catalog.pyiceberg_properties())
        self.writer.create_namespace("db")
        self.writer.create_table("db.events", schema=EVENTS)
        for number, text in enumerate(STAGES):
            (folder / f"stage{number}.yaml").write_text(textwrap.dedent(text))
        self.shell("push", "stage0.yaml", "stage1.yaml")

    @contextmanager
    def serving(self) -> Iterator[subprocess.Popen[str]]:
        serve = subprocess.Popen(
            [*ICEFLOE, "serve"], cwd=self.shell.folder, env=self.shell.env, stderr=subprocess.PIPE, text=True
        )
        try:
            yield serve
        finally:
            serve.send_signal(signal.SIGTERM)
            serve.communicate(timeout=60)

    def batch(self) -> None:
        """Commit a few events, some of them late, and wait until they are in the last target."""
        today = 100 + len(self.rows) // 60
        events = [
            (
                len(self.rows) + number,
                self.chance.randrange(4),
                self.chance.randrange(9),
                today - (self.chance.randrange(1, 9) if self.chance.random() < 0.2 else 0),
            )
            for number in range(self.chance.randint(5, 20))
        ]
        self.rows += events
        arrays = [
            pa.array(values, kind) for values, kind in zip(zip(*events, strict=True), COLUMNS.values(), strict=True)
        ]
        self.writer.load_table("db.events").append(pa.table(arrays, names=list(COLUMNS)))
        wait_until(lambda: self.totals() == self.expected(), 120, "the batch in the last target")

    def expected(self) -> Counter[tuple[int, int, int, int]]:
        seconds: Counter[tuple[int, int]] = Counter()
        views: Counter[tuple[int, int]] = Counter()
        for _, account, minutes, day in self.rows:
            if minutes > 0:
                seconds[account, day] += minutes * 60
                views[account, day] += 1
        return Counter((account, day, seconds[account, day], views[account, day]) for account, day in seconds)

    def totals(self) -> Counter[tuple[int, int, int, int]]:
        if not self.writer.table_exists("db.totals"):
            return Counter()
        rows: list[dict[str, Any]] = self.writer.load_table("db.totals").scan().to_arrow().to_pylist()
        return Counter((row["account"], row["day"], row["seconds"], row["views"]) for row in rows)

    def statuses(self) -> set[str]:
        return {run["status"] for run in self.shell.json("runs", "--limit", "200")}

    def server(self) -> ServerProcess:
        record: ServerRecord | None = server.folder_of(self.config).read()
        assert record is not None
        return record.process


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Unattended]:
    seed = random.randrange(1_000_000)
    print(f"seed {seed}", file=sys.stderr)
    made = Unattended(tmp_path, seed)
    try:
        yield made
    finally:
        server.stop(made.config)


@pytest.mark.parametrize("counts", [(3, 3, 2), pytest.param((8, 8, 4), marks=pytest.mark.long)])
def test_one_spark_server_serves_all_batches_whoever_dies(project: Unattended, counts: tuple[int, int, int]) -> None:
    at_first, after_the_worker, after_the_server = counts
    servers: list[ServerProcess] = []

    def batches(count: int) -> None:
        for _ in range(count):
            project.batch()
            servers.append(project.server())

    with project.serving() as serve:
        wait_until(lambda: server.status(project.config).ready, 120, "serve starts the server before a batch needs it")
        first = project.server()
        batches(at_first)
        serve.kill()
        serve.wait()
    with project.serving():
        batches(after_the_worker)
        assert set(servers) == {first}, "one server, also when the worker is killed"
        first.signal(signal.SIGKILL)
        wait_until(lambda: not first.alive(), 30, "the server is gone")
        servers.clear()
        batches(after_the_server)
        assert len(set(servers)) == 1, "a killed server is replaced, once"
        assert servers[0] != first
        # A target is published before its run has moved the checkpoint and ended: told to end now, serve would hand that run over.
        wait_until(lambda: project.statuses() == {"SUCCEEDED"}, 120, "every run succeeds")
    assert servers[0].alive(), "it outlives serve"
    assert project.statuses() == {"SUCCEEDED"}
    assert project.totals() == project.expected()
