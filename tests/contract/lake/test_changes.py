"""What changed, on every catalog, with PyIceberg as the writer and as the reader of change tables."""

from __future__ import annotations

from typing import Any

import pytest
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import StringType

from icefloe.errors import IcefloeError, UsageError
from icefloe.lake import ChangeSet, Lake
from icefloe.lake.errors import (
    ColumnNotFoundError,
    DiffImpossibleError,
    HistoryExpiredError,
    HistoryRolledBackError,
    RefGoneError,
    RefNotFoundError,
    SnapshotNotFoundError,
    SnapshotOrderError,
    TableNotFoundError,
    TableRecreatedError,
    UnsupportedTableError,
)
from tests.contract.lake.conftest import MakeTable
from tests.contract.lake.playback import Playback, Row, day, read, rows


def shown(lake: Lake, changes: ChangeSet, **options: Any) -> list[Row]:
    """The rows that a change table of these changes shows."""
    return read(lake, lake.create_change_table(changes, **options).name)


def test_appends_are_a_log_of_exactly_the_rows_appended(lake: Lake, playback: Playback) -> None:
    first = playback.append(*rows(1, 2, on=1))
    playback.append(*rows(3, on=2))
    last = playback.append(*rows(4, 5, on=3, country="FR"))
    found = lake.changes(playback.name, since=first, columns=["event_day", "account_id", "country"])
    assert (found.kind, found.from_snapshot, found.to_snapshot) == ("log", first, last)
    assert (found.append_only, found.exact, found.has_changes) == (True, True, True)
    assert found.operations == {"append": 2}
    assert found.skipped_operations == {}
    assert (found.added.rows, found.added.files) == (3, 2)
    assert (found.ranges["event_day"].min, found.ranges["event_day"].max) == (day(2), day(3))
    assert (found.ranges["account_id"].min, found.ranges["account_id"].max) == (3, 5)
    assert (found.ranges["country"].min, found.ranges["country"].max) == ("DE", "FR")
    assert found.partitions is not None
    assert [(one.values["event_day"], one.rows) for one in found.partitions] == [(day(2), 1), (day(3), 2)]
    assert found.partition_filter == "`event_day` IN (DATE'2026-03-02', DATE'2026-03-03')"
    assert found.range_filter is not None and "`account_id` >= 3L AND `account_id` <= 5L" in found.range_filter
    assert shown(lake, found) == sorted([*rows(3, on=2), *rows(4, 5, on=3, country="FR")], key=repr)


def test_rows_that_a_later_commit_deleted_are_still_in_the_log(lake: Lake, playback: Playback) -> None:
    first = playback.append(*rows(1))
    playback.append(*rows(2, 3))
    playback.delete("account_id = 2")
    found = lake.changes(playback.name, since=first)
    assert found.skipped_operations
    assert shown(lake, found) == sorted(rows(2, 3), key=repr)
    assert found.holds, "the files of the append are not live any more: somebody must hold them"


def test_without_a_start_it_is_the_table_as_it_is(lake: Lake, playback: Playback) -> None:
    playback.append(*rows(1, 2))
    playback.append(*rows(3, on=2))
    playback.delete("account_id = 2")
    found = lake.changes(playback.name)
    assert (found.kind, found.append_only, found.exact) == ("full", True, True)
    assert shown(lake, found) == sorted([*rows(1), *rows(3, on=2)], key=repr)


def test_overwrites_show_what_came_and_what_went(lake: Lake, playback: Playback) -> None:
    first = playback.append(*rows(1, 2), *rows(3, on=2))
    playback.overwrite("event_day = '2026-03-01'", *rows(9))
    skipped = lake.changes(playback.name, since=first)
    # PyIceberg deletes and appends in two snapshots.
    assert (skipped.removed.rows, skipped.append_only) == (0, True)
    assert sum(skipped.skipped_operations.values()) > 0
    found = lake.changes(
        playback.name, since=first, operations=["append", "overwrite", "delete"], columns=["account_id"]
    )
    assert found.append_only is False
    assert (found.added.rows, found.removed.rows) == (1, 2)
    assert (found.ranges["account_id"].min, found.ranges["account_id"].max) == (1, 9)
    assert found.partitions is not None
    assert [(one.values["event_day"], one.rows, one.removed_rows) for one in found.partitions] == [(day(1), 1, 2)]
    assert shown(lake, found) == rows(9)
    assert shown(lake, found, content="removed") == sorted(rows(1, 2), key=repr)


def test_a_copy_on_write_delete_carries_rows_over_and_says_so(lake: Lake, playback: Playback) -> None:
    first = playback.append(*rows(1, 2, 3))
    playback.delete("account_id = 2")
    found = lake.changes(playback.name, since=first, operations=["overwrite", "delete"])
    assert (found.exact, found.append_only) == (False, False)


