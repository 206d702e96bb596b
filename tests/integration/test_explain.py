"""``icefloe explain`` against the run that follows it, and a target that is kept by changed keys and by full runs in turns."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pytest

from icefloe.config import Config
from icefloe.lake import Lake
from icefloe.planner import cost
from icefloe.planner.inputs import WriteRequest
from icefloe.service.explain import Explaining
from icefloe.spark.session import connect
from icefloe.steps.write import execution, write_report
from icefloe.steps.write.versions import LogicOrder
from icefloe.steps.write.write_job import WriteJob
from icefloe.steps.write.write_report import WriteReport
from tests.planner.world import World, fencing
from tests.projects import Project as Runs
from tests.spark_server import Project

if TYPE_CHECKING:
    from pyspark.sql.connect.session import SparkSession

SELECTS = {
    "rows": ("SELECT id, account_id, upper(country) AS country, view_min FROM {n}.events", "keys: [id]"),
    "added": ("SELECT id, event_day, view_min * 60 AS seconds FROM {n}.events WHERE view_min > 1", "compact: auto"),
    "grouped": (
        "SELECT account_id, event_day, count(*) AS n, count(DISTINCT country) AS c FROM {n}.events GROUP BY account_id, event_day",
        "keys: [account_id, event_day]",
    ),
    "joined": (
        "SELECT e.account_id, a.plan, sum(e.view_min) AS view_min FROM {n}.events e LEFT JOIN {n}.accounts a "
        "ON e.account_id = a.account_id GROUP BY e.account_id, a.plan",
        "keys: [account_id, plan]",
    ),
    "latest": (
        "SELECT * FROM (SELECT *, row_number() OVER (PARTITION BY account_id ORDER BY id DESC) AS rn FROM {n}.events) WHERE rn = 1",
        "properties: {format-version: '2'}",
    ),
}
CHANGES = (
    "INSERT INTO {n}.events VALUES (9, 1, 'NO', DATE'2026-03-01', 3), (10, 4, 'SE', DATE'2026-03-09', 4)",
    "DELETE FROM {n}.events WHERE id = 2",
    "UPDATE {n}.events SET country = 'DK' WHERE account_id = 1",
    "INSERT INTO {n}.accounts VALUES (4, 'pro')",
)


def definition(namespace: str) -> str:
    steps = "".join(
        f"""
    - job:
        id: {name}
        type: Spark
        spark:
          script: "{text.format(n=namespace)}"
          write: {{table: {namespace}.t_{name}, {more}}}"""
        for name, (text, more) in SELECTS.items()
    )
    return f"""
Workflow:
  id: explained_{namespace}
  owner: playback-team
  jobs:
    - job:
        id: capture
        type: IpCapture
        ip_capture:
          source_tables: [{namespace}.events, {namespace}.accounts]
          capture_mode: ICDC
          data_operations: [append, overwrite, delete]{steps}
    - job:
        id: commit
        type: IpCommit
        ip_commit: {{capture_step: capture}}
  dag: sequential
