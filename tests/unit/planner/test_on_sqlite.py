"""Random histories of small tables: after every batch the target is what the SELECT gives, for every SELECT that SQLite can run."""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import Any

import pytest

from tests.planner.corpus import CORPUS, Case
from tests.unit.planner.sqlite_world import NotForSqliteError, SqliteWorld

HISTORIES, BATCHES = 8, 4


@cache
def runs_on_sqlite(name: str) -> bool:
    case = next(case for case in CORPUS if case.name == name)
    try:
        SqliteWorld(case, 0)
    except NotForSqliteError:
        return False
    return True


# DATE literals are numbers to SQLite, and its rand() is nobody's.
CASES = [case for case in CORPUS if case.repeatable and case.runs == "spark" and "DATE'" not in case.text]
PLAYABLE = [case for case in CASES if runs_on_sqlite(case.name)]


def test_most_of_the_corpus_can_be_played_on_sqlite() -> None:
    assert len(PLAYABLE) >= 45, sorted({case.name for case in CORPUS} - {case.name for case in PLAYABLE})


def play(case: Case, seed: int, batches: int = BATCHES) -> set[str]:
    world = SqliteWorld(case, seed)
    used = set()
    for number in range(batches):
        plan = world.batch()
        used |= {plan.pattern} | ({"with a range"} if plan.span is not None else set())
        used |= {"by a search"} if plan.search is not None else set()
        wanted, there = world.full(), world.target()
        statements = "\n".join(statement.sql for statement in plan.statements)
        assert wanted == there, (
            f"{case.name}, seed {seed}, batch {number}, {plan.pattern}: missing {wanted - there}, too many {there - wanted}\n{statements}"
        )
    return used


@pytest.mark.parametrize("case", PLAYABLE, ids=lambda case: case.name)
def test_the_target_follows_random_histories(case: Case) -> None:
    used = {pattern for seed in range(HISTORIES) for pattern in play(case, seed)}
    assert case.pattern in used | {"range_overwrite", "merge", "key_filter"}


def test_ranges_are_written_among_the_batches() -> None:
    used = [play(case, seed) for case in PLAYABLE[:10] for seed in range(HISTORIES)]
    assert sum("with a range" in one for one in used) > len(used) / 4


def test_keys_are_searched_for_among_the_batches() -> None:
    used = {case.name for case in PLAYABLE if any("by a search" in play(case, seed) for seed in range(HISTORIES))}
    assert used >= {"views per account, country and day", "by position, renamed", "conditional sums"}, used


@pytest.mark.parametrize("case", PLAYABLE, ids=lambda case: case.name)
def test_a_range_alone_is_what_the_select_gives_and_the_rest_is_left_alone(case: Case) -> None:
    for seed in range(HISTORIES):
        world = SqliteWorld(case, seed)
        before = world.target()
        plan = world.range_alone()
        if plan.span is None:
            continue  # no column that SQLite orders as Spark does
        assert plan.pattern == "range"
        at = world.columns.index(plan.span.column)
        low, high = plan.span.low, plan.span.high

        def inside(row: tuple[Any, ...], at: int = at, low: Any = low, high: Any = high) -> bool:
            return row[at] is not None and (low is None or row[at] >= low) and (high is None or row[at] <= high)

        wanted = Counter({row: count for row, count in world.full().items() if inside(row)})
        wanted += Counter({row: count for row, count in before.items() if not inside(row)})
        assert world.target() == wanted, f"{case.name}, seed {seed}, {plan.span}"


@pytest.mark.long
@pytest.mark.parametrize("case", PLAYABLE, ids=lambda case: case.name)
def test_the_target_follows_many_random_histories(case: Case) -> None:
    for seed in range(1000, 1100):
        play(case, seed, 6)
