"""Which columns of the target changed rows are found by: the keys, or fewer of them where one tells nearly as much.

What is left out finds a few rows more, which are computed again as well; it never finds fewer.
"""

from __future__ import annotations

import math

from icefloe.planner.analysis import Analysis, PartitionLink
from icefloe.planner.inputs import PartitionContents, TargetState
from icefloe.planner.statements import KeyColumn

ROWS_PER_VALUE = 8
"""A column of which so few rows of a partition share a value finds changed rows by itself: the other keys are not even read."""
MOST_ALONG = 0.01
"""Rows that only share that one value with a changed one are computed again, too: at most so many, as a share of all that are
looked through. See ``docs/benchmarks.md``."""
LEAST_BITS = 8
"""A column with fewer bits to its values is not trusted to tell much, however small the partitions are."""


def found_by(
    analysis: Analysis,
    target: TargetState,
    contents: PartitionContents,
    link: PartitionLink | None,
    columns: tuple[str, ...],
    declared: tuple[str, ...],
) -> tuple[KeyColumn, ...]:
    """The given keys as far as they are mapped; without any, what makes the rows unique; else all that is mapped."""
    maps = analysis.key_maps
    influence = analysis.influence
    assert influence is not None
    names = [key for key in declared if key.lower() in maps]
    if not names and influence.relation.unique is not None:
        unique = [columns[index] for index in sorted(influence.relation.unique)]
        names = [name for name in unique if name.lower() in maps]
    if not names:
        names = [name for name in columns if name.lower() in maps]
    names = _narrowed(names, analysis, target, contents, link)
    partition = link.column.lower() if link else None
    if partition is not None and partition not in {name.lower() for name in names}:
        names.append(next(name for name in columns if name.lower() == partition))
    return tuple(
        KeyColumn(name, _may_be_null(analysis, name), few=name.lower() == partition and len(names) > 1)
        for name in names
    )


def _narrowed(
    names: list[str], analysis: Analysis, target: TargetState, contents: PartitionContents, link: PartitionLink | None
) -> list[str]:
    """One key that nearly tells a row by itself instead of all: a few rows more are computed again, and less is read."""
    in_target = contents.target
    if not in_target:
        return names
    rows = sum(size.rows for size in in_target.values())
    least = math.log2(max(rows / len(in_target) / ROWS_PER_VALUE, 1))
    types = {column.name.lower(): column.type for column in target.columns}
    partition = link.column.lower() if link else None
    bits = {name.lower(): value for name, value in contents.bits.items()}
    telling = [
        name for name in names if name.lower() != partition and bits.get(name.lower(), 0) >= max(least, LEAST_BITS)
    ]
    # Whole numbers are the quickest to look up, and among equals the one that takes the least room.
    telling.sort(key=lambda name: (types.get(name.lower()) not in ("int", "long"), bits[name.lower()]))
    if not telling:
        return names
    per_value = rows / len(in_target) / 2 ** min(bits[telling[0].lower()], 64)
    along = _added_late(analysis, contents, link) * max(per_value - 1, 0)
    return telling[:1] if along <= MOST_ALONG * rows else names


def _added_late(analysis: Analysis, contents: PartitionContents, link: PartitionLink | None) -> int:
    """Rows that were added in partitions that the target has. Where rows went, whole partitions are looked at anyway: none."""
    in_target = contents.target or {}
    if link is None or not analysis.append_only:
        return 0
    return sum(rows for value, rows in link.added.items() if value in in_target)


def _may_be_null(analysis: Analysis, name: str) -> bool:
    for occurrence in analysis.changed:
        state = analysis.state(occurrence)
        text = analysis.key_maps[name.lower()][occurrence.id]
        column = next((c.name for c in state.columns if text == f"`{c.name}`"), None)
        if column is None or not state.append_only or state.nulls.get(column, 1) > 0:
            return not text.startswith("'")
    return False
