"""Storage that is full, closed or changes under the reader."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from icefloe.lake import Lake
from icefloe.lake.errors import MetadataMissingError
from tests.contract.lake.conftest import embedded
from tests.contract.lake.fickle_io import FickleFileIO
from tests.contract.lake.playback import Playback, rows

ROOT = Path(__file__).resolve().parents[3]


def suffer(scene: str, folder: Path) -> dict[str, Any]:
    """One scene of hardship, in a process with mounts of its own."""
    apart = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--map-root-user", "--mount"]
    command = [*apart, sys.executable, "-m", "tests.contract.lake.hardship", scene, str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_a_full_disk_stops_a_change_table_and_leaves_nothing_half_made(tmp_path: Path) -> None:
    found = suffer("full-disk", tmp_path)
    assert found["code"] == "lake.storage"
    assert "free space" in found["hint"]
    assert found["left"] == []
    assert found["rows_with_room"] == 10
    assert found["source_untouched"]


def test_a_place_that_may_not_be_written_stops_a_change_table(tmp_path: Path) -> None:
    found = suffer("read-only-place", tmp_path)
    assert found["code"] == "lake.storage"
    assert found["registered"] == 0
    assert found["source_untouched"]


def test_a_read_only_lake_can_be_looked_at_and_says_that_it_cannot_be_pinned(tmp_path: Path) -> None:
    found = suffer("read-only-everything", tmp_path)
    assert found["rows"] == 10
    assert found["refused"]
    assert found["create"]["code"] == "lake.storage"
    assert found["require"]["code"] == "lake.pin-refused"
    assert found["source_untouched"]


@pytest.fixture
def fickle(tmp_path: Path) -> tuple[Lake, Playback]:
    """A lake that has read nothing yet, and a table in it that another one writes, through a FileIO that a test can make act
    between two reads."""
    config = embedded(
        tmp_path, catalog={"pyiceberg": {"py-io-impl": f"{FickleFileIO.__module__}.{FickleFileIO.__name__}"}}
    )
    playback = Playback(Lake.open(config), ("db", "playback"))
    playback.append(*rows(1))
    return Lake.open(config), playback


def test_a_metadata_file_is_read_once_and_the_next_one_is_seen(
    fickle: tuple[Lake, Playback], monkeypatch: pytest.MonkeyPatch
) -> None:
    lake, playback = fickle
    opened: list[str] = []
    monkeypatch.setattr(FickleFileIO, "before_read", staticmethod(opened.append))
    heads = [lake.table(playback.name).metadata.refs["main"].snapshot_id for _ in range(3)]
    assert len(opened) == 1 and len(set(heads)) == 1
    newer = playback.append(*rows(2))
    assert lake.table(playback.name).metadata.refs["main"].snapshot_id == newer != heads[0]


def test_metadata_that_is_swapped_away_while_it_is_read_is_read_again(
    fickle: tuple[Lake, Playback], monkeypatch: pytest.MonkeyPatch
) -> None:
    lake, playback = fickle
    moved: list[int] = []

    def move_on(location: str) -> None:
        """Another writer commits, and its clean-up deletes the metadata that was about to be read."""
        if location.endswith(".metadata.json") and not moved:
            moved.append(0)
            moved[0] = playback.append(*rows(2))
            Path(location.removeprefix("file://")).unlink()

    monkeypatch.setattr(FickleFileIO, "before_read", staticmethod(move_on))
    found = lake.changes(playback.name)
    assert (found.to_snapshot, found.added.rows) == (moved[0], 2)


def test_metadata_that_is_gone_for_good_is_told_with_its_place(
    fickle: tuple[Lake, Playback], monkeypatch: pytest.MonkeyPatch
) -> None:
    lake, playback = fickle
    location = playback.loaded.metadata.metadata_location
    Path(location.removeprefix("file://")).unlink()
    with pytest.raises(MetadataMissingError) as raised:
        lake.changes(playback.name)
    assert raised.value.where == location
    assert raised.value.retryable


def test_a_manifest_list_that_expiry_deletes_meanwhile_is_missing_and_worth_a_retry(
    fickle: tuple[Lake, Playback], monkeypatch: pytest.MonkeyPatch
) -> None:
    lake, playback = fickle

    def expire(location: str) -> None:
        if "/snap-" in location:
            Path(location.removeprefix("file://")).unlink(missing_ok=True)

    monkeypatch.setattr(FickleFileIO, "before_read", staticmethod(expire))
    with pytest.raises(MetadataMissingError) as raised:
        lake.changes(playback.name)
    assert raised.value.retryable


def test_no_data_file_is_opened_by_a_capture(fickle: tuple[Lake, Playback], monkeypatch: pytest.MonkeyPatch) -> None:
    lake, playback = fickle
    first = playback.head
    playback.append(*rows(2))
    playback.delete("account_id = 1")
    opened: list[str] = []
    monkeypatch.setattr(FickleFileIO, "before_read", staticmethod(opened.append))
    data = Path(playback.loaded.metadata.location.removeprefix("file://")) / "data"
    data.rename(data.with_name("data-moved-away"))
    for options in ({}, {"since": first}, {"since": first, "operations": ["append", "overwrite", "delete"]}):
        changes = lake.changes(playback.name, columns=["event_day", "country"], **options)  # type: ignore[arg-type]
        lake.create_change_table(changes)
        lake.pin(changes, owner="o", capture="c")
    assert opened
    assert not [one for one in opened if "/data/" in one]
