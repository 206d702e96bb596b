"""The same history of runs, captures, restarts, triggers and signals, with somebody who cleans up in between and without: it comes to the
same. What is kept is next to nothing here, so that whatever could be missed is missed."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from icefloe.config import Config
from icefloe.service.janitor import Janitor
from icefloe.service.runs import RunDeletedError
from icefloe.service.triggers import Triggers
from icefloe.store import captures, migrations, retention
from icefloe.store.database import Database
from icefloe.store.tables import runs as run_rows
from tests.contract.triggers.conftest import Hands, Stage
from tests.projects import make_project

COPY = """
Workflow:
  id: copy
  DIVISOR: 1
  run_strategy: {rule: SEQUENTIAL}
  retry_policy: {error: 0, platform: 0}
  jobs:
    - job: {id: look, type: IpCapture, ip_capture: {source_tables: [db.events], columns: [id]}}
    - job: {id: use, type: NoOp, '!quotient': "1 / DIVISOR"}
    - job: {id: commit, type: IpCommit, ip_commit: {capture_step: look}}
  dag: sequential
"""
WATCH = """
Trigger: {incremental: {tables: [db.events]}}
Workflow:
  id: watch
  jobs:
    - job: {id: look, type: IpCapture, ip_capture: {source_tables: [db.events]}}
    - job: {id: commit, type: IpCommit, ip_commit: {capture_step: look}}
  dag: sequential
"""
FOLLOW = """
Trigger: {signal: {name: loaded}}
Workflow:
  id: follow
  run_strategy: {rule: PARALLEL, concurrency: 100}
  jobs:
    - job: {id: only, type: NoOp, '!N': "params.getFromSignal('loaded', 'n')"}
"""
CONSUMERS = ("copy/look", "watch/look")
LONG = 100 * 3600.0
"""Longer than change tables are kept."""
OPERATIONS = ("append", "start", "start", "fail", "again", "restart", "signal", "look", "look")


@dataclass
class History:
    """What somebody outside can see of it. Snapshots are numbered, since their ids differ each time."""

    stage: Stage
    chance: random.Random
    seen: list[Any] = field(default_factory=list)
    rows: int = 0
    occasions: int = 0
    signals: int = 0

    def play(self, length: int, clean: Any = None) -> list[Any]:
        for workflow in (COPY, WATCH, FOLLOW):
            self.stage.project.push(workflow)
        self.stage.create("db.events")
        self.append()
        for _ in range(length):
            getattr(self, self.chance.choice(OPERATIONS))()
            if clean is not None:
                before = self.needed()
                clean()
                assert self.needed() == before
        for _ in range(2):
            self.start()
            self.look()
        return [*self.seen, self.standing()]

    def append(self) -> None:
        self.rows += 1
        self.stage.append("db.events", self.rows)

    def start(self, divisor: int = 1) -> None:
        self.occasions += 1
        self.occasion(self.occasions, divisor)

    def fail(self) -> None:
        self.start(0)

    def again(self) -> None:
        """Somebody asks once more for a run that was there, however long ago."""
        if self.occasions:
            self.occasion(self.chance.randint(1, self.occasions), 1)

    def occasion(self, number: int, divisor: int) -> None:
        started = self.stage.project.client.runs.start("copy", {"DIVISOR": divisor}, occasion=f"at {number}")
        self.seen.append(("occasion", number, started.run_id, started.created))
        if started.created:
            self.work(started.run_id)

    def restart(self) -> None:
        """One of the last two runs, if it has failed."""
        back = self.chance.randint(0, 1)
        recent = self.stage.project.client.runs.listing("copy", most=2)
        if back < len(recent) and recent[back].status == "FAILED":
            self.stage.project.client.runs.restart(recent[back].run_id, params={"DIVISOR": 1})
            self.work(recent[back].run_id)

    def signal(self) -> None:
        self.signals += 1
        publish = Triggers(self.stage.project.config, self.stage.project.client.database, lambda: self.stage.hands.now)
        for _ in range(2):
            new = publish.signal("loaded", {"n": self.signals}, signal_id=f"load-{self.signals}")
            self.seen.append(("signal", *new))

    def look(self) -> None:
        self.stage.hands.pass_by(120)
        self.stage.look()
        for workflow in ("watch", "follow"):
            for run in self.stage.runs(workflow):
                if not run.ended:
                    self.work(run.run_id)

    def work(self, run_id: str) -> None:
        view = self.stage.project.client.work(run_id)
        outputs = [step.outputs for step in view.steps if step.id == "look"]
        ranges = [
            (self.number(one["from_snapshot"]), self.number(one["to_snapshot"]), one["row_count"])
            for one in outputs
            if one
        ]
        values = [step.params.get("N") for step in view.steps if step.id == "only" and step.params]
        self.seen.append((run_id, view.status, ranges, values))

    def number(self, snapshot_id: int | None) -> int | None:
        line = [one.snapshot_id for one in self.stage.catalog.load_table("db.events").metadata.snapshots]
        return line.index(snapshot_id) if snapshot_id in line else None

    def standing(self) -> list[Any]:
        places = []
        for name in CONSUMERS:
            checkpoint = self.stage.checkpoint(name)
            places.append((name, self.number(checkpoint.snapshot_id) if checkpoint else None, self.stage.version(name)))
            with self.stage.project.client.database.read() as connection:
                held = captures.open_capture(connection, name)
            places.append(None if held is None else (held.run_id, held.state, held.base_version))
        return places

    def needed(self) -> list[Any]:
        """Open captures to the letter, and the tables that they can be read from."""
        with self.stage.project.client.database.read() as connection:
            held = [captures.open_capture(connection, name) for name in CONSUMERS]
        names = [source["change_table"] for record in held if record for source in record.sources]
        return [held, [self.stage.ids_in(name) for name in names if name]]


def next_to_nothing(config: Config) -> Config:
    """Keep times of zero, but for occasions. A workflow's last two runs stay: fewer than may be configured."""
    kept = dict.fromkeys(
        ("runs", "logs", "events", "captures", "savings", "signals", "incidents", "audits", "prunings"), 0.0
    )
    return config.model_copy(update={"keep": config.keep.model_copy(update={**kept, "last_runs": 2})})


