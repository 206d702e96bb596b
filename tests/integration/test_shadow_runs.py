"""Shadow mode in real runs: what a mismatch leaves behind, how one goes on, and what counts as equal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from icefloe.config import Config
from icefloe.planner.comparison import ComparedColumn, Comparison, RowSubset, Type
from icefloe.service.client import Client
from icefloe.service.explain import Explaining
from icefloe.store import captures, triggers
from icefloe.triggers import failures
from icefloe.triggers.failures import Patience
from icefloe.workflow.model import Backoff
from tests.integration.test_planned_writes import WRITE, Bench, cause
from tests.integration.test_shadow import MODES, Writes, world
from tests.spark_server import Project

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql.connect.session import SparkSession


class ShadowBench(Bench):
    def capture(self) -> captures.CaptureRecord | None:
        with self.runs.client.database.read() as connection:
            return captures.open_capture(connection, f"agg_{self.namespace}/capture_change")


@pytest.fixture
def bench(project: Project, spark: SparkSession) -> Iterator[ShadowBench]:
    made = ShadowBench(project, spark)
    yield made
    made.runs.client.close()


def test_a_mismatch_is_fatal_publishes_nothing_and_the_batch_is_taken_over_by_a_full_run(bench: ShadowBench) -> None:
    workflow = bench.push(shadow="full")
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

    bench.push(shadow="full", write=WRITE.replace("auto", "full"))
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
    workflow = bench.push(shadow="sample")
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
    view = bench.runs.execute(bench.push(shadow="sample", select=select, write='{table: "${TARGET}"}'))
    assert view.status == "FAILED" and cause(view)["code"] == "planner.shadow-not-repeatable"
    assert "current_timestamp" in cause(view)["message"]


# -- what counts as equal --------------------------------------------------------------------------------------------------------

DOUBLES: Type = {"type": "array", "elementType": "double", "containsNull": True}
WORDS: Type = {"type": "map", "keyType": "string", "valueType": "double", "valueContainsNull": True}
NESTED: Type = {"type": "struct", "fields": [{"name": "m", "type": WORDS}, {"name": "l", "type": DOUBLES}]}


@pytest.mark.parametrize(
    ("kind", "wanted", "has", "equal"),
    [
        ("int", "NULL, 1, 1", "1, NULL, 1", True),
        ("int", "1, 1, 2", "1, 2, 2", False),
        ("int", "NULL", "0", False),
        ("string", "''", "NULL", False),
        ("string", "'a '", "'a'", False),
        ("double", "double('NaN'), NULL", "NULL, double('NaN')", True),
        ("double", "double('NaN')", "NULL", False),
        ("double", "double('NaN')", "1D", False),
        ("double", "double('Infinity')", "1D", False),
        ("double", "double('Infinity')", "double('-Infinity')", False),
        ("double", "double('Infinity')", "double('Infinity')", True),
        ("double", "-0D", "0D", True),
        ("double", "0.1D + 0.2D, 5D", "5D, 0.3D", True),
        ("double", "0.3D", "0.3000000001D", False),
        ("double", "0.1D + 0.2D, 0.1D + 0.2D", "0.3D", False),
        ("double", "0.1D + 0.2D, 0.3D, 0.3D", "0.3D, 0.1D + 0.2D, 0.1D + 0.2D", True),
        ("double", "10000000000D", "10000000001D", False),
        ("float", "0.1F", "CAST(0.1000001D AS FLOAT)", True),
        ("float", "0.1F", "0.101F", False),
        (DOUBLES, "array(-0D, double('NaN'), NULL)", "array(0D, double('NaN'), NULL)", True),
        (DOUBLES, "array(1D, 2D)", "array(2D, 1D)", False),
        (DOUBLES, "array()", "NULL", False),
        (WORDS, "map('a', 1D, 'b', NULL)", "map('b', NULL, 'a', 1D)", True),
        (WORDS, "map('a', 1D, 'b', -0D)", "map('b', 0D, 'a', 1D)", True),
        (WORDS, "map('a', 1D)", "map('a', 2D)", False),
        (WORDS, "map('a', 1D), map('a', 1D)", "map('a', 1D)", False),
        (WORDS, "map()", "NULL", False),
        (
            NESTED,
            "named_struct('m', map('a', 1D, 'b', 2D), 'l', array(1D))",
            "named_struct('m', map('b', 2D, 'a', 1D), 'l', array(1D))",
            True,
        ),
        (NESTED, "named_struct('m', NULL, 'l', NULL)", "NULL", False),
    ],
)
def test_what_counts_as_equal(spark: SparkSession, kind: Type, wanted: str, has: str, equal: bool) -> None:
    spelt = {
        str(DOUBLES): "ARRAY<DOUBLE>",
        str(WORDS): "MAP<STRING, DOUBLE>",
        str(NESTED): "STRUCT<m: MAP<STRING, DOUBLE>, l: ARRAY<DOUBLE>>",
    }.get(str(kind), str(kind))

    def rows(values: str) -> str:
        return f"SELECT 7 AS id, CAST(v AS {spelt}) AS v FROM (SELECT explode(array({values})) AS v)"

    columns = (ComparedColumn("id", "integer"), ComparedColumn("v", kind))
    comparison = Comparison(rows(wanted), f"({rows(has)})", columns, RowSubset("everything"))
    counts = spark.sql(comparison.counts()).collect()[0]
    if comparison.has_floats and counts["missing"] + counts["extra"]:
        counts = spark.sql(comparison.tolerant_counts()).collect()[0]
    assert (counts["missing"] + counts["extra"] == 0) == equal
    shown = spark.sql(comparison.rows(["id"], 41)).collect()
    assert {row["n"] > 0 for row in shown} <= {True, False} and (not shown) == equal


def test_a_target_with_wider_types_is_compared_in_its_own(project_config: Config, spark: SparkSession) -> None:
    made = world(project_config, spark, days=1)
    target = f"{made.namespace}.target"
    made.sql(
        f"CREATE TABLE {target} (account_id BIGINT, n BIGINT, share DOUBLE, price DECIMAL(12,2), m MAP<STRING,BIGINT>)"
    )
    text = """SELECT account_id, CAST(count(*) AS INT) AS n, CAST(0.1 AS FLOAT) AS share, CAST(1.5 AS DECIMAL(5,2)) AS price,
              map('n', count(*), 'a', 1L) AS m FROM {n}.events GROUP BY account_id"""
    writes = Writes(made, text, "account_id")
    writes.next_batch()
    for mode in MODES:
        assert not writes.is_found(mode, "DELETE FROM {t} WHERE account_id = -7")
    assert writes.is_found("full", "UPDATE {t} SET m = map('n', 0L, 'a', 1L) WHERE account_id IS NOT NULL")
