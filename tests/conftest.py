"""Fixtures that every suite may use. Whatever starts a process lives in a module of its own beside this one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from icefloe.config import Config
from icefloe.engine.launchers import Launchers
from tests.java_home import first_tier
from tests.spark_server import Project, fresh_namespace, shared_project

if TYPE_CHECKING:
    from pyspark.sql.connect.session import SparkSession

# The same examples in every run, so that a run that passed passes again; the long form looks for new ones.
settings.register_profile("fixed", derandomize=True, deadline=None)
settings.register_profile("long", max_examples=1000, deadline=None, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fixed"))

if (home := first_tier(Path(__file__).resolve().parent.parent / "build" / "test-java")) is not None:
    os.environ["JAVA_HOME"] = str(home)


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


@pytest.fixture(scope="session")
def launchers(project_config: Config) -> Iterator[Launchers]:
    """For all runs of the session, so that not each of them waits for imports."""
    made = Launchers(project_config)
    yield made
    made.close()


@pytest.fixture
def project(project_config: Config, spark: SparkSession, launchers: Launchers) -> Project:
    """The shared project with a namespace of the test's own."""
    return Project(project_config, fresh_namespace(spark), launchers)
