"""When what a batch reads is counted: before the statement that carries it, and beside what comes before that. No Spark."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from icefloe.planner.plan import Statement
from icefloe.steps.writing.execution import _Attempt

DELETE, APPEND, NEW = (Statement("delete keys", "D"), Statement("append", "A"), Statement("append", "N", beside=True))


@pytest.mark.parametrize("statements", [(), (APPEND,), (APPEND, NEW), (DELETE, APPEND), (DELETE, APPEND, NEW)])
def test_the_last_statement_begins_after_the_count_and_the_first_of_several_does_not_wait_for_it(
    statements: tuple[Statement, ...],
) -> None:
    done: list[str] = []
    deleted = threading.Event()

    def sql(text: str) -> None:
        done.append(text)
        if text == "D":
            deleted.set()

    def count() -> None:
        if DELETE in statements:
            assert deleted.wait(30), "the first statement waits for the count"
            threading.Event().wait(0.05)
        done.append("counted")

    unused: Any = None
    attempt = _Attempt(SimpleNamespace(sql=sql), unused, unused, unused, lambda line: None, unused, unused)
    attempt._run(SimpleNamespace(statements=statements), count)  # type: ignore[arg-type]
    assert sorted(done) == sorted(["counted", *(one.sql for one in statements)])
    if APPEND in statements:
        assert done.index("counted") < done.index("A")
    if DELETE in statements:
        assert done.index("D") < done.index("counted")
