"""The table of areas, held to what the areas' modules register."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys

import pytest
import typer
from typer.main import get_group

from icefloe.cli.main import AREAS
from icefloe.cli.verbs import GROUPS


@pytest.mark.parametrize("area", AREAS)
def test_an_area_registers_the_commands_it_is_listed_with(area: str) -> None:
    app = typer.Typer()
    app.callback()(lambda: None)
    importlib.import_module(f"icefloe.cli.{area}").register(app)
    assert set(get_group(app).commands) == set(AREAS[area])


def test_every_verb_is_in_exactly_one_group_of_the_help() -> None:
    grouped = [verb for verbs in GROUPS.values() for verb in verbs]
    assert sorted(grouped) == sorted(verb for verbs in AREAS.values() for verb in verbs)


def test_help_lists_every_verb_under_its_group_with_its_whole_first_sentence() -> None:
    shown = subprocess.run(
        [sys.executable, "-m", "icefloe.cli.main", "--help"],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "COLUMNS": "80"},
    ).stdout
    listed = {
        title: tuple(re.findall(r"^  ([a-z-]+) ", body, re.MULTILINE))
        for title, body in re.findall(r"^([A-Z][a-z ]+):\n((?:  .*\n)+)", shown, re.MULTILINE)
        if title not in ("Usage", "Options")
    }
    assert listed == GROUPS
    assert "..." not in shown.partition("\n\n")[2]
    assert max(map(len, shown.splitlines())) <= 80


def test_validating_a_definition_imports_no_catalog_and_no_spark() -> None:
    program = (
        "import sys; from icefloe.cli import main; main.load_areas(['validate', 'x.yaml']);"
        "print([name for name in ('pyiceberg', 'pyspark', 'sqlalchemy') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"
