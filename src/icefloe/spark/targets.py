"""Which table each statement of a script writes: what has to be fenced, and what is skipped once it is published."""

from __future__ import annotations

from dataclasses import dataclass

import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError

from icefloe.errors import UsageError
from icefloe.spark.statements import Statement, split


class SqlSyntaxError(UsageError):
    """The script is not SQL. ``where`` has the line and column in the script."""

    code = "spark.sql-syntax"


@dataclass(frozen=True, slots=True)
class Write:
    """A statement with its target: the table whose rows it changes, if it changes any."""

    statement: Statement
    target: str | None
    is_definition: bool = False
    """CREATE, DROP, ALTER: takes effect at once, on no branch."""


def parse(script: str, *, where: str = "script") -> tuple[Write, ...]:
    """The statements of a script, in order."""
    found = []
    for statement in split(script):
        try:
            tree = sqlglot.parse_one(statement.text, dialect="spark")
        except ParseError as error:
            first = error.errors[0] if error.errors else {}
            line, column = statement.place(int(first.get("line") or 1), int(first.get("col") or 1))
            raise SqlSyntaxError(
                f"{first.get('description') or 'cannot be parsed'} near {str(first.get('highlight') or '')!r}",
                where=f"{where}, line {line}, column {column}",
            ) from error
        found.append(Write(statement, *_target(tree)))
    return tuple(found)


def _target(tree: exp.Expr) -> tuple[str | None, bool]:
    if isinstance(tree, exp.Create | exp.Drop | exp.Alter):
        return _name(tree.this) if isinstance(tree, exp.Create) and tree.expression is not None else None, True
    if isinstance(tree, exp.Insert | exp.Merge | exp.Update | exp.Delete):
        return _name(tree.this), False
    if isinstance(tree, exp.TruncateTable):
        return _name(tree.expressions[0]), False
    return None, False


def _name(node: exp.Expr | None) -> str | None:
    table = node.find(exp.Table) if node is not None and not isinstance(node, exp.Table) else node
    if not isinstance(table, exp.Table):
        return None
    return ".".join(_quoted(part) for part in table.parts)


def _quoted(part: exp.Expr) -> str:
    name = part.name
    return name if name.replace("_", "a").isalnum() else "`" + name.replace("`", "``") + "`"
