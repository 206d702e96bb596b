"""The pages about the lake say what is so: their examples run, and their tables name what there is."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

from icefloe.config import Config
from icefloe.errors import IcefloeError
from icefloe.lake import ChangeSet, Lake, errors
from tests.contract.lake.playback import Playback, rows

DOCS = Path(__file__).resolve().parents[3] / "docs"
REFERENCE = (DOCS / "reference" / "lake.md").read_text(encoding="utf-8")
CONCEPT = (DOCS / "concepts" / "what-is-a-change.md").read_text(encoding="utf-8")
HOW_TO = (DOCS / "how-to" / "see-what-changed.md").read_text(encoding="utf-8")


def test_the_examples_of_the_python_reference_run(
    lake_config: Config, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("icefloe.config.load", lambda: lake_config)
    lake = Lake.open(lake_config)
    if "db.playback" in (lake.canonical_name(one) for one in lake.tables.names_in(("db",))):
        lake.tables.drop(("db", "playback"))
    playback = Playback(lake, ("db", "playback"))
    names: dict[str, object] = {"first": playback.append(*rows(1))}
    playback.append(*rows(2, on=2), *rows(3, 4, on=3))
    examples = re.findall(r"```python\n(.*?)```", REFERENCE, re.S)
    assert len(examples) >= 7
    for example in examples:
        exec(compile(example, "docs/reference/lake.md", "exec"), names)
    printed = capsys.readouterr().out
    assert "3 rows in 2 files" in printed
    assert "2026-03-02 to 2026-03-03" in printed
    assert "of db.playback" in printed
    assert "lake.table-not-found - " in printed
    assert lake.change_tables() == []
    assert lake.pins("db.playback") == []


def test_every_error_of_the_lake_is_in_the_reference() -> None:
    codes = {
        one.code
        for one in vars(errors).values()
        if isinstance(one, type) and issubclass(one, IcefloeError) and one.__module__ == errors.__name__
    }
    told = set(re.findall(r"`(lake\.[a-z-]+)`", REFERENCE + CONCEPT))
    assert told == codes


def test_every_field_of_a_change_set_that_people_use_is_in_the_reference() -> None:
    hidden = {"table", "table_uuid", "ref", "from_snapshot", "to_snapshot", "slices"}
    section = REFERENCE.split("A `ChangeSet` has")[1].split("The predicates")[0]
    told = {name for line in re.findall(r"^\| (.*?) \|", section, re.M) for name in re.findall(r"`(\w+)`", line)}
    assert told == {one.name for one in fields(ChangeSet)} - hidden


def test_the_options_that_the_how_to_types_are_options_of_the_command() -> None:
    import inspect

    from icefloe.cli import lake as commands

    options = {f"--{name.replace('_', '-')}" for name in inspect.signature(commands.changes).parameters}
    assert set(re.findall(r"(?<=\s)--[a-z-]+", HOW_TO)) <= options
