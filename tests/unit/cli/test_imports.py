"""Which heavy packages a quick command imports: none but what it needs. Each is a process of its own, on a real project: a fork of one
that has imported the commands' entry point, and for commands that may use the state what all of those import."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = (
    "pyiceberg",
    "pyspark",
    "pandas",
    "sqlglot",
    "pyarrow",
    "fastavro",
    "fastapi",
    "uvicorn",
    "apprise",
    "sqlalchemy",
)
IMPORTED = "imported: "
PROGRAM = f"""
import importlib, json, os, sys
from icefloe.cli import main
for name in sys.argv[1:]:
    importlib.import_module(name)
for line in sys.stdin:
    child = os.fork()
    if child == 0:
        sys.argv = ["icefloe", *line.split()]
        try:
            main.main()
        except SystemExit as ended:
            assert not ended.code, ended.code
        print({IMPORTED!r} + json.dumps([name for name in {HEAVY!r} if name in sys.modules]))
        sys.exit()
    assert os.waitpid(child, 0)[1] == 0, line
"""
FLOW = """
Trigger: {cron: '30 2 * * *'}
Workflow: {id: nightly, jobs: [{job: {id: one, type: NoOp}}]}
"""
STATE = {"sqlalchemy"}
CATALOG = {"sqlalchemy", "pyiceberg", "fastavro"}

ALLOWED: dict[str, set[str]] = {
    "--help": STATE,
    "--version": STATE,
    "init": set(),
    "validate flow.yaml": set(),
    "graph flow.yaml": set(),
    "schema": set(),
    "push flow.yaml": STATE,
    "diff flow.yaml": STATE,
    "workflows": STATE,
    "run nightly": STATE,
    "runs": STATE,
    "show nightly-1": STATE,
    "logs nightly-1": STATE,
    "pause nightly": STATE,
    "resume nightly": STATE,
    "deactivate nightly": STATE,
    "activate nightly": STATE,
    "signal upstream_done rows=7": STATE,
    "signals": STATE,
    "watermark db.events 2026-03-01": STATE,
    "watermark": STATE,
    "incidents": STATE,
    "workers": STATE,
    "stop nightly-1": STATE,
    "why nightly": CATALOG,
}
"""In this order, those without the state first: later commands find what earlier ones have left."""


def call(folder: Path, *commands: str, first: tuple[str, ...] = ()) -> list[tuple[set[str], str]]:
    """For each command what was imported when it had ended (some modules by all of them, ``first``), and what it has printed."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *first],
        input="\n".join(commands),
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: list[tuple[set[str], str]] = []
    printed = ""
    for line in done.stdout.splitlines():
        if line.startswith(IMPORTED):
            found.append((set(json.loads(line.removeprefix(IMPORTED))), printed))
            printed = ""
        else:
            printed += f"{line}\n"
    assert len(found) == len(commands), done.stdout
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("quick")
    (made / "flow.yaml").write_text(FLOW)
    return made


def test_quick_commands_import_nothing_that_they_do_not_need(folder: Path) -> None:
    without = [command for command, allowed in ALLOWED.items() if not allowed]
    others = [command for command in ALLOWED if command not in without]
    imported = [*call(folder, *without), *call(folder, *others, first=("icefloe.service.client",))]
    names = {command: found for command, (found, _) in zip((*without, *others), imported, strict=True)}
    assert {command: names[command] - ALLOWED[command] for command in ALLOWED} == {
        command: set() for command in ALLOWED
    }


def test_next_fires_are_shown_without_a_catalog(folder: Path) -> None:
    *_, (imported, out) = call(folder, "init", "push flow.yaml", "workflows --output json")
    assert "pyiceberg" not in imported
    assert json.loads(out)[0]["next_fire"] % 86_400 == 2.5 * 3600
