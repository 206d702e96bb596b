"""The whole story, live: a writer that knows nothing of Icefloe, two stages that follow by triggers, and kills throughout.

The writer commits every moment, with late rows. When it stops, the last target equals a full recomputation within one more
cycle, and no run was without cause. The long version kills the Spark server too, and takes more batches.
"""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from icefloe.config import Config
from icefloe.lake import Lake
from icefloe.service.client import Client
from icefloe.service.pushing import push_files
from icefloe.service.views import RunView
from icefloe.spark import server
from tests.projects import wait_until
from tests.spark_server import Project

EVENTS = Schema(
    NestedField(1, "id", LongType()), NestedField(2, "account", LongType()), NestedField(3, "minutes", LongType()),
    NestedField(4, "day", LongType()),
)  # fmt: skip

DAILY = """
Trigger: {{incremental: {{}}}}
Workflow:
  id: {ns}.daily
  retry: {{error: 2, platform: 50, backoff: {{initial: 1s, factor: 1}}}}
  jobs:
    - job: {{id: take, type: IpCapture, ip_capture: {{source_tables: [{ns}.events]}}}}
    - job:
        id: copy
        type: Spark
        spark: {{script: "INSERT INTO {ns}.daily SELECT id, account, minutes * 60 AS seconds, day FROM ${{take__icdc_table}} WHERE minutes > 0"}}
    - job: {{id: commit, type: IpCommit, ip_commit: {{capture_step: take}}}}
  dag: sequential
"""

TOTALS = """
Trigger: {{incremental: {{}}}}
Workflow:
  id: {ns}.totals
  retry: {{error: 2, platform: 50, backoff: {{initial: 1s, factor: 1}}}}
  jobs:
    - job: {{id: take, type: IpCapture, ip_capture: {{source_tables: [{ns}.daily]}}}}
    - job:
        id: add
        type: Spark
        spark:
          script: |
            MERGE INTO {ns}.totals t
            USING (SELECT account, day, sum(seconds) AS seconds, count(*) AS views FROM ${{take__icdc_table}} GROUP BY account, day) s
            ON t.account = s.account AND t.day = s.day
            WHEN MATCHED THEN UPDATE SET seconds = t.seconds + s.seconds, views = t.views + s.views
            WHEN NOT MATCHED THEN INSERT (account, day, seconds, views) VALUES (s.account, s.day, s.seconds, s.views)
    - job: {{id: commit, type: IpCommit, ip_commit: {{capture_step: take}}}}
  dag: sequential
"""


class Story:
    """The tables and workflows of one telling."""

    def __init__(self, project: Project, folder: Path, seed: int) -> None:
        self.config: Config = project.config
        self.namespace = project.namespace
        self.chance = random.Random(seed)
        self.lake = Lake.open(self.config)
        self.rows: list[tuple[int, int, int, int]] = []
        self.commits = 0
        for table, schema in (
            ("events", EVENTS),
            (
                "daily",
                Schema(*(NestedField(n, c, LongType()) for n, c in enumerate(("id", "account", "seconds", "day"), 1))),
            ),
            (
                "totals",
                Schema(
                    *(NestedField(n, c, LongType()) for n, c in enumerate(("account", "day", "seconds", "views"), 1))
                ),
            ),
        ):
            self.lake.tables.catalog.create_table(f"{self.namespace}.{table}", schema=schema)
        with Client(self.config) as client:
            for name, text in (("daily", DAILY), ("totals", TOTALS)):
                file = folder / f"{name}.yaml"
                file.write_text(text.format(ns=self.namespace))
                push_files(client, [file])

    def write(self) -> None:
        """One commit: events of today, some of days gone by, and some that the first stage leaves out."""
        today = 100 + self.commits // 3
        fresh = [
            (len(self.rows) + n, self.chance.randrange(5), self.chance.randrange(0, 9),
             today - (self.chance.randrange(1, 9) if self.chance.random() < 0.2 else 0))
            for n in range(self.chance.randint(1, 20))
        ]  # fmt: skip
        self.rows += fresh
        columns = zip(*fresh, strict=True)
        table = pa.table(
            {
                name: pa.array(values, pa.int64())
                for name, values in zip(("id", "account", "minutes", "day"), columns, strict=True)
            }
        )
        self.lake.tables.catalog.load_table(f"{self.namespace}.events").append(table)
        self.commits += 1

    def expected(self) -> list[tuple[int, int, int, int]]:
        totals: dict[tuple[int, int], tuple[int, int]] = {}
        for _, account, minutes, day in self.rows:
            if minutes > 0:
                seconds, views = totals.get((account, day), (0, 0))
                totals[account, day] = seconds + minutes * 60, views + 1
        return sorted((account, day, *found) for (account, day), found in totals.items())

    def found(self) -> list[tuple[int, int, int, int]]:
        rows = self.lake.tables.catalog.load_table(f"{self.namespace}.totals").scan().to_arrow().to_pylist()
        return sorted((row["account"], row["day"], row["seconds"], row["views"]) for row in rows)

    def runs(self, stage: str) -> list[RunView]:
        with Client(self.config) as client:
            return client.runs.listing(f"{self.namespace}.{stage}", most=10_000)

    def deactivate(self) -> None:
        with Client(self.config) as client:
            for stage in ("daily", "totals"):
                client.workflows.set_active(f"{self.namespace}.{stage}", False)

    def at_rest(self) -> bool:
        return all(run.ended for stage in ("daily", "totals") for run in self.runs(stage))


@contextmanager
def serving(config: Config) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "icefloe.cli.main", "--config", str(config.root / "icefloe.toml"), "serve"]
    with (config.home / "serve.log").open("ab") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, cwd=config.root)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def tell(story: Story, *, commits: int, kills: int, kill_spark: bool) -> None:
    """Write and kill in turns, then let it come to rest."""
    blows = sorted(story.chance.sample(range(1, commits), kills))
    for start, end in zip([0, *blows], [*blows, commits], strict=True):
        with serving(story.config) as service:
            began = len(story.runs("daily"))
            for _ in range(start, end):
                story.write()
                time.sleep(story.chance.random())  # the writer's own pace
            if end == commits:
                wait_until(lambda: story.at_rest() and story.found() == story.expected(), 240, "the target to be right")
                wait_until(story.at_rest, 60)
                break
            wait_until(lambda began=began: len(story.runs("daily")) > began or story.at_rest(), 120)
            time.sleep(story.chance.random() * 3)  # the moment of the blow
            service.kill()
            service.wait()
            if kill_spark and story.chance.random() < 0.5:
                server.stop(story.config)


def check(story: Story) -> None:
    assert story.found() == story.expected()
    for stage in ("daily", "totals"):
        runs = story.runs(stage)
        assert all(run.status == "SUCCEEDED" for run in runs), [(run.run_id, run.status, run.cause) for run in runs]
        # Each run took something that none before it had: no more runs than commits of the source.
        assert len(runs) <= story.commits
    daily = len(story.runs("daily"))
    assert len(story.runs("totals")) <= daily, "once per batch of upstream commits"


def test_two_stages_follow_a_writer_through_kills_to_the_right_end(project: Project, tmp_path: Path) -> None:
    story = Story(project, tmp_path, seed=7)
    try:
        tell(story, commits=6, kills=1, kill_spark=False)
        check(story)
    finally:
        story.deactivate()


@pytest.mark.long
def test_the_long_story_with_the_spark_server_killed_too(project: Project, tmp_path: Path) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    story = Story(project, tmp_path, seed)
    try:
        tell(story, commits=60, kills=10, kill_spark=True)
        check(story)
    finally:
        story.deactivate()
