"""The state file on a full disk, or one that may not be written: said clearly, and nothing is lost."""

from __future__ import annotations

import json
import multiprocessing
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from icefloe.errors import IcefloeError
from icefloe.service import project as projects
from icefloe.service.client import Client
from tests.projects import Project, make_project

STEPS = 150
NOBODY = 65534
CHAIN = "Workflow:\n  id: chain\n  dag: sequential\n  jobs:\n" + "".join(
    f"    - job: {{id: s{number}, type: NoOp}}\n" for number in range(STEPS)
)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    made = make_project(tmp_path / "project")
    projects.init(made.root)
    return made


def icefloe(project: Project, *words: str, file_kilobytes: int | None = None) -> subprocess.CompletedProcess[str]:
    """The command, with a limit on the size of every file it writes: beyond it, writing fails as on a full disk."""
    command = [sys.executable, "-m", "icefloe.cli.main", *words]
    if file_kilobytes is not None:
        command = ["bash", "-c", f'ulimit -f {file_kilobytes}; exec "$@"', "limited", *command]
    return subprocess.run(command, cwd=project.root, capture_output=True, text=True, timeout=120, check=False)


def test_a_disk_that_fills_up_in_the_middle_of_a_run_loses_nothing_of_it(project: Project) -> None:
    project.push(CHAIN)
    file = project.client.database.file
    assert file is not None
    written = sum(one.stat().st_size for one in file.parent.glob("state.db*"))
    limit = written // 1024 + 300

    failed = icefloe(project, "run", "chain", "--wait", file_kilobytes=limit)
    assert failed.returncode not in (0, 4), failed.stdout
    assert "cannot write" in failed.stderr
    assert "free some disk space" in failed.stderr
    assert "Traceback" not in failed.stderr

    (run,) = project.client.runs.listing()
    before = {step.id for step in project.show(run.run_id).steps if step.status == "SUCCEEDED"}
    assert 0 < len(before) < STEPS, "the disk was to fill up in the middle"
    after = project.client.work(run.run_id)
    assert after.status == "SUCCEEDED"
    assert all(step.attempts == 1 for step in after.steps if step.id in before), "what was recorded was not done again"


@pytest.fixture
def open_to_all() -> Iterator[Project]:
    """Where others may look: pytest's own folders are closed to everybody else."""
    with TemporaryDirectory(prefix="icefloe-test-") as folder:
        Path(folder).chmod(0o755)
        made = make_project(Path(folder) / "project")
        projects.init(made.root)
        yield made


def test_a_state_file_that_may_not_be_written_is_told_with_what_to_do(open_to_all: Project) -> None:
    project = open_to_all
    workflow = project.push(CHAIN)
    done = project.execute(workflow)
    project.client.close()
    home = project.root / ".icefloe"
    deadline = time.monotonic() + 30
    while list(
        home.glob("state.db-*")
    ):  # the run's own processes are at their end, and have it open until they are gone
        assert time.monotonic() < deadline
        time.sleep(0.02)
    for path in (project.root, home):
        path.chmod(0o555)
    for file in home.glob("state.db*"):
        file.chmod(0o444)

    for act in (
        lambda client: client.runs.show(done.run_id).status,  # SQLite's WAL needs a writable folder for reading too
        lambda client: client.runs.start(workflow, {}).run_id,
    ):
        told = _as_somebody_else(project, act)
        assert told["code"] == "state.unusable"
        assert "read-only" in told["message"]
        assert "write access" in told["hint"]
    home.chmod(0o700)
    hidden = _as_somebody_else(project, lambda client: client.runs.show(done.run_id).status)
    assert hidden["code"] == "state.unusable"
    assert "may not" in hidden["message"]
    assert [one.run_id for one in Client(project.config).runs.listing()] == [done.run_id]


def _as_somebody_else(project: Project, act: Callable[[Client], Any]) -> dict[str, Any]:
    """In a process without root's power to write everything."""
    ours, theirs = multiprocessing.Pipe()

    def child() -> None:
        if os.geteuid() == 0:
            os.setgroups([])
            os.setegid(NOBODY)
            os.seteuid(NOBODY)
        try:
            client = Client(project.config)
            theirs.send(json.dumps({"answer": act(client)}))
        except IcefloeError as error:
            theirs.send(json.dumps(error.to_dict()))

    process = multiprocessing.get_context("fork").Process(target=child)
    process.start()
    try:
        assert ours.poll(30), "no answer"
        found: dict[str, Any] = json.loads(ours.recv())
    finally:
        process.join(30)
    return found
