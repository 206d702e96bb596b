"""Pins and checkpoint tags on every catalog, on v3 tables too, and among writers that race."""

from __future__ import annotations

import threading
import time

import pytest

from icefloe.config import Config
from icefloe.lake import Lake
from icefloe.lake.catalog import RefChange
from icefloe.lake.errors import CommitConflictError, MetadataMissingError
from tests.contract.lake.conftest import MakeTable
from tests.contract.lake.playback import Playback, read, rows

WEEK_MS = 7 * 86_400_000


@pytest.fixture(params=[1, 2, 3])
def pinned(request: pytest.FixtureRequest, make: MakeTable) -> Playback:
    """A table of each format version, with an append whose files a later commit removed."""
    playback = make(version=min(request.param, 2))
    playback.append(*rows(1))
    playback.append(*rows(2, 3))
    playback.delete("account_id = 2")
    if request.param == 3:
        playback.upgrade_to_v3()
    return playback


def test_one_commit_holds_the_end_and_what_is_no_longer_live(lake: Lake, pinned: Playback) -> None:
    first = min(pinned.loaded.metadata.snapshots.values(), key=lambda one: one.timestamp_ms)
    changes = lake.changes(pinned.name, since=first.id)
    before = pinned.loaded.metadata
    report = lake.pin(changes, owner="playback.agg", capture="c1", mode="require")
    after = pinned.loaded.metadata
    assert after.format_version == before.format_version
    assert len(after.raw["metadata-log"]) == len(before.raw.get("metadata-log") or []) + 1
    assert after.refs[report.branch or ""].snapshot_id == changes.to_snapshot
    assert after.refs[report.branch or ""].type == "branch"
    held = {after.refs[name].snapshot_id for name in report.refs}
    assert held == {changes.to_snapshot, *changes.holds}
    assert changes.holds
    assert after.refs["main"] == before.refs["main"]
    assert after.snapshots == before.snapshots


def test_every_pin_has_an_age_of_its_own_that_ends_after_the_keep_time(lake: Lake, pinned: Playback) -> None:
    lake.pin(lake.changes(pinned.name), owner="o", capture="c", keep_seconds=3600)
    now = time.time() * 1000
    for pin in lake.pins(pinned.name):
        assert pin.expires_ms is not None
        assert 3_500_000 < pin.expires_ms - now < 3_700_000


def test_pins_that_near_their_end_are_given_their_whole_time_again_and_others_are_left_alone(
    lake: Lake, pinned: Playback
) -> None:
    report = lake.pin(lake.changes(pinned.name), owner="o", capture="c", keep_seconds=3600)
    location = pinned.loaded.metadata.metadata_location
    assert lake.extend_pins(pinned.name, owner="o", capture="c", keep_seconds=3600) == ()
    assert pinned.loaded.metadata.metadata_location == location
    assert set(lake.extend_pins(pinned.name, owner="o", capture="c", keep_seconds=36_000)) == set(report.refs)
    now = time.time() * 1000
    for pin in lake.pins(pinned.name):
        assert pin.expires_ms is not None
        assert 35_900_000 < pin.expires_ms - now < 36_100_000
        assert pin.kind == ("branch" if pin.name == report.branch else "tag")


def test_pinning_again_changes_nothing(lake: Lake, pinned: Playback) -> None:
    changes = lake.changes(pinned.name)
    once = lake.pin(changes, owner="o", capture="c")
    location = pinned.loaded.metadata.metadata_location
    assert lake.pin(changes, owner="o", capture="c") == once
    assert pinned.loaded.metadata.metadata_location == location


def test_unpinning_takes_one_captures_pins_and_no_others(lake: Lake, pinned: Playback) -> None:
    changes = lake.changes(pinned.name)
    one = lake.pin(changes, owner="o", capture="c1")
    other = lake.pin(changes, owner="o", capture="c2")
    assert lake.unpin(pinned.name, owner="o", capture="c1") == one.refs
    assert [pin.name for pin in lake.pins(pinned.name)] == list(other.refs)
    assert lake.unpin(pinned.name, owner="o", capture="c1") == ()
    assert [pin.capture for pin in lake.leaked_pins(pinned.name)] == ["c2"]
    assert lake.leaked_pins(pinned.name, open_captures=["c2"]) == []


