"""Shadow mode in real runs: what a mismatch leaves behind, and how one goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from icefloe.service.client import Client
from icefloe.service.explain import Explaining
from icefloe.store import captures, triggers
from icefloe.triggers import failures
from icefloe.triggers.failures import Patience
from icefloe.workflow.model import Backoff
from tests.integration.test_planned_writes import SELECT, WRITE, Bench, cause
from tests.spark_server import Project

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql.connect.session import SparkSession

AGAIN = """
Workflow:
  id: agg_{n}
  owner: playback-team
  TARGET: {n}.playback_agg
  retry_policy: {{error: 3}}
  jobs:
    - job:
        id: capture_change
        type: IpCapture
        ip_capture: {{source_tables: [{n}.playback_daily]}}
    - job:
        id: aggregate
        type: Spark
        spark:
          script: |
            {select}
          write: {write}
          shadow: {shadow}
    - job: {{id: commit_checkpoint, type: IpCommit, ip_commit: {{capture_step: capture_change}}}}
  dag: sequential
"""


class ShadowBench(Bench):
    def push_shadow(self, shadow: str, *, select: str = SELECT, write: str = WRITE) -> str:
        text = AGAIN.format(n=self.namespace, select=select.format(n=self.namespace), write=write, shadow=shadow)
        return self.runs.push(text)

    def capture(self) -> captures.CaptureRecord | None:
        with self.runs.client.database.read() as connection:
            return captures.open_capture(connection, f"agg_{self.namespace}/capture_change")


@pytest.fixture
def bench(project: Project, spark: SparkSession) -> Iterator[ShadowBench]:
    made = ShadowBench(project, spark)
    yield made
    made.runs.client.close()


def test_a_mismatch_is_fatal_publishes_nothing_and_the_batch_is_taken_over_by_a_full_run(bench: ShadowBench) -> None:
    workflow = bench.push_shadow("full")
    assert bench.runs.execute(workflow).status == "SUCCEEDED"
    # What a lookback has left behind: a day that nobody would look at again.
    bench.spark.sql(f"UPDATE {bench.namespace}.playback_agg SET views = 17 WHERE account_id = 1").collect()
    bench.load("(3, 'DE', DATE'2026-03-02', 3)")
    before = bench.rows()
    (explained,) = Explaining(bench.runs.client, bench.lake).explain(workflow)
    assert explained.shadow is not None and "shadow: full" in explained.shadow
    assert explained.to_dict()["shadow"] == explained.shadow

    failed = bench.runs.execute(workflow)
    step = next(one for one in failed.steps if one.id == "aggregate")
    assert (failed.status, step.attempts) == ("FAILED", 1), (
        "it is fatal: no second attempt, though errors may be retried"
    )
    assert cause(failed)["code"] == "planner.shadow-mismatch" and "pattern" in cause(failed)["hint"]
    log = bench.runs.log(failed.run_id, "aggregate")
    assert "1 rows missing, 1 rows extra" in log
    assert any(line.split()[-3:] == ["views", "17", "2"] for line in log.splitlines()), log
    assert bench.rows() == before
    assert set(bench.lake.table(f"{bench.namespace}.playback_agg").metadata.refs) == {"main"}
    left = bench.capture()
    assert left is not None and left.state == "built"
    assert _held_back(bench.runs.client, workflow)

    again = bench.runs.execute(workflow)
    assert (again.status, cause(again)["code"]) == ("FAILED", "planner.shadow-mismatch")
    assert _outputs(again, "capture_change")["capture_id"] == left.id, "the same batch, not a new one"
    assert f"icefloe restart {again.run_id} --version latest" in cause(again)["hint"]

    bench.push_shadow("full", write=WRITE.replace("auto", "full"))
    client = bench.runs.client
    client.runs.restart(again.run_id, version="latest")
    mended = client.work(again.run_id)
    assert mended.status == "SUCCEEDED", cause(mended)
    assert bench.rows() == bench.recomputed()
    assert bench.capture() is None


def _held_back(client: Client, workflow: str) -> bool:
    """Whether an incremental trigger would wait, by what it reads of ended runs."""
    with client.database.read() as connection:
        ended = triggers.ended_runs(connection, workflow, failures.LOOK_BACK)
    patience = Patience(Backoff(60.0, 2.0, 600.0), 1)
    bad = failures.bad_in_a_row(ended, 0)
    verdict = failures.verdict(bad, 0.0, patience, workflow)
    return len(bad) == 1 and verdict is not None


def test_what_was_compared_is_told_to_later_steps(bench: ShadowBench) -> None:
    workflow = bench.push_shadow("sample")
    view = bench.runs.execute(workflow)
    assert view.status == "SUCCEEDED", cause(view)
    assert _outputs(view)["shadow_compared_rows"] == len(bench.rows())
    log = bench.runs.log(view.run_id, "aggregate")
    assert "shadow sample:" in log and "seed " in log


def _outputs(view: Any, step: str = "aggregate") -> dict[str, Any]:
    found = next(one for one in view.steps if one.id == step)
    return dict(found.outputs)


def test_what_gives_something_else_at_each_run_is_refused_before_a_session_is_asked_for(bench: ShadowBench) -> None:
    select = "SELECT account_id, current_timestamp() AS loaded FROM {n}.playback_daily"
    view = bench.runs.execute(bench.push_shadow("sample", select=select, write='{table: "${TARGET}"}'))
    assert view.status == "FAILED" and cause(view)["code"] == "planner.shadow-not-repeatable"
    assert "current_timestamp" in cause(view)["message"]
