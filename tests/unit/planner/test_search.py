"""When a batch's keys are looked up by the step itself."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from icefloe.cli import explain
from icefloe.planner import search
from icefloe.planner.inputs import Column, PartitionContents, PartitionKey, Size, SourceState
from icefloe.planner.plan import FOUND_ROWS, Plan
from icefloe.service.explain import Explained
from icefloe.steps.write.write_job import request
from icefloe.workflow.loading import load
from icefloe.workflow.model import TypedStep
from icefloe.workflow.step_types import BUILTIN, SparkSettings
from tests.unit.planner.tables import CONTENTS, LATE, NEW, SOURCES, plan_of, with_state

AGG = "SELECT account_id, country, event_day, count(*) AS n, sum(view_min) AS m FROM db.events GROUP BY 1, 2, 3"
KEYS = ("account_id", "country", "event_day")


def planned(text: str = AGG, *keys: str, target: dict[str, Any] | None = None, **more: Any) -> Plan:
    return plan_of(text, *(keys or KEYS), target={"format_version": 3, **(target or {})}, **{"cores": 2, **more})


def retyped(**types: str) -> dict[str, SourceState]:
    events = SOURCES["db.events"]
    columns = tuple(Column(one.name, types.get(one.name, one.type)) for one in events.columns)
    return {**SOURCES, "db.events": replace(events, columns=columns)}


def test_late_keys_are_searched_for_and_new_partitions_are_written_beside() -> None:
    plan = planned()
    found = plan.search
    assert found is not None
    assert (found.source, found.change_table, found.partition) == ("db.events", "lake.icdc.events_1", "event_day")
    assert found.keys == (("account_id", "account_id"), ("country", "country"))
    assert found.columns == ("account_id", "country", "event_day", "view_min"), "nothing but what the SELECT names"
    (append,) = found.statements
    assert (
        append.role == "append"
        and FOUND_ROWS in append.sql
        and "icdc" not in append.sql
        and "branch_pin" not in append.sql
    )
    assert [one.role for one in plan.statements] == ["delete keys", "append", "append"], "where files are not plain"
    assert plan.to_dict()["search"]["keys"] == ["account_id", "country"]


def test_a_partition_that_changed_in_large_part_is_overwritten_beside_a_search() -> None:
    another = replace(SOURCES["db.events"].changed_partitions[0], added={LATE: 5, NEW: 90})
    live = PartitionContents(
        target={LATE: Size(1, 50, 1), NEW: Size(1, 50, 1)}, source={LATE: Size(1, 500, 1), NEW: Size(1, 100, 1)}
    )
    plan = planned(sources=with_state("db.events", changed_partitions=(another,)), contents=live)
    assert plan.partitions is not None and plan.partitions.overwritten == (NEW,)
    assert plan.search is not None
    assert [one.role for one in plan.search.statements] == ["delete partitions", "append"]
    append = plan.search.statements[-1].sql
    assert FOUND_ROWS in append and "DATE'2026-03-09'" in append


@pytest.mark.parametrize(
    "more",
    [
        {"cores": None},
        {"search": False},
        {"target": {"format_version": 2}},
        {"target": {"merge_on_read": False}},
        {"target": {"scattered": False}},
        {"sources": with_state("db.events", append_only=False), "pattern": "key_filter"},
        {"sources": retyped(account_id="double")},
        {"sources": retyped(view_min="struct")},
        {"contents": replace(CONTENTS, target=None)},
    ],
    ids=[
        "a cluster",
        "it is off",
        "version 2",
        "copy on write",
        "distributed writes",
        "rows went",
        "a key of floats",
        "a column that is not plain",
        "nobody knows how large groups are",
    ],
)
def test_else_spark_does_it(more: dict[str, Any]) -> None:
    assert planned().search is not None
    assert planned(**more).search is None


@pytest.mark.parametrize(
    "text",
    [
        "SELECT account_id, upper(country) AS country, event_day, count(*) AS n FROM db.events GROUP BY 1, 2, 3",
        "SELECT account_id, country, event_day, max(_file) AS n FROM db.events GROUP BY 1, 2, 3",
        "SELECT account_id, country, event_day, count(*) AS n FROM (SELECT * FROM db.events) GROUP BY 1, 2, 3",
        "SELECT e.account_id, country, event_day, count(*) AS n FROM db.events e "
        "JOIN db.accounts a ON a.account_id = e.account_id GROUP BY 1, 2, 3",
    ],
    ids=["a computed key", "a column of Iceberg's own", "every column, one of which is a list", "another table"],
)
def test_what_a_select_reads_must_be_there_to_hand_over(text: str) -> None:
    assert planned(text).search is None


def test_every_column_is_handed_over_where_the_select_says_so() -> None:
    plain = replace(SOURCES["db.events"], columns=SOURCES["db.events"].columns[:-1])
    text = "SELECT account_id, country, event_day, count(*) AS n FROM (SELECT * FROM db.events) GROUP BY 1, 2, 3"
    found = planned(text, sources={**SOURCES, "db.events": plain}).search
    assert found is not None and found.columns == tuple(one.name for one in plain.columns)


@pytest.mark.parametrize("more", [0, 1])
@pytest.mark.parametrize(
    ("live", "found"),
    [
        (10**6, search.FEW_FOUND),
        (10**7, 10**7 * 11 // 10 // search.LOOKED_THROUGH),
        (10**9, search.MOST_FOUND),
    ],
    ids=["few", "as many as are worth it", "as many as can be handed over"],
)
def test_more_rows_than_are_worth_handing_over_are_not_searched_for(live: int, found: int, more: int) -> None:
    """Each changed row brings its group along, of ten rows here."""
    contents = PartitionContents(
        target={LATE: Size(1, live // 10, 1)}, source={LATE: Size(1, live, 1), NEW: Size(1, 100, 1)}
    )
    assert (_with_late(found // 10 + more, contents).search is None) is bool(more)


def test_no_more_rows_are_expected_than_there_are() -> None:
    contents = PartitionContents(
        target={LATE: Size(1, search.FEW_FOUND // 10, 1)},
        source={LATE: Size(1, search.FEW_FOUND, 1), NEW: Size(1, 100, 1)},
    )
    assert _with_late(search.FEW_FOUND // 5, contents).search is not None


def _with_late(rows: int, contents: PartitionContents) -> Plan:
    key = PartitionKey("event_day", "date", "identity", {LATE: rows, NEW: 100})
    return planned(sources=with_state("db.events", changed_partitions=(key,)), contents=contents)


@pytest.mark.parametrize(("said", "asked"), [("", True), (", search: auto", True), (", search: off", False)])
def test_the_definition_says_whether_a_step_may_search(said: str, asked: bool) -> None:
    text = f"""
workflow:
  id: w
  jobs:
    - job: {{id: a, type: Spark, spark: {{script: SELECT 1 AS x, write: {{table: db.t{said}}}}}}}
"""
    (step,) = load(text).workflow.steps
    assert isinstance(step, TypedStep)
    settings = BUILTIN.find("Spark").parse(dict(step.settings), where="a")  # type: ignore[union-attr]
    assert isinstance(settings, SparkSettings) and settings.write is not None
    assert request(settings.write, "SELECT 1 AS x", "a").search is asked


def test_explain_shows_what_spark_is_asked_then(capsys: pytest.CaptureFixture[str]) -> None:
    plan = planned()
    assert plan.search is not None
    explain._show(Explained("aggregate", "db.target", plan), sql=True)
    told = capsys.readouterr().out
    assert "the step itself looks changed account_id, country up in the data files" in told
    assert FOUND_ROWS in told and "DELETE FROM" not in told, "the plan's own statements are for other files"
    assert told.count("INSERT INTO") == 2, "late rows and new ones"
    explain._show(Explained("aggregate", "db.target", planned(search=False)), sql=True)
    assert "the step itself" not in (by_spark := capsys.readouterr().out) and "DELETE FROM" in by_spark
