"""A worker's log as JSON: each line says what it is about, and no line has a secret. A real process, on both databases."""

from __future__ import annotations

import json
import logging
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from icefloe import config as configuration
from icefloe.log_lines import JsonFormatter, about
from tests.projects import make_project, wait_until

FAILING = """
Workflow: {id: failing, jobs: [{job: {id: one, type: Shell, shell: {script: exit 3}, retry: {error: 0}}}]}
"""


def test_a_failed_step_is_a_line_with_its_run_step_attempt_worker_and_workflow(state_url: str, tmp_path: Path) -> None:
    root = tmp_path / "project"
    project = make_project(root, state_url)
    (root / configuration.FILE_NAME).write_text(
        f'[state]\nurl = "{state_url}"\n[logs]\nformat = "json"\n[alerts.channels]\nops = "json://me:s3cret-channel@localhost/x"\n'
    )
    project.push(FAILING)
    run = project.start("failing")
    log = tmp_path / "worker.log"
    program = [sys.executable, "-c", "from icefloe.cli.main import main; main()", "worker"]
    with log.open("wb") as stream:
        worker = subprocess.Popen(program, cwd=root, stderr=stream)
        try:
            wait_until(lambda: project.show(run).status == "FAILED", 60, "the run's end")
        finally:
            worker.send_signal(signal.SIGTERM)
            worker.wait(30)
    lines = [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{")]
    (told,) = [line for line in lines if line.get("run_id") == run]
    assert told["step_id"] == "one" and told["attempt"] == 1 and told["workflow"] == "failing"
    assert told["worker"] and told["level"] == "info" and told["at"].endswith("Z")
    assert "exit code 3" in told["message"]
    project.client.close()


def formatted(message: str, **record: Any) -> dict[str, Any]:
    made = logging.LogRecord("icefloe.x", logging.WARNING, "f.py", 1, message, (), None)
    made.__dict__.update(record)
    found = json.loads(JsonFormatter().format(made))
    assert isinstance(found, dict)
    return found


def test_lines_inside_have_what_they_are_about_and_lines_after_have_not() -> None:
    with about(run_id="a-1", step_id="one"), about(attempt=2):
        inside = formatted("x", workflow="a")
    assert (inside["run_id"], inside["step_id"], inside["attempt"], inside["workflow"]) == ("a-1", "one", 2, "a")
    assert "run_id" not in formatted("x")


def test_a_line_is_one_line_whatever_is_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_PASSWORD", "s3cret-of-the-state")
    (tmp_path / configuration.FILE_NAME).write_text('[state]\nurl = "postgresql://me:$ENV{SOME_PASSWORD}@host/db"\n')
    configuration.load(tmp_path)
    try:
        raise ValueError("first\nsecond s3cret-of-the-state")
    except ValueError:
        trace = sys.exc_info()
    line = JsonFormatter().format(
        logging.LogRecord("icefloe.x", logging.ERROR, "f.py", 1, "a\nb\u2028 \x1b[31m s3cret-of-the-state", (), trace)
    )
    assert "\n" not in line and "s3cret" not in line
    assert json.loads(line)["trace"].startswith("Traceback")
