"""What shadow mode compares: which parts of the result, and by which SQL. The SQL runs on SQLite here, on Spark elsewhere."""

from __future__ import annotations

import sqlite3
from collections import Counter
from dataclasses import replace
from datetime import date, timedelta
from typing import Any

import pytest
import sqlglot
from hypothesis import given
from hypothesis import strategies as st

from icefloe.planner import query, shadow
from icefloe.planner.comparison import ComparedColumn, Comparison, RowSubset, Type, canonical, holds_float
from icefloe.planner.errors import NotRepeatableError
from icefloe.planner.plan import ChangedKeys, Partitions, Plan
from icefloe.planner.shadow import SAMPLE_PARTITIONS, SAMPLE_ROWS, Mode, ShadowFacts
from icefloe.steps.write import differences
from tests.planner.corpus import CORPUS
from tests.unit.planner.tables import LATE, NEW, plan_of, plan_of_case

MAP: Type = {"type": "map", "keyType": "string", "valueType": "double", "valueContainsNull": True}
AGG = "SELECT account_id, event_day, count(*) AS n FROM db.events GROUP BY account_id, event_day"
COPY = "SELECT id, account_id, event_day FROM db.events"
BY_ACCOUNT = "SELECT account_id, count(*) AS n FROM db.events GROUP BY account_id"


# -- which parts ---------------------------------------------------------------------------------------------------------------


def known(**more: Any) -> ShadowFacts:
    return replace(ShadowFacts(seed=7, kind="date", hashable=("account_id", "event_day", "n")), **more)


def day(number: int) -> date:
    return date(2026, 1, 1) + timedelta(days=number)


def test_full_compares_everything_in_one_part() -> None:
    assert shadow.parts(plan_of(AGG, "account_id", "event_day"), "full", known()) == (RowSubset("everything"),)


@pytest.mark.parametrize("case", CORPUS, ids=lambda case: case.name)
def test_every_plan_of_the_corpus_has_parts_for_both_modes_and_can_be_described(case: Any) -> None:
    plan = plan_of_case(case)
    everything = known(sizes={LATE: 50, NEW: 100, day(0): 10}, rows=160, changed_rows=105)
    for mode in ("sample", "full"):
        assert shadow.parts(plan, mode, everything)
        assert mode in (shadow.describe(plan, mode) or "")
    assert shadow.parts(plan, "off", everything) == () and shadow.describe(plan, "off") is None


@pytest.mark.parametrize(("text", "keys"), [(AGG, ("account_id", "event_day")), (COPY, ())])
def test_a_sample_by_partitions_has_touched_ones_and_untouched_ones(text: str, keys: tuple[str, ...]) -> None:
    sizes = {LATE: 50, NEW: 100, **{day(number): 10 for number in range(9)}}
    touched, untouched = shadow.parts(plan_of(text, *keys), "sample", known(sizes=sizes, changed_rows=105))
    assert set(touched.values) == {LATE, NEW} and touched.every == 1
    assert len(untouched.values) == SAMPLE_PARTITIONS and not {LATE, NEW} & set(untouched.values)
    assert "3 of 9 untouched" in untouched.what


@pytest.mark.parametrize(
    ("text", "keys", "by_key"), [(AGG, ("account_id", "event_day"), {LATE}), (COPY, (), {LATE, NEW})]
)
def test_of_large_partitions_the_changed_keys_are_in_the_sample_too(
    text: str, keys: tuple[str, ...], by_key: set[date]
) -> None:
    sizes = {LATE: 9 * SAMPLE_ROWS, NEW: SAMPLE_ROWS}
    touched, changed = shadow.parts(plan_of(text, *keys), "sample", known(sizes=sizes, changed_rows=105))
    assert touched.every == 10 and touched.by
    assert changed.keys is not None and set(changed.values) == by_key and changed.every == 1


def test_a_sample_by_keys_has_changed_ones_and_others_by_a_hash() -> None:
    changed, others = shadow.parts(
        plan_of(BY_ACCOUNT, "account_id"), "sample", known(rows=7 * SAMPLE_ROWS, changed_rows=105)
    )
    assert changed.keys is not None and changed.every == 1, "all changed keys, since they are few"
    assert (others.keys, others.by, others.every, others.remainder) == (None, ("account_id",), 7, 0)


def test_a_small_target_without_partitions_is_sampled_whole() -> None:
    (everything,) = shadow.parts(plan_of(BY_ACCOUNT, "account_id"), "sample", known(rows=SAMPLE_ROWS))
    assert (everything.keys, everything.column, everything.every) == (None, None, 1)


