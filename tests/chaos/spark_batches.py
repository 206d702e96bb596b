"""Micro-batches on real Spark whose processes are killed, stopped and disturbed; and the count that must come out.

A batch is a handful of rows appended to a source. The workflow under test copies what was captured to a target, with two INSERT
statements, so that every way to do something twice shows as a row that is there twice, and every way to publish half of it as a
batch of which a reader sees a part.

``python -m tests.chaos.spark_batches`` runs the whole matrix on both databases and then random kills; it prints what it did.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import psutil

from icefloe.config import Config, State
from icefloe.lake import Lake
from icefloe.service.client import Client
from icefloe.service.views import StepView
from icefloe.spark import server
from icefloe.spark.program_order import ProgramOrder
from icefloe.spark.session import connect
from icefloe.store import migrations
from icefloe.store.database import Database
from tests.chaos.victims import end, start_worker, step_processes, supervisors
from tests.projects import FAST, Project, wait_until
from tests.spark_server import fresh_namespace, shared_project

if TYPE_CHECKING:
    from pyspark.sql.connect.session import SparkSession

STEP_POINTS = (
    "spark.session",
    "spark.branched",
    "spark.before_statement",
    "spark.before_first_publish",
    "spark.before_publish",
    "spark.after_publish",
    "spark.before_result",
    "spark.after_result",
)
"""Passed by the step's own process."""
WORKER_POINTS = (
    "capture.before_plan",
    "capture.after_plan",
    "capture.after_pin",
    "capture.after_build",
    "capture.after_built",
    "commit.in_transaction",
    "commit.after_transaction",
    "commit.after_tag",
    "worker.process_ended",
    "worker.before_result",
)
"""Passed by the worker, which captures and commits itself."""
LATE_POINTS = ("spark.branched", "spark.before_first_publish", "spark.before_publish")
"""Where an old attempt is stopped, to wake up when another has published."""
VICTIMS = ("worker", "supervisor", "step", "server")
DATABASES = ("sqlite", "postgresql")
ROWS = 6
_SECONDS = 180.0

WORKFLOW = """
Workflow:
  id: copy
  retry: {{error: 0, platform: 100, backoff: {{initial: 0.05}}}}
  jobs:
    - job: {{id: look, type: IpCapture, ip_capture: {{source_tables: [{db}.source]}}}}
    - job:
        id: copy
        type: Spark
        spark:
          script: |
            INSERT INTO {db}.target SELECT id, batch FROM ${{look__icdc_table}} WHERE id % 2 = 0 {slow};
            INSERT INTO {db}.target SELECT id, batch FROM ${{look__icdc_table}} WHERE id % 2 = 1 {slow};
    - job: {{id: commit, type: IpCommit, ip_commit: {{capture_step: look}}}}
  dag: sequential
"""
# Some seconds of work that change nothing: time in which a statement can be killed.
SLOW = "AND (SELECT count(*) FROM range(0, {rows}, 1, 2) WHERE sha2(string(id), 512) = '') = 0"


