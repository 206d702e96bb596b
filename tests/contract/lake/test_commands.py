"""``icefloe changes`` and ``icefloe change-tables``: what people read and what programs parse, on every catalog."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from icefloe.cli.main import main
from icefloe.config import Config
from icefloe.lake import Lake
from tests.contract.lake.playback import Playback, read, rows


@dataclass
class Result:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Icefloe = Callable[..., Result]


@pytest.fixture
def icefloe(lake_config: Config, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Icefloe:
    """The command, in a project with this catalog."""
    file = lake_config.root / "icefloe.toml"
    lines = ["[catalog]", f'type = "{lake_config.catalog.type}"', f'uri = "{lake_config.catalog.uri}"']
    if lake_config.catalog.warehouse:
        lines.append(f'warehouse = "{lake_config.catalog.warehouse}"')
    lines += ["[catalog.properties]", *(f'"{k}" = "{v}"' for k, v in lake_config.catalog.properties.items())]
    place = lake_config.change_tables
    lines += ["[change_tables]", f'namespace = "{place.namespace}"', f'location = "{place.location}"']
    file.write_text("\n".join(lines) + "\n")
    monkeypatch.setenv("ICEFLOE_CONFIG", str(file))
    monkeypatch.setenv("COLUMNS", "200")

    def run(*words: object) -> Result:
        monkeypatch.setattr(sys, "argv", ["icefloe", *map(str, words)])
        with pytest.raises(SystemExit) as raised:
            main()
        printed = capsys.readouterr()
        return Result(int(raised.value.code or 0), printed.out, printed.err)

    return run


@pytest.fixture
def late(playback: Playback) -> tuple[Playback, int]:
    """A load with three rows of its own day and one that is two days late."""
    first = playback.append(*rows(1, on=9))
    playback.append(*rows(2, 3, 4, on=10), *rows(5, on=8, country="FR"))
    return playback, first


FIELDS = {
    "table", "ref", "from_snapshot", "to_snapshot", "operations", "skipped_operations", "append_only", "exact",
    "added_files", "added_rows", "added_bytes", "removed_files", "removed_rows", "ranges", "partitions", "range_filter",
    "partition_filter", "change_table",
}  # fmt: skip


def test_json_has_every_field_that_programs_rely_on(icefloe: Icefloe, late: tuple[Playback, int]) -> None:
    playback, first = late
    result = icefloe(
        "changes", playback.name, "--since", first, "--columns", "event_day,account_id,country", "--output", "json"
    )
    assert result.code == 0
    found = result.json
    assert found.keys() >= FIELDS
    assert (found["table"], found["ref"], found["from_snapshot"]) == (playback.name, "main", first)
    assert found["to_snapshot"] == playback.head
    assert (found["operations"], found["skipped_operations"]) == ({"append": 1}, {})
    assert (found["added_rows"], found["added_files"], found["removed_files"]) == (4, 2, 0)
    assert found["added_bytes"] > 0
    assert found["ranges"]["event_day"] == {"min": "2026-03-08", "max": "2026-03-10", "known": True, "nulls": 0}
    assert found["ranges"]["country"]["max"] == "FR"
    partitions = [(one["spec_id"], one["values"], one["files"], one["rows"]) for one in found["partitions"]]
    assert partitions == [(0, {"event_day": "2026-03-08"}, 1, 1), (0, {"event_day": "2026-03-10"}, 1, 3)]
    assert found["change_table"] is None


def test_text_shows_bars_and_how_late_the_late_rows_are(icefloe: Icefloe, late: tuple[Playback, int]) -> None:
    playback, first = late
    result = icefloe("changes", playback.name, "--since", first)
    assert result.code == 0
    assert "4 rows in 2 files" in result.out
    assert "append × 1" in result.out
    lines = result.out.splitlines()
    old = next(line for line in lines if "event_day=2026-03-08" in line)
    new = next(line for line in lines if "event_day=2026-03-10" in line)
    assert old.count("█") * 3 == new.count("█") == 30
    assert "2 d" in old and "2 d" not in new
    assert "1 rows (25.0 %) are late, by up to 2 d" in result.out


def test_what_was_skipped_is_told_and_is_no_failure(icefloe: Icefloe, playback: Playback) -> None:
    first = playback.append(*rows(1, 2))
    playback.delete("account_id = 1")
    result = icefloe("changes", playback.name, "--since", first)
    assert result.code == 0
    assert "--operations" in result.out
    found = icefloe(
        "changes", playback.name, "--since", first, "--operations", "append,overwrite,delete", "-o", "json"
    ).json
    assert (found["skipped_operations"], found["exact"]) == ({}, False)


def test_create_makes_a_table_that_list_shows_and_drop_takes_away(
    icefloe: Icefloe, lake: Lake, late: tuple[Playback, int]
) -> None:
    playback, first = late
    created = icefloe("changes", playback.name, "--since", first, "--create", "late_rows")
    assert created.code == 0
    assert "no data copied" in created.out
    assert "icefloe sql" in created.err
    (listed,) = icefloe("change-tables", "list", "--output", "json").json
    assert (listed["name"].rsplit(".", 1)[1], listed["rows"], listed["source"]) == ("late_rows", 4, playback.name)
    assert len(read(lake, listed["name"])) == 4
    assert "late_rows" in icefloe("change-tables", "list").out
    again = icefloe("changes", playback.name, "--create", "late_rows", "--output", "json")
    assert (again.code, again.json["error"]["code"]) == (2, "lake.name-taken")
    assert icefloe("change-tables", "drop", "late_rows").code == 0
    assert icefloe("change-tables", "list", "-o", "json").json == []
    assert "no change tables" in icefloe("change-tables", "list").err
    assert icefloe("change-tables", "clean", "-o", "json").json == []


@pytest.mark.parametrize(
    ("words", "code", "error"),
    [
        (["changes", "{ns}.nothing"], 2, "lake.table-not-found"),
        (["changes", "{table}", "--since", "5"], 2, "lake.snapshot-not-found"),
        (["changes", "{table}", "--ref", "nowhere"], 2, "lake.ref-not-found"),
        (["changes", "{table}", "--columns", "nope"], 2, "lake.column-not-found"),
        (["changes", "{table}", "--operations", "replace"], 2, "usage"),
        (["changes", "{table}", "--create", "../x"], 2, "usage"),
        (["changes", "word"], 2, "usage"),
        (["change-tables", "drop", "{table}"], 2, "lake.not-a-change-table"),
        (["change-tables", "drop", "nothing"], 2, "lake.table-not-found"),
    ],
)
def test_mistakes_have_a_code_a_next_step_and_their_exit_code(
    icefloe: Icefloe, playback: Playback, words: list[str], code: int, error: str
) -> None:
    playback.append(*rows(1))
    filled = [word.format(table=playback.name, ns=playback.identifier[0]) for word in words]
    result = icefloe(*filled, "--output", "json")
    assert (result.code, result.json["error"]["code"]) == (code, error)
    text = icefloe(*filled)
    assert text.code == code
    assert f"[{error}]" in text.err
    assert text.out == ""


def test_a_gap_ends_with_the_words_to_type(icefloe: Icefloe, playback: Playback) -> None:
    first = playback.append(*rows(1))
    second = playback.append(*rows(2))
    playback.append(*rows(3))
    playback.expire(first, second)
    result = icefloe("changes", playback.name, "--since", first)
    assert result.code == 1
    assert "--on-gap here: full" in result.err
    full = icefloe("changes", playback.name, "--since", first, "--on-gap", "full")
    assert full.code == 0
    assert "history is lost" in full.out


def test_names_are_printed_as_they_are_and_never_as_markup(icefloe: Icefloe, lake: Lake, playback: Playback) -> None:
    first = playback.append(*rows(1))
    with playback.table.update_schema() as update:
        update.rename_column("event_day", "[red]day[/red]")
    playback.append(*rows(2))
    result = icefloe("changes", playback.name, "--since", first)
    assert result.code == 0
    assert "[red]day[/red]" in result.out