def test_where_partitions_are_not_known_the_untouched_are_found_by_a_hash() -> None:
    *_, others = shadow.parts(
        plan_of(AGG, "account_id", "event_day"), "sample", known(sizes=None, rows=3 * SAMPLE_ROWS)
    )
    assert (others.column, others.every, others.by) == (None, 3, ("account_id", "event_day"))


def test_floats_are_not_hashed_and_rows_of_nothing_else_are_all_taken() -> None:
    plan = replace(plan_of(BY_ACCOUNT, "account_id"), keys=(), changed_keys=None)
    (part,) = shadow.parts(plan, "sample", known(rows=3 * SAMPLE_ROWS, hashable=("n",)))
    assert part.by == ("n",)
    (part,) = shadow.parts(plan, "sample", known(rows=3 * SAMPLE_ROWS, hashable=()))
    assert part.every == 1


@given(
    seed=st.integers(0, 2**32 - 1),
    new=st.integers(0, 9),
    late=st.integers(0, 9),
    overwritten=st.integers(0, 9),
    others=st.integers(0, 40),
    rows=st.integers(0, 10**9),
)
def test_a_sample_always_has_some_of_each_kind_and_is_bounded(
    seed: int, new: int, late: int, overwritten: int, others: int, rows: int
) -> None:
    days = [day(number) for number in range(new + late + overwritten + others)]
    kinds = Partitions(
        "event_day",
        new=tuple(days[:new]),
        late=tuple(days[new : new + late]),
        overwritten=tuple(days[new + late : new + late + overwritten]),
    )
    plan = replace(
        plan_of(AGG, "account_id", "event_day"),
        partitions=kinds,
        changed_keys=ChangedKeys(("account_id",), "SELECT 1", True) if late else None,
    )
    told = known(seed=seed, sizes=dict.fromkeys(days, rows), changed_rows=rows)
    found = shadow.parts(plan, "sample", told)
    assert found == shadow.parts(plan, "sample", told), "the same batch, the same sample"
    looked_at = {value for part in found if part.keys is None for value in part.values}
    for kind in (kinds.new, kinds.late, kinds.overwritten, tuple(days[new + late + overwritten :])):
        assert len(looked_at & set(kind)) == min(len(kind), SAMPLE_PARTITIONS)
    thinned = any(part.keys is None and part.every > 1 and set(part.values) & set(kinds.late) for part in found)
    assert any(part.keys is not None for part in found) == (bool(late) and thinned)
    for part in found:
        held = rows * (len(part.values) if part.keys is None else 1)
        assert held / part.every <= SAMPLE_ROWS and 0 <= part.remainder < part.every


def test_in_the_course_of_batches_every_partition_comes_into_the_sample() -> None:
    plan = plan_of(AGG, "account_id", "event_day")
    days = {day(number): 1 for number in range(30)}
    seen = {
        value
        for batch in range(100)
        for part in shadow.parts(plan, "sample", known(seed=shadow.seed_of(f"batch {batch}"), sizes=days))
        for value in part.values
    }
    assert seen >= set(days)


# -- tables that are not captured ----------------------------------------------------------------------------------------------

LOOKUP = """SELECT e.account_id, e.event_day, max(d.screen) AS screen FROM db.events e JOIN db.devices d ON e.device = d.device
            GROUP BY e.account_id, e.event_day"""


@pytest.mark.parametrize("mode", ["sample", "full"])
def test_beside_a_lookup_table_only_what_was_computed_again_is_compared(mode: Mode) -> None:
    plan = plan_of(LOOKUP, "account_id", "event_day", lookup_tables=("db.devices",))
    assert plan.uncaptured == ("db.devices",) and plan.partitions is not None
    whole, changed = shadow.parts(plan, mode, known(sizes={LATE: 5, NEW: 5, day(0): 5}))
    assert whole.values == (NEW,), "a late partition has rows that were not computed again"
    assert changed.values == (LATE,) and changed.keys is not None
    assert "not captured" in (shadow.describe(plan, mode) or "")


def test_an_append_beside_a_lookup_table_has_nothing_to_compare_and_says_so() -> None:
    text = "SELECT e.id, d.screen FROM db.events e JOIN db.devices d ON e.device = d.device"
    plan = plan_of(text, lookup_tables=("db.devices",))
    assert plan.pattern == "append" and shadow.parts(plan, "full", known()) == ()
    assert "compares nothing" in (shadow.describe(plan, "full") or "")


