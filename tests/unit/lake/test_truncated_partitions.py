"""Predicates for partitions by ``truncate``: every value of a partition satisfies its partition's predicate."""

from __future__ import annotations

import re
from decimal import Decimal
from itertools import takewhile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from icefloe.lake.partitions import PartitionChange
from icefloe.lake.predicates import partition_filter
from icefloe.lake.schema import Field, PartitionField, PartitionSpec, Schema

characters = st.one_of(
    st.characters(exclude_categories=("Cs",)),
    st.sampled_from("a\\'\ud7ff\ue000\uffff\U00010000\U0010ffff"),
)


def predicate(kind: str, width: int, value: object) -> str:
    spec = PartitionSpec(0, (PartitionField(1000, "p", 1, f"truncate[{width}]"),))
    change = PartitionChange(0, {"p": value}, files=1, rows=1, bytes=1)
    return partition_filter([change], {0: spec}, Schema(0, {1: Field(1, ("c",), kind)}))


def bounds(text: str) -> tuple[bytes | None, bytes | None, bytes | None]:
    """The literals after ``=``, ``>=`` and ``<``, as Spark compares strings: by their UTF-8 bytes."""
    found = {}
    for sign, quoted in re.findall(r"`c` (=|>=|<) '((?:\\.|[^\\'])*)'", text, flags=re.S):
        plain = re.sub(r"\\u([0-9A-F]{4})|\\(.)", lambda m: chr(int(m[1], 16)) if m[1] else m[2], quoted, flags=re.S)
        found[sign] = plain.encode()
    return found.get("="), found.get(">="), found.get("<")


@given(st.text(characters, max_size=8), st.integers(1, 6))
def test_a_string_satisfies_the_predicate_of_its_partition(text: str, width: int) -> None:
    equal, low, high = bounds(predicate("string", width, text[:width]))
    data = text.encode()
    if len(text) < width:
        assert equal == data
    else:
        assert low is not None
        assert low <= data
        assert high is None or data < high


@given(st.text(characters, min_size=1, max_size=6), st.text(characters, min_size=1, max_size=6))
def test_a_string_with_another_beginning_does_not(prefix: str, other: str) -> None:
    shared = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(prefix, other, strict=False)))
    if shared == len(prefix):
        return
    _, low, high = bounds(predicate("string", len(prefix), prefix))
    assert low is not None
    assert not (low <= other.encode() and (high is None or other.encode() < high))


def test_the_predicate_is_not_said_with_startswith_which_fails_beside_a_partition_of_nulls() -> None:
    assert "startswith" not in predicate("string", 2, "ab").lower()


@pytest.mark.parametrize(
    ("kind", "width", "value", "expected"),
    [
        ("int", 4, 2**31 - 4, "TRUE"),
        ("long", 4, 2**63 - 4, "TRUE"),
        ("long", 4, 8, "(`c` >= 8L AND `c` < 12L)"),
        ("decimal(4, 2)", 4, Decimal("99.96"), "TRUE"),
        (
            "decimal(38, 2)",
            4,
            Decimal("123456789012345678901234567890123456.32"),
            "(`c` >= CAST('123456789012345678901234567890123456.32' AS DECIMAL(38, 2))"
            " AND `c` < CAST('123456789012345678901234567890123456.36' AS DECIMAL(38, 2)))",
        ),
    ],
)
def test_an_interval_of_numbers_is_exact_and_says_nothing_where_the_type_ends(
    kind: str, width: int, value: object, expected: str
) -> None:
    assert predicate(kind, width, value) == expected
