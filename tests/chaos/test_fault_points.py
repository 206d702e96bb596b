"""Every named point of the code path: killed there, the run still ends as it should."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import pytest

import icefloe
from tests.chaos import pipeline
from tests.chaos.victims import end, start_worker, step_processes, worker_process
from tests.projects import Project, wait_until

# Point -> at which of its passings the process is killed; all but the first of them only in the long runs.
SCHEDULE = {
    "conductor.before_commit": (2, 9),
    "conductor.after_commit": (1, 7, 16),
    "conductor.before_admission": (1,),
    "worker.claimed": (1, 3),
    "worker.launched": (1, 4),
    "worker.started": (2,),
    "worker.process_ended": (1, 3),
    "worker.before_result": (1, 4),
    "worker.after_result": (1, 4),
    "supervisor.before_command": (1,),
    "supervisor.command_started": (1,),
    "supervisor.before_result": (1,),
    "supervisor.after_result": (1,),
}
# These are passed only by a worker that takes over from another.
AFTER_A_DEATH = {"takeover.before_result": "worker.process_ended", "takeover.before_release": "worker.claimed"}


def names_in_source() -> set[str]:
    source = Path(icefloe.__file__).parent
    return {name for file in source.rglob("*.py") for name in re.findall(r'\bfault\("([\w.]+)"\)', file.read_text())}


def test_every_fault_point_has_a_schedule() -> None:
    engine_points = {
        name for name in names_in_source() if name.split(".")[0] in ("conductor", "worker", "supervisor", "takeover")
    }
    assert engine_points == set(SCHEDULE) | set(AFTER_A_DEATH)


def test_every_family_of_fault_points_has_a_test_that_knows_its_names() -> None:
    """The points of a package that is new here would otherwise be in nobody's schedule."""
    elsewhere = {"spark", "capture", "commit", "search", "scheduler", "janitor"}
    engine = {name.split(".")[0] for name in (*SCHEDULE, *AFTER_A_DEATH)}
    assert {name.split(".")[0] for name in names_in_source()} == engine | elsewhere


@pytest.mark.parametrize(
    ("point", "passing"),
    [
        pytest.param(point, passing, marks=() if passing == passings[0] else pytest.mark.long)
        for point, passings in SCHEDULE.items()
        for passing in passings
    ],
)
def test_a_kill_at_a_point_changes_nothing_in_the_end(
    project: Project, tmp_path: Path, point: str, passing: int
) -> None:
    run = project.start(pipeline.push(project))
    once = tmp_path / "killed"
    victim = start_worker(project, f"{point}:{passing}", once)
    wait_until(once.exists, 90, f"{point} was never passed")
    if not point.startswith("supervisor."):
        victim.join(10)
        assert victim.exitcode == -signal.SIGKILL
    with worker_process(project):
        wait_until(lambda: project.show(run).ended, 120)
        wait_until(lambda: not step_processes(project), 10)
    end(victim)
    pipeline.check(project, run)


@pytest.mark.parametrize("point", AFTER_A_DEATH)
def test_a_worker_that_takes_over_may_be_killed_too(project: Project, tmp_path: Path, point: str) -> None:
    run = project.start(pipeline.push(project))
    first = start_worker(project, f"{AFTER_A_DEATH[point]}:1", tmp_path / "first")
    wait_until((tmp_path / "first").exists, 90)
    first.join(10)
    second = start_worker(project, f"{point}:1", tmp_path / "second")
    wait_until((tmp_path / "second").exists, 90, f"{point} was never passed")
    second.join(10)
    assert second.exitcode == -signal.SIGKILL
    with worker_process(project):
        wait_until(lambda: project.show(run).ended, 120)
    pipeline.check(project, run)
