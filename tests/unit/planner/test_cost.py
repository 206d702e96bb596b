"""What plans cost by metadata, and when a full run takes their place."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from icefloe.planner import cost
from icefloe.planner.inputs import PartitionContents, PartitionKey, Size
from icefloe.planner.plan import Cost, Plan
from tests.unit.planner.tables import LATE, NEW, OLD, analysis_of, plan_of, target_of, with_state

ROW_BY_ROW = "SELECT id, account_id, upper(country) AS country, view_min FROM db.events"
GROUPED = "SELECT account_id, country, count(*) AS views FROM db.events GROUP BY account_id, country"
ROWS = 600_000
amounts = st.integers(0, 10**9)


def after_delete(
    text: str = ROW_BY_ROW, *keys: str, rows: int = ROWS, part: float = 1.0, target_rows: int | None = None, **more: Any
) -> Plan:
    """Rows went from some partitions of the source, none of which is a partition of the target."""
    changed = round(rows * part)
    days = (PartitionKey("event_day", "date", "identity", {OLD: 0, LATE: 0, NEW: 0}),)
    sources = with_state(
        "db.events",
        append_only=False,
        nulls={},
        changed_partitions=days,
        added=Size(),
        total=Size(10, rows, rows * 50),
    )
    target = {
        "recomputable": True,
        "identity_columns": (),
        "total": Size(4, rows if target_rows is None else target_rows, rows * 40),
        **more.pop("target", {}),
    }
    contents = PartitionContents(changed={"db.events": Size(10, changed, changed * 50)})
    return plan_of(text, *(keys or ("id",)), sources=sources, target=target, contents=contents, **more)


def priced(**amount: int) -> Cost:
    read, written = amount.pop("read", 0), amount.pop("written", 0)
    return cost.timed(Cost(Size(0, read, 0), Size(0, written, 0), **amount))


def test_after_a_delete_all_over_the_source_a_full_run_is_taken_and_both_are_told() -> None:
    plan = after_delete()
    assert plan.pattern == "full" and plan.reason.startswith("a full run is clearly cheaper: ")
    assert plan.outweighed is not None and plan.full_cost is not None and plan.cost == plan.full_cost
    assert plan.outweighed.seconds > plan.full_cost.seconds
    assert [statement.role for statement in plan.statements] == ["delete all", "append"]
    refused = {refusal.pattern: refusal.reason for refusal in plan.refusals}
    assert refused["merge"].endswith("but a full run is cheaper")
    shown = plan.to_dict()
    assert shown["cost"]["read_rows"] == plan.full_cost.read.rows
    assert shown["outweighed_cost"]["deleted_rows"] == ROWS


def test_after_a_delete_in_one_day_of_many_changed_keys_stay() -> None:
    plan = after_delete(part=0.05)
    assert plan.pattern == "merge" and plan.cost is not None and plan.full_cost is not None


def test_a_pattern_that_was_asked_for_stays_and_the_cheaper_one_is_told() -> None:
    plan = after_delete(pattern="merge")
    assert plan.pattern == "merge"
    assert any("not taken, since pattern: merge was asked for" in note for note in plan.notes)


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"target": {"recomputable": False}}, "history does not say"),
        ({"lookup_tables": ("db.devices",)}, "lookup_tables"),
    ],
)
def test_a_target_that_may_hold_more_than_the_select_gives_is_not_filled_anew(
    more: dict[str, Any], reason: str
) -> None:
    plan = after_delete(**more)
    assert plan.pattern == "merge"
    assert any("a full run is clearly cheaper" in note and reason in note for note in plan.notes)


def test_operations_that_the_capture_passes_over_keep_the_target_as_it_is() -> None:
    sources = with_state("db.events", ignored={"delete": 1})
    analysis = analysis_of(ROW_BY_ROW, "id", sources=sources)
    assert "passes over" in (cost.why_not_full(analysis, target_of(analysis, recomputable=True)) or "")


def test_small_tables_keep_their_plan_whatever_the_proportions() -> None:
    assert after_delete(rows=6_000).pattern == "merge"


def test_where_metadata_does_not_tell_rows_nothing_is_decided_by_cost() -> None:
    unknown = after_delete(rows=1)
    assert unknown.pattern == "merge" and unknown.full_cost is None
    assert after_delete(target_rows=1).full_cost is None


def test_an_append_of_few_rows_to_a_large_table_is_never_outweighed() -> None:
    sources = with_state("db.events", added=Size(1, 10_000, 10**6), total=Size(100, 10**8, 10**10))
    for text, keys in ((ROW_BY_ROW, ("id",)), (GROUPED, ("account_id", "country"))):
        target = {"recomputable": True, "identity_columns": (), "total": Size(10, 10**7, 10**9)}
        plan = plan_of(text, *keys, sources=sources, target=target, contents=PartitionContents())
        assert plan.pattern in ("merge", "key_filter")
        assert plan.cost is not None and plan.full_cost is not None and plan.cost.seconds < plan.full_cost.seconds


@pytest.mark.parametrize(("text", "keys"), [(ROW_BY_ROW, ("id",)), (GROUPED, ("account_id", "country"))])
def test_the_more_partitions_rows_went_from_the_more_a_plan_costs_and_a_full_run_costs_the_same(
    text: str, keys: tuple[str, ...]
) -> None:
    plans = [after_delete(text, *keys, part=part, pattern="key_filter") for part in (0.01, 0.1, 0.3, 0.6, 1.0)]
    seconds = [plan.cost.seconds for plan in plans if plan.cost is not None]
    assert len(seconds) == len(plans) and seconds == sorted(set(seconds))
    assert len({plan.full_cost for plan in plans}) == 1


@given(st.lists(amounts, min_size=6, max_size=6), st.integers(0, 5), st.integers(0, 10**6))
def test_a_cost_never_falls_when_there_is_more_to_do(given_amounts: list[int], index: int, more: int) -> None:
    names = ("read", "written", "collected", "compared", "computed", "deleted")
    less = dict(zip(names, given_amounts, strict=True))
    greater = {**less, names[index]: less[names[index]] + more}
    assert priced(**greater).seconds >= priced(**less).seconds


@given(amounts, amounts)
def test_a_tie_and_a_narrow_lead_go_to_the_plan_by_what_changed(computed: int, written: int) -> None:
    full = priced(computed=computed, written=written)
    assert not cost.clearly_cheaper(full, full)
    assert not cost.clearly_cheaper(full, replace(full, seconds=full.seconds * cost.MARGIN * 0.999))
    assert not cost.clearly_cheaper(None, full) and not cost.clearly_cheaper(full, None)


@given(amounts, st.floats(0, 10**4))
def test_what_is_clearly_cheaper_stays_so_when_the_other_costs_more(computed: int, more: float) -> None:
    full = priced(computed=computed)
    other = replace(full, seconds=full.seconds * cost.MARGIN * 1.001 + cost.LEAST_SECONDS)
    assert cost.clearly_cheaper(full, other)
    assert cost.clearly_cheaper(full, replace(other, seconds=other.seconds + more))
