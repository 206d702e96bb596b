"""Facts about Iceberg and Spark that the lake is built on, each with a test that fails when it stops being true.

They are told of Spark 4.1, Iceberg 1.12 and PyIceberg 0.12. When one fails after an upgrade, the code that rests on it is to be
looked at: it is named in the test.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fastavro
import pytest
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType

from icefloe.config import Config
from tests.spark_server import Project

if TYPE_CHECKING:
    from pyspark.sql.connect.session import SparkSession


class Tables:
    """The shared project's tables, through Spark and PyIceberg."""

    def __init__(self, spark: SparkSession, project: Project) -> None:
        self.spark = spark
        self.project = project

    def __call__(self, statement: str) -> list[Any]:
        return list(self.spark.sql(statement).collect())

    def make(self, columns: str = "id BIGINT, c STRING", *, version: int = 2, by: str = "", **properties: str) -> str:
        name = self.project.name("t")
        pairs = {
            "format-version": str(version),
            **{k.replace("__", "-").replace("_", "."): v for k, v in properties.items()},
        }
        listed = ", ".join(f"'{k}'='{v}'" for k, v in pairs.items())
        self(
            f"CREATE TABLE {name} ({columns}) USING iceberg {f'PARTITIONED BY ({by})' if by else ''} TBLPROPERTIES ({listed})"
        )
        return name

    @property
    def catalog(self) -> Catalog:
        config: Config = self.project.config
        return load_catalog(config.catalog.name, **config.catalog.pyiceberg_properties())

    def metadata(self, name: str) -> dict[str, Any]:
        """The table's ``metadata.json`` as it is."""
        row = self(f"SELECT file FROM {name}.metadata_log_entries ORDER BY timestamp DESC, file DESC LIMIT 1")[0]
        found: dict[str, Any] = json.loads(local(row[0]).read_text())
        return found

    def snapshots(self, name: str) -> list[Any]:
        return self(
            f"SELECT snapshot_id, parent_id, operation, summary, manifest_list FROM {name}.snapshots ORDER BY committed_at"
        )

    def head(self, name: str) -> int:
        found: int = self(f"SELECT snapshot_id FROM {name}.refs WHERE name = 'main'")[0][0]
        return found

    def last_operation(self, name: str) -> str:
        head = self.head(name)
        return next(s.operation for s in self.snapshots(name) if s.snapshot_id == head)


@pytest.fixture
def t(spark: SparkSession, project: Project) -> Tables:
    return Tables(spark, project)


def local(location: str) -> Path:
    return Path("/" + location.removeprefix("file:").lstrip("/"))


def avro(location: str) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    with local(location).open("rb") as file:
        reader = fastavro.reader(file)
        records = [dict(record) for record in reader]  # type: ignore[arg-type, call-overload]
        return records, json.loads(reader.metadata["avro.schema"])


# -- operations (lake/content.py) ------------------------------------------------------------------------------------------


def test_a_merge_is_an_append_when_all_its_keys_are_new_and_an_overwrite_when_one_matches(t: Tables) -> None:
    name = t.make()
    t(f"INSERT INTO {name} VALUES (1, 'a')")
    merge = "MERGE INTO {0} t USING (SELECT {1} AS id, 'x' AS c) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    t(merge.format(name, "CAST(2 AS BIGINT)"))
    assert t.last_operation(name) == "append"
    t(merge.format(name, "CAST(1 AS BIGINT)"))
    assert t.last_operation(name) == "overwrite"