def test_a_full_run_beside_a_table_that_is_not_captured_is_compared_whole() -> None:
    plan = plan_of(LOOKUP, "account_id", "event_day")
    assert plan.pattern == "full" and shadow.parts(plan, "full", known()) == (RowSubset("everything"),)


# -- what cannot be compared ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "SELECT id, rand() AS x FROM db.events",
        "SELECT id, uuid() AS x FROM db.events",
        "SELECT id, current_timestamp() AS loaded FROM db.events",
        "SELECT id, current_timestamp AS loaded FROM db.events",
        "SELECT id, now() AS loaded FROM db.events",
        "SELECT id FROM db.events WHERE event_day > current_date - INTERVAL 3 DAYS",
        "SELECT id, monotonically_increasing_id() AS x FROM db.events",
        "SELECT id FROM db.events TABLESAMPLE (10 PERCENT)",
        "WITH a AS (SELECT id, rand() AS r FROM db.events) SELECT id FROM a WHERE r < 0.5",
    ],
)
def test_a_select_that_gives_something_else_at_each_run_is_refused(text: str) -> None:
    with pytest.raises(NotRepeatableError) as caught:
        shadow.refuse_unrepeatable(query.read(text, where="here"), "here")
    assert caught.value.fatal and "shadow: off" in (caught.value.hint or "")


@pytest.mark.parametrize("case", [case for case in CORPUS if case.repeatable], ids=lambda case: case.name)
def test_no_repeatable_select_of_the_corpus_is_refused(case: Any) -> None:
    shadow.refuse_unrepeatable(query.read(case.text.format(n="db"), where="here"), "here")


def test_what_may_choose_otherwise_is_named() -> None:
    text = "SELECT a, collect_list(b) AS l, my_own(c) AS m, max(d) AS x FROM db.events GROUP BY a, c LIMIT 5"
    assert shadow.suspects(query.read(text, where="here")) == ["collect_list", "my_own", "limit"]


# -- the SQL -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("long", "q.`a`"),
        ("double", "q.`a`"),
        ({"type": "array", "elementType": "double", "containsNull": True}, "q.`a`"),
        (MAP, "array_sort(transform(map_entries(q.`a`), x0 -> named_struct('key', x0.key, 'value', x0.value)))"),
        (
            {"type": "array", "elementType": MAP, "containsNull": True},
            "transform(q.`a`, x0 -> array_sort(transform(map_entries(x0), x1 -> "
            "named_struct('key', x1.key, 'value', x1.value))))",
        ),
        (
            {"type": "struct", "fields": [{"name": "it's", "type": MAP}, {"name": "b", "type": "int"}]},
            "CASE WHEN q.`a` IS NOT NULL THEN named_struct('it\\'s', array_sort(transform(map_entries(q.`a`.`it's`), x0 -> "
            "named_struct('key', x0.key, 'value', x0.value))), 'b', q.`a`.`b`) END",
        ),
        ("variant", "to_json(q.`a`)"),
        ("uuid", "lower(q.`a`)"),
    ],
)
def test_only_maps_and_variants_are_rebuilt(kind: Type, expected: str) -> None:
    assert canonical("q.`a`", kind) == expected


def test_floats_are_found_inside_of_anything() -> None:
    assert holds_float(MAP) and holds_float({"type": "array", "elementType": "float"})
    assert not holds_float({"type": "struct", "fields": [{"name": "a", "type": "long"}]})


def test_the_users_text_is_in_the_comparison_byte_for_byte_and_nothing_is_written() -> None:
    text = "SELECT  account_id,\tn FROM x -- a remark"
    columns = (ComparedColumn("account_id", "long", "BIGINT"), ComparedColumn("n", "double"), ComparedColumn("m", MAP))
    comparison = Comparison(text, "lake.db.t.branch_b", columns, RowSubset("everything"))
    for sql in (comparison.counts(), comparison.tolerant_counts(), comparison.rows(["account_id"], 41)):
        assert f"(\n{text}\n) AS q" in sql and "CAST(q.`account_id` AS BIGINT)" in sql
        (tree,) = sqlglot.parse(sql, dialect="spark")
        assert isinstance(tree, sqlglot.exp.Query)
        assert not list(tree.find_all(sqlglot.exp.DML, sqlglot.exp.DDL)) or all(
            isinstance(node, sqlglot.exp.Query) for node in tree.find_all(sqlglot.exp.DML, sqlglot.exp.DDL)
        )


