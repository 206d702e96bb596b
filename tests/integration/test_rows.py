"""Rows found and deleted without Spark, on tables that Spark wrote: Spark says which those are, and what is left."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import date
from random import Random
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from icefloe.lake import Lake, storage
from icefloe.lake.catalog import RefChange, Tables
from icefloe.lake.content import manifests_of
from icefloe.lake.errors import CommitConflictError, StorageError
from icefloe.lake.manifests import DELETES
from icefloe.planner.plan import KeySearch, Partitions
from icefloe.rows import NotPlainError
from icefloe.rows.deletion import Deletion
from icefloe.rows.files import live_files
from icefloe.rows.key_lookup import KeyLookup, Keys
from icefloe.steps.write import key_search
from icefloe.steps.write.key_search import frame
from tests.spark_server import Project

if TYPE_CHECKING:
    from pyspark.sql.connect.session import SparkSession

DAYS = [date(2026, 3, number) for number in (1, 2, 3)]
MERGE_ON_READ = "'format-version'='3', 'write.delete.mode'='merge-on-read', 'write.merge.mode'='merge-on-read'"
TINY_ROW_GROUPS = (
    "'write.parquet.row-group-size-bytes'='1024', 'write.parquet.row-group-check-min-record-count'='1', "
    "'write.parquet.row-group-check-max-record-count'='20'"
)
ALL_TYPES = {
    "number": "INT",
    "long_number": "BIGINT",
    "word": "STRING",
    "day": "DATE",
    "yes": "BOOLEAN",
    "small": "FLOAT",
    "large": "DOUBLE",
    "money": "DECIMAL(9,2)",
    "moment": "TIMESTAMP",
    "clock": "TIMESTAMP_NTZ",
    "bytes": "BINARY",
}


SEEDS = [0, 1, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(2, 30))]


@dataclass
class Table:
    """One table, by Spark and by its files."""

    spark: Any
    lake: Lake
    name: str
    partition: str = "day"

    def sql(self, text: str) -> list[Any]:
        rows: list[Any] = self.spark.sql(text.format(t=self.name)).collect()
        return rows

    @property
    def head(self) -> int:
        return self.lake.table(self.name).metadata.refs["main"].snapshot_id

    def keys(self, changed: Table, *columns: str) -> Keys:
        """All keys of another table."""
        loaded = self.lake.table(changed.name)
        found = live_files(loaded, changed.head, changed.partition, DAYS)
        return KeyLookup(loaded, columns, most=10**6).keys(found, 2)

    def found(self, keys: Keys, by: tuple[str, ...], columns: list[str], most: int = 10**6) -> list[Any]:
        """As Spark gets them."""
        loaded = self.lake.table(self.name)
        files = live_files(loaded, self.head, self.partition, DAYS)
        rows = KeyLookup(loaded, by, most=most).rows(files, keys, columns, 2, partition=self.partition)
        found: list[Any] = frame(self.spark, rows).collect()
        return found

    def deletion(self, keys: Keys, *by: str) -> Deletion:
        loaded = self.lake.table(self.name)
        files = live_files(loaded, self.head, self.partition, DAYS)
        positions = KeyLookup(loaded, by, most=10**6).positions(files, keys, 2)
        deleted = {one: positions[one.path] for one in files if one.path in positions}
        return Deletion(self.lake.tables, loaded, self.head, deleted)


@pytest.fixture
def lake(project: Project) -> Lake:
    return Lake.open(project.config)


@pytest.fixture
def zone(spark: SparkSession) -> Iterator[None]:
    """A session elsewhere: times are not to be moved by it."""
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Asia/Kathmandu")
    yield
    spark.conf.set("spark.sql.session.timeZone", before or "UTC")


def made(project: Project, spark: SparkSession, lake: Lake, name: str, columns: str, properties: str) -> Table:
    full = project.name(name)
    spark.sql(f"CREATE TABLE {full} ({columns}) USING iceberg PARTITIONED BY (day) TBLPROPERTIES ({properties})")
    return Table(spark, lake, full)


def some_rows(random: Random, many: int) -> str:
    """Of all types, NULLs and what is at the borders among them."""

    def one() -> str:
        number = random.randint(1, 15)
        values = {
            "number": f"CAST({number} AS INT)",
            "long_number": f"CAST({random.choice([number, 2**40])} AS BIGINT)",
            "word": random.choice(["'a'", "'b'", "''", f"'word {number}'"]),
            "day": f"DATE'{random.choice(DAYS)}'",
            "yes": random.choice(["true", "false"]),
            "small": "CAST(1.5 AS FLOAT)",
            "large": random.choice(["CAST('NaN' AS DOUBLE)", "-0.0D", "2.5D"]),
            "money": f"CAST({random.choice(['1.20', '-9999999.99', '0'])} AS DECIMAL(9,2))",
            "moment": f"TIMESTAMP'2026-03-29 0{random.randint(0, 9)}:30:00.123456'",
            "clock": f"TIMESTAMP_NTZ'1965-03-29 0{random.randint(0, 9)}:30:00'",
            "bytes": random.choice(["X''", "X'00FF'"]),
        }
        for name in values:
            if name != "day" and random.random() < 0.1:
                values[name] = f"CAST(NULL AS {ALL_TYPES[name]})"
        return f"({', '.join(values.values())})"

    return ", ".join(one() for _ in range(many))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.usefixtures("zone")
def test_the_rows_with_a_key_are_those_that_spark_finds(
    project: Project, spark: SparkSession, lake: Lake, seed: int
) -> None:
    """Row groups of a few rows, rows deleted and compacted, columns that were widened, renamed, dropped and added between the files."""
    print(f"seed {seed}")
    random = Random(seed)
    columns = ", ".join(f"{name} {kind}" for name, kind in ALL_TYPES.items())
    properties = f"{MERGE_ON_READ}, {TINY_ROW_GROUPS}"
    table = made(project, spark, lake, "source", f"{columns}, gone STRING", properties)
    names = ", ".join(ALL_TYPES)
    evolutions = [
        "ALTER TABLE {t} ALTER COLUMN number TYPE BIGINT",
        "ALTER TABLE {t} ALTER COLUMN money TYPE DECIMAL(12,2)",
        "ALTER TABLE {t} ALTER COLUMN small TYPE DOUBLE",
        "ALTER TABLE {t} DROP COLUMN gone",
        "ALTER TABLE {t} ADD COLUMN late_comer STRING",
        "ALTER TABLE {t} RENAME COLUMN word TO text",
    ]
    renamed = False
    for _ in range(5):
        given = names.replace("word", "text") if renamed else names
        table.sql(f"INSERT INTO {{t}} ({given}) VALUES {some_rows(random, random.choice([3, 60]))}")
        if random.random() < 0.5:
            table.sql(f"DELETE FROM {{t}} WHERE long_number % 5 = {random.randint(0, 4)}")
        if random.random() < 0.2:
            table.sql(f"CALL {project.config.catalog.name}.system.rewrite_data_files(table => '{{t}}')")
        if evolutions and random.random() < 0.8:
            change = evolutions.pop(random.randrange(len(evolutions)))
            table.sql(change)
            renamed = renamed or "RENAME" in change
    word = "text" if renamed else "word"
    types = dict(spark.table(table.name).dtypes)
    by = tuple(random.sample(["number", word, "money", "moment", "clock", "yes"], random.randint(1, 3)))
    changed = Table(spark, lake, project.name("changed"))
    spark.sql(
        f"CREATE TABLE {changed.name} USING iceberg PARTITIONED BY (day) TBLPROPERTIES ({properties}) AS "
        f"SELECT day, {', '.join(by)} FROM {table.name} WHERE rand({seed}) < 0.1 "
        f"UNION ALL SELECT DATE'{DAYS[0]}', {', '.join(f'CAST(NULL AS {types[name]})' for name in by)}"
    )
    same = " AND ".join(f"s.{name} <=> k.{name}" for name in ("day", *by))
    expected = table.sql(f"SELECT s.* FROM {{t}} s LEFT SEMI JOIN {changed.name} k ON {same}")
    found = table.found(table.keys(changed, *by), by, list(types))
    assert expected and sorted(map(repr, found)) == sorted(map(repr, expected))


@pytest.mark.parametrize("seed", SEEDS)
def test_rows_deleted_here_are_gone_as_if_spark_had_deleted_them(
    project: Project, spark: SparkSession, lake: Lake, seed: int
) -> None:
    """Two tables with one history; what Spark deletes from one is deleted from the other here. Rows, and what summaries tell, stay equal,
    also for whoever deletes, merges, joins files or appends after it."""
    print(f"seed {seed}")
    random = Random(seed)
    columns = "id BIGINT, word STRING, day DATE"
    properties = f"{MERGE_ON_READ}, {TINY_ROW_GROUPS}"
    theirs, ours = (made(project, spark, lake, name, columns, properties) for name in ("theirs", "ours"))
    changed = made(project, spark, lake, "changed", columns, properties)
    catalog, deletions = project.config.catalog.name, 0

    def both(text: str) -> None:
        for table in (theirs, ours):
            table.sql(text)

    def rows(many: int) -> str:
        return ", ".join(
            f"({random.randint(1, 99)}, {random.choice(['NULL', repr('a'), repr('b')])}, DATE'{random.choice(DAYS)}')"
            for _ in range(many)
        )

    both(f"INSERT INTO {{t}} VALUES {rows(200)}")
    for _ in range(9):
        what = random.choice(
            ["append", "delete here", "delete here", "delete here", "delete", "merge", "join", "new spec"]
        )
        if what == "append":
            both(f"INSERT INTO {{t}} VALUES {rows(random.choice([2, 40]))}")
        elif what == "delete":
            both(f"DELETE FROM {{t}} WHERE id = {random.randint(1, 99)}")
        elif what == "merge":
            number = random.randint(1, 99)
            both(
                f"MERGE INTO {{t}} t USING (SELECT {number} AS id) s ON t.id = s.id "
                "WHEN MATCHED THEN UPDATE SET word = 'merged'"
            )
        elif what == "join":
            both(f"CALL {catalog}.system.rewrite_data_files(table => '{{t}}', options => map('min-input-files', '2'))")
        elif what == "new spec" and "word" not in str(lake.table(ours.name).metadata.raw["partition-specs"][1:]):
            both("ALTER TABLE {t} ADD PARTITION FIELD word")
        elif what == "delete here":
            changed.sql(f"INSERT OVERWRITE {{t}} VALUES {rows(random.choice([1, 10]))}")
            by = random.choice([("id",), ("id", "word")])
            same = " AND ".join(f"t.{name} <=> k.{name}" for name in ("day", *by))
            theirs.sql(f"DELETE FROM {{t}} AS t WHERE EXISTS (SELECT 1 FROM {changed.name} k WHERE {same})")
            before = ours.head
            deletions += publish(ours, ours.deletion(ours.keys(changed, *by), *by))
            if ours.head != before:
                assert figures(ours) == figures(theirs)
        assert contents(ours) == contents(theirs), what
        assert by_pyiceberg(ours) == contents(ours), what
    assert deletions


def publish(table: Table, deletion: Deletion) -> int:
    """On a branch, and from there to main. How many snapshots that made."""
    loaded, branch = table.lake.table(table.name), f"attempt_{uuid4().hex[:6]}"
    tables = table.lake.tables
    tables.set_refs(loaded.identifier, [RefChange(branch, table.head, "branch", 86_400_000)])
    base = table.head
    tip = deletion.commit(branch, {"icefloe.mark": "mine"})
    assert table.head == base, "readers of main see nothing of it yet"
    if tip is None:
        return 0
    assert table.lake.table(table.name).metadata.snapshots[tip].summary["icefloe.mark"] == "mine"
    assert tables.forward(loaded.identifier, "main", branch, base=base, tip=tip)
    return 1


def contents(table: Table) -> list[str]:
    return sorted(map(repr, table.sql("SELECT id, word, day FROM {t}")))


def by_pyiceberg(table: Table) -> list[str]:
    found = table.lake.tables.catalog.load_table(table.name).scan(selected_fields=("id", "word", "day")).to_arrow()
    return sorted(f"Row(id={one['id']!r}, word={one['word']!r}, day={one['day']!r})" for one in found.to_pylist())


def figures(table: Table) -> dict[str, str]:
    """What a snapshot tells of itself, but for sizes: Spark's bitmaps are packed otherwise."""
    summary = table.lake.table(table.name).metadata.snapshots[table.head].summary
    told = ("added-", "removed-", "total-", "changed-", "operation")
    return {name: value for name, value in summary.items() if name.startswith(told) and "size" not in name}