@pytest.mark.parametrize(
    ("mode", "statement", "operation"),
    [
        ("copy-on-write", "DELETE FROM {0} WHERE id = 1", "overwrite"),
        ("copy-on-write", "UPDATE {0} SET c = 'z' WHERE id = 1", "overwrite"),
        ("merge-on-read", "DELETE FROM {0} WHERE id = 1", "delete"),
        ("merge-on-read", "UPDATE {0} SET c = 'z' WHERE id = 1", "overwrite"),
        ("merge-on-read", "DELETE FROM {0} WHERE id > 0", "delete"),
        ("merge-on-read", "TRUNCATE TABLE {0}", "delete"),
        ("merge-on-read", "INSERT INTO {0} SELECT * FROM {0} WHERE false", "append"),
        ("merge-on-read", "INSERT OVERWRITE {0} VALUES (9, 'z')", "overwrite"),
        (
            "merge-on-read",
            "CALL system.rewrite_data_files(table => '{0}', options => map('rewrite-all', 'true'))",
            "replace",
        ),
        ("merge-on-read", "CALL system.rewrite_manifests('{0}')", "replace"),
    ],
)
def test_what_a_statement_is_called_in_the_snapshot_summary(
    t: Tables, mode: str, statement: str, operation: str
) -> None:
    name = t.make(write_delete_mode=mode, write_update_mode=mode, commit_manifest__merge_enabled="false")
    t(f"INSERT INTO {name} SELECT /*+ REPARTITION(1) */ * FROM VALUES (CAST(1 AS BIGINT), 'a'), (2, 'b')")
    t(f"INSERT INTO {name} VALUES (3, 'c')")
    before = len(t.snapshots(name))
    t(statement.format(name))
    assert len(t.snapshots(name)) == before + 1, "each of them makes a snapshot, also the one that adds no row"
    assert t.last_operation(name) == operation


def test_an_overwrite_of_an_empty_partition_is_still_called_overwrite(t: Tables) -> None:
    name = t.make("id BIGINT, p INT", by="p")
    t(f"INSERT INTO {name} VALUES (1, 1)")
    t(f"INSERT OVERWRITE {name} VALUES (2, 2)")
    assert t.last_operation(name) == "overwrite"
    assert len(t(f"SELECT * FROM {name}")) == 2


def test_one_puffin_file_holds_the_deletion_vectors_of_several_data_files(t: Tables) -> None:
    """Delete files are therefore never told apart by path alone."""
    name = t.make(version=3, write_delete_mode="merge-on-read", write_distribution__mode="none")
    for start in (1, 11):
        t(
            f"INSERT INTO {name} SELECT /*+ REPARTITION(1) */ * FROM VALUES (CAST({start} AS BIGINT), 'a'), ({start + 1}, 'b')"
        )
    t(f"DELETE FROM {name} WHERE id IN (1, 11)")
    files = t(f"SELECT file_path, content_offset, referenced_data_file FROM {name}.delete_files")
    assert len(files) == 2
    assert len({f.file_path for f in files}) == 1
    assert len({f.referenced_data_file for f in files}) == 2


# -- history (lake/history.py) ---------------------------------------------------------------------------------------------


def test_create_or_replace_keeps_the_uuid_and_starts_a_chain_without_a_parent(t: Tables) -> None:
    name = t.make()
    t(f"INSERT INTO {name} VALUES (1, 'a')")
    uuid, old = t.metadata(name)["table-uuid"], t.head(name)
    t(f"CREATE OR REPLACE TABLE {name} USING iceberg AS SELECT CAST(2 AS BIGINT) AS id, 'b' AS c")
    assert t.metadata(name)["table-uuid"] == uuid
    snapshots = {s.snapshot_id: s for s in t.snapshots(name)}
    assert snapshots[t.head(name)].parent_id is None
    assert old in snapshots, "the old snapshots stay in the metadata until they expire"


