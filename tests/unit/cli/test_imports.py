"""Which heavy packages a quick command imports: none but what it needs. Each is a process of its own, on a real project."""

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
PROGRAM = f"""
import sys
from icefloe.cli import main
try:
    main.main()
except SystemExit as ended:
    assert not ended.code, ended.code
import json
print(json.dumps([name for name in {HEAVY!r} if name in sys.modules]), file=sys.stderr)
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
"""In this order: later commands find what earlier ones have left."""


def call(folder: Path, *words: str) -> tuple[set[str], str]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *words], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stderr.splitlines()[-1])), done.stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("quick")
    (made / "flow.yaml").write_text(FLOW)
    return made


def test_quick_commands_import_nothing_that_they_do_not_need(folder: Path) -> None:
    too_much = {}
    for command, allowed in ALLOWED.items():
        found, _ = call(folder, *command.split())
        if found - allowed:
            too_much[command] = sorted(found - allowed)
    assert not too_much


def test_next_fires_are_shown_without_a_catalog(folder: Path) -> None:
    call(folder, "init")
    call(folder, "push", "flow.yaml")
    found, out = call(folder, "workflows", "--output", "json")
    assert "pyiceberg" not in found
    assert json.loads(out)[0]["next_fire"] % 86_400 == 2.5 * 3600
