"""The SQL that compares what a branch holds with what the SELECT gives: as multisets, duplicates counted, in one shuffle.

Both sides are brought to the target's types and grouped by all columns together. Grouping is what Spark takes for equal: NULL is
NULL, NaN is NaN, and -0.0 is 0.0, in arrays and structs too. A map is compared as the sorted array of its entries.

A sum of floats depends on the order of its summands in its last bits, and Spark promises no order. So where rows differ, columns of
type float and double (not those inside of arrays, maps and structs) are looked at again with a tolerance: rows that agree in all other
columns are paired in the order of their floats.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from icefloe.lake.predicates import string_literal
from icefloe.planner.plan import ChangedKeys
from icefloe.planner.spans import Span
from icefloe.planner.statements import among, quote

Type = str | Mapping[str, Any]
"""A Spark type as its JSON: ``"long"``, ``{"type": "array", "elementType": "double"}``."""

TOLERANCE = {"double": "1e-11", "float": "1e-6"}
"""Two values are equal if they differ by at most this share of the larger one."""
_MOST_COPIES = 10_000
"""Of one and the same differing row, where it has floats: more are not paired one by one."""


@dataclass(frozen=True, slots=True)
class ComparedColumn:
    """``type`` is the target's. ``cast``: the same as SQL, where the SELECT gives another one."""

    name: str
    type: Type
    cast: str | None = None

    @property
    def is_float(self) -> bool:
        return isinstance(self.type, str) and self.type in TOLERANCE


@dataclass(frozen=True, slots=True)
class RowSubset:
    """Some of the rows, told by the result's own columns. Nothing set: all of them.

    ``column``, ``kind``, ``values``: partitions. ``keys``: rows that share a key with a changed row. ``span``: a range. ``by``, ``every``
    and ``remainder``: of the rows that are left those whose columns ``by`` hash so.
    """

    what: str
    column: str | None = None
    kind: str = ""
    values: tuple[Any, ...] = ()
    keys: ChangedKeys | None = None
    by: tuple[str, ...] = ()
    every: int = 1
    remainder: int = 0
    span: Span | None = None


