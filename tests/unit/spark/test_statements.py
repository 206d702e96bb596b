"""SQL text into statements."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from icefloe.errors import UsageError
from icefloe.spark.statements import split

SCRIPT = """BEGIN
  DECLARE n INT DEFAULT 1;
  IF n = 1 THEN SELECT CASE WHEN n = 1 THEN 2 END; END IF;
  WHILE n < 3 DO SET n = n + 1; END WHILE;
END"""

# Whole statements that hold semicolons where they end nothing.
PIECES = (
    "SELECT 1",
    "SELECT ';' AS a",
    "SELECT 'it''s;' -- not; an end\n, 2",
    "SELECT /* ; */ `a;b` FROM t",
    'SELECT ";"',
    "SELECT r'\\' AS raw",
    "INSERT INTO t VALUES (1, 'x;y')",
    "CREATE TABLE IF NOT EXISTS a (b INT)",
    "SELECT if(a, b, c), CASE WHEN x THEN y END FROM t",
    SCRIPT,
)


@given(st.lists(st.sampled_from(PIECES), max_size=6), st.sampled_from([";", ";\n", " ;; ", "; -- note;\n"]))
def test_joined_statements_come_apart_as_they_were(pieces: list[str], glue: str) -> None:
    assert [statement.text for statement in split(glue.join(pieces))] == pieces


@given(st.lists(st.sampled_from(PIECES), min_size=1, max_size=5), st.integers(0, 4), st.integers(0, 3))
def test_each_statement_knows_its_place(pieces: list[str], blank_lines: int, spaces: int) -> None:
    text = ";".join("\n" * blank_lines + " " * spaces + piece for piece in pieces)
    lines = text.split("\n")
    for statement in split(text):
        found = lines[statement.line - 1][statement.column - 1 :]
        assert found.startswith(statement.text.split("\n")[0])


def test_a_place_in_a_later_statement_is_a_place_in_the_text() -> None:
    second = split("SELECT 1;  SELECT\n  x")[1]
    assert second.place(1, 8) == (1, 19)
    assert second.place(2, 3) == (2, 3)


@pytest.mark.parametrize("text", ["", "  \n", ";;", "-- nothing", "/* nothing; */"])
def test_text_without_a_statement_has_none(text: str) -> None:
    assert split(text) == []


def test_text_that_cannot_be_read_is_told() -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        split("SELECT 'no end")
