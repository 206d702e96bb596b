"""Commands in forks of a launcher that has imported them: nobody can tell them from executed ones."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from icefloe.engine import processes
from icefloe.engine.processes import AttemptLink, Launcher, SupervisedJob
from icefloe.steps.contract import ProcessResult
from tests.projects import wait_until
from tests.unit.test_supervisor import log, result

MODULE = "tests.warm_commands"
ATTEMPT = "warm/step/1/1"
NEEDLE = f"ICEFLOE_ATTEMPT={ATTEMPT}".encode()
ENV = {**os.environ, "ICEFLOE_ATTEMPT": ATTEMPT, "PYTHONPATH": os.pathsep.join(sys.path)}

Start = Callable[..., AttemptLink]


@pytest.fixture(scope="module", params=["forked", "import failed", "executed"])
def launcher(request: pytest.FixtureRequest) -> Iterator[Launcher]:
    imports = {"forked": (MODULE,), "import failed": (MODULE, "no_such_module"), "executed": ()}
    made = Launcher(imports[request.param])
    yield made
    made.close()


@pytest.fixture
def start(launcher: Launcher, tmp_path: Path) -> Iterator[Start]:
    links: list[AttemptLink] = []

    def launch(*words: str, **options: Any) -> AttemptLink:
        settings: dict[str, Any] = {
            "argv": (sys.executable, "-m", MODULE, *words),
            "env": ENV,
            "cwd": str(tmp_path),
            "folder": str(tmp_path),
            "lease_until": time.monotonic() + 300,
            "timeout": None,
            "grace": 0.5,
            "log_head": 2**17,
            "log_tail": 2**17,
            "secrets": ("hush",),
            "module": MODULE,
        }
        links.append(launcher.launch(SupervisedJob(**{**settings, **options})))
        return links[-1]

    yield launch
    for link in links:
        link.close()
    wait_until(lambda: not processes._carrying(NEEDLE))


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("return", "7"), 7, b""),
        (("nothing",), 0, b""),
        (("exit", "3"), 3, b""),
        (("exit-text",), 1, b"said at the end"),
        (("raise",), 1, b"ValueError: a bug of the user's"),
        (("thread",), 0, b"from a thread"),
    ],
)
def test_it_ends_as_a_program_of_its_own_would(
    start: Start, tmp_path: Path, words: tuple[str, ...], code: int, said: bytes
) -> None:
    assert result(start(*words)) == ProcessResult(code)
    assert said in log(tmp_path)


def test_it_has_its_own_arguments_folder_and_environment_and_nothing_of_others(start: Start, tmp_path: Path) -> None:
    found = []
    for word in ("first", "hush"):
        for old in tmp_path.glob("log.*"):
            old.unlink()
        assert result(start("tell", word, env={**ENV, "OWN": word})).exit_code == 0
        found.append(json.loads(log(tmp_path)))
    first, second = found
    assert first["argv"][1:] == ["tell", "first"] and second["argv"][1:] == ["tell", "***"], "secrets are masked"
    assert first["cwd"] == second["cwd"] == str(tmp_path)
    assert (first["env"]["OWN"], second["env"]["OWN"]) == ("first", "***")
    assert second["left"] == ["something"] and "ICEFLOE_ROOM" not in second["env"]
    assert first["random"] != second["random"], "forks do not share their luck"
    assert first["stdin"] == ""


def staying(start: Start, tmp_path: Path) -> psutil.Process:
    start("stay", "order.json")
    wait_until((tmp_path / "staying").exists)
    (pid,) = processes._carrying(NEEDLE)
    return psutil.Process(pid)


def test_it_is_shown_as_what_it_is(start: Start, tmp_path: Path) -> None:
    process = staying(start, tmp_path)
    assert [word for word in process.cmdline() if word][-4:] == ["-m", MODULE, "stay", "order.json"]
    assert process.environ()["ICEFLOE_ATTEMPT"] == ATTEMPT


def test_it_goes_when_its_supervisor_is_killed(start: Start, tmp_path: Path) -> None:
    process = staying(start, tmp_path)
    os.kill(process.ppid(), signal.SIGKILL)
    wait_until(lambda: not process.is_running() or process.status() == psutil.STATUS_ZOMBIE)


def test_what_it_has_forked_is_found_and_ended_after_its_supervisor_is_killed(start: Start, tmp_path: Path) -> None:
    start("fork")
    wait_until((tmp_path / "forked").exists)
    supervisor = next(one for one in map(psutil.Process, processes._carrying(NEEDLE)) if MODULE in one.cmdline()).ppid()
    os.kill(supervisor, signal.SIGKILL)
    assert processes.end_leftovers(ATTEMPT)
    assert processes._carrying(NEEDLE) == []


def test_cancel_ends_it(start: Start, tmp_path: Path) -> None:
    link = start("stay")
    wait_until((tmp_path / "staying").exists)
    link.cancel()
    assert result(link) == ProcessResult(-15, "cancelled")


def test_a_launcher_that_was_killed_is_replaced(launcher: Launcher, start: Start) -> None:
    assert result(start("return", "1")).exit_code == 1
    assert launcher._process is not None
    launcher._process.kill()
    launcher._process.wait()
    assert result(start("return", "2")).exit_code == 2
