"""A built wheel is all a user needs: no clone, no file beside the package."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    [built] = folder.glob("*.whl")
    return built


def clean_environment() -> dict[str, str]:
    return {
        name: value for name, value in os.environ.items() if not name.startswith(("ICEFLOE_", "PYTHON", "VIRTUAL_"))
    }


def run(command: list[str | Path], folder: Path) -> str:
    done = subprocess.run(command, cwd=folder, env=clean_environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


def use(home: Path, folder: Path) -> None:
    """What a new user types. The server that this starts ends with it."""
    command = home / "bin" / "icefloe"
    run([command, "init"], folder)
    try:
        report = json.loads(run([command, "doctor", "--output", "json"], folder))
        assert report["ok"], report
        assert {"java", "jars", "catalog", "warehouse", "spark server"} <= {check["name"] for check in report["checks"]}
        run([command, "sql", "CREATE NAMESPACE db; CREATE TABLE db.t AS SELECT 1 AS id"], folder)
        found = json.loads(run([command, "sql", "SELECT * FROM db.t", "--output", "json"], folder))
        assert found["results"][0]["rows"] == [[1]]
    finally:
        run([command, "spark", "stop"], folder)


def test_the_wheel_holds_the_locked_jar_list_and_types(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert "icefloe/spark/jars.lock.json" in names
    assert not [name for name in names if name.startswith(("tests/", "benchmarks/", "scripts/"))]


def test_the_wheel_works_without_a_clone(wheel: Path, tmp_path: Path) -> None:
    """Its dependencies are the locked ones, lent by path; the package itself is nowhere but in the new environment."""
    home = tmp_path / "env"
    venv.create(home, with_pip=True)
    run([home / "bin" / "pip", "install", "--quiet", "--no-deps", "--no-index", wheel], tmp_path)
    site = next((home / "lib").glob("python*/site-packages"))
    # As a path, not as a site folder: .pth files in there, such as the clone's own, are not followed.
    (site / "locked.pth").write_text(sysconfig.get_path("purelib") + "\n")
    place = run([home / "bin" / "python", "-c", "import icefloe; print(icefloe.__file__)"], tmp_path)
    assert Path(place.strip()).is_relative_to(home)
    use(home, tmp_path)


@pytest.mark.long
def test_the_wheel_works_in_an_empty_environment(wheel: Path, tmp_path: Path) -> None:
    home = tmp_path / "env"
    venv.create(home, with_pip=True)
    run([home / "bin" / "pip", "install", "--quiet", wheel], tmp_path)
    use(home, tmp_path)