def test_a_cherry_pick_adds_the_staged_files_again_and_names_the_staged_snapshot(t: Tables) -> None:
    name = t.make(write_wap_enabled="true")
    t(f"INSERT INTO {name} VALUES (1, 'a')")
    head = t.head(name)
    t.spark.conf.set("spark.wap.id", "audit")
    t(f"INSERT INTO {name} VALUES (2, 'b')")
    t.spark.conf.unset("spark.wap.id")
    staged = next(s for s in t.snapshots(name) if s.summary.get("wap.id") == "audit")
    assert t.head(name) == head, "a staged snapshot is on no ref"
    t(f"INSERT INTO {name} VALUES (3, 'c')")
    t(f"CALL system.cherrypick_snapshot('{name}', {staged.snapshot_id})")
    picked = next(s for s in t.snapshots(name) if s.snapshot_id == t.head(name))
    assert picked.snapshot_id != staged.snapshot_id
    assert picked.operation == "append"
    assert picked.summary["source-snapshot-id"] == str(staged.snapshot_id)
    added = t(
        f"SELECT snapshot_id, data_file.file_path AS path FROM {name}.all_entries"
        f" WHERE status = 1 AND snapshot_id IN ({staged.snapshot_id}, {picked.snapshot_id})"
    )
    assert {row.snapshot_id for row in added} == {staged.snapshot_id, picked.snapshot_id}
    assert len({row.path for row in added}) == 1


def test_of_two_branches_off_one_head_only_one_can_be_fast_forwarded(t: Tables) -> None:
    name = t.make()
    t(f"INSERT INTO {name} VALUES (1, 'a')")
    for branch in ("one", "two"):
        t(f"ALTER TABLE {name} CREATE BRANCH {branch}")
        t(f"INSERT INTO {name}.branch_{branch} VALUES (2, '{branch}')")
    t(f"CALL system.fast_forward('{name}', 'main', 'one')")
    with pytest.raises(Exception, match="not an ancestor"):
        t(f"CALL system.fast_forward('{name}', 'main', 'two')")


# -- manifests (lake/manifests.py) -----------------------------------------------------------------------------------------


def test_the_commit_after_a_new_partition_field_may_rewrite_manifests_without_adding_from_them(t: Tables) -> None:
    """Such a manifest carries the new snapshot's id and no ADDED entry: counts decide, not ``added_snapshot_id`` alone."""
    name = t.make()
    t(f"INSERT INTO {name} VALUES (1, 'a')")
    t(f"INSERT INTO {name} VALUES (2, 'b')")
    t(f"ALTER TABLE {name} ADD PARTITION FIELD bucket(2, id)")
    t(f"INSERT INTO {name} VALUES (3, 'c')")
    head = t.head(name)
    manifests = t(
        f"SELECT added_snapshot_id, added_data_files_count AS added, existing_data_files_count AS existing FROM {name}.manifests"
    )
    assert any(m.added_snapshot_id == head and m.added == 0 and m.existing > 0 for m in manifests)


def test_a_v1_manifest_list_has_neither_content_nor_sequence_numbers(t: Tables) -> None:
    name = t.make(version=1)
    t(f"INSERT INTO {name} VALUES (1, 'a')")
    _, schema = avro(t.snapshots(name)[0].manifest_list)
    ids = {field["field-id"] for field in schema["fields"]}
    assert 500 in ids
    assert not ids & {517, 515, 516}


def test_row_ids_are_missing_from_lists_written_before_the_upgrade_to_v3_and_given_by_later_ones(t: Tables) -> None:
    name = t.make(version=2)
    t(f"INSERT INTO {name} VALUES (1, 'a')")
    t(f"ALTER TABLE {name} SET TBLPROPERTIES ('format-version'='3')")
    t(f"INSERT INTO {name} VALUES (2, 'b')")
    lists = [avro(snapshot.manifest_list)[0] for snapshot in t.snapshots(name)]
    assert all(manifest.get("first_row_id") is None for manifest in lists[0])
    assert all(manifest["first_row_id"] is not None for manifest in lists[1])


def test_a_promoted_int_keeps_four_bytes_in_the_bounds_of_older_files(t: Tables) -> None:
    name = t.make("id BIGINT, n INT, f FLOAT")
    t(f"INSERT INTO {name} VALUES (1, 7, CAST(0.5 AS FLOAT))")
    t(f"ALTER TABLE {name} ALTER COLUMN n TYPE BIGINT")
    t(f"ALTER TABLE {name} ALTER COLUMN f TYPE DOUBLE")
    bounds = t(f"SELECT lower_bounds FROM {name}.files")[0][0]
    assert (len(bounds[1]), len(bounds[2]), len(bounds[3])) == (8, 4, 4)


