"""What a system lacks is said in one line. Each is simulated in a process of its own, without what that system does not have."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SIMULATED = """
import sys
platform, *sys.argv = sys.argv[1:]
if platform == "win32":
    class Absent:
        def find_spec(self, name, path=None, target=None):
            if name in ("fcntl", "pwd", "grp", "resource"):
                raise ModuleNotFoundError(f"No module named {name!r}")
    for name in ("fcntl", "pwd", "grp", "resource"):
        sys.modules.pop(name, None)
    sys.meta_path.insert(0, Absent())
import sysconfig, urllib.request, sqlalchemy, typer, rich.console, pydantic  # not what is tried here: they look at the platform themselves
sysconfig.get_config_vars()
sys.platform = platform
"""
COMMAND = SIMULATED + "from icefloe.cli.main import main; main()"


def simulate(program: str, platform: str, *words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program, platform, "icefloe", *words],
        cwd=folder,
        env={**os.environ, "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("words", [(), ("--version",), ("--help",), ("run", "x"), ("validate", "x.yaml"), ("demo",)])
def test_on_windows_every_command_says_in_one_line_to_use_wsl(words: tuple[str, ...], tmp_path: Path) -> None:
    done = simulate(COMMAND, "win32", *words, folder=tmp_path)
    assert done.returncode == 3
    assert done.stdout == ""
    error, hint = done.stderr.splitlines()
    assert "[platform.unsupported] Icefloe runs on Linux, not on Windows" in error
    assert "WSL2" in hint


def test_on_windows_the_python_client_says_the_same(tmp_path: Path) -> None:
    done = simulate(SIMULATED + "import icefloe; icefloe.Client", "win32", folder=tmp_path)
    assert "UnsupportedPlatformError: Icefloe runs on Linux, not on Windows" in done.stderr.splitlines()[-1]


@pytest.mark.parametrize("verb", ["demo", "serve", "worker"])
def test_on_macos_what_executes_steps_is_refused_in_one_line(verb: str, tmp_path: Path) -> None:
    done = simulate(COMMAND, "darwin", verb, folder=tmp_path)
    assert done.returncode == 3
    error, hint = done.stderr.splitlines()
    assert "steps are executed on Linux only, and this is macOS" in error
    assert "icefloe worker on Linux" in hint


def test_on_macos_a_project_is_made_and_used_and_a_run_executed_here_is_refused(tmp_path: Path) -> None:
    (tmp_path / "flow.yaml").write_text("Workflow: {id: nightly, jobs: [{job: {id: one, type: NoOp}}]}\n")
    made = simulate(COMMAND, "darwin", "init", folder=tmp_path)
    assert made.returncode == 0
    assert "on macOS steps cannot be executed (demo, serve, worker, run --wait)" in made.stderr
    for words in (("validate", "flow.yaml"), ("push", "flow.yaml"), ("run", "nightly"), ("show", "nightly-1")):
        done = simulate(COMMAND, "darwin", *words, folder=tmp_path)
        assert done.returncode == 0, done.stderr
    done = simulate(COMMAND, "darwin", "run", "nightly", "--wait", folder=tmp_path)
    assert done.returncode == 3
    assert "steps are executed on Linux only" in done.stderr
    assert "Traceback" not in done.stderr


def test_on_linux_nothing_is_said(tmp_path: Path) -> None:
    assert simulate(COMMAND, "linux", "init", folder=tmp_path).stderr == ""