def test_nothing_new_is_an_empty_change_set_and_an_empty_table(lake: Lake, playback: Playback) -> None:
    head = playback.append(*rows(1))
    found = lake.changes(playback.name, since=head, columns=["account_id"])
    assert not found.has_changes
    assert (found.range_filter, found.partition_filter) == ("FALSE", "FALSE")
    assert shown(lake, found) == []


def test_a_table_without_snapshots_has_no_changes(lake: Lake, playback: Playback) -> None:
    found = lake.changes(playback.name)
    assert (found.to_snapshot, found.has_changes) == (None, False)
    assert lake.checkpoint(playback.name) is None
    assert shown(lake, found) == []


def test_a_change_table_has_the_current_schema_whatever_its_files_had(lake: Lake, playback: Playback) -> None:
    first = playback.append(*rows(1))
    playback.append(*rows(2))
    with playback.table.update_schema() as update:
        update.rename_column("country", "land")
        update.delete_column("view_min")
        update.add_column("device", StringType())
    table = playback.table
    assert table.schema().column_names == ["event_day", "account_id", "land", "device"]
    playback.append((day(2), 3, "FR", "tv"))  # type: ignore[arg-type]
    found = lake.changes(playback.name, since=first, columns=["land", "device"])
    assert shown(lake, found) == [(day(1), 2, "DE", None), (day(2), 3, "FR", "tv")]
    assert (found.ranges["device"].min, found.ranges["device"].nulls) == ("tv", 1)


def test_partitions_of_two_specs_stay_apart(lake: Lake, playback: Playback) -> None:
    first = playback.append(*rows(1))
    playback.append(*rows(2))
    with playback.table.update_spec() as update:
        update.add_field("country", IdentityTransform(), "land")
    playback.append(*rows(3, on=2))
    found = lake.changes(playback.name, since=first)
    assert found.partitions is not None
    assert [one.spec_id for one in found.partitions] == [0, 1]
    assert found.partitions[1].values == {"event_day": day(2), "land": "DE"}
    assert shown(lake, found) == [*rows(2), *rows(3, on=2)]


@pytest.mark.parametrize("version", [1, 2])
def test_old_formats_are_captured_too(lake: Lake, make: MakeTable, version: int) -> None:
    playback = make(version=version)
    first = playback.append(*rows(1))
    playback.append(*rows(2))
    assert playback.loaded.metadata.format_version == version
    assert shown(lake, lake.changes(playback.name, since=first)) == rows(2)


def test_a_table_upgraded_to_v3_is_captured_across_the_upgrade(lake: Lake, playback: Playback) -> None:
    first = playback.append(*rows(1))
    playback.append(*rows(2, 3))
    playback.upgrade_to_v3()
    found = lake.changes(playback.name, since=first, columns=["account_id"])
    assert (found.ranges["account_id"].min, found.ranges["account_id"].max) == (2, 3)
    made = lake.create_change_table(found)
    assert lake.table(made.name).metadata.format_version == 3
    assert read(lake, made.name) == rows(2, 3)


def test_expired_history_is_refused_taken_whole_or_compared(lake: Lake, playback: Playback) -> None:
    first = playback.append(*rows(1))
    start = lake.checkpoint(playback.name)
    second = playback.append(*rows(2))
    third = playback.append(*rows(3))
    playback.append(*rows(4))
    lake.set_checkpoint_tag(playback.name, consumer="slow", snapshot_id=first)
    playback.expire(second, third)
    with pytest.raises(HistoryExpiredError) as raised:
        lake.changes(playback.name, since=start)
    assert "on_gap" in (raised.value.hint or "")
    full = lake.changes(playback.name, since=start, on_gap="full")
    assert (full.kind, full.append_only, full.exact) == ("full", False, False)
    assert isinstance(full.gap, HistoryExpiredError)
    diff = lake.changes(playback.name, since=start, on_gap="diff")
    assert (diff.kind, diff.append_only, diff.exact) == ("diff", True, True)
    assert shown(lake, diff) == rows(2, 3, 4)


def test_an_expired_start_whose_children_are_there_loses_nothing(lake: Lake, playback: Playback) -> None:
    first = playback.append(*rows(1))
    start = lake.checkpoint(playback.name)
    playback.append(*rows(2))
    playback.append(*rows(3))
    playback.expire(first)
    found = lake.changes(playback.name, since=start)
    assert (found.kind, found.exact) == ("log", True)
    assert shown(lake, found) == rows(2, 3)
    assert lake.pin(found, owner="o", capture="c", mode="require").branch is not None


def test_the_orphans_that_pyiceberg_leaves_when_it_expires_are_not_taken_for_a_replaced_table(
    lake: Lake, playback: Playback
) -> None:
    first = playback.append(*rows(1))
    start = lake.checkpoint(playback.name)
    second = playback.append(*rows(2))
    playback.append(*rows(3))
    playback.expire_by_pyiceberg(first, second)
    with pytest.raises(HistoryExpiredError):
        lake.changes(playback.name, since=start)


