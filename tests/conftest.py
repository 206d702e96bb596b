"""Fixtures that every suite may use. Whatever starts a process lives in a module of its own beside this one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from icefloe.config import Config
from tests.spark_server import Project, fresh_namespace, shared_project

if TYPE_CHECKING:
    from pyspark.sql.connect.session import SparkSession


@pytest.fixture(scope="session")
def project_config() -> Iterator[Config]:
    """The configuration of the run's shared project (embedded catalog)."""
    with shared_project() as config:
        yield config


@pytest.fixture(scope="session")
def spark(project_config: Config) -> Iterator[SparkSession]:
    """A session on the run's one warm Spark server, started when first asked for."""
    from icefloe.spark.session import connect

    session = connect(project_config)
    yield session
    session.stop()


@pytest.fixture
def project(project_config: Config, spark: SparkSession) -> Project:
    """The shared project with a namespace of the test's own."""
    return Project(project_config, fresh_namespace(spark))
