"""Workflows with Spark steps on the run's one warm server: an engine of the test's own, a namespace of its own."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from icefloe.config import Config, State
from icefloe.engine.launchers import Launchers
from icefloe.lake import Lake, history
from icefloe.service.client import Client
from icefloe.service.pushing import DiskFiles
from icefloe.service.views import RunView
from icefloe.steps.registry import installed
from icefloe.store import migrations
from icefloe.store.database import Database
from icefloe.workflow.loading import load
from icefloe.workflow.versions import pack
from tests.projects import FAST
from tests.spark_server import fresh_namespace

if TYPE_CHECKING:
    from pyspark.sql.connect.session import SparkSession


class SparkBench:
    """One engine on the shared server. ``folder`` is where the definition's files are."""

    def __init__(self, config: Config, spark: SparkSession, folder: Path, launchers: Launchers) -> None:
        self.config = config
        self.launchers = launchers
        self.client = Client(config, launchers=launchers)
        self.spark = spark
        self.folder = folder
        self.db = fresh_namespace(spark)
        self.lake = Lake.open(config)

    def file(self, name: str, text: str) -> str:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text), encoding="utf-8")
        return name

    def push(self, text: str) -> str:
        source = textwrap.dedent(text).replace("DB.", f"{self.db}.")
        types = installed().types()
        packed = pack(load(source, "workflow.yaml", types), DiskFiles(self.folder, self.config), types)
        return self.client.workflows.push(packed, source=source, source_name="workflow.yaml").workflow_id

    def run(self, text: str, **params: Any) -> RunView:
        view = self.client.work(self.client.runs.start(self.push(text), params).run_id)
        for step in view.steps:
            print(f"--- {step.id} {step.status} {step.cause}\n{self.log(view, step.id)}")
        return view

    def step(self, settings: str, **params: Any) -> RunView:
        """A workflow of one Spark step. ``DB.`` in texts is the test's own namespace."""
        body = textwrap.indent(textwrap.dedent(settings).strip(), " " * 10)
        return self.run(
            "Workflow:\n  id: one\n  retry: {error: 0, platform: 0}\n  jobs:\n    - job:\n        id: work\n"
            f"        type: Spark\n        spark:\n{body}\n",
            **params,
        )

    def sql(self, text: str) -> list[Any]:
        return self.spark.sql(text.replace("DB.", f"{self.db}.")).collect()

    def rows(self, table: str, order: str = "1") -> list[tuple[Any, ...]]:
        return [tuple(row) for row in self.sql(f"SELECT * FROM DB.{table} ORDER BY {order}")]

    def log(self, run: RunView, step: str = "work") -> str:
        attempt = next(one.attempts for one in run.steps if one.id == step)
        return self.client.runs.log(run.run_id, step, attempt).content.decode() if attempt else ""

    def branches(self, table: str) -> list[str]:
        refs = self.lake.table(f"{self.db}.{table}").metadata.refs
        return sorted(name for name in refs if name.startswith("icefloe_attempt"))

    def operations(self, table: str) -> list[str]:
        """Of the snapshots on main, oldest first."""
        metadata = self.lake.table(f"{self.db}.{table}").metadata
        head = history.head(metadata, "main", table=table)
        return [one.operation for one in history.ancestors(metadata, head)][::-1] if head is not None else []


def succeeded(run: RunView) -> RunView:
    assert run.status == "SUCCEEDED", [(step.id, step.status, step.cause) for step in run.steps]
    return run


def cause(run: RunView, step: str = "work") -> dict[str, Any]:
    found = next(one for one in run.steps if one.id == step).cause
    assert run.status == "FAILED" and found is not None, run
    return dict(found)


@pytest.fixture
def bench(project_config: Config, spark: SparkSession, launchers: Launchers, tmp_path: Path) -> Iterator[SparkBench]:
    url = f"sqlite:///{tmp_path}/state.db"
    database = Database(url)
    migrations.upgrade(database)
    database.close()
    engine = project_config.engine.model_copy(update=FAST)
    config = project_config.model_copy(update={"state": State(url=url), "engine": engine})
    made = SparkBench(config, spark, tmp_path, launchers)
    yield made
    made.client.close()