def test_string_bounds_are_cut_at_16_characters_the_upper_one_raised_or_left_out(t: Tables) -> None:
    name = t.make()
    t(f"INSERT INTO {name} VALUES (1, '{'x' * 20}')")
    bounds = t(f"SELECT lower_bounds, upper_bounds FROM {name}.files")[0]
    assert bytes(bounds[0][2]) == b"x" * 16
    assert bytes(bounds[1][2]) == b"x" * 15 + b"y"
    t(f"INSERT OVERWRITE {name} VALUES (1, '{chr(0x10FFFF) * 20}')")
    assert 2 not in t(f"SELECT upper_bounds FROM {name}.files")[0][0]


def test_bounds_are_absent_where_there_are_only_nulls_and_nans(t: Tables) -> None:
    name = t.make("id BIGINT, c STRING, f DOUBLE")
    t(f"INSERT INTO {name} VALUES (1, NULL, double('NaN'))")
    row = t(f"SELECT lower_bounds, null_value_counts AS nulls, nan_value_counts AS nans FROM {name}.files")[0]
    assert set(row[0]) == {1}
    assert row.nulls[2] == 1
    assert row.nans[3] == 1


# -- change tables (lake/change_table.py) ----------------------------------------------------------------------------------


def test_create_table_gives_fields_new_ids_so_files_cannot_simply_be_appended_to_a_new_table(t: Tables) -> None:
    schema = Schema(NestedField(7, "id", LongType()), NestedField(9, "c", StringType()))
    made = t.catalog.create_table(t.project.name("made"), schema=schema)
    assert [field.field_id for field in made.schema().fields] == [1, 2]
    name = t.make("a INT, id BIGINT, c STRING")
    t(f"ALTER TABLE {name} DROP COLUMN a")
    t(f"CREATE TABLE {t.project.name('copy')} USING iceberg AS SELECT * FROM {name}")
    ids = [field["id"] for field in t.metadata(t.project.name("copy"))["schemas"][0]["fields"]]
    assert ids == [1, 2], "in the source they are 2 and 3"


def test_without_garbage_collection_spark_refuses_to_expire_remove_orphans_and_purge(t: Tables) -> None:
    name = t.make(gc_enabled="false")
    t(f"INSERT INTO {name} VALUES (1, 'a')")
    for statement in (
        f"CALL system.expire_snapshots(table => '{name}', older_than => TIMESTAMP'2100-01-01')",
        f"CALL system.remove_orphan_files(table => '{name}')",
        f"DROP TABLE {name} PURGE",
    ):
        with pytest.raises(Exception, match="GC is disabled"):
            t(statement)
    assert len(t(f"SELECT * FROM {name}")) == 1


def test_pyiceberg_purges_data_files_although_garbage_collection_is_off(t: Tables) -> None:
    """Why no code path here calls ``purge_table``, and a change table is dropped by hand."""
    name = t.make(gc_enabled="false")
    t(f"INSERT INTO {name} VALUES (1, 'a')")
    file = local(t(f"SELECT file_path FROM {name}.files")[0][0])
    assert file.exists()
    t.catalog.purge_table(name)
    assert not file.exists()


def test_the_two_engines_spell_a_file_s_place_differently(t: Tables) -> None:
    """Paths are compared after ``storage.normal`` only."""
    name = t.make()
    t(f"INSERT INTO {name} VALUES (1, 'a')")
    table = t.catalog.load_table(name)
    table.append(table.scan().to_arrow())
    paths = [row[0] for row in t(f"SELECT file_path FROM {name}.files")]
    assert {path.startswith("file:///") for path in paths} == {True, False}


# -- pins (lake/pins.py) ---------------------------------------------------------------------------------------------------


