"""Sessions on the project's server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from icefloe.spark.session import connect
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