@dataclass
class Arena:
    """A source, a target and a workflow between them, on one state database."""

    project: Project
    spark: SparkSession
    db: str
    lake: Lake
    target_table: str = "target"
    appended: int = 0
    strangers: int = 0
    rounds: int = 0

    @classmethod
    def make(cls, config: Config, spark: SparkSession, url: str, *, slow_rows: int = 0) -> Arena:
        made = config.model_copy(
            update={"state": State(url=url), "engine": config.engine.model_copy(update=FAST | {"slots": 2})}
        )
        arena = cls(Project(made, Client(made)), spark, fresh_namespace(spark), Lake.open(made))
        for name in ("source", "target"):
            spark.sql(f"CREATE TABLE {arena.db}.{name} (id BIGINT, batch BIGINT)")
        arena.define(slow_rows)
        return arena

    def define(self, slow_rows: int) -> None:
        slow = SLOW.format(rows=slow_rows) if slow_rows else ""
        self.project.push(WORKFLOW.format(db=self.db, slow=slow))

    def append(self) -> None:
        batch = self.appended // ROWS
        values = ", ".join(f"({self.appended + n}, {batch})" for n in range(ROWS))
        self.spark.sql(f"INSERT INTO {self.db}.source VALUES {values}")
        self.appended += ROWS

    def start(self) -> str:
        self.rounds += 1
        return self.project.start("copy")

    def head(self) -> int | None:
        """What a reader of the target gets."""
        main = self.lake.table(f"{self.db}.{self.target_table}").metadata.refs.get("main")
        return main.snapshot_id if main is not None else None

    def target(self) -> list[tuple[int, int]]:
        rows = self.lake.tables.catalog.load_table(f"{self.db}.target").scan().to_arrow().to_pylist()
        return [(row["id"], row["batch"]) for row in rows]

    def ended(self, run_id: str) -> None:
        wait_until(lambda: self.project.show(run_id).ended, _SECONDS, f"{run_id} did not end")
        view = self.project.show(run_id)
        assert view.status == "SUCCEEDED", "\n".join(self._told(run_id, step) for step in view.steps)

    def _told(self, run_id: str, step: StepView) -> str:
        """Status, cause and the end of the newest log of a step."""
        runs = self.project.client.runs
        logs = [runs.log_tail(run_id, *attempt, lines=40) for attempt in runs.log_attempts(run_id, step.id)[-1:]]
        return "\n".join([f"{step.id}: {step.status} {step.cause}", *logs])

    def check(self) -> None:
        """Every row once, nothing else."""
        counts = Counter(one for one, batch in self.target() if batch >= 0)
        twice = sorted(one for one, count in counts.items() if count > 1)
        missing = sorted(set(range(self.appended)) - set(counts))
        assert not twice and not missing, f"twice: {twice}, missing: {missing}"
        others = sum(1 for _, batch in self.target() if batch < 0)
        assert others == self.strangers, "another writer's rows are all there, once"

    def close(self) -> None:
        self.project.client.close()

    # -- rounds ------------------------------------------------------------------------------------------------------------

    def killed_at(self, point: str, folder: Path) -> None:
        """The process that comes to a point is killed there; whoever is left finishes the run."""
        self.append()
        run = self.start()
        once = folder / f"once-{self.rounds}"
        victim = start_worker(self.project, f"{point}:1", once)
        try:
            wait_until(once.exists, _SECONDS, f"{point} was never passed")
            if point in STEP_POINTS:
                self.ended(run)
            else:
                victim.join(20)
                assert victim.exitcode == -signal.SIGKILL
        finally:
            end(victim)
        self._finish(run)

    def woken_at(self, point: str, folder: Path) -> None:
        """An old attempt is stopped at a point, another one publishes, and then the old one goes on."""
        self.append()
        run = self.start()
        victim = start_worker(self.project, "spark.session:1:STOP", folder / f"once-{self.rounds}")
        try:
            process = wait_until(self._stopped_step, _SECONDS, "no step process was stopped")
            ghost = self._ghost(process, point, folder)
            try:
                wait_until(lambda: _is_stopped(ghost.pid) or ghost.poll() is not None, _SECONDS)
                assert ghost.poll() is None, "the old attempt ended before it could be stopped"
                process.send_signal(signal.SIGCONT)
                self.ended(run)
                self.check()
                os.kill(ghost.pid, signal.SIGCONT)
                assert ghost.wait(_SECONDS) == 0, "it finds the batch published and ends well"
            finally:
                with suppress(ProcessLookupError):
                    ghost.kill()
                ghost.wait()
        finally:
            end(victim)
        self._finish(run)

    def killed_server_at(self, point: str, folder: Path) -> None:
        """While an attempt stands at a point its Spark server is killed: that says nothing against the step, which is repeated."""
        self.append()
        run = self.start()
        worker = start_worker(self.project, f"{point}:1:STOP", folder / f"once-{self.rounds}")
        try:
            process = wait_until(self._stopped_step, _SECONDS, "no step process was stopped")
            self._kill("server", 0, worker)
            process.send_signal(signal.SIGCONT)
            self.ended(run)
        finally:
            end(worker)
        self._finish(run)

    def disturbed(self, moment: float, victims: tuple[str, ...], stranger: Callable[[], None] | None) -> None:
        """Processes are killed some time after the step's process has come up; another writer may write meanwhile."""
        self.append()
        run = self.start()
        worker = start_worker(self.project)
        try:
            wait_until(lambda: step_processes(self.project) or self.project.show(run).ended, _SECONDS)
            time.sleep(moment)  # the moment is what is varied, not a wait
            if stranger is not None:
                stranger()
            for name in victims:
                self._kill(name, worker.pid or 0, worker)
        finally:
            if not worker.is_alive() or "worker" in victims:
                end(worker)
        if worker.is_alive():
            try:
                self.ended(run)
            finally:
                end(worker)
        self._finish(run)

    def stranger_appends(self) -> None:
        self._other(f"INSERT INTO {self.db}.target VALUES ({self.rounds}, -1)")
        self.strangers += 1

    def stranger_compacts(self) -> None:
        self._other(
            f"CALL lake.system.rewrite_data_files(table => '{self.db}.target', options => map('rewrite-all', 'true'))"
        )

    def _finish(self, run: str) -> None:
        if not self.project.show(run).ended:
            rescuer = start_worker(self.project)
            try:
                self.ended(run)
            finally:
                end(rescuer)
        self.check()

    def _other(self, statement: str) -> None:
        opened = connect(self.project.config)
        try:
            opened.sql(statement).collect()
        finally:
            opened.stop()

    def _stopped_step(self) -> psutil.Process | None:
        return next((one for one in step_processes(self.project) if _is_stopped(one.pid) and _order_of(one)), None)

    def _ghost(self, process: psutil.Process, point: str, folder: Path) -> subprocess.Popen[bytes]:
        """Another attempt at the same work, out of reach of the engine that started the first one."""
        own = folder / f"ghost-{self.rounds}"
        own.mkdir()
        given = _order_of(process)
        assert given is not None
        order = ProgramOrder.read(given)
        ghost = replace(order, session_id=str(uuid4()), branch=f"{order.branch}_ghost", folder=str(own))
        (own / "order.json").write_text(ghost.to_json())
        environment = {
            **process.environ(),
            "ICEFLOE_ATTEMPT": "ghost",
            "ICEFLOE_FAULT": f"{point}:1:STOP",
            "ICEFLOE_FAULT_ONCE": str(own / "once"),
            "ICEFLOE_RESULT": str(own / "published.json"),
        }
        command = [sys.executable, "-m", "icefloe.spark.program", str(own / "order.json")]
        return subprocess.Popen(command, env=environment, cwd=self.project.root, stdout=(own / "log").open("wb"))

    def _kill(self, name: str, worker_pid: int, worker: Any) -> None:
        with suppress(ProcessLookupError, psutil.NoSuchProcess):
            if name == "worker":
                os.kill(worker_pid, signal.SIGKILL)
            elif name == "server":
                record = server.folder_of(self.project.config).read()
                if record is not None:
                    record.process.signal(signal.SIGKILL)
            else:
                found = supervisors(worker) if name == "supervisor" else step_processes(self.project)
                for one in found:
                    one.kill()