def test_a_filter_by_a_day_before_the_calendar_s_reform_loses_rows_of_orc_files(t: Tables) -> None:
    """So predicates compare with no such day (lake/predicates.py). When this fails they may."""
    name = t.make(write_format_default="orc")
    t(f"ALTER TABLE {name} ADD COLUMN day DATE")
    t(f"INSERT INTO {name} VALUES (1, 'a', DATE'0001-01-01')")
    assert len(t(f"SELECT * FROM {name} WHERE id = 1")) == 1
    assert t(f"SELECT * FROM {name} WHERE day <= DATE'0001-01-01'") == []


def test_a_branch_is_read_with_the_current_schema_and_a_tag_with_its_own(t: Tables) -> None:
    name = t.make()
    t(f"INSERT INTO {name} VALUES (1, 'a')")
    old = t.head(name)
    t(f"ALTER TABLE {name} CREATE BRANCH b")
    t(f"ALTER TABLE {name} CREATE TAG v")
    t(f"INSERT INTO {name} VALUES (2, 'b')")
    t(f"ALTER TABLE {name} RENAME COLUMN c TO d")

    def columns(relation: str) -> list[str]:
        return list(t.spark.sql(f"SELECT * FROM {relation}").columns)

    assert columns(name) == columns(f"{name}.branch_b") == ["id", "d"]
    assert columns(f"{name}.tag_v") == columns(f"{name} VERSION AS OF {old}") == ["id", "c"]


def test_a_filter_on_a_branch_is_bound_to_the_schema_of_the_branch_s_snapshot(t: Tables) -> None:
    """So a renamed or added column cannot be filtered on there once main has moved on, although it is shown."""
    name = t.make()
    t(f"INSERT INTO {name} VALUES (1, 'a')")
    t(f"ALTER TABLE {name} CREATE BRANCH b")
    t(f"ALTER TABLE {name} RENAME COLUMN c TO d")
    assert len(t(f"SELECT * FROM {name}.branch_b WHERE d = 'a'")) == 1, (
        "while the branch is at the current snapshot it works"
    )
    t(f"INSERT INTO {name} VALUES (2, 'b')")
    assert len(t(f"SELECT * FROM {name}.branch_b")) == 1
    with pytest.raises(Exception, match="Cannot find field 'd'"):
        t(f"SELECT * FROM {name}.branch_b WHERE d = 'a'")


def test_a_table_s_ref_age_removes_refs_without_an_age_of_their_own(t: Tables) -> None:
    name = t.make(history_expire_max__ref__age__ms="1")
    t(f"INSERT INTO {name} VALUES (1, 'a')")
    t(f"ALTER TABLE {name} CREATE TAG ageless")
    t(f"ALTER TABLE {name} CREATE TAG aged RETAIN 10 DAYS")
    t(f"INSERT INTO {name} VALUES (2, 'b')")
    t(f"CALL system.expire_snapshots(table => '{name}', older_than => TIMESTAMP'2100-01-01', retain_last => 1)")
    assert {row[0] for row in t(f"SELECT name FROM {name}.refs")} == {"main", "aged"}


def test_expiry_deletes_the_files_of_a_compacted_append_unless_a_tag_holds_its_snapshot(t: Tables) -> None:
    name = t.make()
    t(f"INSERT INTO {name} VALUES (1, 'a')")
    held = local(t(f"SELECT file_path FROM {name}.files")[0][0])
    t(f"ALTER TABLE {name} CREATE TAG v")
    t(f"INSERT INTO {name} VALUES (2, 'b')")
    lost = {local(row[0]) for row in t(f"SELECT file_path FROM {name}.files")} - {held}
    t(f"CALL system.rewrite_data_files(table => '{name}', options => map('rewrite-all', 'true'))")
    t(f"CALL system.expire_snapshots(table => '{name}', older_than => TIMESTAMP'2100-01-01', retain_last => 1)")
    assert held.exists()
    assert not any(file.exists() for file in lost)
    parents = {s.snapshot_id: s.parent_id for s in t.snapshots(name)}
    assert parents[t.head(name)] not in parents, "a tag holds its own snapshot, not the chain after it"


