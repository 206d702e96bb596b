"""What runs when, without Spark: what a batch reads is counted before the statement that carries it, and beside what comes before that;
a search takes the place of statements, or they do its work; and what fails first is what is told."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from icefloe.planner.plan import KeySearch, Plan, PlannedStatement
from icefloe.rows import NotPlainError
from icefloe.steps.write.execution import _Attempt

DELETE, APPEND, NEW = (
    PlannedStatement("delete keys", "D"),
    PlannedStatement("append", "A"),
    PlannedStatement("append", "N", beside=True),
)


@pytest.mark.parametrize("statements", [(), (APPEND,), (APPEND, NEW), (DELETE, APPEND), (DELETE, APPEND, NEW)])
def test_the_last_statement_begins_after_the_count_and_the_first_of_several_does_not_wait_for_it(
    statements: tuple[PlannedStatement, ...],
) -> None:
    done: list[str] = []
    deleted = threading.Event()

    def sql(text: str) -> None:
        done.append(text)
        if text == "D":
            deleted.set()

    def count(_: object) -> None:
        if DELETE in statements:
            assert deleted.wait(30), "the first statement waits for the count"
            threading.Event().wait(0.05)
        done.append("counted")

    unused: Any = None
    attempt = _Attempt(SimpleNamespace(sql=sql), unused, unused, unused, lambda line: None, unused, unused)
    attempt._run(SimpleNamespace(statements=statements), None, count)  # type: ignore[arg-type]
    assert sorted(done) == sorted(["counted", *(one.sql for one in statements)])
    if APPEND in statements:
        assert done.index("counted") < done.index("A")
    if DELETE in statements:
        assert done.index("D") < done.index("counted")


class _Search:
    """A search of which only the order is of interest."""

    def __init__(self, done: list[str], refusal: NotPlainError | None = None) -> None:
        self.search = SimpleNamespace(statements=(FOUND,))
        self._done = done
        self._refusal = refusal

    def find(self) -> str:
        if self._refusal is not None:
            raise self._refusal
        self._done.append("found")
        return "what was found"

    def hand_over(self, found: str) -> None:
        self._done.append("handed over")

    def delete(self, found: str) -> None:
        self._done.append("deleted")


FOUND = PlannedStatement("append", "F")


def _attempt(sql: Callable[[str], None], said: list[str], interrupt: Callable[[], None] = lambda: None) -> _Attempt:
    unused: Any = None
    session = SimpleNamespace(sql=sql, interruptAll=interrupt)
    return _Attempt(session, unused, unused, unused, said.append, unused, unused)


def _plan(*statements: PlannedStatement) -> Plan:
    return Plan(
        "key_filter", "", (), (), (), (), statements, None, (), search=KeySearch("s", "c", "p", (), (), (FOUND,))
    )


def test_what_was_found_is_appended_in_place_of_what_spark_would_find() -> None:
    done: list[str] = []
    _attempt(done.append, [])._run(_plan(DELETE, APPEND, NEW), _Search(done), lambda plan: done.append("counted"))  # type: ignore[arg-type]
    assert sorted(done) == sorted(["N", "found", "handed over", "deleted", "counted", "F"])
    assert done.index("handed over") < done.index("F") > done.index("counted")


def test_where_files_are_not_plain_the_statements_do_it_and_new_partitions_are_written_once() -> None:
    done: list[str] = []
    said: list[str] = []
    counted: list[bool] = []
    search = _Search(done, NotPlainError("somebody wrote ORC"))
    _attempt(done.append, said)._run(
        _plan(DELETE, APPEND, NEW),
        search,  # type: ignore[arg-type]
        lambda plan: counted.append(plan.search is not None),
    )
    assert sorted(done) == ["A", "D", "N"]
    assert counted == [True, False], "what is read is another amount then"
    assert any("somebody wrote ORC" in line for line in said)


def test_what_failed_first_is_told_not_what_was_interrupted_by_that() -> None:
    begun, interrupted = threading.Event(), threading.Event()

    def sql(text: str) -> None:
        if text == "N":
            begun.set()
            assert interrupted.wait(30)
            raise RuntimeError("interrupted")

    class Broken(_Search):
        def delete(self, found: str) -> None:
            assert begun.wait(30)
            raise OSError("the disk is full")

    attempt = _attempt(sql, [], interrupted.set)
    with pytest.raises(OSError, match="the disk is full"):
        attempt._run(_plan(DELETE, APPEND, NEW), Broken([]), lambda plan: None)  # type: ignore[arg-type]
