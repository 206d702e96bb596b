"""How much a reader has to open, of tables that Spark wrote."""

from __future__ import annotations

from datetime import date

import pytest

from icefloe.lake import Lake, read_sizes
from tests.integration.lake.conftest import Sql
from tests.spark_server import Project

DAYS = [date(2026, 3, day) for day in range(1, 6)]


@pytest.mark.parametrize("version", [2, 3])
def test_partitions_taken_together_are_the_whole_with_its_deletes(
    project: Project, lake: Lake, sql: Sql, version: int
) -> None:
    name = project.name("playback")
    sql(
        f"CREATE TABLE {name} (event_day DATE, account_id BIGINT) USING iceberg PARTITIONED BY (event_day) "
        f"TBLPROPERTIES ('format-version'='{version}', 'write.delete.mode'='merge-on-read')"
    )
    rows = ", ".join(f"(DATE'{day}', {account})" for day in DAYS for account in range(20))
    sql(f"INSERT INTO {name} SELECT /*+ COALESCE(1) */ * FROM VALUES {rows} AS t(event_day, account_id)")
    sql(f"DELETE FROM {name} WHERE account_id = 7")
    [(deletes, places)] = sql(f"SELECT count(*), count(DISTINCT file_path) FROM {name}.delete_files")
    assert deletes == len(DAYS)
    assert version == 2 or places < deletes, "deletion vectors share files"
    table = lake.table(name)
    head = table.metadata.refs["main"].snapshot_id
    whole = read_sizes.whole(table, head)
    parts = [read_sizes.in_partitions(table, head, "event_day", [day]) for day in DAYS]
    assert whole.files == 2 * len(DAYS)
    assert sum(part.bytes or 0 for part in parts if part is not None) == whole.bytes
    newest = read_sizes.newest_days(table, head, len(DAYS))
    assert newest is not None and newest.counts == whole