def test_a_checkpoint_tag_moves_with_its_consumer(lake: Lake, pinned: Playback) -> None:
    snapshots = sorted(pinned.loaded.metadata.snapshots.values(), key=lambda one: one.timestamp_ms)
    for snapshot in snapshots:
        tag = lake.set_checkpoint_tag(pinned.name, consumer="playback.agg/capture", snapshot_id=snapshot.id)
        ref = pinned.loaded.metadata.refs[tag]
        assert (ref.snapshot_id, ref.type) == (snapshot.id, "tag")
        assert (ref.max_ref_age_ms or 0) > 1000 * WEEK_MS
    assert len([name for name in pinned.loaded.metadata.refs if name.startswith("icefloe_checkpoint")]) == 1
    assert lake.pins(pinned.name) == []


def test_the_table_is_still_pyicebergs_to_read_and_spark_would_find_its_way(lake: Lake, pinned: Playback) -> None:
    report = lake.pin(lake.changes(pinned.name), owner="o", capture="c")
    assert read(lake, pinned.name) == [*rows(1), *rows(3)]
    table = pinned.table
    at_pin = table.scan().use_ref(report.branch or "").to_arrow()
    assert at_pin.num_rows == 2


def test_a_snapshot_that_is_gone_cannot_be_pinned_and_that_is_no_refusal(lake: Lake, playback: Playback) -> None:
    first = playback.append(*rows(1))
    changes = lake.changes(playback.name, until=first)
    playback.append(*rows(2))
    playback.expire(first)
    with pytest.raises(MetadataMissingError):
        lake.pin(changes, owner="o", capture="c", mode="auto")
    assert lake.pins(playback.name) == []


def test_off_touches_nothing(lake: Lake, playback: Playback) -> None:
    playback.append(*rows(1))
    location = playback.loaded.metadata.metadata_location
    assert lake.pin(lake.changes(playback.name), owner="o", capture="c", mode="off").branch is None
    assert playback.loaded.metadata.metadata_location == location


def test_a_table_without_snapshots_needs_no_pin(lake: Lake, playback: Playback) -> None:
    assert lake.pin(lake.changes(playback.name), owner="o", capture="c").branch is None


def test_writers_that_race_lose_neither_pins_nor_rows(lake_config: Config, lake: Lake, playback: Playback) -> None:
    """Ref moves of ours among appends of somebody else: all of both are there at the end."""
    playback.append(*rows(0))
    changes = lake.changes(playback.name)
    failures: list[BaseException] = []
    captures, appends = 4, 5

    def pin_all(number: int) -> None:
        own = Lake.open(lake_config)
        try:
            for capture in range(captures):
                _stubbornly(
                    lambda capture=capture: own.pin(changes, owner=f"o{number}", capture=f"c{capture}", mode="require")
                )
        except BaseException as error:
            failures.append(error)

    def append_all() -> None:
        from pyiceberg.exceptions import CommitFailedException

        try:
            for number in range(1, appends + 1):
                while True:
                    try:
                        playback.append(*rows(number))
                        break
                    except CommitFailedException:
                        continue
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=pin_all, args=(number,)) for number in range(2)]
    threads.append(threading.Thread(target=append_all))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert failures == []
    found = {(pin.owner, pin.capture) for pin in lake.pins(playback.name)}
    assert found == {(f"o{number}", f"c{capture}") for number in range(2) for capture in range(captures)}
    assert read(lake, playback.name) == sorted(rows(*range(appends + 1)), key=repr)


def _stubbornly(act: object) -> None:
    """What a caller does with a retryable error: do it again, until a deadline."""
    deadline = time.monotonic() + 60
    while True:
        try:
            act()  # type: ignore[operator]
            return
        except CommitConflictError:
            if time.monotonic() > deadline:
                raise


def test_a_commit_on_top_of_stale_metadata_is_refused(lake: Lake, playback: Playback) -> None:
    """The compare-and-set itself: two commits from one state, of which the second must lose."""
    playback.append(*rows(1))
    tag = RefChange("same", playback.head, "tag", 1000)
    stale = playback.loaded
    lake.tables._commit_once(stale, [tag], None)
    files = playback.files()
    with pytest.raises(CommitConflictError):
        lake.tables._commit_once(stale, [tag], None)
    assert playback.files() == files, "the loser's metadata file stays behind"