# -- predicates (lake/predicates.py) ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("column", "literal"), [("at", "TIMESTAMP_NTZ'2026-01-01 00:00:00'"), ("moment", "TIMESTAMP'2026-01-01 00:00:00Z'")]
)
def test_typed_literals_of_times_prune_files_and_mean_the_same_in_every_session_time_zone(
    t: Tables, column: str, literal: str
) -> None:
    name = t.make("id BIGINT, at TIMESTAMP_NTZ, moment TIMESTAMP")
    pushed = set()
    for zone in ("America/New_York", "Asia/Kathmandu", "UTC"):
        t.spark.conf.set("spark.sql.session.timeZone", zone)
        plan: str = t(f"EXPLAIN FORMATTED SELECT * FROM {name} WHERE {column} >= {literal}")[0][0]
        pushed.add(next(line.split("filters=")[1] for line in plan.splitlines() if "filters=" in line))
    assert pushed == {f"{column} IS NOT NULL, {column} >= 1767225600000000, runtimeFilters=, groupedBy=)"}


def test_spark_reads_the_literals_of_the_smallest_and_largest_numbers(t: Tables) -> None:
    row = t("SELECT -9223372036854775808L AS low, 9223372036854775807L AS high, -2147483648 AS small")[0]
    assert (row.low, row.high, row.small) == (-(2**63), 2**63 - 1, -(2**31))
    with pytest.raises(Exception, match="9223372036854775808"):
        t("SELECT 9223372036854775808L")


@pytest.mark.parametrize("by", ["c", "truncate(10, c)"])
def test_a_delete_below_a_value_takes_a_partition_of_nulls_along_unless_it_says_not_null(t: Tables, by: str) -> None:
    """``planner.spans``: a range without a lower bound."""
    left = []
    for condition in ("c <= 5", "c IS NOT NULL AND c <= 5", "c >= 0 AND c <= 5"):
        name = t.make("id BIGINT, c INT", by=by)
        t(f"INSERT INTO {name} VALUES (1, NULL), (2, 5), (3, 50)")
        t(f"DELETE FROM {name} WHERE {condition}")
        left.append({row["id"] for row in t(f"SELECT id FROM {name}")})
        t(f"DROP TABLE {name}")
    assert left == [{3}, {1, 3}, {1, 3}]


def test_small_files_in_a_folder_are_read_by_one_task_and_with_icebergs_own_cost_by_more(t: Tables) -> None:
    """``icefloe.config.LOCAL_FILES``: a catalog's default for new tables, told to Spark alone."""
    name = t.make()
    for number in range(12):
        t(f"INSERT INTO {name} VALUES ({number}, 'x')")
    count = f"SELECT count(DISTINCT task) FROM (SELECT spark_partition_id() AS task FROM {name})"
    assert t(count)[0][0] == 1
    t(f"ALTER TABLE {name} SET TBLPROPERTIES ('read.split.open-file-cost'='4194304')")
    assert t(count)[0][0] == 3


def test_rows_of_one_task_are_made_distinct_without_a_shuffle(t: Tables) -> None:
    """``planner.statements``: the keys of few changed rows. Seen in Spark 4.1."""
    name = t.make()
    t(f"INSERT INTO {name} VALUES (1, 'x'), (1, 'x'), (NULL, 'y'), (NULL, 'y')")
    both = f"SELECT * FROM {name} UNION ALL SELECT * FROM {name}"
    shuffled = [
        "Exchange" in t(f"EXPLAIN SELECT DISTINCT id, c FROM (SELECT {hint} * FROM ({both}))")[0][0]
        for hint in ("/*+ COALESCE(1) */", "")
    ]
    assert shuffled == [False, True]
    assert len(t(f"SELECT DISTINCT id, c FROM (SELECT /*+ COALESCE(1) */ * FROM ({both}))")) == 2
