"""A worker that was paused beyond its lease, wall clocks that jump, and workers that are told to end."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from icefloe.engine.conductor import Conductor
from tests.chaos.victims import start_worker, step_processes, worker_process
from tests.projects import Project, wait_until

SLOW = """
Workflow:
  id: slow
  jobs:
    - job:
        id: work
        type: Shell
        shell: {script: "echo $$$$ >> pids; test $(wc -l < pids) -ge 2 || sleep 60; echo n=$ICEFLOE_STEP_ATTEMPT > $ICEFLOE_OUTPUT"}
    - job: {id: after, type: Shell, shell: {script: "echo x >> after"}}
  dag: sequential
"""


def _process_of_the_step(project: Project, run: str) -> int:
    """Once it runs: the state says so some time before or after the script has written its line."""
    pids = project.root / "pids"
    wait_until(lambda: project.statuses(run)["work"] == "RUNNING", 60)
    return int(wait_until(lambda: pids.exists() and (line := pids.read_text()).endswith("\n") and line, 60))


def test_a_worker_paused_beyond_its_lease_changes_nothing_when_it_goes_on(project: Project) -> None:
    run = project.start(project.push(SLOW))
    late = start_worker(project)
    try:
        first = _process_of_the_step(project, run)
        with project.client.database.write():  # on SQLite nobody could go on while a paused process is writing
            os.kill(late.pid or 0, signal.SIGSTOP)
        with worker_process(project):
            # Not 30: so long PostgreSQL leaves a transaction alone that was paused in its middle.
            wait_until(lambda: project.show(run).ended, 60)
            before = project.show(run)
            assert before.status == "SUCCEEDED"
            assert not Path(f"/proc/{first}").exists(), "the paused worker's step outlived its lease"
            os.kill(late.pid or 0, signal.SIGCONT)
            late.join(20)
            assert not late.is_alive(), "a worker that lost its lease must end"
            assert project.show(run) == before
    finally:
        os.kill(late.pid or 0, signal.SIGCONT) if late.is_alive() else None
        late.kill()
        late.join(10)
    work = before.steps[0]
    assert (work.attempts, work.outputs) == (2, {"n": "2"})
    assert [attempt.status for attempt in work.history] == ["PLATFORM_FAILED", "SUCCEEDED"]
    assert (project.root / "after").read_text() == "x\n"


def test_the_step_of_a_killed_worker_is_ended_before_it_is_done_again(project: Project) -> None:
    run = project.start(project.push(SLOW))
    victim = start_worker(project)
    first = _process_of_the_step(project, run)
    victim.kill()
    victim.join()
    began = time.monotonic()
    with worker_process(project):
        wait_until(lambda: project.statuses(run)["work"] == "SUCCEEDED", 30)
    assert not Path(f"/proc/{first}").exists()
    # The released file lock proves the death: nobody waits for the lease, only for the step's polite end.
    assert time.monotonic() - began < project.config.engine.lease_seconds + 20
    assert not step_processes(project)


def test_jumping_wall_clocks_neither_lose_nor_double_a_run(project: Project) -> None:
    """Two workers whose clocks are a year apart, and jump; retries have delays, which are not counted by wall clocks."""
    text = """
    Workflow:
      id: jumpy
      jobs:
        - job:
            id: flaky
            type: Shell
            retry: {error: 4, backoff: {initial: 0.2, factor: 1}}
            shell: {script: "echo x >> tries; test $(wc -l < tries) -ge 4"}
        - job: {id: end, type: Shell, shell: {script: "echo x >> ends"}}
      dag: sequential
    """
    workflow = project.push(text)
    year, calls = 365 * 24 * 3600.0, [0]

    def jumping() -> float:
        calls[0] += 1
        return time.time() + (year if calls[0] % 2 else -year)

    def ahead() -> float:
        return time.time() + year

    database = project.client.database
    run = project.start(workflow)
    with (
        project.worker(conductor=Conductor(database, clock=jumping)),
        project.worker(conductor=Conductor(database, clock=ahead)),
    ):
        wait_until(lambda: project.show(run).ended, 30)
    assert project.show(run).status == "SUCCEEDED"
    assert (project.root / "tries").read_text() == "x\n" * 4
    assert (project.root / "ends").read_text() == "x\n"


def test_a_worker_told_to_end_hands_its_steps_over_and_starts_no_more(project: Project) -> None:
    quick = project.config.engine.model_copy(update={"drain_seconds": 0.3})
    hasty = Project(project.config.model_copy(update={"engine": quick}), project.client)
    run = project.start(project.push(SLOW))
    with worker_process(hasty) as first:
        _process_of_the_step(project, run)
        first.terminate()
        first.join(15)
        assert first.exitcode == 0
    assert project.statuses(run)["work"] == "INITIALIZED"
    assert not step_processes(project)
    assert not project.client.workers()
    with worker_process(project):
        wait_until(lambda: project.show(run).status == "SUCCEEDED", 30)
    assert [attempt.status for attempt in project.show(run).steps[0].history] == ["STOPPED", "SUCCEEDED"]