"""


@pytest.fixture
def runs(project: Project, spark: SparkSession) -> Iterator[Runs]:
    n = project.namespace
    properties = ", ".join(f"'write.{name}.mode'='merge-on-read'" for name in ("delete", "update", "merge"))
    spark.sql(
        f"CREATE TABLE {n}.events (id BIGINT, account_id BIGINT, country STRING, event_day DATE, view_min INT) USING iceberg "
        f"PARTITIONED BY (event_day) TBLPROPERTIES ({properties})"
    )
    spark.sql(f"CREATE TABLE {n}.accounts (account_id BIGINT, plan STRING) USING iceberg")
    spark.sql(
        f"INSERT INTO {n}.events VALUES (1, 1, 'NO', DATE'2026-03-01', 10), (2, 1, 'NO', DATE'2026-03-01', 5), "
        "(3, 2, NULL, DATE'2026-03-02', 7), (4, 3, 'DE', DATE'2026-03-02', 7)"
    )
    spark.sql(f"INSERT INTO {n}.accounts VALUES (1, 'free'), (2, 'pro')")
    made = Runs(project.config, project.client())
    yield made
    made.client.close()


def test_explain_prints_the_plan_that_the_run_carries_out(
    runs: Runs, project: Project, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    n, lake = project.namespace, Lake.open(project.config)
    plans: dict[Path, dict[str, Any]] = {}
    read = write_report.read

    def listening(folder: Path) -> WriteReport:
        """What the step's own process says that it has carried out."""
        said = read(folder)
        if said.plan is not None:
            plans[folder] = dict(said.plan)
        return said

    monkeypatch.setattr(write_report, "read", listening)
    workflow_id = runs.push(definition(n))
    patterns: set[str] = set()
    for change in ("", *CHANGES):
        if change:
            spark.sql(change.format(n=n)).collect()
        explained = {one.step: one.to_dict() for one in Explaining(runs.client, lake).explain(workflow_id)}
        plans.clear()
        view = runs.execute(workflow_id)
        assert view.status == "SUCCEEDED", [step.cause for step in view.steps if step.cause]
        for (name, (text, _)), carried_out in zip(SELECTS.items(), plans.values(), strict=True):
            shown = {key: explained[name][key] for key in carried_out}
            assert named_alike(shown, lake, n) == named_alike(carried_out, lake, n), (change, name)
            patterns.add(carried_out["pattern"])
            rows = [spark.sql(one).collect() for one in (f"SELECT * FROM {n}.t_{name}", text.format(n=n))]
            assert sorted(map(str, rows[0])) == sorted(map(str, rows[1])), (change, name)
    assert patterns >= {"full", "append", "merge", "key_filter", "range_overwrite", "none"}


def named_alike(plan: dict[str, Any], lake: Lake, namespace: str) -> Any:
    """With one name for what has its own in each run: the change tables, the attempt's branch, and the pins of the sources."""
    text = json.dumps(plan, indent=1)
    for source in ("events", "accounts"):
        head = lake.table(f"{namespace}.{source}").metadata.refs["main"].snapshot_id
        text = re.sub(rf"\b{namespace}\.{source}\.branch_\w+", f"{namespace}.{source} VERSION AS OF {head}", text)
        text = re.sub(rf"\b{re.escape('.'.join(lake.change_table_namespace))}\.{source}_\w+", f"{source}_changes", text)
    return json.loads(re.sub(r"\.branch_\w+", ".branch_attempt", text))


@pytest.mark.parametrize(
    "text",
    [
        "SELECT id, account_id, upper(country) AS country FROM {n}.events WHERE event_day IS NOT NULL",
        "SELECT account_id, count(*) AS n, sum(view_min) AS m FROM {n}.events GROUP BY account_id",
    ],
    ids=["row by row", "grouped"],
)
def test_a_target_is_equal_whether_a_delete_is_followed_by_keys_or_by_a_full_run(
    project_config: Config, spark: SparkSession, text: str
) -> None:
    world = World.make(spark, project_config, 7)
    select, target = text.format(n=world.namespace), f"{world.namespace}.target"

    def follow() -> str:
        """The pattern that was taken; the target equals the SELECT."""
        world.capture()
        logic = LogicOrder("workflow/step", select)
        work = WriteJob(WriteRequest(select, target), tuple(world.sources), logic=logic)
        said: list[str] = []
        execution.run(spark, world.lake, work, fencing(f"batch {world.batch}", "run"), said.append)
        world.commit()
        rows = [sorted(map(str, spark.sql(one).collect())) for one in (f"SELECT * FROM {target}", select)]
        assert rows[0] == rows[1]
        return next(line.split()[1].rstrip(":") for line in said if line.startswith("pattern"))

    def cheap_full() -> Any:
        return patch.multiple(cost, MARGIN=0.0, LEAST_SECONDS=float("-inf"))

    assert follow() == "full", "the first"
    for taken in ("by keys", "full", "by keys", "full"):
        world.delete_events()
        world.late_events()
        if taken == "full":
            with cheap_full():
                assert follow() == "full"
        else:
            assert follow() in ("merge", "key_filter")
    # What somebody else has put there would be lost by a full run: none is chosen from then on. (The same rows, so that they can be compared.)
    somebody = connect(project_config)  # in this session commits would carry the step's marks
    try:
        somebody.sql(f"INSERT OVERWRITE {target} SELECT * FROM {target}").collect()
    finally:
        somebody.stop()
    world.delete_events()
    world.late_events()
    with cheap_full():
        assert follow() in ("append", "merge", "key_filter")
