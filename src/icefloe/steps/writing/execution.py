"""A planned write, carried out: look, plan, write to the attempt's branch, check, publish."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from icefloe.lake import Lake
from icefloe.lake.errors import TableNotFoundError
from icefloe.planner import choice
from icefloe.planner.analysis import Analysis
from icefloe.planner.errors import KeysNotUniqueError
from icefloe.planner.plan import Plan
from icefloe.spark.fence import published_snapshot
from icefloe.steps.writing import columns
from icefloe.steps.writing.columns import ResultColumn
from icefloe.steps.writing.facts import UTC, Facts, Observer
from icefloe.steps.writing.order import Order
from icefloe.steps.writing.publication import Publication


def run(session: Any, lake: Lake, order: Order, log: Callable[[str], None]) -> dict[str, int]:
    """Publish the batch, unless it is published. Returns the target's published snapshot."""
    name = lake.canonical_name(order.request.target)
    done = _published(lake, name, order)
    if done is not None:
        log(f"{name}: this batch is published already, nothing is run again")
        return {name: done}
    for key, value in order.conf.items():
        session.conf.set(key, value)
    utc = session.conf.get("spark.sql.session.timeZone") in UTC
    observer = Observer(lake, order.request, order.sources, utc=utc)
    analysis = observer.analysis()
    result = _result_columns(session, analysis)
    facts = observer.facts(analysis, branch=order.branch)
    columns.check(facts.target, result)
    names = tuple(column.name for column in result)
    plan = choice.plan(analysis, facts.target, facts.contents, columns=names)
    if not facts.target.exists:
        properties = {**plan.properties, **order.properties}
        session.sql(columns.create_table(facts.target, result, plan.partition_by, properties))
        log(f"{name}: made, partitioned by {', '.join(plan.partition_by) or 'nothing'}")
        facts = observer.facts(analysis, branch=order.branch)
        columns.check(facts.target, result)
        plan = choice.plan(analysis, facts.target, facts.contents, columns=names)
    _tell(plan, log)
    if not plan.statements:
        return {}
    publication = Publication(session, lake, facts, order.branch, log)
    publication.open(order.mark)
    try:
        for number, statement in enumerate(plan.statements, 1):
            began = time.monotonic()
            session.sql(statement.sql).collect()
            log(f"{number} of {len(plan.statements)}, {statement.role}: {time.monotonic() - began:.1f} s")
        _refuse_duplicates(session, plan, facts)
        return {name: publication.publish(order.mark)}
    except Exception:
        publication.discard()
        raise


def _published(lake: Lake, name: str, order: Order) -> int | None:
    try:
        return published_snapshot(lake, name, order.mark, order.known)
    except TableNotFoundError:
        return None


def _result_columns(session: Any, analysis: Analysis) -> list[ResultColumn]:
    """As Spark sees them. Analysed on the server, nothing is run."""
    relations = {state.name: state.at_to for state in analysis.sources.values() if state.captured}
    schema = session.sql(analysis.query.bound(relations)).schema
    return [ResultColumn(field.name, field.dataType.simpleString()) for field in schema.fields]


def _refuse_duplicates(session: Any, plan: Plan, facts: Facts) -> None:
    if plan.duplicates is None:
        return
    found = session.sql(plan.duplicates).collect()
    if found:
        first = ", ".join(f"{key} = {found[0][key]}" for key in plan.keys)
        raise KeysNotUniqueError(
            f"the keys {', '.join(plan.keys)} are not unique in the result: {found[0]['rows']} rows have {first}",
            where=facts.target.name,
            hint="name all columns that make a row unique in write.keys, or group by the keys in the SELECT",
        )


def _tell(plan: Plan, log: Callable[[str], None]) -> None:
    log(f"pattern {plan.pattern}: {plan.reason}")
    for refusal in plan.refusals:
        log(f"  not {refusal.pattern}: {refusal.reason}")
    for note in plan.notes:
        log(f"  {note}")
    if plan.partitions is not None:
        touched = plan.partitions
        for what, values in (("new", touched.new), ("late", touched.late), ("overwritten", touched.overwritten)):
            if values:
                shown = ", ".join(str(value) for value in values[:20]) + (" …" if len(values) > 20 else "")
                log(f"  {what} partitions of {touched.column}: {shown}")
