"""Every example, end to end on the warm Spark server: after each load, each target equals a full recomputation."""

from __future__ import annotations

import csv
import os
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from icefloe.config import Config
from icefloe.engine.launchers import Launchers
from icefloe.service.client import Client
from tests.examples import Example, all_examples, difference

if TYPE_CHECKING:
    from pyspark.sql.connect.session import SparkSession

LOADS = 2


@pytest.fixture
def client(project_config: Config, launchers: Launchers, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    with Client(project_config, launchers=launchers) as opened:
        yield opened


@pytest.mark.parametrize("example", list(all_examples()), ids=lambda example: example.name)
def test_after_every_load_the_targets_equal_a_full_recomputation(
    example: Example, client: Client, spark: SparkSession, project_config: Config
) -> None:
    workflows: list[str] = []
    for number in range(1, LOADS + 1):
        example.load(spark, number)
        workflows = workflows or example.push(client)
        for workflow in workflows:
            run = client.work(client.runs.start(workflow).run_id)
            causes = [step.cause for step in run.steps if step.cause]
            assert run.status == "SUCCEEDED", f"{workflow}, load {number}: {causes}"
        for target, expected in example.expectations.items():
            assert difference(spark, target, expected) == [], f"after load {number}"
        if example.name == "another-engine":
            _compare_sums(spark, project_config.root / "sums")


def _compare_sums(spark: SparkSession, folder: Path) -> None:
    found: Counter[int] = Counter()
    for file in folder.glob("*.csv"):
        with file.open(encoding="utf-8", newline="") as stream:
            for meter, watt_hours in csv.reader(stream):
                found[int(meter)] += int(watt_hours)
    rows = spark.sql("SELECT meter, sum(watt_hours) FROM meters.readings GROUP BY meter").collect()
    assert dict(found) == {row[0]: row[1] for row in rows}
