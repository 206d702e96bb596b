"""Keys of any columns are found where they are, and nowhere else: against a comparison of Python tuples."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from icefloe.rows.key_lookup import Keys
from icefloe.rows.types import arrow_type, is_key

# Few different values, so that they meet; with what is close to each other: NULL and empty, an upper and a lower case.
VALUES: dict[str, list[Any]] = {
    "long": [None, 0, 1, -1, 2**62],
    "int": [None, 0, 7],
    "string": [None, "", "a", "A", "ä"],
    "date": [None, date(2026, 3, 1), date(1969, 12, 31)],
    "boolean": [None, True, False],
    "binary": [None, b"", b"\x00"],
    "decimal(9,2)": [None, Decimal("1.20"), Decimal("0.00")],
}


@st.composite
def rows_and_keys(draw: st.DrawFn) -> tuple[list[str], list[tuple[Any, ...]], list[tuple[Any, ...]]]:
    kinds = draw(st.lists(st.sampled_from(sorted(VALUES)), min_size=1, max_size=4))
    row = st.tuples(*(st.sampled_from(VALUES[kind]) for kind in kinds))
    return kinds, draw(st.lists(row, max_size=30)), draw(st.lists(row, min_size=1, max_size=12))


@given(rows_and_keys(), st.integers(0, 30))
def test_the_rows_that_have_a_key_are_found(
    given: tuple[list[str], list[tuple[Any, ...]], list[tuple[Any, ...]]], cut: int
) -> None:
    kinds, rows, keys = given
    types = [arrow_type(kind) for kind in kinds]
    table = pa.table([pa.array([key[at] for key in keys], kind) for at, kind in enumerate(types)], names=_names(kinds))
    columns = [
        pa.chunked_array([[row[at] for row in rows[:cut]], [row[at] for row in rows[cut:]]], kind)
        for at, kind in enumerate(types)
    ]
    found = Keys({"here": table}).hits("here", columns)
    assert found.tolist() == [number for number, row in enumerate(rows) if row in set(keys)]


def _names(kinds: list[str]) -> list[str]:
    return [str(number) for number in range(len(kinds))]


def test_floats_are_no_keys() -> None:
    """Spark takes all NaN for one value, and 0.0 for -0.0; Arrow does not."""
    assert not is_key("double") and not is_key("float")
    assert all(is_key(kind) for kind in VALUES)
    assert not is_key("list") and not is_key("uuid") and not is_key("timestamp_ns")
