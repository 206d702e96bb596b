"""The commands that people type to run workflows, as processes, on the embedded state."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.projects import wait_until

ICEFLOE = [sys.executable, "-m", "icefloe.cli.main"]
GOOD = """
Workflow:
  id: good
  WHO: world
  jobs:
    - job: {id: hello, type: Shell, shell: {script: "echo hello ${WHO}"}}
    - job: {id: end, type: NoOp}
  dag: sequential
"""
BAD = """
Workflow:
  id: bad
  jobs:
    - job: {id: fine, type: NoOp}
    - job: {id: broken, type: Shell, retry: {error: 0}, shell: {script: "echo going to fail; test -e fixed"}}
  dag: sequential
"""
SLOW = """
Workflow:
  id: slow
  jobs:
    - job: {id: long, type: Shell, shell: {script: "echo $$$$ > pid; sleep 60"}}
"""


class Shell:
    """A project's folder, and commands typed in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.env = {**os.environ, "COLUMNS": "160", "ICEFLOE_ENGINE__GRACE_SECONDS": "1"}

    def __call__(self, *words: str, expect: int = 0) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [*ICEFLOE, *words], cwd=self.folder, env=self.env, capture_output=True, text=True, check=False, timeout=120
        )
        assert done.returncode == expect, f"{words}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    def json(self, *words: str, expect: int = 0) -> Any:
        return json.loads(self(*words, "--output", "json", expect=expect).stdout)

    def push(self, text: str) -> None:
        file = self.folder / "workflow.yaml"
        file.write_text(textwrap.dedent(text))
        self("push", "workflow.yaml")

    def start(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*ICEFLOE, *words], cwd=self.folder, env=self.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    made = Shell(tmp_path)
    made("init")
    yield made
    left = [p for p in psutil.process_iter() if _in(p, tmp_path)]
    for process in left:
        process.kill()
    assert not left, f"left behind: {left}"


def _in(process: psutil.Process, folder: Path) -> bool:
    try:
        return process.cwd().startswith(str(folder)) and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def test_a_run_that_succeeds(shell: Shell) -> None:
    shell.push(GOOD)
    done = shell("run", "good", "WHO=you", "--wait")
    assert done.stdout.strip() == "good-1"
    assert "good-1 succeeded" in done.stderr
    view = shell.json("show", "good-1")
    assert view["status"] == "SUCCEEDED"
    assert [(s["id"], s["type"], s["status"], s["attempts"]) for s in view["steps"]] == [
        ("hello", "Shell", "SUCCEEDED", 1),
        ("end", "noop", "SUCCEEDED", 1),
    ]
    assert shell("logs", "good-1", "hello").stdout == "hello you\n"
    assert [run["run_id"] for run in shell.json("runs")] == ["good-1"]
    assert shell.json("workflows")[0]["last_status"] == "SUCCEEDED"
    assert "unchanged" in shell("push", "workflow.yaml").stdout


def test_a_run_that_fails_says_why_shows_the_log_and_the_next_command(shell: Shell) -> None:
    shell.push(BAD)
    done = shell("run", "bad", "--wait", expect=1)
    assert "exit code 1" in done.stderr
    assert "| going to fail" in done.stderr
    assert "icefloe restart bad-1" in done.stderr
    (shell.folder / "fixed").touch()
    shell("restart", "bad-1", "--wait")
    assert shell.json("show", "bad-1")["restarts"] == 1
    assert "only" not in shell("restart", "bad-1", expect=1).stdout


def test_without_a_worker_a_run_waits_and_says_so(shell: Shell) -> None:
    shell.push(GOOD)
    assert "no worker is alive" in shell("run", "good").stderr
    started = shell.json("run", "good")
    assert started["run_id"] == "good-2"
    assert not started["worker_alive"]


def test_a_run_names_a_page_only_where_something_serves_pages(shell: Shell) -> None:
    shell.push(GOOD)
    assert "http" not in shell("run", "good").stderr
    assert shell.json("run", "good")["url"] is None
    shell.env["ICEFLOE_SERVER_URL"] = "https://pages.example.org/"
    assert "https://pages.example.org/runs/good-3" in shell("run", "good").stderr
    assert shell.json("run", "good")["url"] == "https://pages.example.org/runs/good-4"


def test_an_interrupt_stops_a_run_that_is_executed_in_place(shell: Shell) -> None:
    shell.push(SLOW)
    process = shell.start("run", "slow", "--wait")
    wait_until(lambda: (shell.folder / "pid").exists() and (shell.folder / "pid").read_text().strip(), 60)
    child = int((shell.folder / "pid").read_text())
    process.send_signal(signal.SIGINT)
    _, words = process.communicate(timeout=60)
    assert process.returncode == 4, words
    assert not psutil.pid_exists(child)
    assert shell.json("show", "slow-1")["status"] == "STOPPED"


def test_with_a_worker_alive_waiting_only_watches_and_an_interrupt_detaches(shell: Shell) -> None:
    shell.push(SLOW)
    worker = shell.start("worker")
    try:
        wait_until(lambda: shell.json("workers"), 60)
        watcher = shell.start("run", "slow", "--wait")
        wait_until((shell.folder / "pid").exists, 60)
        watcher.send_signal(signal.SIGINT)
        _, words = watcher.communicate(timeout=60)
        assert "the run goes on" in words
        assert shell.json("show", "slow-1")["status"] == "IN_PROGRESS"
        shell("kill", "slow-1")
        assert shell.json("show", "slow-1")["status"] == "FAILED"
    finally:
        worker.terminate()
        worker.communicate(timeout=60)
    assert worker.returncode == 0
    assert shell.json("workers") == []


def test_wrong_asks_end_with_their_code_and_a_hint(shell: Shell) -> None:
    assert "icefloe workflows" in shell("run", "nowhere", expect=2).stderr
    assert "icefloe runs" in shell("show", "nowhere-1", expect=2).stderr
    shell.push(GOOD)
    assert "name=value" in shell("run", "good", "nonsense", expect=2).stderr
    assert "pushed" not in shell("push", "missing.yaml", expect=2).stderr
    (shell.folder / "unknown.yaml").write_text("Workflow:\n  id: x\n  jobs:\n    - job: {id: a, type: Nonsense}\n")
    assert "unknown.yaml:4" in shell("push", "unknown.yaml", expect=2).stderr
    (shell.folder / "gone.yaml").write_text(
        "Workflow:\n  id: x\n  jobs:\n    - job: {id: a, type: Shell, shell: {script: gone.sh}}\n"
    )
    assert "gone.sh" in shell("push", "gone.yaml", expect=2).stderr
