"""Table names as people and programs write them, hostile ones included."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from icefloe.errors import UsageError
from icefloe.lake.change_table import begun_at, unique_name
from icefloe.table_names import format_identifier, parse_identifier

printable = st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1)


@given(st.lists(printable, min_size=2, max_size=4).map(tuple))
def test_a_formatted_name_parses_back_to_its_parts(parts: tuple[str, ...]) -> None:
    assert parse_identifier(format_identifier(parts), catalog="no such catalog") == parts


@given(st.text())
def test_any_text_is_a_name_or_a_usage_error(text: str) -> None:
    try:
        parts = parse_identifier(text, catalog="lake")
    except UsageError as error:
        assert error.hint
    else:
        assert len(parts) >= 2
        assert all(part and part.isprintable() for part in parts)


def test_the_catalog_in_front_is_left_out() -> None:
    assert parse_identifier("lake.db.t", catalog="lake") == ("db", "t")
    assert parse_identifier("lake.t", catalog="lake") == ("lake", "t")
    assert parse_identifier(("lake", "a", "b", "t"), catalog="lake") == ("a", "b", "t")
    assert parse_identifier("a.b.t", catalog="lake") == ("a", "b", "t")


@pytest.mark.parametrize(
    "name", ["", "t", ".", "db.", ".t", "db..t", "db.`t", "db.``", "`db`t", "db.t`x`", "a\x00.b", "a\n.b"]
)
def test_what_is_no_name_is_refused_with_the_way_to_write_one(name: str) -> None:
    with pytest.raises(UsageError) as raised:
        parse_identifier(name, catalog="lake")
    assert "db.table" in (raised.value.hint or "")


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        (("db", "t_1"), "db.t_1"),
        (("db", "odd.name"), "db.`odd.name`"),
        (("db", "tick`s"), "db.`tick``s`"),
        (("db", "123"), "db.`123`"),
        (("db", "1e5"), "db.`1e5`"),
        (("db", "größe"), "db.`größe`"),
        (("db", "a; DROP TABLE x"), "db.`a; DROP TABLE x`"),
    ],
)
def test_names_that_spark_would_misread_are_quoted(parts: tuple[str, ...], text: str) -> None:
    assert format_identifier(parts) == text


@given(printable)
def test_a_change_table_has_a_plain_name_that_tells_when_it_was_begun(source: str) -> None:
    name = unique_name(f"db.{source}")
    assert name.isascii() and name.replace("_", "").isalnum()
    assert begun_at(name) is not None
    assert unique_name(source) != name


@pytest.mark.parametrize(
    "folder",
    ["playback", "warehouse", "db", "x_20260101", "..", "x_20260301t120000_5F3A9C", "a/b_20260301t120000_5f3a9c"],
)
def test_other_folders_are_not_taken_for_change_tables(folder: str) -> None:
    assert begun_at(folder) is None
