"""What a plan is said to read, held to the tables that its SQL names."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import pytest

from icefloe.planner import choice
from icefloe.planner.inputs import PartitionContents, Size, SourceState
from icefloe.planner.plan import Plan
from icefloe.planner.scans import Scan, scans
from tests.planner.corpus import CORPUS, Case
from tests.unit.planner.tables import CONTENTS, LATE, NEW, SOURCES, analysis_of, target_of, with_state

CHANGES: dict[str, dict[str, SourceState]] = {
    "appends": SOURCES,
    "deletes": with_state("db.events", append_only=False),
    "deletes somewhere": with_state("db.events", append_only=False, changed_partitions=()),
    "a first capture": with_state("db.events", whole=True),
    "accounts": {
        **with_state("db.events", changed=False),
        "db.accounts": with_state("db.accounts", changed=True)["db.accounts"],
    },
}
OVERWRITTEN = PartitionContents(target=CONTENTS.target, source={LATE: Size(1, 6, 10), NEW: Size(1, 100, 10)})


def counted(plan: Plan, sources: dict[str, SourceState]) -> Counter[tuple[str, str]]:
    """How often the statements name each relation. What stands before WHERE FALSE is not read."""
    found: Counter[tuple[str, str]] = Counter()
    sql = "\n".join(re.sub(r"SELECT \* FROM [^\n()]+ WHERE FALSE", "", one.sql) for one in plan.statements)
    for name, state in sources.items():
        bare = len(re.findall(rf"(?<![\w.]){re.escape(name)}\b(?!\.)", sql))
        at_to = len(re.findall(rf"{re.escape(state.at_to)}\b", sql)) if state.at_to else 0
        changes = len(re.findall(rf"{re.escape(state.change_table)}\b", sql)) if state.change_table else 0
        start = sql.count(state.at_from) if state.at_from else 0
        for relation, count in (("end", bare + at_to), ("changes", changes), ("start", start)):
            found[relation, name] = count
    found["target", "db.target"] = sum(one.role == "delete keys" for one in plan.statements)
    found["result", "db.target"] = plan.duplicates is not None
    return +found


def planned(case: Case, sources: dict[str, SourceState], contents: PartitionContents) -> tuple[Plan, tuple[Scan, ...]]:
    analysis = analysis_of(case.text.format(n="db"), *case.keys, partition_by=case.partition_by, sources=sources)
    target = target_of(analysis)
    plan = choice.plan(analysis, target, contents)
    return plan, scans(plan, analysis, target)


@pytest.mark.parametrize(
    "contents", [CONTENTS, OVERWRITTEN, PartitionContents()], ids=["late", "overwritten", "unknown"]
)
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("case", CORPUS, ids=lambda case: case.name)
def test_every_reading_in_the_sql_is_counted_once(case: Case, change: str, contents: PartitionContents) -> None:
    plan, found = planned(case, CHANGES[change], contents)
    assert Counter((one.relation, one.table) for one in found) == counted(plan, CHANGES[change]), plan.statements


GROUPED = Case(
    "grouped",
    "SELECT account_id, event_day, count(*) AS n FROM {n}.events GROUP BY account_id, event_day",
    "key_filter",
    ("account_id", "event_day"),
)


def test_late_partitions_are_read_at_the_end_and_new_ones_from_the_change_table() -> None:
    _, found = planned(GROUPED, SOURCES, CONTENTS)

    def day(relation: Any, table: str, *values: Any) -> Scan:
        return Scan(relation, table, "event_day", "identity", values)

    assert Counter(found) == Counter(
        [
            day("target", "db.target", LATE),
            day("changes", "db.events", LATE),
            day("changes", "db.events", LATE),
            day("end", "db.events", LATE),
            day("changes", "db.events", NEW),
        ]
    )


def test_keys_that_are_searched_for_are_read_once() -> None:
    analysis = analysis_of(GROUPED.text.format(n="db"), *GROUPED.keys)
    target = target_of(analysis, format_version=3)
    plan = choice.plan(analysis, target, CONTENTS, cores=2)
    assert plan.search is not None
    _, by_spark = planned(GROUPED, SOURCES, CONTENTS)
    once = Counter(by_spark) - Counter([Scan("changes", "db.events", "event_day", "identity", (LATE,))])
    assert Counter(scans(plan, analysis, target)) == once


def test_overwritten_partitions_are_read_at_the_end_and_nothing_of_the_target() -> None:
    _, found = planned(GROUPED, SOURCES, OVERWRITTEN)
    assert {(one.relation, one.values) for one in found} == {("end", (LATE,)), ("changes", (NEW,))}


def test_a_plan_that_writes_nothing_reads_nothing() -> None:
    plan, found = planned(GROUPED, with_state("db.events", changed=False), CONTENTS)
    assert plan.pattern == "none" and found == ()
