"""Rows that differ, as the log shows them: side by side where a key has one row on each side, else whole."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

MOST_ROWS = 20
_LONGEST = 80


def shown(rows: Sequence[tuple[Any, ...]], names: Sequence[str], keys: Sequence[str]) -> list[str]:
    """``rows`` have the values of ``names`` and, last, how often they are missing (above 0) or extra; those of one key together."""
    places = [index for index, name in enumerate(names) if name in keys]
    table: list[tuple[str, str, str, str]] = []
    count = 0
    for key, group in groupby(rows, key=lambda row: repr([row[place] for place in places])):
        if count == MOST_ROWS:
            break
        same = list(group)
        if places and len(same) == 2 and sorted(row[-1] for row in same) == [-1, 1]:
            has, wanted = sorted(same, key=lambda row: row[-1])
            table += [
                (_named(has, names, places), names[index], _text(has[index]), _text(wanted[index]))
                for index in range(len(names))
                if repr(has[index]) != repr(wanted[index])
            ]
            count += 1
            continue
        for row in same[: MOST_ROWS - count]:
            count += 1
            rest = [index for index in range(len(names)) if index not in places]
            whole = _named(row, names, rest) if key != "[]" and rest else "a row"
            times = f"{abs(row[-1])} × " if abs(row[-1]) > 1 else ""
            has_it, wants_it = ("nothing", times + whole) if row[-1] > 0 else (times + whole, "nothing")
            table.append((_named(row, names, places or range(len(names))), "(row)", has_it, wants_it))
    return _aligned([("key" if places else "row", "column", "has", "should have"), *table]) if table else []


def _named(row: tuple[Any, ...], names: Sequence[str], places: Sequence[int]) -> str:
    return ", ".join(f"{names[index]} = {_text(row[index])}" for index in places)


def _text(value: Any) -> str:
    text = "NULL" if value is None else repr(value) if isinstance(value, str | float) else str(value)
    text = text.replace("\n", "\\n")
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _aligned(table: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(len(row[column]) for row in table) for column in range(3)]
    return [
        "  " + "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[3]])
        for row in table
    ]
