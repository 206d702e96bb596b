"""Sessions on the project's server."""

from __future__ import annotations

import gc
import weakref
from typing import TYPE_CHECKING

import pytest

from icefloe.spark.launch import local_settings
from icefloe.spark.session import connect, select
from tests.spark_server import Project

if TYPE_CHECKING:
    from pyspark.sql.connect.session import SparkSession


def test_a_table_written_by_one_session_is_read_by_the_next(project: Project, spark: SparkSession) -> None:
    spark.sql(f"CREATE TABLE {project.name('t')} (id BIGINT, word STRING)")
    spark.sql(f"INSERT INTO {project.name('t')} VALUES (1, 'floe'), (2, 'berg')")
    other = connect(project.config)
    try:
        assert other.sql(f"SELECT sum(id) FROM {project.name('t')}").first()[0] == 3
    finally:
        other.stop()


def test_a_session_without_code_of_its_own_shares_the_server_s_and_nothing_else(project: Project) -> None:
    first, second = (connect(project.config, brings_code=False) for _ in range(2))
    try:
        assert first.session_id != second.session_id
        assert first.conf.get("spark.sql.artifact.isolation.enabled") == "false"
        first.sql("SET spark.sql.shuffle.partitions = 3")
        first.sql("CREATE TEMPORARY VIEW mine AS SELECT 1 AS one")
        assert first.table("mine").collect()[0][0] == 1
        assert second.conf.get("spark.sql.shuffle.partitions") != "3"
        assert not second.catalog.tableExists("mine")
    finally:
        first.stop()
        second.stop()


def test_a_select_is_asked_about_when_it_is_used(spark: SparkSession) -> None:
    rows = select(spark, "SELECT id, id * 2 AS twice FROM range(3)")
    assert [field.name for field in rows.schema.fields] == ["id", "twice"]
    assert [tuple(row) for row in rows.collect()] == [(0, 0), (1, 2), (2, 4)]
    wrong = select(spark, "SELECT nothing FROM range(3)")
    with pytest.raises(Exception, match="nothing"):
        wrong.collect()


def test_a_local_server_is_set_up_for_its_cores(project: Project) -> None:
    wanted = local_settings(project.config.spark.master)
    assert wanted, "the tests run on a local master"
    fresh = connect(project.config)  # other tests set what they like in the one that they share
    try:
        assert {name: fresh.conf.get(name) for name in wanted} == wanted
    finally:
        fresh.stop()


def test_a_forgotten_session_is_not_closed_by_the_garbage_collector(project: Project) -> None:
    """It may run inside of gRPC, with its locks held: closing a channel there waits for ever."""
    forgotten = connect(project.config)
    client = forgotten.client
    gone = weakref.ref(forgotten)
    del forgotten
    gc.collect()
    assert gone() is None
    assert not client.is_closed
    client.close()
