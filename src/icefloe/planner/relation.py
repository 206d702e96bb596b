"""What is known of a part of a query: its columns, and which of its rows a source row can touch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sqlglot import exp

Maps = dict[int, dict[int, exp.Expr]]
"""Occurrence -> column -> an expression over the occurrence's own columns. See :class:`Relation`."""


@dataclass(frozen=True, slots=True)
class RelationColumn:
    """A column of a relation. ``type`` is known for columns of tables only."""

    qualifier: str | None
    name: str
    type: str | None = None
    hidden: bool = False
    """One of two columns that USING made one: found by its qualifier only."""


@dataclass(frozen=True)
class Relation:
    """``maps`` is what everything rests on: when rows R of an occurrence of a table come or go, then the rows of this relation
    that come or go have, in the mapped columns together, the values that the expressions give for some row of R. A column that is
    not mapped may have any value in them.

    ``linear``: the occurrences for which new rows only add rows, and these can be computed from the new rows alone.
    ``grows``: those for which a source row that plays any part shows as a row of the result that stays.
    ``tangled``: pairs of occurrences that meet in a join, so that new rows of both meet each other.
    """

    columns: tuple[RelationColumn, ...] = ()
    maps: Maps = field(default_factory=dict)
    linear: frozenset[int] = frozenset()
    grows: frozenset[int] = frozenset()
    needs: frozenset[int] = frozenset()
    """Those of which every row of this relation needs a row: taking rows of theirs away can only take rows away here."""
    tangled: frozenset[tuple[int, int]] = frozenset()
    outer: Maps = field(default_factory=dict)
    """For a subquery: the same as ``maps`` in columns of the query around it."""
    unions: tuple[tuple[frozenset[int], frozenset[int]], ...] = ()
    """Each branch of a UNION ALL, beside all of that union's occurrences."""
    unique: frozenset[int] | None = None
    """Columns that no two rows have the same values in."""

    @property
    def occurrences(self) -> frozenset[int]:
        return frozenset(self.maps)


class UnclearError(Exception):
    """Something in the query is not understood well enough to say what a change touches."""


def local(index: int) -> exp.Column:
    """A column of the relation at hand, by its place."""
    return exp.column(exp.to_identifier(f"#{index}", quoted=True))


def around(index: int) -> exp.Column:
    """A column of the query around this one."""
    return exp.column(exp.to_identifier(f"^{index}", quoted=True))


def place_of(node: exp.Expr, mark: str = "#") -> int | None:
    """The place of a bare column; ``None`` for anything else."""
    if isinstance(node, exp.Paren):
        return place_of(node.this, mark)
    if isinstance(node, exp.Column) and node.name.startswith(mark):
        return int(node.name[1:])
    return None


def shifted(maps: Maps, by: int) -> Maps:
    return {
        occurrence_id: {index + by: expression for index, expression in columns.items()}
        for occurrence_id, columns in maps.items()
    }


def merged(*many: Mapping[int, Mapping[int, exp.Expr]]) -> Maps:
    out: Maps = {}
    for maps in many:
        for occurrence_id, columns in maps.items():
            out[occurrence_id] = {**out.get(occurrence_id, {}), **columns}
    return out