class Reader:
    """Reads the target whenever it is another one. ``seen`` counts the reads, ``partial`` what no reader should ever see."""

    def __init__(self, arena: Arena) -> None:
        self._arena = arena
        self._over = threading.Event()
        self.seen = 0
        self.partial: list[str] = []

    def look(self) -> None:
        counts = Counter(batch for _, batch in self._arena.target() if batch >= 0)
        self.seen += 1
        self.partial += [f"{count} rows of batch {batch}" for batch, count in counts.items() if count != ROWS]

    def _run(self) -> None:
        before: int | None = -1
        while not self._over.is_set():
            head = self._arena.head()
            if head != before:
                self.look()
                before = head
            self._over.wait(0.02)

    @contextmanager
    def reading(self) -> Iterator[Reader]:
        thread = threading.Thread(target=self._run)
        thread.start()
        try:
            yield self
        finally:
            self._over.set()
            thread.join(60)
        assert self.seen > 0 and not self.partial, self.partial


def _is_stopped(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() == psutil.STATUS_STOPPED)
    except psutil.NoSuchProcess:
        return False


def _order_of(process: psutil.Process) -> Path | None:
    with suppress(psutil.NoSuchProcess):
        return next((Path(word) for word in process.cmdline() if word.endswith("order.json")), None)
    return None


def new_state(folder: Path) -> str:
    url = f"sqlite:///{folder}/state-{uuid4().hex[:8]}.db"
    migrate(url)
    return url


def migrate(url: str) -> None:
    database = Database(url)
    migrations.upgrade(database)
    database.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--random", type=int, default=40, help="rounds of random kills on each database")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("--only", choices=("points", "late", "random"), action="append")
    parser.add_argument("--database", choices=DATABASES, action="append")
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}", flush=True)
    from tests.postgres import running_postgres

    wanted = arguments.only or ["points", "late", "random"]
    tally: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as scratch, shared_project() as config, running_postgres() as postgres:
        folder = Path(scratch)
        for kind in arguments.database or DATABASES:
            url = new_state(folder) if kind == "sqlite" else postgres.new_database()
            if kind == "postgresql":
                migrate(url)
            spark = connect(config)
            arena = Arena.make(config, spark, url)
            with Reader(arena).reading() as reader:
                for point in (*STEP_POINTS, *WORKER_POINTS) if "points" in wanted else ():
                    _told(tally, f"{kind}: killed at {point}", partial(arena.killed_at, point, folder))
                for point in LATE_POINTS if "late" in wanted else ():
                    _told(tally, f"{kind}: woken at {point}", partial(arena.woken_at, point, folder))
                chance = random.Random(arguments.seed)
                arena.define(slow_rows=3_000_000)
                for _ in range(arguments.random if "random" in wanted else 0):
                    victims = tuple(chance.sample(VICTIMS, chance.choice((1, 1, 2, 3))))
                    moment = chance.uniform(0, 6)
                    other = chance.choice((None, arena.stranger_appends, arena.stranger_compacts))
                    words = f"{kind}: {'+'.join(victims)} after {moment:.2f} s, {other.__name__ if other else 'alone'}"
                    _told(tally, words, partial(arena.disturbed, moment, victims, other))
                    if "server" in victims:
                        with suppress(Exception):
                            spark.stop()
                        arena.spark = spark = connect(config)
            print(json.dumps({"database": kind, "rows": arena.appended, "reads": reader.seen}), flush=True)
            arena.close()
            with suppress(Exception):
                spark.stop()
    print(json.dumps({"rounds": sum(tally.values()), "kinds": len(tally), "duplicates": 0, "missing": 0}))
    return 0


def _told(tally: Counter[str], words: str, action: Callable[[], None]) -> None:
    began = time.monotonic()
    action()
    tally[words] += 1
    print(f"{words}: every row once ({time.monotonic() - began:.0f} s)", flush=True)


if __name__ == "__main__":
    sys.exit(main())