def test_what_a_consumer_captures_of_it_is_what_it_captures_of_sparks(
    project: Project, spark: SparkSession, lake: Lake
) -> None:
    theirs, ours = (made(project, spark, lake, name, "id BIGINT, day DATE", MERGE_ON_READ) for name in ("a", "b"))
    changed = made(project, spark, lake, "changed", "id BIGINT, day DATE", MERGE_ON_READ)
    starts = []
    for table in (theirs, ours):
        table.sql("INSERT INTO {t} SELECT id, DATE'2026-03-01' FROM range(100)")
        table.sql("INSERT INTO {t} SELECT id, DATE'2026-03-02' FROM range(100)")
        table.sql("DELETE FROM {t} WHERE id = 7")
        starts.append(table.head)
    changed.sql("INSERT INTO {t} VALUES (5, DATE'2026-03-02'), (7, DATE'2026-03-02')")
    theirs.sql("DELETE FROM {t} WHERE id IN (5, 7) AND day = DATE'2026-03-02'")
    assert publish(ours, ours.deletion(ours.keys(changed, "id"), "id"))
    told = []
    for table, start in zip((theirs, ours), starts, strict=True):
        found = lake.changes(table.name, since=start, operations=["append", "overwrite", "delete"], columns=["day"])
        assert found.has_changes and found.delete_files == 1
        own = {"table", "from_snapshot", "to_snapshot", "table_uuid"}
        told.append({name: value for name, value in found.to_dict().items() if name not in own})
    assert told[0] == told[1]


