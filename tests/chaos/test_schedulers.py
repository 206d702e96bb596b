"""Two schedulers, killed or paused at any moment: every fire starts one run, and every change is taken once."""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Iterator
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest

from icefloe import faults
from icefloe.service.scheduling import make_scheduler
from icefloe.triggers.clocks import Clock
from tests.chaos.victims import _context
from tests.projects import Project, wait_until

POINTS = ("scheduler.before_claim", "scheduler.before_start", "scheduler.after_start")

EVERY = """
Trigger: {every: 1s, catch_up: all, start: '%s'}
Workflow:
  id: ticking
  run_strategy: {rule: PARALLEL, concurrency: 1000}
  jobs: [{job: {id: one, type: NoOp}}]
"""


def _schedule(config: Any, fault: str, once: str, ahead: float) -> None:
    from icefloe.service.client import Client

    os.environ[faults.ONCE_VARIABLE] = once
    faults.arm(fault)
    client = Client(config)
    # Each host's clock is wrong in its own way.
    clock = Clock(lambda: time.time() + ahead)
    scheduler = make_scheduler(config, client.database, client.runs, clock=clock)
    signal.signal(signal.SIGTERM, lambda *_: scheduler.stop())
    scheduler.run()


def start(project: Project, fault: str = "", once: Path | None = None, ahead: float = 0.0) -> BaseProcess:
    process = _context.Process(target=_schedule, args=(project.config, fault, str(once or ""), ahead), daemon=True)
    process.start()
    return process


def end(process: BaseProcess) -> None:
    if process.is_alive():
        assert process.pid is not None
        os.kill(process.pid, signal.SIGCONT)
        process.terminate()
        process.join(15)
    if process.is_alive():
        process.kill()
        process.join(15)


@pytest.fixture
def processes() -> Iterator[list[BaseProcess]]:
    started: list[BaseProcess] = []
    yield started
    for process in started:
        end(process)


def fires(project: Project) -> list[str]:
    return [str(run.initiator["reason"]) for run in project.client.runs.listing("ticking", most=10_000)]


def check(project: Project) -> None:
    """Every second from the first to the last, each once."""
    counted = Counter(run.params["RUN_TS"] for run in project.client.runs.listing("ticking", most=10_000))
    assert set(counted.values()) == {1}, counted
    moments = sorted(counted)
    assert moments == list(range(moments[0], moments[-1] + 1000, 1000))


@pytest.mark.parametrize("point", POINTS)
def test_a_scheduler_killed_at_a_point_loses_and_doubles_no_fire(
    project: Project, tmp_path: Path, point: str, processes: list[BaseProcess]
) -> None:
    project.push(EVERY % "2026-01-01T00:00:00Z")
    once = tmp_path / "killed"
    processes.append(start(project, f"{point}:3", once))
    wait_until(once.exists, 60, f"{point} was never passed")
    processes[0].join(10)
    assert processes[0].exitcode == -signal.SIGKILL
    processes.append(start(project))
    seen = len(fires(project))
    wait_until(lambda: len(fires(project)) >= seen + 3, 60)
    end(processes[1])
    check(project)


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.long), pytest.param(3, marks=pytest.mark.long)])
def test_two_schedulers_killed_and_paused_at_random_start_every_fire_once(
    project: Project, seed: int, processes: list[BaseProcess]
) -> None:
    chance = random.Random(seed)
    project.push(EVERY % "2026-01-01T00:00:00Z")
    living: list[BaseProcess] = []
    until = time.monotonic() + 10
    while time.monotonic() < until:
        while len(living) < 2:
            living.append(start(project, ahead=chance.choice((0.0, -0.7, 0.4))))
            processes.append(living[-1])
        victim = chance.choice(living)
        assert victim.pid is not None
        time.sleep(chance.random() * 0.8)  # the moment of the blow, not a wait for anything
        if chance.random() < 0.5:
            os.kill(victim.pid, signal.SIGKILL)
            victim.join(10)
            living.remove(victim)
        else:
            os.kill(victim.pid, signal.SIGSTOP)
            time.sleep(chance.random() * 0.8)
            os.kill(victim.pid, signal.SIGCONT)
    count = len(fires(project))
    wait_until(lambda: len(fires(project)) > count, 60)
    for process in living:
        end(process)
    check(project)


def test_every_fault_point_of_the_scheduler_is_killed_at() -> None:
    from tests.chaos.test_fault_points import names_in_source

    assert {name for name in names_in_source() if name.startswith("scheduler.")} == set(POINTS)
