"""A prepared project with one warm Spark server, for every test of a run.

``make test`` names the project's folder in ``ICEFLOE_TEST_PROJECT`` so that all suites share one server; a suite run alone makes
its own and ends the server with the session.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from icefloe import config as configuration
from icefloe.config import Config
from icefloe.engine.launchers import Launchers
from icefloe.service.client import Client
from icefloe.spark import jars, java, server

if TYPE_CHECKING:
    from pyspark.sql.connect.session import SparkSession

PROJECT_VARIABLE = "ICEFLOE_TEST_PROJECT"


@dataclass(frozen=True)
class Project:
    """The shared project, with a namespace that no other test uses."""

    config: Config
    namespace: str
    launchers: Launchers | None = None
    """Of the whole session: a Spark step's process is a fork of one that has imported what it needs."""

    def client(self) -> Client:
        return Client(self.config, launchers=self.launchers)

    @property
    def root(self) -> Path:
        return self.config.root

    def name(self, table: str) -> str:
        """``db_1a2b.table``: as Spark SQL (whose default catalog is the project's) and PyIceberg both take it."""
        return f"{self.namespace}.{table}"


def prepare(folder: Path) -> Config:
    """An initialised project in ``folder``; what is there stays."""
    file = folder / configuration.FILE_NAME
    (folder / configuration.HOME_NAME).mkdir(parents=True, exist_ok=True)
    if not file.exists():
        # All locked jars, so that the one server can reach every kind of catalog: see session_for.
        paths = jars.ensure(jars.locked(), java.find().launcher)
        extra = f"extra_jars = {json.dumps([str(path) for path in paths])}\n"  # DEFAULT_FILE ends in [spark]
        file.write_text(configuration.DEFAULT_FILE + extra, encoding="utf-8")
    return configuration.load(file, env={})


def session_for(shared: Config, other: Config) -> SparkSession:
    """A session on the shared server that sees the catalog of another configuration: no second JVM."""
    from icefloe.spark.session import connect

    session = connect(shared)
    for key, value in other.spark_conf().items():
        if key.startswith("spark.sql.") and key != "spark.sql.extensions":
            session.conf.set(key, value)
    return session


@contextmanager
def shared_project() -> Iterator[Config]:
    """The run's project. Whoever made the folder ends the server: here, or the script that set the variable."""
    given = os.environ.get(PROJECT_VARIABLE)
    if given:
        yield prepare(Path(given))
        return
    with tempfile.TemporaryDirectory(prefix="icefloe-test-") as folder:
        config = prepare(Path(folder).resolve())
        try:
            yield config
        finally:
            server.stop(config)


def fresh_namespace(spark: SparkSession) -> str:
    namespace = f"db_{uuid4().hex[:10]}"
    spark.sql(f"CREATE NAMESPACE {namespace}")
    return namespace
