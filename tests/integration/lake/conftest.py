"""A lake on the shared project, and Spark SQL beside it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from icefloe.lake import Lake
from tests.spark_server import Project

if TYPE_CHECKING:
    from pyspark.sql.connect.session import SparkSession

Sql = Callable[[str], list[Any]]


@pytest.fixture
def lake(project: Project) -> Lake:
    return Lake.open(project.config)


@pytest.fixture
def sql(spark: SparkSession) -> Sql:
    return lambda statement: [tuple(row) for row in spark.sql(statement).collect()]
