"""A SQL script as statements, each with the table it writes. Parsed, not split on semicolons."""

from __future__ import annotations

from dataclasses import dataclass

import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError, TokenError
from sqlglot.tokenizer_core import Token, TokenType

from icefloe.errors import UsageError


class SqlSyntaxError(UsageError):
    """The script is not SQL. ``where`` has the line and column in the script."""

    code = "spark.sql-syntax"


@dataclass(frozen=True, slots=True)
class Statement:
    """``text`` is as the user wrote it. ``target`` is the table whose rows it changes, if it changes any."""

    text: str
    line: int
    target: str | None
    is_definition: bool = False
    """CREATE, DROP, ALTER: takes effect at once, on no branch."""


def parse(script: str, *, where: str = "script") -> tuple[Statement, ...]:
    """The statements of a script, in order."""
    try:
        pieces = _pieces(script)
        found = []
        for text, line in pieces:
            tree = sqlglot.parse_one(text, dialect="spark")
            found.append(Statement(text, line, *_target(tree)))
        return tuple(found)
    except ParseError as error:
        first = error.errors[0] if error.errors else {}
        line = int(first.get("line") or 1) + pieces[len(found)][1] - 1
        raise SqlSyntaxError(
            f"{first.get('description') or 'cannot be parsed'} near {str(first.get('highlight') or '')!r}",
            where=f"{where}, line {line}, column {first.get('col') or 1}",
        ) from error
    except TokenError as error:
        raise SqlSyntaxError(str(error).splitlines()[0], where=where) from error


def _pieces(script: str) -> list[tuple[str, int]]:
    """The text of each statement with the line it begins on. The tokenizer knows what a string or a comment is."""
    tokens = sqlglot.tokenize(script, read="spark")
    pieces: list[tuple[str, int]] = []
    group: list[Token] = []
    for token in [*tokens, None]:
        if token is not None and token.token_type is not TokenType.SEMICOLON:
            group.append(token)
        elif group:
            pieces.append((script[group[0].start : group[-1].end + 1], group[0].line))
            group = []
    return pieces


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