@dataclass(frozen=True)
class Comparison:
    """``select`` is the user's text with its tables bound, ``branch`` what was written."""

    select: str
    branch: str
    columns: tuple[ComparedColumn, ...]
    part: RowSubset

    @property
    def has_floats(self) -> bool:
        return any(column.is_float for column in self.columns)

    def counts(self) -> str:
        """One row: ``rows`` that should be there, how many of them are ``missing``, how many are there that should not (``extra``)."""
        return (
            "SELECT coalesce(sum(w), 0) AS rows, coalesce(sum(greatest(w - h, 0)), 0) AS missing, "
            f"coalesce(sum(greatest(h - w, 0)), 0) AS extra FROM (\n{self._grouped('sum(w) AS w, sum(h) AS h')}\n)"
        )

    def tolerant_counts(self) -> str:
        """``missing`` and ``extra`` once more, floats within their tolerance."""
        return f"{self._paired()}\nSELECT count(w) AS missing, count(h) AS extra FROM pairs WHERE NOT ({self._close('w', 'h')})"

    def rows(self, keys: Sequence[str], limit: int) -> str:
        """Differing rows, those of one key together: ``c0``, ``c1`` … and ``n``, how often it is missing (above 0) or extra."""
        by = [name for name, column in self._named() if column.name in keys]
        order = ", ".join([*by, "n"])
        if not self.has_floats:
            return f"{self._grouped('sum(w) - sum(h) AS n')} HAVING sum(w) <> sum(h) ORDER BY {order} LIMIT {limit}"
        listed = {
            side: ", ".join(f"{side}.{name} AS {name}" if column.is_float else name for name, column in self._named())
            for side in ("w", "h")
        }
        differing = f"FROM pairs WHERE NOT ({self._close('w', 'h')}) AND"
        return (
            f"{self._paired()}\nSELECT {listed['w']}, 1L AS n {differing} w IS NOT NULL\nUNION ALL\n"
            f"SELECT {listed['h']}, -1L AS n {differing} h IS NOT NULL\nORDER BY {order} LIMIT {limit}"
        )

    # -- parts -------------------------------------------------------------------------------------------------------------

    def _named(self) -> list[tuple[str, ComparedColumn]]:
        return [(f"c{number}", column) for number, column in enumerate(self.columns)]

    def _grouped(self, figures: str) -> str:
        """Every distinct row of both sides once; ``w`` counts it in what is wanted, ``h`` in what the branch has."""
        names = ", ".join(name for name, _ in self._named())
        wanted = self._side(f"(\n{self.select}\n)", converted=True, figures="1L AS w, 0L AS h")
        written = self._side(self.branch, converted=False, figures="0L AS w, 1L AS h")
        return f"SELECT {names}, {figures} FROM (\n{wanted}\nUNION ALL\n{written}\n) GROUP BY {names}"

    def _side(self, relation: str, *, converted: bool, figures: str) -> str:
        values = {column.name: canonical(_value(column, converted=converted), column.type) for column in self.columns}
        listed = ", ".join(f"{values[column.name]} AS {name}" for name, column in self._named())
        where = " AND ".join(self._conditions(values))
        return f"SELECT {listed}, {figures} FROM {relation} AS q" + (f"\nWHERE {where}" if where else "")

    def _conditions(self, values: Mapping[str, str]) -> list[str]:
        part = self.part
        conditions = []
        if part.column is not None:
            conditions.append(among(f"q.{quote(part.column)}", part.kind, part.values))
        if part.span is not None:
            conditions.append(part.span.condition(f"q.{quote(part.span.column)}"))
        if part.every > 1:
            hashed = ", ".join(values[name] for name in part.by)
            conditions.append(f"pmod(xxhash64({hashed}), {part.every}L) = {part.remainder}")
        if part.keys is not None:
            same = " AND ".join(f"q.{quote(name)} <=> k.{quote(name)}" for name in part.keys.columns)
            hint = "/*+ BROADCAST(k) */ " if part.keys.few else ""
            conditions.append(f"EXISTS (SELECT {hint}1 FROM (\n{part.keys.sql}\n) AS k WHERE {same})")
        return conditions

    def _paired(self) -> str:
        """Differing rows that agree in all but their floats, side by side: ``w`` the floats as wanted, ``h`` as they are."""
        exact = [name for name, column in self._named() if not column.is_float]
        floats = [name for name, column in self._named() if column.is_float]
        names = ", ".join([*exact, *floats])
        alike = ", ".join([*exact, "n > 0"])
        float_pairs = ", ".join(f"'{name}', {name}" for name in floats)
        return (
            f"WITH differing AS (\n{self._grouped('sum(w) - sum(h) AS n')} HAVING sum(w) <> sum(h)\n),\n"
            f"single AS (SELECT {names}, n > 0 AS wanted, row_number() OVER (PARTITION BY {alike} ORDER BY {', '.join(floats)}) "
            f"AS place FROM differing LATERAL VIEW explode(sequence(1L, least(abs(n), {_MOST_COPIES}L))) AS copy),\n"
            f"pairs AS (SELECT {', '.join([*exact, 'place'])}, max(CASE WHEN wanted THEN named_struct({float_pairs}) END) AS w, "
            f"max(CASE WHEN NOT wanted THEN named_struct({float_pairs}) END) AS h FROM single GROUP BY {', '.join([*exact, 'place'])})"
        )

    def _close(self, left: str, right: str) -> str:
        tests = [f"{left} IS NOT NULL AND {right} IS NOT NULL"]
        for name, column in self._named():
            if not column.is_float:
                continue
            a, b = (f"CAST({side}.{name} AS DOUBLE)" for side in (left, right))
            # An infinite difference is within any share of infinity, and Spark holds NaN for the largest number.
            near = (
                f"abs({a} - {b}) <= {TOLERANCE[str(column.type)]}D * greatest(abs({a}), abs({b})) "
                f"AND abs({a} - {b}) < DOUBLE('Infinity')"
            )
            tests.append(f"coalesce({a} <=> {b} OR ({near}), FALSE)")
        return " AND ".join(tests)


def canonical(value: str, kind: Type) -> str:
    """The value in a form that Spark can group by. Only what holds a map or a variant is rebuilt.

    A column that is a ``uuid`` in Iceberg is a string in Spark, in small letters once it is stored."""
    return f"lower({value})" if kind == "uuid" else _canonical(value, kind, 0)


def holds_float(kind: Type) -> bool:
    return any(leaf in TOLERANCE for leaf in _leaves(kind))


def _value(column: ComparedColumn, *, converted: bool) -> str:
    text = f"q.{quote(column.name)}"
    return f"CAST({text} AS {column.cast})" if converted and column.cast else text


def _canonical(value: str, kind: Type, depth: int) -> str:
    if not any(leaf in ("map", "variant") for leaf in _leaves(kind)):
        return value
    if isinstance(kind, str):
        return f"to_json({value})"
    variable = f"x{depth}"
    if kind["type"] == "array":
        return f"transform({value}, {variable} -> {_canonical(variable, kind['elementType'], depth + 1)})"
    if kind["type"] == "map":
        key, item = (_canonical(f"{variable}.{name}", kind[f"{name}Type"], depth + 1) for name in ("key", "value"))
        return f"array_sort(transform(map_entries({value}), {variable} -> named_struct('key', {key}, 'value', {item})))"
    members = ", ".join(
        f"{string_literal(field['name'])}, " + _canonical(f"{value}.{quote(field['name'])}", field["type"], depth)
        for field in kind["fields"]
    )
    return f"CASE WHEN {value} IS NOT NULL THEN named_struct({members}) END"


def _leaves(kind: Type) -> list[str]:
    """The plain types in a type, and ``map`` for each map in it."""
    if isinstance(kind, str):
        return [kind]
    if kind["type"] == "array":
        return _leaves(kind["elementType"])
    if kind["type"] == "map":
        return ["map", *_leaves(kind["keyType"]), *_leaves(kind["valueType"])]
    if kind["type"] == "struct":
        return [leaf for field in kind["fields"] for leaf in _leaves(field["type"])]
    return [str(kind["type"])]
