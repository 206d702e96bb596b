"""Plans with a range that is written anew, what they read and compare, and what the step makes of it. No Spark."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime
from typing import Any

import pytest

from icefloe.lake.metadata import Snapshot
from icefloe.lake.read_sizes import NewestPartitions
from icefloe.lake.survey import FileCounts
from icefloe.planner import choice, shadow
from icefloe.planner.comparison import ComparedColumn, Comparison
from icefloe.planner.errors import RangeError, UnsoundPatternError
from icefloe.planner.inputs import Size, SourceState
from icefloe.planner.plan import Plan
from icefloe.planner.scans import Scan, scans
from icefloe.planner.shadow import ShadowFacts
from icefloe.planner.spans import Span
from icefloe.steps.write import ranges
from icefloe.steps.write.ranges import RANGE, RangeOrder
from icefloe.steps.write.versions import LOGIC
from icefloe.steps.write.write_job import WriteJob
from icefloe.workflow.loading import inspect
from icefloe.workflow.values import TypedValue
from tests.planner.corpus import CORPUS, Case
from tests.unit.planner.tables import CONTENTS, LATE, NEW, SOURCES, analysis_of, target_of, with_state
from tests.unit.planner.test_scans import counted

AGG = "SELECT account_id, country, event_day, count(*) AS n FROM db.events GROUP BY account_id, country, event_day"
KEYS = ("account_id", "country", "event_day")
COPY = "SELECT id, country, event_day FROM db.events"
PER_ACCOUNT = "SELECT account_id, max(event_day) AS last_day, count(*) AS n FROM db.events GROUP BY account_id"
MARCH = Span("event_day", "date", date(2026, 3, 1), date(2026, 3, 5))
STILL = with_state("db.events", changed=False)
UNCAPTURED = {name: SourceState(name, state.columns, total=state.total) for name, state in SOURCES.items()}


def planned(
    text: str, *keys: str, span: Span = MARCH, target: dict[str, Any] | None = None, **more: Any
) -> tuple[Plan, tuple[Scan, ...]]:
    analysis = analysis_of(text, *keys, **more)
    there = target_of(analysis, **(target or {}))
    plan = choice.plan(analysis, there, CONTENTS, span=span)
    return plan, scans(plan, analysis, there)


def plan_of(text: str, *keys: str, **more: Any) -> Plan:
    return planned(text, *keys, **more)[0]


def roles(plan: Plan) -> list[str]:
    return [one.role for one in plan.statements]


def test_what_changed_is_written_first_and_then_the_range_all_in_order() -> None:
    plan = plan_of(AGG, *KEYS)
    assert plan.pattern == "key_filter" and plan.span == MARCH
    assert roles(plan) == ["delete keys", "append", "append", "delete range", "append"]
    assert not any(one.beside for one in plan.statements), "a new partition could lie in the range"
    delete, rows = (one.sql for one in plan.statements[-2:])
    condition = "`event_day` >= DATE'2026-03-01' AND q.`event_day` <= DATE'2026-03-05'"
    assert delete == (
        "DELETE FROM lake.db.target.branch_b WHERE `event_day` >= DATE'2026-03-01' AND `event_day` <= DATE'2026-03-05'"
    )
    assert rows.endswith(f"WHERE q.{condition}") and "lake.db.events.branch_pin" in rows
    assert any(one.rows for one in plan.statements), "rows may still be computed ahead"


def test_without_a_range_new_partitions_are_written_beside() -> None:
    plan = choice.plan(analysis_of(AGG, *KEYS), target_of(analysis_of(AGG, *KEYS)), CONTENTS)
    assert any(one.beside for one in plan.statements) and plan.span is None


def test_an_append_is_followed_by_the_range_which_takes_its_rows_in() -> None:
    plan = plan_of(COPY)
    assert plan.pattern == "append" and roles(plan)[-2:] == ["delete range", "append"]
    assert "icdc" in plan.statements[0].sql and "icdc" not in plan.statements[-1].sql


def test_where_nothing_changed_the_range_is_all_there_is() -> None:
    plan = plan_of(AGG, *KEYS, sources=STILL)
    assert plan.pattern == "range" and roles(plan) == ["delete range", "append"]
    assert "nothing that the SELECT reads has changed" in plan.reason


@pytest.mark.parametrize("case", CORPUS, ids=lambda case: case.name)
def test_where_nothing_is_captured_only_the_range_is_written_whatever_the_select_does(case: Case) -> None:
    analysis = analysis_of(case.text.format(n="db"), *case.keys, partition_by=case.partition_by, sources=UNCAPTURED)
    columns = analysis.columns or ("event_day",)
    span = Span(columns[0], "long", 1, 2)
    plan = choice.plan(analysis, target_of(analysis), CONTENTS, columns=columns, span=span)
    assert (plan.pattern, roles(plan)) == ("range", ["delete range", "append"])
    assert "pin" not in plan.statements[1].sql, "sources that are not captured are read at their head"


def test_a_full_run_has_the_range_in_it() -> None:
    for more in (
        {"target": {"total": Size()}},
        {"sources": with_state("db.events", whole=True)},
        {"rebuild": "why not"},
    ):
        plan = plan_of(AGG, *KEYS, **more)
        assert plan.pattern == "full" and plan.span is None and "adds nothing" in plan.notes[-1]
    plan = plan_of(AGG, *KEYS, sources=UNCAPTURED, rebuild="the SELECT has changed")
    assert plan.pattern == "full"


def test_a_pattern_that_is_wrong_is_refused_with_a_range_too() -> None:
    with pytest.raises(UnsoundPatternError):
        plan_of(AGG, pattern="append")


def test_an_empty_target_is_not_emptied_and_only_the_range_is_filled() -> None:
    plan = plan_of(AGG, *KEYS, sources=UNCAPTURED, target={"total": Size()})
    assert (plan.pattern, roles(plan)) == ("range", ["append"])


def test_a_lookback_over_sources_without_rows_writes_nothing() -> None:
    empty = Span("event_day", "date", empty=True)
    plan = plan_of(AGG, *KEYS, sources=UNCAPTURED, span=empty)
    assert (plan.pattern, plan.statements) == ("none", ())
    assert plan_of(AGG, *KEYS, span=empty).pattern == "key_filter"


def test_a_range_over_a_clock_is_refused() -> None:
    with pytest.raises(RangeError, match="every row again"):
        plan_of(
            "SELECT id, current_date() AS loaded FROM db.events",
            pattern="append",
            span=Span("loaded", "date", date(2026, 1, 1)),
        )
    beside = plan_of("SELECT id, event_day, current_date() AS loaded FROM db.events", sources=UNCAPTURED)
    assert beside.pattern == "range"


def test_duplicates_are_looked_for_in_what_the_range_touches_too() -> None:
    text = "SELECT id, event_day FROM db.events"
    both = plan_of(text, "id", "event_day")
    assert both.duplicates is not None
    assert (
        "WHERE (`event_day` IN (DATE'2026-03-09', DATE'2026-03-02')) OR (`event_day` >= DATE'2026-03-01'"
        in both.duplicates
    )
    alone = plan_of(text, "id", "event_day", sources=STILL)
    assert alone.duplicates is not None and "WHERE `event_day` >= DATE'2026-03-01' AND" in alone.duplicates
    by_other = plan_of(text, "id", sources=STILL)
    assert by_other.duplicates is not None and "WHERE" not in by_other.duplicates


def test_keys_that_the_select_makes_unique_are_checked_where_the_range_is_not_over_them() -> None:
    # An account whose last day was before the range and is now in it would be there twice.
    moved = plan_of(PER_ACCOUNT, "account_id", span=replace(MARCH, column="last_day"), sources=UNCAPTURED)
    assert moved.duplicates is not None and "WHERE" not in moved.duplicates
    assert plan_of(AGG, *KEYS, sources=UNCAPTURED).duplicates is None


def test_a_plan_tells_the_range_and_what_it_reads_for_it() -> None:
    told = plan_of(AGG, *KEYS, sources=STILL).to_dict()
    assert told["range"] == {
        "column": "event_day",
        "from": "2026-03-01",
        "to": "2026-03-05",
        "condition": "event_day >= DATE'2026-03-01' AND event_day <= DATE'2026-03-05'",
    }
    assert [(one["table"], one["rows"]) for one in told["reads"]] == [("db.events", 4_000)]
    elsewhere = plan_of(AGG, *KEYS, sources=STILL, span=Span("country", "string", "DE"))
    assert [read.table for read in elsewhere.reads] == ["db.events", "db.target"]


# -- what is read ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("change", [SOURCES, STILL, UNCAPTURED], ids=["appends", "nothing", "not captured"])
@pytest.mark.parametrize("case", CORPUS, ids=lambda case: case.name)
def test_every_reading_in_the_sql_is_counted_once(case: Case, change: dict[str, SourceState]) -> None:
    analysis = analysis_of(case.text.format(n="db"), *case.keys, partition_by=case.partition_by, sources=change)
    there = target_of(analysis)
    span = Span((analysis.columns or ("event_day",))[0], "long", 1)
    plan = choice.plan(analysis, there, CONTENTS, span=span)
    found = [(one.relation, one.table) for one in scans(plan, analysis, there)]
    wanted = counted(plan, change)
    if plan.span is not None and span.column not in there.identity_columns:
        wanted["target", "db.target"] += 1
    assert {one: found.count(one) for one in found} == +wanted, plan.statements


def test_the_range_is_read_by_partitions_where_it_is_over_the_source_s_partitions() -> None:
    _, found = planned(AGG, *KEYS, sources=STILL)
    assert found == (Scan("end", "db.events", "event_day", span=MARCH),)
    by_day = "SELECT CAST(ts AS DATE) AS day, count(*) AS n FROM db.events GROUP BY CAST(ts AS DATE)"
    _, found = planned(by_day, "day", sources=STILL, span=replace(MARCH, column="day"), partition_by=("day",))
    assert Scan("end", "db.events", "ts", span=replace(MARCH, column="day")) in found
    _, found = planned(AGG, *KEYS, sources=STILL, span=Span("n", "long", 5))
    assert set(found) == {Scan("end", "db.events"), Scan("target", "db.target"), Scan("result", "db.target")}


# -- what is compared ------------------------------------------------------------------------------------------------------------


def known(**more: Any) -> ShadowFacts:
    return replace(ShadowFacts(seed=7, kind="date", hashable=KEYS, sizes={LATE: 50, NEW: 100}, rows=160), **more)


def test_shadow_mode_compares_the_range_where_it_compares_no_more_than_that() -> None:
    alone = plan_of(AGG, *KEYS, sources=UNCAPTURED)
    for mode in ("full", "sample"):
        (part,) = shadow.parts(alone, mode, known())
        assert part.span == MARCH and str(MARCH) in part.what
        assert "not captured" in (shadow.describe(alone, mode) or "")
    sql = Comparison("SELECT 1", "branch", (ComparedColumn("event_day", "date"),), part).counts()
    assert sql.count("q.`event_day` >= DATE'2026-03-01' AND q.`event_day` <= DATE'2026-03-05'") == 2
    (thinned,) = shadow.parts(alone, "sample", known(rows=5 * shadow.SAMPLE_ROWS))
    assert thinned.every == 5 and thinned.span == MARCH


def test_shadow_mode_compares_the_range_beside_what_changed() -> None:
    plan = plan_of(AGG, *KEYS)
    assert [part.what for part in shadow.parts(plan, "full", known())] == ["everything"]
    assert shadow.parts(plan, "sample", known())[-1].span == MARCH
    assert f"and the range {MARCH}" in (shadow.describe(plan, "sample") or "")


# -- what the step makes of it -----------------------------------------------------------------------------------------------------


def snapshot(number: int, **summary: str) -> Snapshot:
    return Snapshot(number, None, number, 0, None, {name.replace("_", "."): text for name, text in summary.items()}, 0)


def test_what_the_run_says_wins_over_the_step() -> None:
    assert ranges.order(None, None, "here") is None
    assert ranges.order(None, "all", "here") == RangeOrder("all")
    assert ranges.order(TypedValue.of(" day 1..2 "), "all", "here") == RangeOrder("day 1..2", for_run=True)
    with pytest.raises(RangeError, match="WRITE_RANGE: 'tomorrow' is no range"):
        ranges.order(TypedValue.of("tomorrow"), None, "here")


def test_an_order_survives_its_way_to_the_step_s_process() -> None:
    work = WriteJob(analysis_of(COPY).request, (), range=RangeOrder("event_day last 3d", for_run=True))
    assert WriteJob.from_json(work.to_json()) == work
    assert WriteJob.from_json(replace(work, range=None).to_json()).range is None


def test_a_target_that_another_consumer_keeps_is_refused_and_told_where_to_run() -> None:
    asked = RangeOrder("event_day 2026-03-01..", for_run=True)
    kept = snapshot(2, icefloe_consumer="w:capture", icefloe_step="agg")
    kept = replace(kept, summary={**kept.summary, LOGIC: "w/agg@abc"})
    with pytest.raises(RangeError) as caught:
        ranges.refuse_foreign([snapshot(3), kept], asked, consumers=(), place="agg", target="db.t")
    assert "w:capture" in caught.value.message
    assert "icefloe run w WRITE_RANGE='event_day 2026-03-01..'" in (caught.value.hint or "")
    ranges.refuse_foreign([snapshot(3)], asked, consumers=(), place="agg", target="db.t")
    ranges.refuse_foreign([kept], asked, consumers=("w:capture",), place="agg", target="db.t")
    with pytest.raises(RangeError):
        ranges.refuse_foreign([kept], asked, consumers=("w:capture",), place="other", target="db.t")


def test_a_range_for_a_batch_that_was_published_without_it_is_refused_and_not_forgotten() -> None:
    asked = RangeOrder("all", for_run=True)
    with pytest.raises(RangeError, match="published already") as caught:
        ranges.refuse_published(snapshot(1), asked, "db.t", "w")
    assert "icefloe run w --wait" in (caught.value.hint or "")
    ranges.refuse_published(Snapshot(1, None, 1, 0, None, {RANGE: "all"}, 0), asked, "db.t", "w")
    ranges.refuse_published(snapshot(1), RangeOrder("all"), "db.t", "w")
    ranges.refuse_published(None, asked, "db.t", "w")


DAY = date(2026, 3, 4)


@pytest.mark.parametrize(
    ("start", "like", "transform", "kind", "expected"),
    [
        (DAY, DAY, "identity", "date", DAY),
        (DAY, DAY, "day", "timestamp", datetime(2026, 3, 4)),
        (DAY, DAY, "day", "timestamptz", datetime(2026, 3, 4, tzinfo=UTC)),
        (DAY, 20260304, "identity", "int", 20260304),
        (DAY, "20260304", "identity", "string", "20260304"),
        (DAY, "2026-03-04", "identity", "string", "2026-03-04"),
        (DAY, 490_000, "hour", "long", None),
        (DAY, DAY, "identity", "string", None),
        (7, 7, "identity", "long", 7),
        ("b", "b", "identity", "string", "b"),
        (7, 7, "month", "int", None),
        (7, 7, "identity", "date", None),
        (datetime(2026, 3, 4, 5), datetime(2026, 3, 4, 5), "identity", "date", DAY),
        (datetime(2026, 3, 4, 5), datetime(2026, 3, 4, 5), "identity", "timestamptz", None),
    ],
)  # fmt: skip
def test_the_beginning_of_a_lookback_is_a_value_of_the_column_or_not_known(
    start: Any, like: Any, transform: str, kind: str, expected: Any
) -> None:
    assert ranges._as(NewestPartitions("c", (like,), FileCounts(), transform, start), kind) == expected


def test_a_lookback_follows_a_column_to_the_one_that_it_is_made_of() -> None:
    analysis = analysis_of("SELECT date(ts) AS day, country AS event_day, upper(country) AS c FROM db.events")
    assert ranges._tells(analysis, "db.events", "ts", "day")
    assert ranges._tells(analysis, "db.events", "country", "c")
    assert not ranges._tells(analysis, "db.events", "event_day", "day")


WORKFLOW = """
Workflow:
  id: w
  owner: me
  FROM: 2026-01-01
  jobs:
    - job: {{id: agg, type: Spark, spark: {{script: SELECT 1 AS a, write: {{table: db.t, range: {range}}}}}}}
"""


@pytest.mark.parametrize("text", ["event_day 2026-01-01..", "event_day last 14d", "all", '"event_day ${FROM}.."'])
def test_a_definition_may_have_a_range(text: str) -> None:
    found = inspect(WORKFLOW.format(range=text))
    assert found.is_valid, [str(problem) for problem in found.problems]


def test_a_definition_with_what_is_no_range_is_refused_at_push() -> None:
    found = inspect(WORKFLOW.format(range="event_day 2026-01-01"))
    assert not found.is_valid and "COLUMN FROM..TO" in str(found.problems[0])
