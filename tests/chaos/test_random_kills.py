"""Anything may be killed at any moment, again and again: every run ends as it would have.

``CHAOS_KILLS=1000 CHAOS_SEED=7 pytest tests/chaos/test_random_kills.py`` repeats a longer or a failed history.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from icefloe.errors import UnreachableError
from icefloe.store import migrations
from icefloe.store.database import Database
from tests.chaos import pipeline
from tests.chaos.victims import end, start_worker, step_processes, supervisors
from tests.postgres import Postgres
from tests.projects import Project, make_project, wait_until

KILLS = int(os.environ.get("CHAOS_KILLS", "20"))
SEED = int(os.environ.get("CHAOS_SEED", "20260101"))
RUNS_AT_ONCE = 3


def kill(pid: int) -> bool:
    try:
        os.kill(pid, signal.SIGKILL)
        return True
    except ProcessLookupError:
        return False


def torment(project: Project, kills: int, seed: int, between: Callable[[int], None] = lambda n: None) -> Counter[str]:
    """Keep two workers and some runs going while something is killed every now and then. Returns what was killed."""
    chance = random.Random(seed)
    workflow = pipeline.push(project)
    runs = [project.start(workflow) for _ in range(RUNS_AT_ONCE)]
    going = list(runs)
    workers = [start_worker(project) for _ in range(2)]
    killed: Counter[str] = Counter()
    try:
        while sum(killed.values()) < kills:
            time.sleep(chance.uniform(0.05, 0.5))  # the moment of a kill is the experiment, not a wait
            workers = [w if w.is_alive() else start_worker(project) for w in workers]
            going = [run for run in going if not _ended(project, run)]
            while len(going) < RUNS_AT_ONCE:
                going.append(project.start(workflow))
                runs.append(going[-1])
            target = chance.choice(["worker", "supervisor", "step"])
            pids: list[int] = []
            if target == "worker":
                pids = [w.pid for w in workers if w.pid is not None]
            elif target == "supervisor":
                pids = [p.pid for w in workers for p in supervisors(w)]
            else:
                pids = [p.pid for p in step_processes(project)]
            if pids and kill(chance.choice(pids)):
                killed[target] += 1
                between(sum(killed.values()))
        workers = [w if w.is_alive() else start_worker(project) for w in workers]
        wait_until(lambda: all(_ended(project, run) for run in going), 120, "runs that did not end")
        wait_until(lambda: not step_processes(project), 15, "orphan processes")
    finally:
        for worker in workers:
            end(worker)
    for run in runs:
        pipeline.check(project, run)
    return killed


def _ended(project: Project, run: str) -> bool:
    return project.client.runs.status(run) in ("SUCCEEDED", "FAILED", "STOPPED", "TIMED_OUT")


def test_random_kills_change_no_result(project: Project) -> None:
    print(f"replay with: CHAOS_KILLS={KILLS} CHAOS_SEED={SEED} pytest {__file__}")
    killed = torment(project, KILLS, SEED)
    assert sum(killed.values()) >= KILLS


@pytest.mark.long
def test_a_thousand_random_kills_change_no_result(project: Project) -> None:
    """The whole figure is 1,000 over both databases, with a new history each time; the seed is printed."""
    seed = int(os.environ.get("CHAOS_SEED", time.time_ns() % 1_000_000))
    print(f"replay with: CHAOS_SEED={seed} pytest -m long {__file__}")
    killed = torment(project, 500, seed)
    print(f"survived {sum(killed.values())} kills: {dict(killed)}")


def test_postgresql_going_away_in_between_changes_no_result(postgres: Postgres, tmp_path: Path) -> None:
    url = postgres.new_database()
    database = Database(url)
    migrations.upgrade(database)
    database.close()
    project = make_project(tmp_path / "project", url)

    def restart(number: int) -> None:
        if number % 4 == 0:
            postgres.stop(crash=number % 8 == 0)
            postgres.start()

    torment(_Patient(project), 8, SEED, restart)
    project.client.close()
    postgres.drop(url)


class _Patient(Project):
    """The test's own questions wait for the database as the workers do."""

    def __init__(self, project: Project) -> None:
        super().__init__(project.config, project.client)
        for name in ("start", "show"):
            setattr(self, name, _patiently(getattr(self, name)))
        self.client.runs.status = _patiently(self.client.runs.status)  # type: ignore[method-assign]


def _patiently(function: Callable[..., object]) -> Callable[..., object]:
    def call(*args: object, **kwargs: object) -> object:
        deadline = time.monotonic() + 30
        while True:
            try:
                return function(*args, **kwargs)
            except UnreachableError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)

    return call
