"""Watermarks derived from captures, on both databases: with the commit, never before it, and never back."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from icefloe.capture.completeness import VALID_THROUGH
from icefloe.workflow.matching import moment
from tests.contract.capture.conftest import Bench
from tests.projects import wait_until

NUMBERS = Schema(NestedField(1, "id", LongType()), NestedField(2, "at", LongType()))
FLOW = """
Workflow:
  id: {name}
  retry_policy: {{error: 0, platform: 0}}
  jobs:
    - job: {{id: look, type: IpCapture, ip_capture: {{source_tables: [{sources}], watermark: {{{watermark}}}{more}}}}}
    - job: {{id: use, type: Shell, shell: {{script: "test ! -e broken"}}}}
    - job: {{id: commit, type: IpCommit, ip_commit: {{capture_step: look}}}}
  dag: sequential
"""


def push(bench: Bench, watermark: str, sources: str = "db.events", more: str = "", name: str = "flow") -> None:
    bench.project.push(FLOW.format(name=name, watermark=watermark, sources=sources, more=more))


def through(bench: Bench, table: str = "db.daily") -> float | None:
    found = bench.project.client.triggers.watermarks(table)
    return found[0].valid_through if found else None


@pytest.fixture
def events(bench: Bench) -> Bench:
    bench.create("db.events")
    bench.append("db.events", 1, day=3)
    return bench


def test_it_moves_with_the_commit_by_the_columns_maximum_less_the_lateness(events: Bench) -> None:
    push(events, "table: db.daily, column: day, lateness: 1d")
    (events.project.root / "broken").touch()
    assert events.project.execute("flow").status == "FAILED"
    assert through(events) is None, "nothing is said before the commit"
    (events.project.root / "broken").unlink()
    events.append("db.events", 2, day=9)
    assert events.project.execute("flow").status == "SUCCEEDED"
    assert through(events) == moment("2026-03-02"), "the same micro-batch again, and no more than what is in it"
    assert events.project.execute("flow").status == "SUCCEEDED"
    assert through(events) == moment("2026-03-08")
    (said,) = events.project.client.triggers.watermarks("db.daily")
    assert said.publisher == f"capture {events.captures('flow/look')[0].id}"


def test_late_rows_move_it_neither_forward_nor_back(events: Bench) -> None:
    push(events, "table: db.daily, column: day")
    chance = random.Random(20260301)
    newest = 3
    assert events.project.execute("flow").status == "SUCCEEDED"
    for number in range(8):
        days = [chance.randint(1, 28) for _ in range(chance.randint(1, 2))]
        for day in days:
            events.append("db.events", number, day=day)
        before = through(events)
        assert events.project.execute("flow").status == "SUCCEEDED"
        newest = max(newest, *days)
        now = through(events)
        assert before is not None
        assert now == moment(f"2026-03-{newest:02d}"), f"after {days}"
        assert now >= before


def test_with_several_sources_it_is_the_least_complete_that_counts_also_when_it_is_quiet(events: Bench) -> None:
    events.create("db.other")
    push(events, "table: db.daily, column: {db.events: day, lake.db.other: day}", "db.events, db.other")
    assert events.project.execute("flow").status == "SUCCEEDED"
    assert through(events) is None, "nothing is known of the other yet"
    events.append("db.other", 1, day=7)
    events.project.execute("flow")
    assert through(events) == moment("2026-03-03")
    events.append("db.events", 2, day=5)
    events.project.execute("flow")
    assert through(events) == moment("2026-03-05"), "what the quiet one had reached is remembered"


def test_by_sources_it_hands_on_what_is_said_of_them_as_of_the_capture(events: Bench) -> None:
    events.create("db.other")
    events.append("db.other", 1)
    say = events.project.client.triggers.set_watermark
    push(events, "table: db.daily", "db.events, db.other")
    push(events, "table: db.weekly", "db.daily", more=", on_missing_source: wait", name="next")
    say("db.events", "2026-03-02")
    events.project.execute("flow")
    assert through(events) is None
    table = events.catalog.load_table("db.other")
    with table.transaction() as change:
        change.set_properties({VALID_THROUGH: "2026-03-01T12:00:00Z"})
    (events.project.root / "broken").touch()
    events.append("db.events", 2)
    assert events.project.execute("flow").status == "FAILED"
    say("db.events", "2026-03-20")
    say("db.other", "2026-03-19")
    (events.project.root / "broken").unlink()
    assert events.project.execute("flow").status == "SUCCEEDED"
    assert through(events) == moment("2026-03-01T12:00:00Z"), "what was said after the capture is not about its rows"
    assert events.project.execute("flow").status == "SUCCEEDED"
    assert through(events) == moment("2026-03-19"), "nothing new to read, and all that is said of it holds"
    events.create("db.daily")
    events.append("db.daily", 1)
    events.project.execute("next")
    assert through(events, "db.weekly") == moment("2026-03-19"), "stage after stage"


def test_a_capture_that_does_not_reach_the_head_hands_nothing_on(events: Bench) -> None:
    push(events, "table: db.daily", more=", max_snapshots: 1")
    events.project.execute("flow")
    events.append("db.events", 2)
    events.append("db.events", 3)
    events.project.client.triggers.set_watermark("db.events", "2026-03-02")
    events.project.execute("flow")
    assert through(events) is None
    events.project.execute("flow")
    assert through(events) == moment("2026-03-02")


def test_rows_from_the_future_complete_nothing_beyond_the_present(bench: Bench) -> None:
    bench.catalog.create_table("db.events", schema=NUMBERS)
    table = bench.catalog.load_table("db.events")
    table.append(pa.table({"id": pa.array([1], pa.int64()), "at": pa.array([99991231], pa.int64())}))
    push(bench, "table: db.daily, column: at")
    assert bench.project.execute("flow").status == "SUCCEEDED"
    assert through(bench) == bench.captures("flow/look")[0].created_at


def test_a_column_or_target_that_cannot_be_is_refused_before_anything_is_captured(events: Bench) -> None:
    for watermark, told in (
        ("table: db.daily, column: nothing", "nothing"),
        ("column: day", "watermark: {table: db.table}"),
        ("table: db.daily, column: {db.stranger: day}", "db.events"),
    ):
        push(events, watermark)
        cause = events.project.execute("flow").steps[0].cause
        assert told in f"{cause}", cause
    assert events.checkpoint("flow/look") is None


def test_two_captures_do_not_speak_for_one_target(events: Bench) -> None:
    events.create("db.other")
    events.project.push(
        """
        Workflow:
          id: twice
          retry_policy: {error: 0, platform: 0}
          jobs:
            - job: {id: a, type: IpCapture, ip_capture: {source_tables: [db.events], watermark: {table: db.daily}}}
            - job: {id: b, type: IpCapture, ip_capture: {source_tables: [db.other], watermark: {table: lake.db.daily}}}
            - job: {id: commit, type: IpCommit, ip_commit: {capture_step: [a, b]}}
          dag: sequential
        """
    )
    assert "both derive the watermark of db.daily" in f"{events.project.execute('twice').steps[0].cause}"


def test_without_a_table_it_is_what_the_steps_behind_the_capture_write(events: Bench) -> None:
    events.project.push(
        """
        Workflow:
          id: evident
          TARGET: db.daily
          jobs:
            - job: {id: look, type: IpCapture, ip_capture: {source_tables: [db.events], watermark: {column: day}}}
            - job:
                id: write
                type: Spark
                signal_dependencies: [never]
                spark: {script: "SELECT 1 AS a", write: {table: "${TARGET}"}}
            - job: {id: commit, type: IpCommit, ip_commit: {capture_step: look}}
          dag: sequential
        """
    )
    run = events.project.start("evident")
    with events.project.worker():
        wait_until(lambda: events.project.statuses(run)["write"] == "WAITING_FOR_SIGNALS", 60)
        events.project.client.runs.kill(run)
        wait_until(lambda: events.project.show(run).ended, 60)
    (source,) = events.captures("evident/look")[0].sources
    assert (source["completes"], source["through"]) == ("db.daily", moment("2026-03-03"))
