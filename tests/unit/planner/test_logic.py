"""When two SELECTs are the same logic, and what is said when they are not."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from icefloe.planner.logic import Logic, LogicVersion, change, normal
from tests.planner.corpus import CORPUS, Case

SELECT = "SELECT account_id, count(*) AS n FROM db.events WHERE country = 'DE' GROUP BY account_id"
COLUMNS = (("account_id", "bigint"), ("n", "bigint"))


@pytest.mark.parametrize(
    "same",
    [
        "select account_id, COUNT(*) as n from db.events where country = 'DE' group by account_id",
        "SELECT account_id,count(*) AS n\n\n  FROM db.events\tWHERE country='DE' GROUP   BY account_id ;",
        "SELECT account_id, -- who\n count(*) AS n /* how often */ FROM db.events WHERE country = 'DE' GROUP BY account_id",
        "SELECT /*+ COALESCE(3) */ account_id, count(*) AS n FROM db.events WHERE country = 'DE' GROUP BY account_id",
        "SELECT Account_ID, count(*) AS `n` FROM db.`events` WHERE COUNTRY = 'DE' GROUP BY ACCOUNT_ID",
    ],
)
def test_white_space_comments_hints_letter_case_and_quotes_do_not_matter(same: str) -> None:
    assert normal(same) == normal(SELECT)
    assert Logic(same).fingerprint == Logic(SELECT).fingerprint
    assert change(LogicVersion("x", "w-1", Logic(SELECT, COLUMNS)), Logic(same, COLUMNS)) is None


@pytest.mark.parametrize(
    "other",
    [
        SELECT.replace("'DE'", "'de'"),
        SELECT.replace("'DE'", "'DE '"),
        SELECT.replace("'DE'", '"DE2"'),
        SELECT.replace("'DE'", "DE"),
        SELECT.replace("= 'DE'", "= r'DE'"),
        SELECT.replace("count(*)", "count(DISTINCT device)"),
        SELECT.replace("count(*)", "(count(*))"),
        SELECT.replace(" AS n", " AS m"),
        SELECT.replace("=", "<=>"),
        SELECT.replace("db.events", "db.events2"),
        SELECT.replace("db.events", "db.Events"),
        SELECT.replace("WHERE country = 'DE' ", ""),
        SELECT + " HAVING count(*) > 1",
        SELECT + " HAVING count(*) > 1.0",
        SELECT.replace("country", "`country `"),
    ],
)
def test_everything_else_does(other: str) -> None:
    assert normal(other) != normal(SELECT)
    found = change(LogicVersion("x", "w-1", Logic(SELECT, COLUMNS)), Logic(other, COLUMNS))
    assert found is not None and any(line.startswith("+") for line in found.lines)


@pytest.mark.parametrize("case", CORPUS, ids=lambda case: case.name)
def test_every_select_of_the_corpus_is_itself_in_another_layout_and_no_other(case: Case) -> None:
    text = case.text.format(n="db")
    spaced = "-- a comment\n" + text.replace("\n", "\n   ") + "\n/* the end */;\n"
    assert normal(spaced) == normal(text)
    assert sum(normal(one.text) == normal(case.text) for one in CORPUS if one.text != case.text) == 0


@given(st.text(max_size=60))
def test_whatever_the_text_is_it_has_a_normal_form_that_two_different_literals_do_not_share(text: str) -> None:
    quoted = text.replace("\\", "").replace("'", "")
    assert normal(f"SELECT '{quoted}'") != normal(f"SELECT '{quoted}x'")
    normal(text)


def test_the_difference_is_short_and_shows_what_went_and_what_came() -> None:
    old = "SELECT a,\n       count(*) AS n\nFROM db.events\nGROUP BY a"
    found = change(LogicVersion("x", "w-1", Logic(old)), Logic(old.replace("count(*)", "sum(x)")))
    assert found is not None
    assert found.lines == ("-       count(*) AS n", "+       sum(x) AS n")
    many = "SELECT " + ",\n".join(f"c{number}" for number in range(50)) + " FROM db.t"
    long = change(LogicVersion("x", "w-1", Logic(old)), Logic(many))
    assert long is not None and len(long.lines) == 13 and "more lines" in long.lines[-1]


@pytest.mark.parametrize(
    ("columns", "lines"),
    [
        ((("account_id", "bigint"), ("n", "int")), ("- column n bigint", "+ column n int")),
        ((("account_id", "bigint"),), ("- column n bigint",)),
        ((*COLUMNS, ("m", "date")), ("+ column m date",)),
        (COLUMNS[::-1], ("the columns are in another order",)),
        ((("ACCOUNT_ID", "bigint"), ("n", "bigint")), None),
        (None, None),
    ],
)
def test_columns_that_came_out_differently_are_a_change_of_the_same_text(
    columns: tuple[tuple[str, str], ...] | None, lines: tuple[str, ...] | None
) -> None:
    found = change(LogicVersion("x", "w-1", Logic(SELECT, COLUMNS)), Logic(SELECT, columns))
    assert (found.lines if found else None) == lines


def test_a_version_of_which_only_the_fingerprint_is_left_still_tells_whether_it_is_the_same() -> None:
    left = LogicVersion(Logic(SELECT, COLUMNS).fingerprint, "w-1")
    assert change(left, Logic(SELECT, COLUMNS)) is None
    assert change(left, Logic(SELECT)) is None
    assert change(left, Logic(SELECT, COLUMNS[:1])) is not None
    found = change(left, Logic(SELECT + " LIMIT 1"))
    assert found is not None and "not on record" in found.lines[0]


@pytest.mark.parametrize("logic", [None, Logic(SELECT), Logic(SELECT, COLUMNS)])
def test_a_version_survives_the_way_to_the_step_s_process(logic: Logic | None) -> None:
    version = LogicVersion("abc.def", "w-1", logic)
    assert LogicVersion.from_json(json.loads(json.dumps(version.to_json()))) == version