def test_manifests_of_vectors_do_not_pile_up(project: Project, spark: SparkSession, lake: Lake) -> None:
    table = made(project, spark, lake, "table", "id BIGINT, day DATE", MERGE_ON_READ)
    changed = made(project, spark, lake, "changed", "id BIGINT, day DATE", MERGE_ON_READ)
    for day in DAYS:
        table.sql(f"INSERT INTO {{t}} SELECT id, DATE'{day}' FROM range(50)")
    for number in range(5):
        changed.sql(f"INSERT OVERWRITE {{t}} VALUES ({number}, DATE'{DAYS[number % 2]}'), ({number}, DATE'{DAYS[2]}')")
        assert publish(table, table.deletion(table.keys(changed, "id"), "id"))
        loaded = lake.table(table.name)
        listed = manifests_of(loaded, loaded.metadata.snapshots[table.head])
        assert sum(one.content == DELETES for one in listed) <= 2
    assert table.sql("SELECT day, count(*) FROM {t} GROUP BY day ORDER BY day") == [
        (DAYS[0], 47),
        (DAYS[1], 48),
        (DAYS[2], 45),
    ]
    (vectors,) = table.sql("SELECT count(*) FROM {t}.delete_files")
    assert vectors[0] == 3, "one for each data file"


def test_what_was_deleted_already_makes_no_commit(project: Project, spark: SparkSession, lake: Lake) -> None:
    table = made(project, spark, lake, "table", "id BIGINT, day DATE", MERGE_ON_READ)
    table.sql("INSERT INTO {t} SELECT id, DATE'2026-03-01' FROM range(50)")
    changed = made(project, spark, lake, "changed", "id BIGINT, day DATE", MERGE_ON_READ)
    changed.sql("INSERT INTO {t} VALUES (5, DATE'2026-03-01'), (999, DATE'2026-03-01'), (6, DATE'2026-03-02')")
    keys = table.keys(changed, "id")
    assert publish(table, table.deletion(keys, "id")) == 1
    assert publish(table, table.deletion(keys, "id")) == 0
    assert table.sql("SELECT count(*) FROM {t}") == [(49,)]


