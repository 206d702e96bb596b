"""The user's SELECT: read once, run as it is. Tables are bound by exchanging their names in the text, and nothing else.

The text that runs is the user's own, byte for byte, but for the names of its tables: what a parser and a printer would make of
it never reaches Spark. sqlglot only looks at it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError, TokenError

from icefloe.planner.errors import NotASelectError


@dataclass(frozen=True, slots=True)
class TableName:
    """One place in the text where a real table is named: ``start`` to ``end`` (exclusive)."""

    name: str
    start: int
    end: int
    aliased: bool
    short: str
    plain: bool
    """False when the text reads it in a way of its own: a version, a sample, a pivot."""


@dataclass(frozen=True, slots=True)
class Query:
    text: str
    tree: exp.Query
    tables: tuple[TableName, ...]
    cuts: tuple[tuple[int, int], ...]
    """Where columns are qualified with the table's whole name: the part that an alias has no need of."""

    @property
    def table_names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(table.name for table in self.tables))

    def bound(self, relations: Mapping[str, str] | Callable[[TableName], str | None]) -> str:
        """The text with tables replaced by relations, each under the name that the text knows it by."""
        find = relations.get if isinstance(relations, Mapping) else None
        edits: list[tuple[int, int, str]] = []
        bound_names = set()
        for table in self.tables:
            relation = find(table.name) if find is not None else relations(table)  # type: ignore[operator]
            if relation is None or not table.plain:
                continue
            bound_names.add(table.name)
            alias = "" if table.aliased else f" AS `{table.short}`"
            edits.append((table.start, table.end, relation + alias))
        if bound_names:
            edits += [(start, end, "") for start, end in self.cuts]
        out = self.text
        for start, end, new in sorted(edits, reverse=True):
            out = out[:start] + new + out[end:]
        return out


def read(text: str, *, where: str, canonical: Callable[[str], str] = lambda name: name) -> Query:
    """Read the one SELECT. ``canonical`` gives each table its one spelling."""
    try:
        trees = [tree for tree in sqlglot.parse(text, dialect="spark") if tree is not None]
    except (ParseError, TokenError) as error:
        first = getattr(error, "errors", None) or [{}]
        place = f", line {first[0].get('line')}, column {first[0].get('col')}" if first[0].get("line") else ""
        raise NotASelectError(
            f"the SELECT cannot be parsed: {first[0].get('description') or str(error).splitlines()[0]}",
            where=f"{where}{place}",
        ) from error
    if len(trees) != 1:
        content = "no statement" if not trees else f"{len(trees)} statements"
        raise NotASelectError(
            f"write: needs one SELECT, and the script has {content}",
            where=where,
            hint="keep the SELECT; do the rest in a Spark step of its own",
        )
    (tree,) = trees
    if not isinstance(tree, exp.Query) or isinstance(tree, exp.Values):
        raise NotASelectError(
            f"write: needs a SELECT, and the script is {_kind(tree)}",
            where=where,
            hint="leave INSERT, MERGE and CREATE out: the planner writes them; or leave write: out and keep your own",
        )
    inside = next(
        (node for node in tree.walk() if isinstance(node, exp.DML | exp.DDL | exp.Command) and _writes(node)), None
    )
    if inside is not None:
        raise NotASelectError(f"the SELECT has {_kind(inside)} in it", where=where)
    return Query(_without_end(text), tree, tuple(_tables(tree, canonical)), tuple(_cuts(tree)))


def _writes(node: exp.Expr) -> bool:
    return not isinstance(node, exp.Query)


def _kind(tree: exp.Expr) -> str:
    name = tree.key.upper()
    return f"{'an' if name[0] in 'AEIOU' else 'a'} {name}" if name != "COMMAND" else "a command"


def _without_end(text: str) -> str:
    """Without the semicolon at the end: the text becomes a part of others."""
    stripped = text.rstrip()
    return stripped[:-1] if stripped.endswith(";") else stripped


def _tables(tree: exp.Expr, canonical: Callable[[str], str]) -> list[TableName]:
    tables = []
    for node in tree.find_all(exp.Table):
        if not isinstance(node.this, exp.Identifier) or _is_cte(node):
            continue
        parts = [part for part in node.parts if isinstance(part, exp.Identifier)]
        start, end = parts[0].meta.get("start"), parts[-1].meta.get("end")
        if start is None or end is None:
            continue
        allowed = {"this", "db", "catalog", "alias", "joins", "laterals"}
        tables.append(
            TableName(
                name=canonical(".".join(_quoted(part.name) for part in parts)),
                start=start,
                end=end + 1,
                aliased=bool(node.alias),
                short=node.name.replace("`", "``"),
                plain=not any(value for key, value in node.args.items() if key not in allowed),
            )
        )
    return sorted(tables, key=lambda table: table.start)


def _is_cte(node: exp.Table) -> bool:
    """Whether a bare name is that of a WITH clause around it."""
    if node.db:
        return False
    above: exp.Expr | None = node.parent
    while above is not None:
        clause = above.args.get("with_")
        if clause is not None and any(cte.alias.lower() == node.name.lower() for cte in clause.expressions):
            return True
        above = above.parent
    return False


def _cuts(tree: exp.Expr) -> list[tuple[int, int]]:
    names = {node.name.lower(): node for node in tree.find_all(exp.Table) if node.db}
    cuts = []
    for column in tree.find_all(exp.Column):
        parts = column.parts
        if len(parts) < 3 or column.table.lower() not in names:
            continue
        table = column.args["table"]
        start, end = parts[0].meta.get("start"), table.meta.get("start")
        if start is not None and end is not None and end > start:
            cuts.append((start, end))
    return cuts


def _quoted(name: str) -> str:
    return name if name.replace("_", "a").isalnum() else "`" + name.replace("`", "``") + "`"
