"""From one configuration PyIceberg and Spark reach the same tables, whichever catalog it names."""

from __future__ import annotations

import sqlite3
import tomllib
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog, load_catalog

from icefloe import config as configuration
from icefloe.config import Config, from_dict
from icefloe.lake import Lake
from icefloe.lake.catalog import RefChange
from icefloe.rows.deletion import Deletion
from icefloe.rows.files import live_files
from icefloe.rows.key_lookup import KeyLookup, Keys
from icefloe.service import project
from tests.postgres import running_postgres
from tests.rest_catalog import rest_catalog
from tests.spark_server import session_for

if TYPE_CHECKING:
    from pyspark.sql.connect.session import SparkSession

ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "word": ["floe", "berg", None]})


@dataclass(frozen=True)
class Engines:
    """Both engines on one configuration, and a namespace of the test's own."""

    config: Config
    pyiceberg: Catalog
    spark: SparkSession
    namespace: str

    def by_pyiceberg(self, table: str) -> int:
        return self.pyiceberg.load_table(f"{self.namespace}.{table}").scan().to_arrow().num_rows

    def by_spark(self, table: str) -> int:
        count: int = self.spark.sql(f"SELECT count(*) FROM {self.namespace}.{table}").first()[0]
        return count


@pytest.fixture(scope="module", params=["embedded", "postgresql", "rest on s3"])
def config(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Config]:
    root = tmp_path_factory.mktemp("catalog")
    if request.param == "embedded":
        yield configuration.load(project.init(root), env={})
    elif request.param == "postgresql":
        with running_postgres() as server:
            # The state database's fixture names psycopg 3 in its address; a catalog's address names no driver.
            url = server.new_database().replace("postgresql+psycopg://", "postgresql://")
            yield from_dict({"catalog": {"uri": url, "warehouse": "warehouse"}}, root=root)
    else:
        with rest_catalog() as server_address:
            yield from_dict(tomllib.loads(server_address.toml()), root=root)


@pytest.fixture(scope="module")
def sessions(config: Config, project_config: Config) -> Iterator[tuple[Catalog, SparkSession]]:
    catalog = load_catalog(config.catalog.name, **config.catalog.pyiceberg_properties())
    spark = session_for(project_config, config)
    yield catalog, spark
    spark.stop()


@pytest.fixture
def engines(config: Config, sessions: tuple[Catalog, SparkSession]) -> Engines:
    catalog, spark = sessions
    return Engines(config, catalog, spark, f"db_{uuid4().hex[:8]}")


def test_what_pyiceberg_makes_spark_sees_at_once(engines: Engines) -> None:
    engines.pyiceberg.create_namespace(engines.namespace)
    table = engines.pyiceberg.create_table(f"{engines.namespace}.made", ROWS.schema)
    assert engines.by_spark("made") == 0
    table.append(ROWS)
    assert engines.by_spark("made") == 3
    table.append(ROWS)
    assert engines.by_spark("made") == 6


def test_what_spark_makes_pyiceberg_sees_at_once(engines: Engines) -> None:
    engines.spark.sql(f"CREATE NAMESPACE {engines.namespace}")
    engines.spark.sql(f"CREATE TABLE {engines.namespace}.made (id BIGINT) PARTITIONED BY (bucket(2, id))")
    assert engines.by_pyiceberg("made") == 0
    engines.spark.sql(f"INSERT INTO {engines.namespace}.made VALUES (1), (2)")
    assert engines.by_pyiceberg("made") == 2
    engines.spark.sql(f"DELETE FROM {engines.namespace}.made WHERE id = 1")
    assert engines.by_pyiceberg("made") == 1


def test_the_engines_take_turns_on_one_table(engines: Engines) -> None:
    engines.spark.sql(f"CREATE NAMESPACE {engines.namespace}")
    engines.spark.sql(f"CREATE TABLE {engines.namespace}.shared (id BIGINT, word STRING)")
    for turn in range(1, 4):
        engines.pyiceberg.load_table(f"{engines.namespace}.shared").append(ROWS)
        engines.spark.sql(f"INSERT INTO {engines.namespace}.shared VALUES ({turn}, 'spark')")
        assert engines.by_spark("shared") == engines.by_pyiceberg("shared") == 4 * turn


