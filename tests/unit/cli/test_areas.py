"""The table of areas, held to what the areas' modules register."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest
import typer
from typer.main import get_group

from icefloe.cli.main import AREAS


@pytest.mark.parametrize("area", AREAS)
def test_an_area_registers_the_commands_it_is_listed_with(area: str) -> None:
    app = typer.Typer()
    app.callback()(lambda: None)
    importlib.import_module(f"icefloe.cli.{area}").register(app)
    assert set(get_group(app).commands) == set(AREAS[area])


def test_help_shows_every_command() -> None:
    shown = subprocess.run(
        [sys.executable, "-m", "icefloe.cli.main", "--help"], check=True, capture_output=True, text=True
    )
    for commands in AREAS.values():
        for command in commands:
            assert command in shown.stdout.split()


def test_validating_a_definition_imports_no_catalog_and_no_spark() -> None:
    program = (
        "import sys; from icefloe.cli import main; main.load_areas(['validate', 'x.yaml']);"
        "print([name for name in ('pyiceberg', 'pyspark', 'sqlalchemy') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"
