"""A janitor killed or stopped at its named points: the next one finishes, nothing that is needed goes, and nothing is left half."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from icefloe import faults
from icefloe.service.janitor import Janitor
from icefloe.service.savings import savings
from icefloe.store import captures, janitor, tables
from icefloe.store import savings as ledger
from icefloe.store.captures import CaptureRecord
from icefloe.store.savings import SavingsRecord
from tests.chaos.test_fault_points import names_in_source
from tests.chaos.victims import _context, end
from tests.projects import Project, wait_until

# Of four trees of runs, each in four parts, then of captures, then of savings.
POINTS = {"janitor.in_transaction": (17, 18, 2, 1, 9, 16), "janitor.between": (4, 1, 2, 3, 5, 6)}
IN_SHORT_RUNS = 2
WORKFLOW = """
Workflow:
  id: w
  run_strategy: {rule: PARALLEL, concurrency: 100}
  jobs: [{job: {id: a, type: NoOp}}]
"""
DAY = 86_400.0


def _clean_up(config: Any, fault: str, once: str, now: float) -> None:
    from icefloe.service.state import open_database

    os.environ[faults.ONCE_VARIABLE] = once
    faults.arm(fault)
    Janitor(config, open_database(config)).prune(now)


@pytest.fixture
def processes() -> Iterator[list[BaseProcess]]:
    started: list[BaseProcess] = []
    yield started
    for process in started:
        if process.is_alive() and process.pid is not None:
            os.kill(process.pid, signal.SIGCONT)
        end(process)


def started(project: Project, fault: str, once: Path, now: float) -> BaseProcess:
    process = _context.Process(target=_clean_up, args=(project.config, fault, str(once), now), daemon=True)
    process.start()
    return process


def fill(project: Project) -> None:
    """24 runs of a workflow, a batch of each of them, one of which is open, and what each has saved."""
    keep = project.config.keep.model_copy(update={"occasions": None})
    project.config = project.config.model_copy(update={"keep": keep})
    project.push(WORKFLOW)
    now = time.time()
    with project.client.database.write() as connection:
        captures.ensure_consumer(connection, "w/look", "w", now)
    for number in range(24):
        run = project.client.runs.start("w", occasion=f"at {number}").run_id
        project.client.work(run)
        state = "committed" if number < 23 else "built"
        record = CaptureRecord(
            f"c{number}", "w/look", run, "look", f"claim{number}", state, number, [], state == "committed", 0.0, now + number,
            ended_at=now + number if state == "committed" else None,
        )  # fmt: skip
        line = SavingsRecord(
            run, "a", "db.t", "w", "a", "append", "full", 1, 10, 100, 2, 20, 200, 1, 10, 90, 0, 0.5, ("note",), now
        )
        with project.client.database.write() as connection:
            captures.add_capture(connection, record)
            captures.publish(
                connection, capture_id=record.id, step_path="a", iteration=None, target="db.t", snapshot_id=number, now=now
            )  # fmt: skip
            ledger.add(connection, line)


def keys(project: Project, table: sa.Table, column: str) -> list[Any]:
    with project.client.database.read() as connection:
        return sorted(connection.execute(sa.select(table.c[column])).scalars())


def check(project: Project) -> None:
    """As if nobody had been killed."""
    runs = [f"w-{number}" for number in range(5, 25)]
    assert keys(project, tables.runs, "id") == sorted(runs)
    for table in (tables.steps, tables.attempts):
        assert set(keys(project, table, "run_id")) == set(runs), table.name
    assert set(keys(project, tables.events, "run_id")) <= set(runs)
    ids = sorted(f"c{number}" for number in range(4, 24))
    assert keys(project, tables.captures, "id") == keys(project, tables.publications, "capture_id") == ids
    assert keys(project, tables.past_occasions, "occasion") == [f"at {number}" for number in range(4)]
    assert len(keys(project, tables.savings, "root_id")) == 20
    line = savings(project.client.database).total
    assert (line.runs, line.read.bytes, line.instead.bytes, line.seconds, line.timed) == (24, 2400, 4800, 12.0, 24)
    for number in range(24):
        again = project.client.runs.start("w", occasion=f"at {number}")
        assert (again.run_id, again.created) == (f"w-{number + 1}", False)


@pytest.mark.parametrize(
    ("point", "passing"),
    [
        pytest.param(point, passing, marks=() if index < IN_SHORT_RUNS else pytest.mark.long)
        for point, passings in POINTS.items()
        for index, passing in enumerate(passings)
    ],
)
def test_a_janitor_killed_at_a_point_is_followed_by_one_that_finishes(
    project: Project, tmp_path: Path, processes: list[BaseProcess], point: str, passing: int
) -> None:
    fill(project)
    now, once = time.time() + 500 * DAY, tmp_path / "killed"
    processes.append(started(project, f"{point}:{passing}", once, now))
    wait_until(once.exists, 60, f"{point} was never passed")
    processes[0].join(10)
    assert processes[0].exitcode == -signal.SIGKILL
    for run in project.client.runs.listing("w", most=100):  # what is left is whole, also in between
        view = project.show(run.run_id)
        assert [(step.id, step.status, len(step.history)) for step in view.steps] == [("a", "SUCCEEDED", 1)]
    Janitor(project.config, project.client.database, lease_seconds=0.2).prune(now)
    check(project)


def test_a_janitor_that_was_stopped_and_taken_for_dead_deletes_nothing_when_it_goes_on(
    project: Project, tmp_path: Path, processes: list[BaseProcess]
) -> None:
    fill(project)
    now, once = time.time() + 500 * DAY, tmp_path / "stopped"
    processes.append(started(project, "janitor.between:1:STOP", once, now))
    wait_until(once.exists, 60)
    second = Janitor(project.config, project.client.database, lease_seconds=0.2)
    second.prune(now)
    later = project.client.runs.start("w").run_id  # would make room for one more to go
    project.client.work(later)
    before = keys(project, tables.runs, "id")
    assert processes[0].pid is not None
    os.kill(processes[0].pid, signal.SIGCONT)
    processes[0].join(30)
    assert processes[0].exitcode == 1, "it has found out that another has taken over"
    assert keys(project, tables.runs, "id") == before
    with project.client.database.read() as connection:
        assert {entry.holder for entry in janitor.listing(connection)} == {second.id}


def test_every_fault_point_of_the_janitor_is_killed_at() -> None:
    assert {name for name in names_in_source() if name.startswith("janitor.")} == set(POINTS)