VALUE = st.one_of(st.none(), st.integers(0, 2))
ROWS = st.lists(st.tuples(VALUE, VALUE, VALUE), max_size=12)


def hashed(*values: Any) -> int:
    return sum((number + 1) * (7 if value is None else value) for number, value in enumerate(values))


def on_sqlite(sql: str, wanted: list[Any], there: list[Any]) -> list[tuple[Any, ...]]:
    database = sqlite3.connect(":memory:")
    database.create_function("xxhash64", -1, hashed)
    database.create_function("pmod", 2, lambda a, b: a % b)
    for name, rows in (("wanted", wanted), ("there", there)):
        database.execute(f"CREATE TABLE {name} (a, b, c)")
        database.executemany(f"INSERT INTO {name} VALUES (?, ?, ?)", rows)
    text = sqlglot.transpile(sql, read="spark", write="sqlite", unsupported_level=sqlglot.ErrorLevel.IGNORE)[0]
    return database.execute(text).fetchall()


@given(
    wanted=ROWS,
    there=ROWS,
    values=st.none() | st.lists(VALUE, max_size=3),
    every=st.integers(1, 3),
    keys=st.none() | st.lists(VALUE, min_size=1, max_size=3),
)
def test_the_counts_are_those_of_the_multisets_within_the_part(
    wanted: list[Any], there: list[Any], values: list[Any] | None, every: int, keys: list[Any] | None
) -> None:
    listed = " UNION ALL ".join(f"SELECT {'NULL' if key is None else key} AS b" for key in keys or ())
    part = RowSubset(
        "some",
        "a" if values is not None else None,
        "int",
        tuple(values or ()),
        ChangedKeys(("b",), listed, False) if keys is not None else None,
        ("b", "c"),
        every,
        every - 1,
    )
    columns = tuple(ComparedColumn(name, "int") for name in "abc")
    comparison = Comparison("SELECT * FROM wanted", "there", columns, part)

    def inside(row: tuple[Any, ...]) -> bool:
        return (
            (values is None or row[0] in values)
            and (keys is None or row[1] in keys)
            and hashed(row[1], row[2]) % every == every - 1
        )

    should, has = Counter(filter(inside, wanted)), Counter(filter(inside, there))
    assert on_sqlite(comparison.counts(), wanted, there) == [
        (should.total(), (should - has).total(), (has - should).total())
    ]
    differing = {row[:-1]: row[-1] for row in on_sqlite(comparison.rows(["a"], 100), wanted, there)}
    assert differing == {row: should[row] - has[row] for row in should | has if should[row] != has[row]}


# -- what the log shows --------------------------------------------------------------------------------------------------------


def test_rows_of_one_key_stand_side_by_side_column_by_column() -> None:
    lines = differences.shown([(1, "a", 3, -1), (1, "b", 4, 1)], ["id", "x", "n"], ["id"])
    assert [line.split() for line in lines] == [
        ["key", "column", "has", "should", "have"],
        ["id", "=", "1", "x", "'a'", "'b'"],
        ["id", "=", "1", "n", "3", "4"],
    ]


def test_a_row_that_is_on_one_side_only_is_shown_whole() -> None:
    lines = differences.shown([(1, None, 2), (2, "x", -1)], ["id", "x"], ["id"])
    assert lines[1].split("  ")[-1] == "2 × x = NULL" and "nothing" in lines[1]
    assert lines[2].endswith("nothing") and "x = 'x'" in lines[2]
    assert "id = 1, x = NULL" in differences.shown([(1, None, 1)], ["id", "x"], [])[1]


def test_at_most_twenty_rows_are_shown() -> None:
    rows = [(number, 0, 1) for number in range(50)]
    assert len(differences.shown(rows, ["id", "n"], ["id"])) == 1 + differences.MOST_ROWS
    assert len(differences.shown([(0, number, 1) for number in range(50)], ["id", "n"], ["id"])) == 1 + 20


def test_a_plan_knows_the_keys_it_looked_rows_up_by() -> None:
    plan: Plan = plan_of(BY_ACCOUNT, "account_id")
    assert plan.changed_keys is not None and plan.changed_keys.columns == ("account_id",)
    assert "lake.icdc.events_1" in plan.changed_keys.sql
    assert (
        plan_of("SELECT event_day, count(*) AS n FROM db.events GROUP BY event_day", "event_day").changed_keys is None
    )
