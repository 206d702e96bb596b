"""A range that is written anew: a backfill in a workflow with a capture, a lookback in one without, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from icefloe.config import Config
from icefloe.planner.errors import RangeError
from icefloe.planner.inputs import WriteRequest
from icefloe.service.explain import Explaining
from icefloe.service.views import RunView
from icefloe.spark.session import connect
from icefloe.steps.write import execution
from icefloe.steps.write.ranges import RangeOrder
from icefloe.steps.write.write_job import WriteJob
from icefloe.steps.write.write_report import WriteReport
from tests.integration.test_planned_writes import GROUPED, SELECT, Bench, Writes, cause
from tests.planner.world import fencing
from tests.spark_server import Project

if TYPE_CHECKING:
    from pyspark.sql.connect.session import SparkSession

LOOKBACK = """
Workflow:
  id: lookback_{n}
  owner: playback-team
  WINDOW: 2d
  jobs:
    - job:
        id: aggregate
        type: Spark
        spark:
          script: |
            {select}
          write: {{table: {n}.playback_agg, keys: [account_id, country, event_day], range: "event_day last ${{WINDOW}}"}}
          shadow: full
"""
COPY = "SELECT account_id, event_day, view_min FROM {n}.playback_daily"
DAYS = "(1, 'NO', DATE'2026-03-02', 20), (2, 'DE', DATE'2026-03-03', 30), (3, 'DE', DATE'2026-03-04', 40)"


class Ranges(Bench):
    def succeed(self, workflow: str, **params: str) -> RunView:
        view = self.runs.execute(workflow, **params)
        assert view.status == "SUCCEEDED", cause(view)
        return view

    def by_hand(self, *texts: str) -> None:
        """Somebody else, without our mark on what is committed."""
        somebody = connect(self.config)
        for text in texts:
            somebody.sql(text.format(t=f"{self.namespace}.playback_agg")).collect()
        somebody.stop()

    def statuses(self, view: RunView) -> dict[str, str]:
        return {one.id: one.status for one in view.steps}

    def explained(self, workflow: str, **params: str) -> Any:
        (found,) = Explaining(self.runs.client, self.lake).explain(workflow, params)
        return found


@pytest.fixture
def bench(project: Project, spark: SparkSession) -> Iterator[Ranges]:
    made = Ranges(project, spark)
    made.load(DAYS)
    yield made
    made.runs.client.close()


def test_a_backfill_repairs_its_range_although_nothing_has_changed_and_leaves_the_rest(bench: Ranges) -> None:
    workflow = bench.push(shadow="sample")
    bench.succeed(workflow)
    bench.by_hand(
        "DELETE FROM {t} WHERE event_day = DATE'2026-03-02'",
        "UPDATE {t} SET views = 99 WHERE event_day = DATE'2026-03-03'",
        "INSERT INTO {t} VALUES (7, 'XX', DATE'2026-03-03', 1, 1), (8, 'XX', NULL, 1, 1)",
    )
    asked = "event_day 2026-03-02..2026-03-03"
    explained = bench.explained(workflow, WRITE_RANGE=asked)
    assert explained.plan.pattern == "range" and explained.to_dict()["range"]["from"] == "2026-03-02"

    view = bench.runs.execute(workflow, WRITE_RANGE=asked)
    # The row that lies in no range is somebody's still, and the sample has found it.
    assert cause(view)["code"] == "planner.shadow-mismatch" and "1 are extra" in cause(view)["message"]
    workflow = bench.push()
    view = bench.succeed(workflow, WRITE_RANGE=asked)
    extra = [row for row in bench.rows() if row not in bench.recomputed()]
    assert extra == [(8, "XX", None, 1, 1)], "NULL lies in no range"
    assert [row for row in bench.rows() if row not in extra] == bench.recomputed()
    log = bench.runs.log(view.run_id, "aggregate")
    assert "pattern range" in log and "delete range" in log
    assert bench.statuses(view)["commit_checkpoint"] == "SUCCEEDED"

    again = bench.succeed(workflow, WRITE_RANGE="event_day ..2026-03-02")
    assert extra[0] in bench.rows()
    assert "published as" in bench.runs.log(again.run_id, "aggregate"), "the same empty batch, and yet another one"
    after = bench.succeed(workflow)
    assert bench.statuses(after)["aggregate"] == "SKIPPED", "it was asked for in one run"


def test_a_range_beside_new_rows_writes_each_row_once(bench: Ranges) -> None:
    write = '{table: "${TARGET}", partition_by: event_day}'
    workflow = bench.push(select=COPY, write=write)
    bench.succeed(workflow)
    bench.load("(4, 'DE', DATE'2026-03-02', 1), (4, 'DE', DATE'2026-03-04', 1), (4, 'DE', DATE'2026-03-05', 1)")
    assert bench.explained(workflow, WRITE_RANGE="event_day 2026-03-02..2026-03-03").plan.pattern == "append"
    view = bench.succeed(workflow, WRITE_RANGE="event_day 2026-03-02..2026-03-03")
    log = bench.runs.log(view.run_id, "aggregate")
    assert "pattern append" in log and "is written anew" in log
    assert bench.rows() == bench.recomputed(COPY)
    assert bench.statuses(bench.succeed(workflow))["aggregate"] == "SKIPPED"
    bench.load("(5, 'DE', DATE'2026-03-02', 1)")
    bench.succeed(workflow)
    assert bench.rows() == bench.recomputed(COPY)


def test_everything_is_written_anew_when_asked_for(bench: Ranges) -> None:
    workflow = bench.push()
    bench.succeed(workflow)
    bench.by_hand("DELETE FROM {t} WHERE account_id < 3")
    view = bench.succeed(workflow, WRITE_RANGE="all")
    assert "pattern full: WRITE_RANGE is all" in bench.runs.log(view.run_id, "aggregate")
    assert bench.rows() == bench.recomputed()


def test_a_lookback_without_a_capture_writes_its_window_and_leaves_older_rows_alone(bench: Ranges) -> None:
    select = SELECT.format(n=bench.namespace)
    workflow = bench.runs.push(LOOKBACK.format(n=bench.namespace, select=select))
    view = bench.succeed(workflow)
    window = [row for row in bench.recomputed() if str(row[2]) >= "2026-03-03"]
    assert bench.rows() == window, "a new target has the window and no more"
    assert "range event_day 2026-03-03.." in bench.runs.log(view.run_id, "aggregate")
    bench.load("(1, 'NO', DATE'2026-03-01', 1), (2, 'DE', DATE'2026-03-03', 1), (9, 'DE', DATE'2026-03-05', 1)")
    bench.by_hand("INSERT INTO {t} VALUES (7, 'XX', DATE'2026-02-01', 1, 1)")
    before = [row for row in bench.rows() if str(row[2]) < "2026-03-04"]
    explained = bench.explained(workflow)
    assert (explained.plan.pattern, str(explained.plan.span)) == ("range", "event_day 2026-03-04..")
    view = bench.succeed(workflow)
    assert bench.rows() == sorted(
        [*before, *(row for row in bench.recomputed() if str(row[2]) >= "2026-03-04")], key=str
    )
    assert "rows compared and equal" in bench.runs.log(view.run_id, "aggregate")
    bench.succeed(workflow, WRITE_RANGE="event_day last 5")
    assert bench.rows() == sorted([*bench.recomputed(), *(row for row in before if row[0] == 7)], key=str)


def test_a_target_that_a_consumer_keeps_is_not_written_past_it(bench: Ranges) -> None:
    captured = bench.push()
    bench.succeed(captured)
    bench.load("(3, 'DE', DATE'2026-03-04', 3)")
    before = bench.rows(), bench.snapshots()
    other = bench.runs.push(LOOKBACK.format(n=bench.namespace, select=SELECT.format(n=bench.namespace)))
    view = bench.runs.execute(other)
    told = cause(view)
    assert (view.status, told["code"]) == ("FAILED", "planner.range")
    assert f"icefloe run {captured} WRITE_RANGE='event_day last 2d'" in told["hint"]
    assert (bench.rows(), bench.snapshots()) == before
    with pytest.raises(RangeError):
        bench.explained(other)
    bench.succeed(captured, WRITE_RANGE="event_day last 2d")
    assert bench.rows() == bench.recomputed()


@pytest.mark.parametrize("text", ["event_dya 2026-03-01..", "views 1.5..", "loaded 2026-01-01..", "soon"])
def test_a_range_without_sense_is_refused_before_a_target_is_made(bench: Ranges, text: str) -> None:
    workflow = bench.push(select=SELECT.replace("AS views", "AS views, max(current_date()) AS loaded"))
    view = bench.runs.execute(workflow, WRITE_RANGE=text)
    told = cause(view, "capture_change" if text == "soon" else "aggregate")
    assert (view.status, told["code"]) == ("FAILED", "planner.range") and told["hint"]
    with pytest.raises(Exception, match="playback_agg"):
        bench.snapshots()


class InProcess(Writes):
    def range(self, text: str, mark: str, *, captured: bool = True, told: list[WriteReport] | None = None) -> list[str]:
        said: list[str] = []
        request = WriteRequest(
            GROUPED.format(n=self.world.namespace), f"{self.world.namespace}.target", ("account_id", "event_day")
        )
        sources = tuple(self.world.sources) if captured else ()
        work = WriteJob(request, sources, range=RangeOrder(text, for_run=True))
        tell = told.append if told is not None else lambda one: None
        execution.run(self.world.spark, self.world.lake, work, fencing(mark, "run"), said.append, tell=tell)
        return said


@pytest.fixture(scope="module")
def writes(project_config: Config, spark: SparkSession) -> InProcess:
    return InProcess(Project(project_config, ""), spark)


def test_a_batch_is_published_with_its_range_once_and_never_with_another(writes: InProcess) -> None:
    writes.next_batch()
    writes.write(GROUPED, "account_id", "event_day", mark="without")
    writes.range("event_day 2026-03-01..", "with")
    before = writes.state()
    assert "published already" in writes.range("event_day 2026-03-01..", "with")[0]
    for mark in ("with", "without"):
        with pytest.raises(RangeError, match="published already"):
            writes.range("event_day 2026-03-02..", mark)
    assert writes.state() == before


def test_the_ledger_counts_the_partitions_of_the_range(writes: InProcess) -> None:
    told: list[WriteReport] = []
    writes.range("event_day 2026-03-02..2026-03-02", "counted", captured=False, told=told)
    events = f"{writes.world.namespace}.events"
    rows = writes.world.spark.sql(f"SELECT count(*) FROM {events} WHERE event_day = DATE'2026-03-02'").collect()[0][0]
    counted = told[0].savings
    assert counted is not None and counted.reckoning.pattern == "range"
    assert 0 < counted.reckoning.read.rows == rows < counted.reckoning.instead.rows