def stage_at(root: Path, url: str) -> Stage:
    return Stage(make_project(root, url), Hands(time.time()))


@pytest.mark.parametrize(
    "seed", [11, pytest.param(12, marks=pytest.mark.long), pytest.param(13, marks=pytest.mark.long)]
)
def test_a_history_comes_to_the_same_whether_somebody_cleans_up_in_between_or_not(
    state_url: str, tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    print(f"seed {seed}: pytest -m 'long or not long' tests/contract/triggers/test_pruned_histories.py -k {seed}")
    plain_url = f"sqlite:///{tmp_path}/plain.db"
    database = Database(plain_url)
    migrations.upgrade(database)
    database.close()
    monkeypatch.setattr(retention, "SIGNALS_KEPT", 1)
    plain, pruned = stage_at(tmp_path / "plain", plain_url), stage_at(tmp_path / "pruned", state_url)
    deleted: list[int] = []

    def clean() -> None:
        janitor = Janitor(next_to_nothing(pruned.project.config), pruned.project.client.database)
        now = time.time() + chance.choice((1.0, LONG))
        if chance.random() < 0.7:
            janitor.release(now)
        deleted.append(sum(item.items for item in janitor.prune(now)))

    chance = random.Random(seed)
    try:
        expected = History(plain, random.Random(seed)).play(26)
        history = History(pruned, random.Random(seed))
        assert history.play(26, clean) == expected, f"seed {seed}"
        janitor = Janitor(next_to_nothing(pruned.project.config), pruned.project.client.database)
        janitor.release(time.time() + LONG)
        janitor.prune(time.time() + LONG)
        with pruned.project.client.database.read() as connection:
            left = connection.execute(sa.select(sa.func.count()).select_from(run_rows)).scalar_one()
        assert left <= 8, "two of each workflow, and those that hold open captures"
        assert sum(deleted) > 100
        with pytest.raises(RunDeletedError):
            pruned.project.client.runs.restart("copy-1")
    finally:
        plain.project.client.close()
        pruned.project.client.close()