def test_a_commit_at_the_same_moment_is_joined(
    project: Project, spark: SparkSession, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark appends to the branch between the look and the compare-and-set: the new rows stay, and so do the others' vectors."""
    table = made(project, spark, lake, "table", "id BIGINT, day DATE", MERGE_ON_READ)
    table.sql("INSERT INTO {t} SELECT id, DATE'2026-03-01' FROM range(50)")
    changed = made(project, spark, lake, "changed", "id BIGINT, day DATE", MERGE_ON_READ)
    changed.sql("INSERT INTO {t} VALUES (5, DATE'2026-03-01')")
    lake.tables.set_refs(lake.table(table.name).identifier, [RefChange("attempt", table.head, "branch", 86_400_000)])
    deletion = table.deletion(table.keys(changed, "id"), "id")
    commit, others = Tables._commit_once, [1]

    def late(*arguments: Any) -> None:
        if others:
            others.pop()
            table.sql("INSERT INTO {t}.branch_attempt VALUES (5, DATE'2026-03-01'), (5, DATE'2026-03-09')")
        commit(*arguments)

    monkeypatch.setattr(Tables, "_commit_once", late)
    deletion.commit("attempt", {})
    assert not others
    assert table.sql("SELECT id, day FROM {t}.branch_attempt WHERE id = 5 ORDER BY day") == [
        (5, DAYS[0]),
        (5, date(2026, 3, 9)),
    ]
    assert table.sql("SELECT count(*) FROM {t}.branch_attempt") == [(51,)]
    lake.tables.set_refs(lake.table(table.name).identifier, [RefChange("attempt", None)])
    with pytest.raises(CommitConflictError, match="taken away"):
        deletion.commit("attempt", {})


@pytest.mark.parametrize(
    ("properties", "before", "reason"),
    [
        ("'format-version'='2'", "SELECT 1", "takes no deletion vectors"),
        (
            "'format-version'='2', 'write.delete.mode'='merge-on-read'",
            "DELETE FROM {t} WHERE id = 3",
            "deleted otherwise than by deletion vectors",
        ),
        ("'format-version'='3', 'write.format.default'='orc'", "SELECT 1", "files of the format"),
        (
            "'format-version'='2'",
            "ALTER TABLE {t} SET TBLPROPERTIES ('format-version'='3')",
            "no ids since it became version 3",
        ),
    ],
)
def test_what_is_not_plain_is_said(
    project: Project, spark: SparkSession, lake: Lake, properties: str, before: str, reason: str
) -> None:
    table = made(project, spark, lake, "table", "id BIGINT, day DATE", properties)
    table.sql("INSERT INTO {t} SELECT id, DATE'2026-03-01' FROM range(9)")
    table.sql(before)
    changed = made(project, spark, lake, "changed", "id BIGINT, day DATE", MERGE_ON_READ)
    changed.sql("INSERT INTO {t} VALUES (5, DATE'2026-03-01')")
    files = table.sql("SELECT file FROM {t}.metadata_log_entries")
    with pytest.raises(NotPlainError, match=reason):
        table.deletion(table.keys(changed, "id"), "id")
    assert table.sql("SELECT file FROM {t}.metadata_log_entries") == files


def test_a_table_that_became_version_3_takes_vectors_once_its_rows_have_ids(
    project: Project, spark: SparkSession, lake: Lake
) -> None:
    """Its manifests of version 2 have no place for them; new ones have."""
    table = made(project, spark, lake, "table", "id BIGINT, day DATE", "'format-version'='2'")
    table.sql("INSERT INTO {t} SELECT id, DATE'2026-03-01' FROM range(9)")
    table.sql("ALTER TABLE {t} SET TBLPROPERTIES ('format-version'='3')")
    table.sql("INSERT INTO {t} SELECT id, DATE'2026-03-02' FROM range(9)")
    changed = made(project, spark, lake, "changed", "id BIGINT, day DATE", MERGE_ON_READ)
    changed.sql("INSERT INTO {t} VALUES (5, DATE'2026-03-01'), (6, DATE'2026-03-02')")
    assert publish(table, table.deletion(table.keys(changed, "id"), "id")) == 1
    assert table.sql("SELECT sum(id), count(*) FROM {t}") == [(36 + 36 - 11, 16)]


def test_where_this_process_may_not_write_spark_does_it(
    project: Project, spark: SparkSession, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = made(project, spark, lake, "table", "id BIGINT, day DATE", MERGE_ON_READ)
    table.sql("INSERT INTO {t} SELECT id, DATE'2026-03-01' FROM range(9)")

    def refused(*_: Any) -> None:
        raise StorageError("the storage refused: read-only")

    monkeypatch.setattr(storage, "write", refused)
    with pytest.raises(NotPlainError, match="cannot be written to from here: the storage refused"):
        table.deletion(table.keys(table, "id"), "id")


def test_too_many_rows_are_left_to_spark(project: Project, spark: SparkSession, lake: Lake) -> None:
    table = made(project, spark, lake, "table", "id BIGINT, day DATE", MERGE_ON_READ)
    table.sql("INSERT INTO {t} SELECT id % 2, DATE'2026-03-01' FROM range(100)")
    changed = made(project, spark, lake, "changed", "id BIGINT, day DATE", MERGE_ON_READ)
    changed.sql("INSERT INTO {t} VALUES (1, DATE'2026-03-01')")
    keys = table.keys(changed, "id")
    assert len(table.found(keys, ("id",), ["id", "day"], most=50)) == 50
    with pytest.raises(NotPlainError, match="more than 49 rows"):
        table.found(keys, ("id",), ["id"], most=49)


@pytest.mark.parametrize(
    ("kind", "most", "reason"), [("INT", 10**6, "of other types"), ("BIGINT", 1, "with a changed key take")]
)
def test_a_search_leaves_to_spark_what_it_cannot_compare_or_hand_over(
    project: Project,
    spark: SparkSession,
    lake: Lake,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    most: int,
    reason: str,
) -> None:
    """A key that was widened after the capture has another type in the change table."""
    source, target = (made(project, spark, lake, name, "id BIGINT, day DATE", MERGE_ON_READ) for name in ("s", "t"))
    changed = made(project, spark, lake, "changed", f"id {kind}, day DATE", MERGE_ON_READ)
    for table in (source, target, changed):
        table.sql(f"INSERT INTO {{t}} SELECT CAST(id AS {kind}), DATE'2026-03-01' FROM range(9)")
    monkeypatch.setattr(key_search, "MOST_BYTES", most)
    search = KeySearch(source.name, changed.name, "day", (("id", "id"),), ("id", "day"), ())
    found = key_search.KeySearchRun(
        spark,
        lake,
        search,
        Partitions("day", late=tuple(DAYS)),
        target=target.name,
        base=target.head,
        end=source.head,
        branch="attempt",
        properties={},
        threads=1,
        log=print,
    )
    with pytest.raises(NotPlainError, match=reason):
        found.find()


def test_a_file_without_rows_has_no_keys(project: Project, spark: SparkSession, lake: Lake) -> None:
    changed = made(project, spark, lake, "changed", "id BIGINT, day DATE", MERGE_ON_READ)
    changed.sql("INSERT INTO {t} SELECT id, DATE'2026-03-01' FROM range(3)")
    loaded = lake.table(changed.name)
    (file,) = live_files(loaded, changed.head, "day", DAYS)
    path = f"{loaded.metadata.location}/data/empty.parquet".removeprefix("file:").replace("///", "/")
    stored = pq.ParquetFile(storage.normal(file.path))
    pq.ParquetWriter(path, stored.schema_arrow).close()
    keys = KeyLookup(loaded, ["id"], most=9).keys([replace(file, path=f"file:{path}")], 1)
    assert keys.hits(file.value, [pa.chunked_array([[0, 1, 2]])]).tolist() == []
