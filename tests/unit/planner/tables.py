"""The corpus's tables as the planner sees them, without Spark: metadata values, made up."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from typing import Any

from icefloe.planner import choice
from icefloe.planner.analysis import Analysis, analyse
from icefloe.planner.inputs import Column, PartitionContents, PartitionKey, Size, SourceState, TargetState, WriteRequest
from icefloe.planner.plan import Plan
from tests.planner.corpus import Case

NEW, LATE, OLD = date(2026, 3, 9), date(2026, 3, 2), date(2026, 3, 1)

EVENTS = SourceState(
    name="db.events",
    columns=tuple(
        Column(*pair)
        for pair in (
            ("id", "long"),
            ("account_id", "long"),
            ("country", "string"),
            ("event_day", "date"),
            ("ts", "timestamptz"),
            ("view_min", "int"),
            ("device", "string"),
            ("title_id", "int"),
            ("tags", "list"),
        )
    ),
    captured=True,
    changed=True,
    append_only=True,
    at_to="lake.db.events.branch_pin",
    at_from="lake.db.events VERSION AS OF 1",
    change_table="lake.icdc.events_1",
    partition_filter="`event_day` IN (DATE'2026-03-02', DATE'2026-03-09')",
    changed_partitions=(PartitionKey("event_day", "date", "identity", {LATE: 5, NEW: 100}),),
    nulls={"account_id": 0, "country": 3, "event_day": 0},
    added=Size(2, 105, 2_000),
    total=Size(40, 4_000, 90_000),
)
REFUNDS = SourceState(
    name="db.refunds",
    columns=(Column("id", "long"), Column("account_id", "long"), Column("event_day", "date"), Column("amount", "int")),
    captured=True,
    append_only=True,
    at_to="lake.db.refunds.branch_pin",
    change_table="lake.icdc.refunds_1",
)
ACCOUNTS = SourceState(
    name="db.accounts",
    columns=(Column("account_id", "long"), Column("plan", "string"), Column("region", "string")),
    captured=True,
    append_only=True,
    at_to="lake.db.accounts.branch_pin",
    change_table="lake.icdc.accounts_1",
)
DEVICES = SourceState(name="db.devices", columns=(Column("device", "string"), Column("screen", "string")))
SOURCES = {state.name: state for state in (EVENTS, REFUNDS, ACCOUNTS, DEVICES)}
CONTENTS = PartitionContents(
    target={LATE: Size(1, 50, 500)}, source={LATE: Size(3, 500, 9_000), NEW: Size(1, 100, 1_000)}
)


def analysis_of(text: str, *keys: str, sources: dict[str, SourceState] | None = None, **more: Any) -> Analysis:
    request = WriteRequest(text=text, target="db.target", keys=keys, **more)
    return analyse(request, sources or SOURCES)


def target_of(analysis: Analysis, **more: Any) -> TargetState:
    """A target with rows, made as the planner would make it."""
    found = choice.plan(analysis, TargetState("db.target", "lake.db.target", "lake.db.target.branch_b"))
    relation = analysis.influence.relation if analysis.influence else None
    columns = tuple(Column(place.name, place.type or "long") for place in relation.columns) if relation else ()
    made = TargetState(
        name="db.target",
        sql_name="lake.db.target",
        branch_name="lake.db.target.branch_b",
        exists=True,
        columns=columns,
        identity_columns=tuple(name for name in found.partition_by if "(" not in name),
        total=Size(10, 1_000, 10_000),
        scattered=True,
    )
    return replace(made, **more)


def plan_of(
    text: str,
    *keys: str,
    contents: PartitionContents = CONTENTS,
    target: dict[str, Any] | None = None,
    cores: int | None = None,
    **more: Any,
) -> Plan:
    analysis = analysis_of(text, *keys, **more)
    return choice.plan(analysis, target_of(analysis, **(target or {})), contents, cores=cores)


def plan_of_case(case: Case, **more: Any) -> Plan:
    return plan_of(case.text.format(n="db"), *case.keys, partition_by=case.partition_by, **more)


def with_state(name: str, **changes: Any) -> dict[str, SourceState]:
    return {**SOURCES, name: replace(SOURCES[name], **changes)}
