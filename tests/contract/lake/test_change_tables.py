"""Change tables: made, listed, dropped and cleaned up without a trace in the source, on every catalog."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta

import pytest

from icefloe.config import Config
from icefloe.errors import ConfigError, UsageError
from icefloe.lake import Lake, storage
from icefloe.lake.change_table import ChangeTables
from icefloe.lake.errors import (
    MetadataMissingError,
    MetadataUnreadableError,
    NameTakenError,
    NotAChangeTableError,
    TableNotFoundError,
)
from tests.contract.lake.playback import Playback, read, rows


def folders(lake: Lake) -> list[str]:
    location = lake._change_tables.location
    return storage.folders(lake.tables.file_io(location), location)


def test_a_change_table_is_listed_with_where_it_came_from(lake: Lake, playback: Playback) -> None:
    first = playback.append(*rows(1))
    last = playback.append(*rows(2, 3))
    made = lake.create_change_table(lake.changes(playback.name, since=first), name="mine")
    assert made.name.endswith(".mine")
    assert (made.source, made.rows, made.files) == (playback.name, 2, 1)
    assert lake.change_tables() == [made]
    assert (made.from_snapshot, made.to_snapshot) == (first, last)
    assert abs(made.created - datetime.now(UTC)) < timedelta(minutes=5)


def test_each_has_a_new_name_unless_one_is_given(lake: Lake, playback: Playback) -> None:
    playback.append(*rows(1))
    changes = lake.changes(playback.name)
    names = {lake.create_change_table(changes).name for _ in range(3)}
    assert len(names) == 3
    assert {one.name for one in lake.change_tables()} == names


def test_a_taken_name_is_refused_and_leaves_nothing_behind(lake: Lake, playback: Playback) -> None:
    playback.append(*rows(1))
    changes = lake.changes(playback.name)
    lake.create_change_table(changes, name="mine")
    before = folders(lake)
    with pytest.raises(NameTakenError):
        lake.create_change_table(changes, name="mine")
    assert folders(lake) == before


@pytest.mark.parametrize("name", ["", "a.b", "../x", "a b", "x;y", "`x`", "é/", "\n"])
def test_names_with_more_than_letters_are_refused(lake: Lake, playback: Playback, name: str) -> None:
    playback.append(*rows(1))
    with pytest.raises(UsageError):
        lake.create_change_table(lake.changes(playback.name), name=name)
    assert folders(lake) == []


def test_of_two_that_want_one_name_at_one_moment_one_gets_it(
    lake_config: Config, lake: Lake, playback: Playback
) -> None:
    """Also the first two ever: both find no namespace and make it."""
    playback.append(*rows(1))
    outcomes: list[object] = []
    barrier = threading.Barrier(4)

    def create() -> None:
        own = Lake.open(lake_config)
        changes = own.changes(playback.name)
        barrier.wait()
        try:
            outcomes.append(own.create_change_table(changes, name="mine"))
        except BaseException as error:
            outcomes.append(error)

    threads = [threading.Thread(target=create) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    refused = [one for one in outcomes if isinstance(one, NameTakenError)]
    assert len(refused) == 3, outcomes
    assert [one.name.rsplit(".", 1)[1] for one in lake.change_tables()] == ["mine"]
    assert len(folders(lake)) == 1
    assert read(lake, lake.change_tables()[0].name) == rows(1)


def test_dropping_takes_its_own_folder_and_nothing_of_the_source(lake: Lake, playback: Playback) -> None:
    first = playback.append(*rows(1))
    playback.append(*rows(2))
    before = playback.files()
    kept = lake.create_change_table(lake.changes(playback.name))
    made = lake.create_change_table(lake.changes(playback.name, since=first))
    dropped = lake.drop_change_table(made.name.rsplit(".", 1)[1])
    assert dropped == made
    assert lake.change_tables() == [kept]
    assert len(folders(lake)) == 1
    assert playback.files() == before
    assert read(lake, playback.name) == rows(1, 2)
    assert read(lake, kept.name) == rows(1, 2)
    with pytest.raises(TableNotFoundError):
        lake.drop_change_table(made.name)


def test_a_change_table_lists_no_file_of_the_source_but_its_data(lake: Lake, playback: Playback) -> None:
    first = playback.append(*rows(1))
    playback.append(*rows(2))
    playback.delete("account_id = 1")
    location = playback.loaded.metadata.location
    for since in (None, first):
        made = lake.create_change_table(lake.changes(playback.name, since=since))
        table = lake.table(made.name)
        assert not storage.inside(made.location, location)
        assert storage.inside(table.metadata.metadata_location, made.location)
        assert table.metadata.properties["gc.enabled"] == "false"
        (snapshot,) = table.metadata.snapshots.values()
        assert storage.inside(snapshot.manifest_list or "", made.location)
        found = lake.tables.catalog.load_table(lake._identifier(made.name)).current_snapshot()
        assert found is not None
        for manifest in found.manifests(table.io):
            assert storage.inside(manifest.manifest_path, made.location)
        for key in ("metadata-log", "statistics", "partition-statistics"):
            assert not table.metadata.raw.get(key)


def test_other_tables_are_never_dropped(lake: Lake, playback: Playback) -> None:
    playback.append(*rows(1))
    before = playback.files()
    with pytest.raises(NotAChangeTableError):
        lake.drop_change_table(playback.name)
    with playback.table.transaction() as transaction:
        transaction.set_properties({"icefloe.change-table": "true"})
    with pytest.raises(NotAChangeTableError):
        lake.drop_change_table(playback.name)
    assert before.items() <= playback.files().items()


def test_a_stable_name_is_never_taken_from_another_table(lake: Lake, playback: Playback) -> None:
    playback.append(*rows(1))
    made = lake.create_change_table(lake.changes(playback.name))
    with playback.table.transaction() as transaction:
        transaction.set_properties({"icefloe.change-table": "true"})
    with pytest.raises(NameTakenError):
        lake.point_change_table(playback.name, at=made.name)
    assert playback.loaded.metadata.snapshots


def test_clean_takes_leftovers_and_leaves_the_rest(lake: Lake, playback: Playback) -> None:
    playback.append(*rows(1))
    kept = lake.create_change_table(lake.changes(playback.name))
    tables = lake._change_tables
    io = lake.tables.file_io(tables.location)
    leftovers = ["playback_20200101t000000_abcdef", "t_20200101t000000_012345"]
    others = ["something_else", "playback_20200101t000000"]
    for folder in (*leftovers, *others):
        storage.write(io, f"{tables.location}/{folder}/metadata/m000000.avro", b"x")
    now = datetime.now(UTC).strftime("%Y%m%dt%H%M%S")
    storage.write(io, f"{tables.location}/running_{now}_abcdef/metadata/m000000.avro", b"x")
    assert sorted(lake.clean_change_tables()) == leftovers
    left = set(folders(lake))
    assert not left & set(leftovers)
    assert set(others) <= left and f"running_{now}_abcdef" in left
    assert read(lake, kept.name) == rows(1)
    assert lake.clean_change_tables() == ()


def test_clean_leaves_change_tables_of_a_namespace_configured_before(lake: Lake, playback: Playback) -> None:
    playback.append(*rows(1))
    kept = lake.create_change_table(lake.changes(playback.name))
    gone = lake.create_change_table(lake.changes(playback.name))
    lake.tables.drop(lake._identifier(gone.name))
    renamed = Lake(lake.tables, namespace="other", location=lake._change_tables.location)
    assert renamed.clean_change_tables(older_than_seconds=-1) == (gone.location.rsplit("/", 1)[1],)
    assert read(lake, kept.name) == rows(1)


class Killed(BaseException):
    """What no code may catch and go on after."""


@pytest.mark.parametrize("point", ["change_table.after_manifest", "change_table.before_register"])
def test_a_capture_that_dies_registers_nothing(lake: Lake, playback: Playback, point: str) -> None:
    playback.append(*rows(1))
    before = playback.files()

    def die(name: str) -> None:
        if name == point:
            raise Killed

    own = lake._change_tables
    dying = ChangeTables(lake.tables, namespace=".".join(own.namespace), location=own.location, fault=die)
    with pytest.raises(Killed):
        dying.create(playback.loaded, lake.changes(playback.name), name=None)
    assert lake.change_tables() == []
    assert folders(lake) == []
    assert playback.files() == before


def test_a_drop_that_dies_halfway_is_finished_by_clean(lake: Lake, playback: Playback) -> None:
    playback.append(*rows(1))
    made = lake.create_change_table(lake.changes(playback.name))

    def die(name: str) -> None:
        raise Killed

    own = lake._change_tables
    dying = ChangeTables(lake.tables, namespace=".".join(own.namespace), location=own.location, fault=die)
    with pytest.raises(Killed):
        dying.drop(lake._identifier(made.name))
    assert lake.change_tables() == []
    assert len(lake.clean_change_tables(older_than_seconds=0)) == 1
    assert folders(lake) == []
    assert read(lake, playback.name) == rows(1)


def test_a_place_inside_the_source_is_refused_however_it_is_spelt(lake: Lake, playback: Playback) -> None:
    playback.append(*rows(1))
    changes = lake.changes(playback.name)
    location = playback.loaded.metadata.location
    spellings = [f"{location}/icdc", f"{location}/"]
    if location.startswith("file:///"):
        spellings += [location.replace("file:///", "file:/"), location.removeprefix("file://")]
    for spelling in spellings:
        inner = Lake(lake.tables, namespace="inner", location=spelling)
        with pytest.raises(ConfigError, match="inside their source"):
            inner.create_change_table(changes)


def broken_manifest(playback: Playback, content: bytes | None) -> str:
    """Damage (or with None remove) the manifest of the newest snapshot. Returns where it was."""
    loaded = playback.loaded
    snapshot = playback.table.current_snapshot()
    assert snapshot is not None
    path = next(m.manifest_path for m in snapshot.manifests(loaded.io) if m.added_snapshot_id == snapshot.snapshot_id)
    loaded.io.delete(path)
    if content is not None:
        storage.write(loaded.io, path, content)
    return path


@pytest.mark.parametrize(
    ("content", "error"), [(None, MetadataMissingError), (b"Obj\x01 not Avro", MetadataUnreadableError)]
)
def test_a_missing_or_corrupt_manifest_is_named_and_nothing_half_made_stays(
    lake: Lake, playback: Playback, content: bytes | None, error: type[Exception]
) -> None:
    first = playback.append(*rows(1))
    playback.append(*rows(2))
    counted = lake.changes(playback.name, since=first, details=False)
    path = broken_manifest(playback, content)
    with pytest.raises(error) as raised:
        lake.changes(playback.name, since=first)
    assert raised.value.where == path  # type: ignore[attr-defined]
    if content is None:
        with pytest.raises(error):
            lake.create_change_table(counted)
        assert lake.change_tables() == []
        assert folders(lake) == []


def test_a_change_table_that_another_process_drops_meanwhile_is_left_out(
    lake: Lake, playback: Playback, monkeypatch: pytest.MonkeyPatch
) -> None:
    playback.append(*rows(1))
    changes = lake.changes(playback.name)
    kept, gone = (lake.create_change_table(changes) for _ in range(2))
    load = lake.tables.load

    def dropping(identifier: tuple[str, ...]) -> object:
        if lake.canonical_name(identifier) == gone.name and lake.tables.exists(identifier):
            lake.tables.drop(identifier)
        return load(identifier)

    monkeypatch.setattr(lake.tables, "load", dropping)
    assert lake.change_tables() == [kept]
