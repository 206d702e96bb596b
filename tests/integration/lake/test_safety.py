"""Nothing that Icefloe makes, and nothing that Spark does to it, can take anything of the source away."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from icefloe.lake import ChangeTable, Lake
from tests.integration.lake.conftest import Sql
from tests.spark_server import Project


@pytest.fixture(params=[2, 3])
def source(request: pytest.FixtureRequest, project: Project, sql: Sql) -> str:
    """A table with appends, a merge-on-read delete and a copy-on-write update in its past."""
    name = project.name("playback")
    sql(
        f"CREATE TABLE {name} (event_day DATE, account_id BIGINT, country STRING) USING iceberg PARTITIONED BY (event_day) "
        f"TBLPROPERTIES ('format-version'='{request.param}', 'write.delete.mode'='merge-on-read')"
    )
    sql(f"INSERT INTO {name} VALUES (DATE'2026-03-01', 1, 'DE'), (DATE'2026-03-01', 2, 'DE')")
    sql(f"INSERT INTO {name} VALUES (DATE'2026-03-02', 3, 'FR'), (DATE'2026-03-01', 4, 'FR')")
    sql(f"DELETE FROM {name} WHERE account_id = 1")
    sql(f"UPDATE {name} SET country = 'IT' WHERE account_id = 3")
    return name


def files_of(project: Project, table: str) -> dict[str, bytes]:
    """Every file below the source's folder, with what is in it."""
    folder = Path(project.config.catalog.warehouse.removeprefix("file://"), *table.split("."))  # type: ignore[union-attr]
    found = {str(one): one.read_bytes() for one in folder.rglob("*") if one.is_file()}
    assert found
    return found


def captured(lake: Lake, source: str) -> list[ChangeTable]:
    """A change table of each kind: the whole table, the appends, and what overwrites removed."""
    metadata = lake.table(source).metadata
    first = next(one.id for one in metadata.snapshots.values() if one.parent_id is None)
    everything = lake.changes(source, since=first, operations=["append", "overwrite", "delete"])
    return [
        lake.create_change_table(lake.changes(source)),
        lake.create_change_table(lake.changes(source, since=first)),
        lake.create_change_table(everything),
        lake.create_change_table(everything, content="removed"),
    ]


def expire(sql: Sql, table: str) -> Any:
    return sql(
        f"CALL lake.system.expire_snapshots(table => '{table}', older_than => TIMESTAMP'2100-01-01', retain_last => 1)"
    )


def remove_orphans(sql: Sql, table: str) -> Any:
    return sql(f"CALL lake.system.remove_orphan_files(table => '{table}', older_than => TIMESTAMP'2020-01-01')")


def purge(sql: Sql, table: str) -> Any:
    return sql(f"DROP TABLE {table} PURGE")


def drop(sql: Sql, table: str) -> Any:
    return sql(f"DROP TABLE {table}")


@pytest.mark.parametrize("deed", [expire, remove_orphans, purge, drop])
def test_what_spark_does_to_a_change_table_takes_nothing_from_the_source(
    lake: Lake, sql: Sql, project: Project, source: str, deed: Callable[[Sql, str], Any]
) -> None:
    rows = sql(f"SELECT * FROM {source} ORDER BY account_id")
    tables = captured(lake, source)
    before = files_of(project, source)
    for table in tables:
        try:
            deed(sql, table.name)
        except Exception as error:
            # gc.enabled=false: expiry, orphan removal and purge refuse.
            assert "gc" in str(error).lower(), error
    assert files_of(project, source) == before
    assert sql(f"SELECT * FROM {source} ORDER BY account_id") == rows


def test_captures_pins_drops_and_clean_ups_leave_every_file_and_snapshot_as_it_was(
    lake: Lake, sql: Sql, project: Project, source: str
) -> None:
    before, metadata = files_of(project, source), lake.table(source).metadata
    tables = captured(lake, source)
    changes = lake.changes(source, columns=["account_id"])
    lake.pin(changes, owner="o", capture="c", mode="require")
    lake.set_checkpoint_tag(source, consumer="o", snapshot_id=changes.to_snapshot or 0)
    lake.unpin(source, owner="o", capture="c")
    for table in tables:
        lake.drop_change_table(table.name)
    lake.clean_change_tables(older_than_seconds=0)
    after = files_of(project, source)
    assert before.items() <= after.items()
    assert all(name.endswith(".metadata.json") for name in after.keys() - before.keys())
    assert lake.table(source).metadata.snapshots == metadata.snapshots
    assert lake.change_tables() == [] or not {one.name for one in lake.change_tables()} & {one.name for one in tables}


def test_a_capture_works_with_the_data_folder_moved_away(lake: Lake, sql: Sql, project: Project, source: str) -> None:
    data = Path(lake.table(source).metadata.location.removeprefix("file:").replace("//", "/")) / "data"
    hidden = data.with_name("data-moved-away")
    data.rename(hidden)
    try:
        tables = captured(lake, source)
    finally:
        hidden.rename(data)
    assert sql(f"SELECT account_id FROM {tables[0].name} ORDER BY 1") == [(2,), (3,), (4,)]
    assert sql(f"SELECT account_id FROM {tables[1].name} ORDER BY 1") == [(3,), (4,)]


def test_with_its_pins_a_change_table_outlives_compaction_and_expiry(lake: Lake, sql: Sql, source: str) -> None:
    metadata = lake.table(source).metadata
    first = next(one.id for one in metadata.snapshots.values() if one.parent_id is None)
    changes = lake.changes(source, since=first)
    table = lake.create_change_table(changes)
    report = lake.pin(changes, owner="o", capture="c", mode="require")
    sql(f"CALL lake.system.rewrite_data_files(table => '{source}', options => map('rewrite-all', 'true'))")
    sql(f"INSERT INTO {source} VALUES (DATE'2026-03-05', 9, 'ES')")
    expire(sql, source)
    assert first not in lake.table(source).metadata.snapshots
    expected = [(3, "FR"), (4, "FR")]
    assert sql(f"SELECT account_id, country FROM {table.name} ORDER BY 1") == expected
    scan = lake.tables.catalog.load_table(lake._identifier(table.name)).scan(selected_fields=("account_id", "country"))
    assert sorted(tuple(row.values()) for row in scan.to_arrow().to_pylist()) == expected
    at_to = sql(f"SELECT account_id, country FROM {source}.branch_{report.branch} ORDER BY 1")
    assert at_to == [(2, "DE"), (3, "IT"), (4, "FR")]
    lake.unpin(source, owner="o", capture="c")
    expire(sql, source)
    with pytest.raises(Exception, match=r"(?i)not.*exist|not.*found|FAILED_READ_FILE"):
        sql(f"SELECT account_id, country FROM {table.name} ORDER BY 1")
