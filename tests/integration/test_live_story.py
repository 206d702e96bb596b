"""The whole story, live: a writer that knows nothing of Icefloe, two stages that follow by triggers, and kills throughout.

The writer commits every moment, with late rows. When it stops, the last target equals a full recomputation within one more
cycle, and no run was without cause. The long version has a project and a Spark server of its own, and kills the scheduler, a
worker and the Spark server in turns and all at once, while runs are under way.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from icefloe.config import Config
from icefloe.lake import Lake
from icefloe.service import project as projects
from icefloe.service.client import Client
from icefloe.service.pushing import push_files
from icefloe.service.views import RunView
from icefloe.spark import server
from icefloe.store import captures
from icefloe.store.captures import CaptureRecord
from tests.projects import wait_until
from tests.spark_server import Project, prepare

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

    def __init__(self, config: Config, namespace: str, folder: Path, seed: int) -> None:
        self.config = config
        self.namespace = namespace
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
        self.client = Client(self.config)
        for name, text in (("daily", DAILY), ("totals", TOTALS)):
            file = folder / f"{name}.yaml"
            file.write_text(text.format(ns=self.namespace))
            push_files(self.client, [file])

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
        return self.client.runs.listing(f"{self.namespace}.{stage}", most=10_000)

    def captures(self, stage: str) -> list[CaptureRecord]:
        """Oldest first."""
        with self.client.database.read() as connection:
            return captures.recent_captures(connection, consumer_name=f"{self.namespace}.{stage}/take", most=10_000)[
                ::-1
            ]

    def close(self) -> None:
        """Nothing starts these workflows any more, whoever serves the project next."""
        for stage in ("daily", "totals"):
            self.client.workflows.set_active(f"{self.namespace}.{stage}", False)
        self.client.close()

    def at_rest(self) -> bool:
        return all(run.ended for stage in ("daily", "totals") for run in self.runs(stage))


def start(config: Config, command: str) -> subprocess.Popen[bytes]:
    words = [sys.executable, "-m", "icefloe.cli.main", "--config", str(config.root / "icefloe.toml"), command]
    with (config.home / f"{command}.log").open("ab") as log:
        return subprocess.Popen(words, stdout=log, stderr=log, cwd=config.root)


def end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextmanager
def serving(config: Config) -> Iterator[subprocess.Popen[bytes]]:
    process = start(config, "serve")
    try:
        yield process
    finally:
        end(process)


def tell(story: Story, *, commits: int, kills: int) -> None:
    """Write and kill in turns, then let it come to rest."""
    blows = sorted(story.chance.sample(range(1, commits), kills))
    for first, last in zip([0, *blows], [*blows, commits], strict=True):
        with serving(story.config) as service:
            began = len(story.runs("daily"))
            for _ in range(first, last):
                story.write()
                time.sleep(story.chance.random())  # the writer's own pace
            if last == commits:
                come_to_rest(story)
                break
            wait_until(lambda began=began: len(story.runs("daily")) > began or story.at_rest(), 120)
            time.sleep(story.chance.random() * 3)  # the moment of the blow
            service.kill()
            service.wait()


def come_to_rest(story: Story) -> None:
    wait_until(lambda: story.at_rest() and story.found() == story.expected(), 400, "the target to be right")
    wait_until(story.at_rest, 60)


VICTIMS = ("serve", "worker", "spark")


@dataclass
class Cast:
    """A scheduler with its worker, a second worker, and the Spark server that they share. All may be killed, and come back."""

    config: Config
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    killed: dict[str, int] = field(default_factory=lambda: dict.fromkeys(VICTIMS, 0))

    def enter(self) -> None:
        for command in ("serve", "worker"):
            if command not in self.processes:
                self.processes[command] = start(self.config, command)

    def kill(self, victim: str) -> None:
        """As ``kill -9`` does. The Spark server is started again by whoever needs it next."""
        if victim == "spark":
            pid = server.status(self.config).pid
            if pid is not None:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                    self.killed[victim] += 1
            return
        process = self.processes.pop(victim)
        process.kill()
        process.wait()
        self.killed[victim] += 1

    def leave(self) -> None:
        for process in self.processes.values():
            end(process)


def tell_at_length(story: Story, cast: Cast, *, commits: int, kills: int) -> None:
    """Blows fall while runs are under way: on each of the three in turn, now and then on all of them at once."""
    blows = dict(
        zip(
            sorted(story.chance.sample(range(1, commits), kills)),
            [VICTIMS if n % 4 == 3 else (VICTIMS[n % 4],) for n in range(kills)],
            strict=True,
        )
    )
    cast.enter()
    for number in range(commits):
        story.write()
        time.sleep(story.chance.random())  # the writer's own pace
        if number in blows:
            wait_until(lambda: not story.at_rest(), 180, "a run to be under way")
            time.sleep(story.chance.random() * 4)  # the moment of the blow
            for victim in blows[number]:
                cast.kill(victim)
            cast.enter()
    come_to_rest(story)


def check(story: Story) -> None:
    assert story.found() == story.expected()
    for stage in ("daily", "totals"):
        runs = story.runs(stage)
        assert all(run.status == "SUCCEEDED" for run in runs), [(run.run_id, run.status, run.cause) for run in runs]
        # Each run took something that none before it had: no more runs than commits of the source.
        assert len(runs) <= story.commits
        taken = [one for one in story.captures(stage) if one.state == "committed"]
        assert len(runs) <= len(taken), "each run committed what it was started for"
        at = -1
        for (source,) in (one.sources for one in taken):
            began, ended = (source["start"] or {}).get("sequence_number", -1), source["end"]["sequence_number"]
            assert at <= began < ended, "each takes something, and nothing that another took"
            at = ended
    daily = len(story.runs("daily"))
    assert len(story.runs("totals")) <= daily, "once per batch of upstream commits"


def test_two_stages_follow_a_writer_through_kills_to_the_right_end(project: Project, tmp_path: Path) -> None:
    story = Story(project.config, project.namespace, tmp_path, seed=7)
    try:
        tell(story, commits=6, kills=1)
        check(story)
    finally:
        story.close()


@pytest.mark.long
def test_the_long_story_with_scheduler_worker_and_spark_server_killed(tmp_path: Path) -> None:
    seed = int(os.environ.get("ICEFLOE_STORY_SEED") or random.randrange(2**32))
    print(f"seed {seed}: ICEFLOE_STORY_SEED={seed} pytest -m long {__file__}")
    config = prepare(tmp_path.resolve())
    projects.init(config.root)
    Lake.open(config).tables.catalog.create_namespace("story")
    story, cast = Story(config, "story", tmp_path, seed), Cast(config)
    try:
        tell_at_length(story, cast, commits=60, kills=12)
        check(story)
        assert all(cast.killed.values()), cast.killed
        print(f"killed {cast.killed}; runs {[len(story.runs(stage)) for stage in ('daily', 'totals')]}")
    finally:
        cast.leave()
        story.close()
        server.stop(config)