def test_a_view_made_by_spark_does_not_trouble_pyiceberg(engines: Engines) -> None:
    engines.spark.sql(f"CREATE NAMESPACE {engines.namespace}")
    engines.spark.sql(f"CREATE TABLE {engines.namespace}.made (id BIGINT)")
    engines.spark.sql(f"CREATE VIEW {engines.namespace}.seen AS SELECT id FROM {engines.namespace}.made")
    names = engines.pyiceberg.list_tables(engines.namespace)
    assert names == [(engines.namespace, "made")]


def test_java_waits_for_a_busy_sqlite_instead_of_failing(tmp_path: Path, project_config: Config) -> None:
    """The busy timeout in the JDBC address is in force: the driver's own is 3 s, and the wait here is longer."""
    config = configuration.load(project.init(tmp_path), env={})
    database = tmp_path / ".icefloe" / "catalog.db"
    spark = session_for(project_config, config)
    try:
        spark.sql("CREATE NAMESPACE db")
        with closing(sqlite3.connect(database)) as look:
            assert look.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
        from concurrent.futures import ThreadPoolExecutor

        with closing(sqlite3.connect(database, isolation_level=None)) as writer, ThreadPoolExecutor(1) as pool:
            writer.execute("BEGIN IMMEDIATE")
            task = pool.submit(lambda: spark.sql("CREATE TABLE db.waited (id BIGINT)").collect())
            # A reader is not kept waiting by the writer (WAL); the writer is (busy timeout).
            with pytest.raises(TimeoutError):
                task.result(timeout=8)
            writer.execute("ROLLBACK")
            task.result(timeout=60)
        assert [row[1] for row in spark.sql("SHOW TABLES IN db").collect()] == ["waited"]
    finally:
        spark.stop()


def test_rows_that_are_deleted_by_a_commit_of_our_own_are_gone_for_both(engines: Engines) -> None:
    name, day = f"{engines.namespace}.made", date(2026, 3, 1)
    engines.spark.sql(f"CREATE NAMESPACE {engines.namespace}")
    engines.spark.sql(
        f"CREATE TABLE {name} (id BIGINT, day DATE) PARTITIONED BY (day) TBLPROPERTIES ('format-version'='3')"
    )
    engines.spark.sql(f"INSERT INTO {name} SELECT id, DATE'{day}' FROM range(100)")
    lake = Lake.open(engines.config)
    for number in range(2):  # the second takes the first one's vector's place
        table = lake.table(name)
        head = table.metadata.refs["main"].snapshot_id
        lake.tables.set_refs(table.identifier, [RefChange("attempt", head, "branch", 86_400_000)])
        files = live_files(table, head, "day", [day])
        keys = Keys({day: pa.table({"0": pa.array([number, number + 50])})})
        positions = KeyLookup(table, ["id"], most=99).positions(files, keys, 2)
        deletion = Deletion(lake.tables, table, head, {one: positions[one.path] for one in files})
        tip = deletion.commit("attempt", {"word": "floe"})
        assert tip is not None
        assert engines.by_spark("made") == engines.by_pyiceberg("made") == 100 - 2 * number, "not on main yet"
        assert lake.tables.forward(table.identifier, "main", "attempt", base=head, tip=tip)
        assert engines.by_spark("made") == engines.by_pyiceberg("made") == 98 - 2 * number
    engines.spark.sql(f"DELETE FROM {name} WHERE id = 70")
    assert engines.by_spark("made") == engines.by_pyiceberg("made") == 95
    left = engines.spark.sql(f"SELECT id FROM {name}").collect()
    assert {row[0] for row in left} == set(range(100)) - {0, 1, 50, 51, 70}
    told = lake.table(name).metadata.snapshots[tip]
    assert told.summary["word"] == "floe" and told.operation == "delete"
