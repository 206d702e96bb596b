"""Which pattern is chosen, and why not a cheaper one. No Spark: a plan is a pure function of its inputs."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

import pytest

from icefloe.planner import choice
from icefloe.planner.errors import KeysMissingError, NotASelectError, UnsoundPatternError
from icefloe.planner.inputs import PartitionContents, PartitionKey, Size, SourceState, TargetState
from icefloe.planner.spans import Span
from tests.planner.corpus import CORPUS, Case
from tests.unit.planner.tables import (
    CONTENTS,
    LATE,
    NEW,
    SOURCES,
    analysis_of,
    plan_of,
    plan_of_case,
    target_of,
    with_state,
)

AGG = "SELECT account_id, country, event_day, count(*) AS n FROM db.events GROUP BY account_id, country, event_day"
COPY = "SELECT id, country, event_day FROM db.events"


def test_the_corpus_has_at_least_sixty_selects_of_different_names() -> None:
    assert len({case.name for case in CORPUS}) == len(CORPUS) >= 60


@pytest.mark.parametrize("case", CORPUS, ids=lambda case: case.name)
def test_each_select_of_the_corpus_gets_its_pattern_when_events_were_appended(case: Case) -> None:
    assert plan_of_case(case).pattern == case.pattern


@pytest.mark.parametrize("case", CORPUS, ids=lambda case: case.name)
def test_the_same_inputs_give_the_same_plan(case: Case) -> None:
    assert plan_of_case(case) == plan_of_case(case)


@pytest.mark.parametrize("case", CORPUS, ids=lambda case: case.name)
def test_a_target_without_rows_is_filled_from_the_source_as_it_is(case: Case) -> None:
    plan = plan_of_case(case, target={"total": Size()})
    assert plan.pattern == "full"
    assert [one.role for one in plan.statements] == ["append"]
    assert "icdc" not in plan.statements[0].sql


@pytest.mark.parametrize("case", CORPUS, ids=lambda case: case.name)
def test_a_source_that_is_captured_as_a_whole_is_never_added_to_rows_that_are_there(case: Case) -> None:
    plan = plan_of_case(case, sources=with_state("db.events", whole=True))
    assert plan.pattern == "full"
    assert plan.statements[0].role == "delete all"


@pytest.mark.parametrize("case", CORPUS, ids=lambda case: case.name)
def test_rows_that_were_deleted_at_the_source_are_never_answered_by_an_append(case: Case) -> None:
    plan = plan_of_case(case, sources=with_state("db.events", append_only=False))
    assert plan.pattern != "append"
    assert "lake.icdc.events_1" not in "".join(one.sql for one in plan.statements)
    assert not any(one.rows for one in plan.statements), "how many rows of the result have their keys is not known"


def with_late_rows(rows: int) -> dict[str, SourceState]:
    added = PartitionKey("event_day", "date", "identity", {LATE: rows, NEW: 1})
    return with_state("db.events", changed_partitions=(added,))


def test_new_partitions_are_inserted_without_any_join_and_late_ones_by_key() -> None:
    plan = plan_of(AGG, "account_id", "country", "event_day")
    assert plan.partitions is not None
    assert plan.partitions.new == (NEW,) and plan.partitions.late == (LATE,)
    delete, late, new = plan.statements
    assert [one.beside for one in plan.statements] == [False, False, True], "nothing in the new partition is waited for"
    assert delete.role == "delete keys" and "DATE'2026-03-02'" in delete.sql and "DATE'2026-03-09'" not in delete.sql
    assert "BROADCAST" in delete.sql and "BROADCAST" in late.sql and "BROADCAST" not in new.sql
    assert "SELECT * FROM lake.icdc.events_1" in new.sql and "DATE'2026-03-02'" not in new.sql
    assert "lake.db.events.branch_pin" in late.sql and "DATE'2026-03-09'" not in late.sql


def test_few_rows_for_each_of_many_partitions_are_gathered_where_nothing_else_does_it() -> None:
    keys = ("account_id", "country", "event_day")
    large = PartitionContents(target={LATE: Size(4, 100_000, 1)}, source={LATE: Size(4, 10_000_000, 1)})
    many = plan_of(AGG, *keys, sources=with_late_rows(1_000_001), contents=large)
    _, late, new = (one.sql for one in many.statements)
    assert "SELECT /*+ REBALANCE(`event_day`) */ q." in late and "REBALANCE" not in new
    _, late, new = (one.sql for one in plan_of(AGG, *keys).statements)
    assert "(\nSELECT /*+ REPARTITION(`event_day`) */ * FROM" in late, (
        "with few rows before they are grouped: one shuffle"
    )
    assert "REBALANCE" not in late and "REPARTITION" not in new
    gathered = plan_of(AGG, *keys, target={"scattered": False}).statements[-1].sql
    assert "REBALANCE" not in gathered and gathered.count("GROUP BY") == 1, "one run of the SELECT"
    assert "REBALANCE(`event_day`)" in plan_of(AGG, *keys, pattern="full").statements[-1].sql
    assert "REBALANCE" not in plan_of(AGG, *keys, pattern="full", target={"identity_columns": ()}).statements[-1].sql


@pytest.mark.parametrize(("rows", "before"), [(50_000, True), (50_001, False)])
def test_rows_that_bring_more_than_a_million_along_are_grouped_before_they_are_gathered(
    rows: int, before: bool
) -> None:
    keys = ("account_id", "country", "event_day")
    groups_of_twenty = PartitionContents(target={LATE: Size(4, 500_000, 1)}, source={LATE: Size(4, 10_000_000, 1)})
    delete, late, _ = plan_of(AGG, *keys, sources=with_late_rows(rows), contents=groups_of_twenty).statements
    assert ("REPARTITION(`event_day`)" in late.sql, "REBALANCE(`event_day`)" in late.sql) == (before, not before)
    assert late.rows and "COALESCE(1)" in delete.sql, "few they are in any case"


def test_few_keys_are_made_distinct_without_a_shuffle() -> None:
    keys, most = ("account_id", "country", "event_day"), 1_000_000
    contents = PartitionContents(
        target={LATE: Size(4, 9_000_000, 1)}, source={LATE: Size(4, 10_000_000, 1), NEW: Size(4, 1_000_000, 1)}
    )
    few, many = (
        plan_of(AGG, *keys, sources=with_late_rows(rows), contents=contents).statements for rows in (most, most + 1)
    )
    once = "SELECT DISTINCT `account_id`, `country`, `event_day` FROM (SELECT /*+ COALESCE(1) */ * FROM ("
    assert once in few[0].sql and once in few[1].sql, "in one task, and still each once"
    assert "COALESCE" not in many[0].sql and "SELECT DISTINCT `account_id`" in many[0].sql
    assert few[1].rows and not many[1].rows, "they are kept meanwhile"


def test_a_session_is_told_where_groups_are_small() -> None:
    keys = ("account_id", "country", "event_day")
    assert plan_of(AGG, *keys, contents=PartitionContents(**MANY)).settings == choice.MANY_SMALL_GROUPS
    assert plan_of(AGG, *keys).settings == {}
    assert plan_of(COPY, contents=PartitionContents(**MANY)).settings == {}


def test_a_partition_that_changed_in_large_part_is_overwritten_whole() -> None:
    contents = PartitionContents(target=CONTENTS.target, source={LATE: Size(1, 6, 10), NEW: Size(1, 100, 10)})
    plan = plan_of(AGG, "account_id", "country", "event_day", contents=contents)
    assert plan.partitions is not None and plan.partitions.overwritten == (LATE,)
    assert [one.role for one in plan.statements] == ["delete partitions", "append"]


@pytest.mark.parametrize(("new", "whole"), [(299, False), (300, True)])
def test_a_large_part_begins_at_three_tenths_of_the_source_s_rows(new: int, whole: bool) -> None:
    contents = PartitionContents(target=CONTENTS.target, source={LATE: Size(1, 1_000, 10), NEW: Size(1, 100, 10)})
    plan = plan_of(AGG, "account_id", "country", "event_day", sources=with_late_rows(new), contents=contents)
    assert plan.partitions is not None
    assert (plan.partitions.overwritten, plan.partitions.late) == (((LATE,), ()) if whole else ((), (LATE,)))


def test_what_the_target_has_is_learnt_from_the_target_alone() -> None:
    plan = plan_of(
        AGG, "account_id", "country", "event_day", contents=PartitionContents(target=None, source=CONTENTS.source)
    )
    assert plan.partitions is not None and plan.partitions.new == ()


def test_keys_are_compared_null_safe_only_where_nulls_may_be() -> None:
    delete = plan_of(AGG, "account_id", "country", "event_day").statements[0].sql
    assert "t.`account_id` = k.`account_id`" in delete
    assert "t.`country` <=> k.`country`" in delete
    assert "t.`event_day` BETWEEN" in delete


def test_a_few_late_rows_that_are_only_appended_go_through_few_tasks() -> None:
    (both,) = plan_of(COPY).statements
    late, new = both.sql.split("\nUNION ALL\n")
    assert "SELECT /*+ COALESCE(1) */ q." in late and "COALESCE" not in new
    assert "DATE'2026-03-02'" in late and "DATE'2026-03-09'" not in late
    assert "DATE'2026-03-09'" in new and "DATE'2026-03-02'" not in new
    (only,) = plan_of(COPY, contents=PartitionContents(target={LATE: Size(1, 50, 500), NEW: Size(1, 1, 1)})).statements
    assert "COALESCE(1)" in only.sql and "WHERE" not in only.sql, "all of the change table"
    files = with_state("db.events", added=Size(65, 105, 2_000))
    assert "COALESCE(2)" in plan_of(COPY, sources=files).statements[0].sql
    for more in (
        {"target": {"scattered": False}},
        {"sources": with_late_rows(200_001)},
        {"contents": PartitionContents(target={})},
    ):
        (only,) = plan_of(COPY, **more).statements
        assert "COALESCE" not in only.sql and "WHERE" not in only.sql


def test_the_rows_of_few_changed_keys_are_computed_while_these_are_deleted() -> None:
    keys = ("account_id", "country", "event_day")
    delete, late, new = plan_of(AGG, *keys).statements
    assert late.rows.startswith("SELECT q.") and late.sql.endswith(f")\n{late.rows}"), "the rows, and nothing else"
    assert "branch_b" not in late.rows, "the target is not read"
    assert not delete.rows and not new.rows
    both = PartitionContents(
        target={LATE: Size(1, 50, 500), NEW: Size(1, 50, 500)}, source={LATE: Size(1, 500, 1), NEW: Size(1, 9_000, 1)}
    )
    _, late = plan_of(AGG, *keys, contents=both).statements
    assert late.rows, "also where there is nothing new"
    overwritten = PartitionContents(target=CONTENTS.target, source={LATE: Size(1, 6, 10), NEW: Size(1, 100, 10)})
    assert not any(one.rows for one in plan_of(AGG, *keys, contents=overwritten).statements)


BITS = {"account_id": 19.0, "country": 2.0, "event_day": 0.1}
MANY = {"target": {LATE: Size(4, 800_000, 1)}, "source": {LATE: Size(4, 1_000_000, 1), NEW: Size(4, 1_000_000, 1)}}


def test_a_key_that_tells_rows_apart_by_itself_spares_the_others() -> None:
    plan = plan_of(AGG, "account_id", "country", "event_day", contents=PartitionContents(**MANY, bits=BITS))
    delete, append, _ = (one.sql for one in plan.statements)
    assert "country" not in delete and "t.`account_id` = k.`account_id`" in delete
    assert "t.`event_day` BETWEEN k.`event_day`" in delete
    assert "k.`country`" not in append and "s.`account_id` = k.`account_id`" in append


@pytest.mark.parametrize(
    "bits",
    [{}, {"country": 19.0, "account_id": 2.0}, {"account_id": 15.0, "country": 2.0}, {"event_day": 30.0}],
    ids=["unknown", "another", "too few values", "only the partition"],
)
def test_a_key_that_does_not_is_not_used_alone(bits: dict[str, float]) -> None:
    delete = (
        plan_of(AGG, "account_id", "country", "event_day", contents=PartitionContents(**MANY, bits=bits))
        .statements[0]
        .sql
    )
    alone = {"country"} if bits.get("country", 0) > 16 else {"account_id", "country"}
    assert {name for name in ("account_id", "country") if f"k.`{name}`" in delete} == alone


@pytest.mark.parametrize(("late_rows", "alone"), [(1_500, True), (1_600, False)])
def test_a_key_is_not_used_alone_where_too_many_rows_would_come_along(late_rows: int, alone: bool) -> None:
    """Of 800,000 rows each of 2**17 values has 6.1, so that 5.1 come along with each changed one: up to 8,000 of them do."""
    contents = PartitionContents(**MANY, bits={**BITS, "account_id": 17.0})
    plan = plan_of(AGG, "account_id", "country", "event_day", contents=contents, sources=with_late_rows(late_rows))
    assert ("k.`country`" not in plan.statements[0].sql) is alone


def test_where_rows_went_nothing_more_comes_along_with_one_key() -> None:
    """All rows of the changed partitions are looked at then, by whichever key."""
    contents = PartitionContents(**MANY, bits={**BITS, "account_id": 17.0})
    late = with_late_rows(1_600)
    went = {**late, "db.events": replace(late["db.events"], append_only=False)}
    plan = plan_of(AGG, "account_id", "country", "event_day", contents=contents, sources=went, pattern="key_filter")
    assert plan.statements[0].role == "delete keys" and "k.`country`" not in plan.statements[0].sql


DISTINCT = AGG.replace("count(*) AS n", "count(DISTINCT title_id) AS n")


def test_rows_go_to_their_group_once_where_groups_are_small_and_distinct_values_are_counted() -> None:
    keys = ("account_id", "country", "event_day")
    hint = "/*+ REPARTITION(`account_id`, `country`, `event_day`) */"
    large = PartitionContents(target={LATE: Size(1, 50, 1)}, source={LATE: Size(4, 1_000, 1), NEW: Size(4, 1_000, 1)})
    assert hint in plan_of(DISTINCT, *keys, contents=PartitionContents(**MANY)).statements[-1].sql
    assert "REPARTITION" not in plan_of(DISTINCT, *keys, contents=large).statements[-1].sql
    assert "REPARTITION" not in plan_of(AGG, *keys, contents=PartitionContents(**MANY)).statements[-1].sql
    computed = (
        "SELECT account_id, upper(country) AS country, event_day, count(DISTINCT title_id) AS n "
        "FROM db.events GROUP BY account_id, upper(country), event_day"
    )
    assert "REPARTITION" not in plan_of(computed, *keys, contents=PartitionContents(**MANY)).statements[-1].sql


@pytest.mark.parametrize(
    ("cores", "fewer", "alone"), [(2, 0, True), (2, 1, False), (3, 0, False), (1, 10**6, True), (None, 0, False)]
)
def test_a_new_partition_is_grouped_without_a_shuffle_where_late_ones_keep_the_other_cores_busy(
    cores: int | None, fewer: int, alone: bool
) -> None:
    """100 new rows, and as many rows to look through as take one core as long, or fewer."""
    late = choice.LOOKED_THROUGH * 100 - 600
    there = {LATE: Size(1, max(late - fewer, 0), 1)} if cores != 1 else {LATE: Size(1, 600, 1)}
    contents = PartitionContents(target=there, source={LATE: Size(4, 600, 1), NEW: Size(4, 100, 1)})
    plan = plan_of(DISTINCT, "account_id", "country", "event_day", contents=contents, cores=cores)
    (new,) = (one.sql for one in plan.statements if one.beside)
    assert ("(SELECT /*+ COALESCE(1) */ * FROM (\nSELECT * FROM lake.icdc.events_1" in new) is alone
    assert ("REPARTITION(`account_id`" in new) is not alone
    before = plan_of(DISTINCT, "account_id", "country", "event_day", contents=contents)
    assert [one for one in plan.statements if not one.beside] == [one for one in before.statements if not one.beside]


def test_a_new_partition_is_shuffled_where_there_are_several_or_groups_are_large_or_a_range_is_written() -> None:
    keys, contents = ("account_id", "country", "event_day"), PartitionContents(**MANY)
    another = date(2026, 3, 10)
    key = PartitionKey("event_day", "date", "identity", {LATE: 5, NEW: 100, another: 100})
    large = PartitionContents(target={LATE: Size(1, 50, 1)}, source={LATE: Size(4, 10**6, 1), NEW: Size(4, 100, 1)})
    (new,) = (one.sql for one in plan_of(AGG, *keys, contents=contents, cores=1).statements if one.beside)
    assert "COALESCE(1) */ * FROM (\nSELECT * FROM" in new, "whatever is counted"
    several = with_state("db.events", changed_partitions=(key,))
    for plan in (
        plan_of(AGG, *keys, contents=contents, cores=1, sources=several),
        plan_of(AGG, *keys, contents=large, cores=1),
    ):
        (new,) = (one.sql for one in plan.statements if one.beside)
        assert "COALESCE" not in new
    analysis = analysis_of(AGG, *keys)
    span = Span("event_day", "date", LATE, LATE)
    ranged = choice.plan(analysis, target_of(analysis), contents, span=span, cores=1)
    assert not any("SELECT * FROM lake.icdc.events_1" in one.sql and "COALESCE" in one.sql for one in ranged.statements)


def test_a_group_that_having_hid_is_read_from_the_source_not_from_the_changes() -> None:
    plan = plan_of(f"{AGG} HAVING count(*) > 3", "account_id", "country", "event_day")
    assert "SELECT * FROM lake.icdc.events_1" not in plan.statements[-1].sql


def test_nothing_is_done_when_nothing_that_the_select_reads_has_changed() -> None:
    plan = plan_of("SELECT account_id, plan FROM db.accounts")
    assert plan.pattern == "none" and plan.statements == ()


def test_a_branch_of_a_union_in_which_nothing_is_new_adds_nothing() -> None:
    plan = plan_of("SELECT id FROM db.events UNION ALL SELECT id FROM db.refunds")
    assert "(SELECT * FROM lake.db.refunds.branch_pin WHERE FALSE)" in plan.statements[0].sql


def test_the_text_that_runs_is_the_users_own_but_for_the_tables_names() -> None:
    text = "SELECT id, /* kept */ upper( country )  AS c\nFROM db.events -- the end"
    plan = plan_of(text)
    assert "SELECT id, /* kept */ upper( country )  AS c\nFROM lake.icdc.events_1 AS `events` -- the end\n)" in (
        plan.statements[0].sql
    )


@pytest.mark.parametrize(
    ("pattern", "text", "words"),
    [
        ("append", AGG, "more than look at each row"),
        ("range_overwrite", "SELECT account_id, count(*) AS n FROM db.events GROUP BY account_id", "partitioned"),
        ("key_filter", "SELECT count(*) AS n FROM db.events", "no column of the result tells"),
        ("merge", "SELECT id, rand() AS r FROM db.events", "rand()"),
        ("append", "SELECT id FROM db.events WHERE ts > current_timestamp()", "current_timestamp()"),
    ],
)
def test_a_pattern_that_would_be_wrong_is_refused_with_the_reason(pattern: str, text: str, words: str) -> None:
    with pytest.raises(UnsoundPatternError) as caught:
        plan_of(text, pattern=pattern)
    assert words in str(caught.value)


def test_a_load_time_may_be_appended_when_that_is_asked_for() -> None:
    assert plan_of("SELECT id, current_timestamp() AS loaded FROM db.events", pattern="append").pattern == "append"


def test_an_append_from_a_whole_capture_to_a_target_with_rows_is_refused() -> None:
    with pytest.raises(UnsoundPatternError):
        plan_of(COPY, pattern="append", sources=with_state("db.events", whole=True))


def test_a_table_that_is_not_captured_makes_it_full_and_says_what_to_type() -> None:
    plan = plan_of("SELECT e.id FROM db.events e JOIN db.devices d ON e.device = d.device")
    assert plan.pattern == "full" and "lookup_tables" in plan.reason


def test_a_lookup_table_is_read_as_it_is() -> None:
    plan = plan_of(
        "SELECT e.id, d.screen FROM db.events e JOIN db.devices d ON e.device = d.device", lookup_tables=("db.devices",)
    )
    assert plan.pattern == "append" and "JOIN db.devices d" in plan.statements[0].sql


@pytest.mark.parametrize(
    "text",
    [
        "INSERT INTO db.x SELECT * FROM db.events",
        "SELECT 1; SELECT 2",
        "DELETE FROM db.events",
        "CREATE TABLE db.x AS SELECT 1",
        "SET x = 1",
        "SELEC 1",
        "",
        "MERGE INTO db.x USING db.events ON true WHEN MATCHED THEN DELETE",
    ],
)
def test_what_is_not_one_select_is_refused(text: str) -> None:
    with pytest.raises(NotASelectError):
        analysis_of(text)


def test_a_key_that_the_select_does_not_give_is_refused_with_the_one_that_was_meant() -> None:
    with pytest.raises(KeysMissingError) as caught:
        plan_of(AGG, "acount_id")
    assert caught.value.hint == "did you mean 'account_id'?"


def test_keys_that_the_grouping_makes_unique_are_not_looked_for_twice_and_others_are() -> None:
    assert plan_of(AGG, "account_id", "country", "event_day").duplicates is None
    assert plan_of(AGG, "account_id", "event_day").duplicates is not None


def test_dimension_changes_are_found_by_their_keys() -> None:
    sources = with_state("db.events", changed=False) | {
        "db.accounts": with_state("db.accounts", changed=True)["db.accounts"]
    }
    plan = plan_of(
        "SELECT e.account_id, max(a.plan) AS plan FROM db.events e JOIN db.accounts a ON e.account_id = a.account_id "
        "GROUP BY e.account_id",
        "account_id",
        sources=sources,
    )
    assert plan.pattern == "key_filter"
    assert "SELECT `account_id` AS `account_id` FROM lake.icdc.accounts_1" in plan.statements[0].sql


def test_a_plan_tells_what_it_reads() -> None:
    reads = {read.table: read.size for read in plan_of(AGG, "account_id", "country", "event_day").reads}
    assert reads == {"db.events": Size(3, 500, 9_000), "db.target": Size(1, 50, 500)}


def test_a_target_is_made_with_the_layout_that_the_plan_needs() -> None:
    plan = choice.plan(
        analysis_of(AGG, "account_id", "country", "event_day"), TargetState("db.t", "lake.db.t", "lake.db.t.branch_b")
    )
    assert plan.partition_by == ("event_day",)
    assert plan.properties["write.delete.mode"] == "merge-on-read"
    assert SOURCES["db.events"].changed


def test_a_source_partitioned_by_the_day_of_a_time_tells_the_days_of_the_target() -> None:
    key = PartitionKey("ts", "timestamptz", "day", {LATE: 5, NEW: 100})
    plan = plan_of(
        "SELECT date(ts) AS day, account_id, count(*) AS n FROM db.events GROUP BY date(ts), account_id",
        "day",
        "account_id",
        sources=with_state("db.events", changed_partitions=(key,)),
    )
    assert plan.partitions is not None and plan.partitions.new == (NEW,) and plan.partitions.late == (LATE,)
    append = plan.statements[-1].sql
    assert "`ts` >= TIMESTAMP'2026-03-09 00:00:00Z' AND `ts` < TIMESTAMP'2026-03-10 00:00:00Z'" in append