def test_a_difference_needs_both_ends(lake: Lake, playback: Playback) -> None:
    first = playback.append(*rows(1))
    start = lake.checkpoint(playback.name)
    second = playback.append(*rows(2))
    playback.append(*rows(3))
    playback.expire(first, second)
    with pytest.raises(DiffImpossibleError):
        lake.changes(playback.name, since=start, on_gap="diff")


def test_a_roll_back_that_brings_rows_back_is_a_difference_that_removes(lake: Lake, playback: Playback) -> None:
    first = playback.append(*rows(1))
    playback.append(*rows(2))
    start = lake.checkpoint(playback.name)
    playback.table.manage_snapshots().rollback_to_snapshot(first).commit()
    with pytest.raises(HistoryRolledBackError):
        lake.changes(playback.name, since=start)
    diff = lake.changes(playback.name, since=start, on_gap="diff", columns=["account_id"])
    assert (diff.added.rows, diff.removed.rows, diff.exact) == (0, 1, False)
    assert (diff.ranges["account_id"].min, diff.ranges["account_id"].max) == (2, 2)


def test_a_recreated_table_is_another_table(lake: Lake, playback: Playback) -> None:
    playback.append(*rows(1))
    start = lake.checkpoint(playback.name)
    playback.recreate()
    playback.append(*rows(7))
    with pytest.raises(TableRecreatedError):
        lake.changes(playback.name, since=start)
    full = lake.changes(playback.name, since=start, on_gap="full")
    assert shown(lake, full) == rows(7)


def test_a_branch_is_followed_and_its_end_is_told(lake: Lake, playback: Playback) -> None:
    first = playback.append(*rows(1))
    playback.table.manage_snapshots().create_branch(first, "audit").commit()
    table = playback.table
    table.append(table.scan().to_arrow(), branch="audit")
    playback.append(*rows(3))
    start = lake.checkpoint(playback.name, ref="audit")
    found = lake.changes(playback.name, since=first, ref="audit")
    assert shown(lake, found) == rows(1)
    playback.table.manage_snapshots().remove_branch("audit").commit()
    for on_gap in ("fail", "full", "diff"):
        with pytest.raises(RefGoneError) as raised:
            lake.changes(playback.name, since=start, ref="audit", on_gap=on_gap)  # type: ignore[arg-type]
        assert raised.value.hint == "name another ref: the refs are: main"


def test_what_is_asked_for_wrongly_is_told_clearly(lake: Lake, playback: Playback) -> None:
    first = playback.append(*rows(1))
    second = playback.append(*rows(2))
    namespace = playback.identifier[0]
    wrong: list[tuple[type[IcefloeError], dict[str, Any]]] = [
        (TableNotFoundError, {"table": f"{namespace}.nothing"}),
        (TableNotFoundError, {"table": "no_such_namespace.t"}),
        (TableNotFoundError, {"table": f"{namespace}.`'; DROP TABLE x; --`"}),
        (UsageError, {"table": "just_a_word"}),
        (RefNotFoundError, {"ref": "nowhere"}),
        (RefNotFoundError, {"ref": "nowhere", "since": first}),
        (SnapshotNotFoundError, {"since": 12345}),
        (SnapshotNotFoundError, {"until": 12345}),
        (SnapshotOrderError, {"since": second, "until": first}),
        (ColumnNotFoundError, {"columns": ["nope"]}),
        (UsageError, {"operations": ["replace"]}),
        (UsageError, {"operations": []}),
    ]
    for error, options in wrong:
        arguments = {"table": playback.name, **options}
        with pytest.raises(error) as raised:
            lake.changes(arguments.pop("table"), **arguments)
        assert raised.value.hint, options
        assert raised.value.code.startswith(("lake.", "usage"))


def test_a_table_with_an_odd_name_is_captured(lake: Lake, make: MakeTable) -> None:
    playback = make("it's an odd-name")
    first = playback.append(*rows(1))
    playback.append(*rows(2))
    assert shown(lake, lake.changes(playback.name, since=first)) == rows(2)


def test_an_encrypted_table_is_refused(lake: Lake, playback: Playback) -> None:
    playback.append(*rows(1))
    with playback.table.transaction() as transaction:
        transaction.set_properties({"encryption.key-id": "k"})
    with pytest.raises(UnsupportedTableError, match="encrypted"):
        lake.changes(playback.name)


def test_counts_without_details_open_no_manifest(lake: Lake, playback: Playback) -> None:
    first = playback.append(*rows(1))
    playback.append(*rows(2, 3))
    loaded = playback.loaded
    opened: list[str] = []
    read_file = loaded.read
    loaded.read = lambda location: opened.append(location) or read_file(location)  # type: ignore[method-assign,func-returns-value]
    found = lake.changes_of(loaded, since=first, details=False)
    assert (found.added.rows, found.added.files, found.added.bytes, found.partitions) == (2, 1, None, None)
    assert opened and all("/snap-" in one for one in opened)
