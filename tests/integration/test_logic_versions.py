"""What happens to a target when its SELECT changes: real runs, all three choices."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from icefloe.service.explain import Explaining
from icefloe.service.views import RunView
from icefloe.store import logic_versions
from icefloe.store.logic_versions import LogicRecord
from icefloe.store.tables import logic_versions as table
from tests.integration.test_planned_writes import SELECT, Bench, cause
from tests.spark_server import Project

if TYPE_CHECKING:
    from pyspark.sql.connect.session import SparkSession

DOUBLED = SELECT.replace("sum(view_min)", "2 * sum(view_min)")
WIDER = SELECT.replace("AS view_min", "AS view_min, max(view_min) AS longest")
COMMENTED = SELECT.replace("SELECT", "select /* the same */").replace("GROUP BY", "group  by")
FIRST, SECOND = date(2026, 3, 1), date(2026, 3, 2)
LATE = "(2, NULL, DATE'2026-03-01', 2), (3, 'DE', DATE'2026-03-02', 3)"


class Logic(Bench):
    def run(self, select: str, **params: str) -> RunView:
        return self.runs.execute(self.push(select=select), **params)

    def succeed(self, select: str, **params: str) -> RunView:
        view = self.run(select, **params)
        assert view.status == "SUCCEEDED", cause(view)
        return view

    def known(self) -> list[LogicRecord]:
        with self.runs.client.database.read() as connection:
            return logic_versions.known(
                connection, f"agg_{self.namespace}", "aggregate", f"{self.namespace}.playback_agg", "main"
            )

    def forget(self) -> None:
        """As after a restored backup."""
        with self.runs.client.database.write() as connection:
            connection.execute(sa.delete(table))

    def restart(self, run_id: str, **params: str) -> RunView:
        self.runs.client.runs.restart(run_id, texts=params)
        return self.runs.client.work(run_id)

    def explained(self) -> Any:
        (found,) = Explaining(self.runs.client, self.lake).explain(f"agg_{self.namespace}")
        return found


@pytest.fixture
def bench(project: Project, spark: SparkSession) -> Iterator[Logic]:
    made = Logic(project, spark)
    made.load("(4, 'SE', DATE'2026-03-01', 100)")
    made.succeed(SELECT)
    yield made
    made.runs.client.close()


def test_the_first_publication_is_on_record_and_a_new_layout_is_no_change(bench: Logic) -> None:
    (first,) = bench.known()
    assert "sum(view_min)" in first.text and ("views", "bigint") in (first.columns or ())
    bench.load(LATE)
    bench.push(select=COMMENTED)
    assert bench.explained().logic is None
    bench.succeed(COMMENTED)
    assert bench.rows() == bench.recomputed()
    assert bench.known() == [first]


def test_ask_stops_before_anything_is_written_and_a_restart_with_a_parameter_goes_on(bench: Logic) -> None:
    before, rows = bench.snapshots(), bench.rows()
    bench.load(LATE)
    bench.push(select=DOUBLED)
    note = bench.explained().logic
    assert note is not None and "stop and ask" in note.then and any("2 * sum" in line for line in note.difference)
    failed = bench.run(DOUBLED)
    told = cause(failed)
    assert (failed.status, told["code"]) == ("FAILED", "planner.logic-changed")
    step = next(one for one in failed.steps if one.id == "aggregate")
    assert step.attempts == 1 and step.status == "FATALLY_FAILED"
    assert "2 * sum(view_min)" in told["message"] and "+" in told["message"]
    assert f"icefloe restart {failed.run_id} ON_LOGIC_CHANGE=from_now_on" in told["hint"]
    assert (bench.snapshots(), bench.rows()) == (before, rows)
    assert len(bench.known()) == 1, "a step that failed records nothing"

    again = bench.restart(failed.run_id, ON_LOGIC_CHANGE="from_now_on")
    assert again.status == "SUCCEEDED", cause(again)
    assert bench.rows() == sorted(
        [
            (1, "NO", FIRST, 2, 15),  # not touched by the batch: as the old SELECT made it
            (4, "SE", FIRST, 1, 100),
            (2, None, FIRST, 2, 18),
            (3, "DE", SECOND, 1, 6),
        ],
        key=str,
    )
    assert [("2 * sum" in one.text) for one in bench.known()] == [True, False]

    # It was chosen for one run, and is over: the next change is asked about again.
    bench.load("(3, 'DE', DATE'2026-03-02', 1)")
    bench.succeed(DOUBLED)
    bench.load("(3, 'DE', DATE'2026-03-02', 1)")
    assert cause(bench.run(SELECT))["code"] == "planner.logic-changed"


def test_rebuild_computes_everything_anew_and_is_incremental_again_afterwards(bench: Logic) -> None:
    bench.load(LATE)
    bench.push(select=DOUBLED)
    view = bench.succeed(DOUBLED, ON_LOGIC_CHANGE="rebuild")
    assert "pattern full: the SELECT has changed" in bench.runs.log(view.run_id, "aggregate")
    assert bench.rows() == bench.recomputed(DOUBLED)
    bench.load("(1, 'NO', DATE'2026-03-01', 1)")
    after = bench.succeed(DOUBLED)
    assert "pattern key_filter" in bench.runs.log(after.run_id, "aggregate")
    assert bench.rows() == bench.recomputed(DOUBLED)
    assert bench.known()[0].root_id == view.run_id


def test_a_new_column_is_refused_with_what_to_do_and_a_rebuild_adds_it(bench: Logic) -> None:
    bench.load(LATE)
    rows = bench.rows()
    for choice in ("ask", "from_now_on"):
        told = cause(bench.run(WIDER, ON_LOGIC_CHANGE=choice))
        assert told["code"] == "planner.target-mismatch" and "ADD COLUMNS" in told["hint"]
        assert "ON_LOGIC_CHANGE=rebuild" in told["hint"]
        assert bench.rows() == rows
    bench.succeed(WIDER, ON_LOGIC_CHANGE="rebuild")
    assert bench.rows() == bench.recomputed(WIDER)
    bench.load("(1, 'NO', DATE'2026-03-01', 500)")
    bench.succeed(WIDER)
    assert bench.rows() == bench.recomputed(WIDER)


def test_a_state_database_that_has_forgotten_is_put_right_by_the_target_itself(bench: Logic) -> None:
    bench.forget()
    bench.load(LATE)
    told = cause(bench.run(DOUBLED))
    assert told["code"] == "planner.logic-changed" and "not on record" in told["message"]
    bench.succeed(SELECT)
    assert bench.rows() == bench.recomputed()
    assert len(bench.known()) == 1


def test_where_nothing_is_known_the_step_goes_on_and_records(project: Project, spark: SparkSession) -> None:
    bench = Logic(project, spark)
    spark.sql(
        f"CREATE TABLE {bench.namespace}.playback_agg (account_id BIGINT, country STRING, event_day DATE, views BIGINT, "
        "view_min BIGINT) USING iceberg PARTITIONED BY (event_day)"
    )
    bench.succeed(SELECT)
    assert bench.rows() == bench.recomputed() and len(bench.known()) == 1
    bench.runs.client.close()


def test_a_parameter_that_is_no_choice_is_refused(bench: Logic) -> None:
    bench.load(LATE)
    told = cause(bench.run(SELECT, ON_LOGIC_CHANGE="yes"))
    assert told["code"] == "usage" and "rebuild" in told["hint"]


def test_what_each_run_decides_for_itself_is_no_change_and_a_constant_of_the_definition_is(bench: Logic) -> None:
    by_run = SELECT.replace("count(*)", "count(*) + 0 * ${{RUN_DATE}}")
    bench.load(LATE)
    bench.succeed(by_run, ON_LOGIC_CHANGE="rebuild")
    bench.load("(1, 'NO', DATE'2026-03-01', 1)")
    bench.succeed(by_run, RUN_DATE="20200101")
    assert "${RUN_DATE}" in bench.known()[0].text
    assert bench.rows() == bench.recomputed()
    assert len(bench.known()) == 2
    bench.load("(1, 'NO', DATE'2026-03-01', 1)")
    constant = SELECT.replace("count(*)", "count(*) + 0 * length('${{TARGET}}')")
    bench.succeed(constant, ON_LOGIC_CHANGE="rebuild")
    assert f"'{bench.namespace}.playback_agg'" in bench.known()[0].text
