"""Which table each statement of a script writes: what has to be fenced, and what is skipped once it is published.

sqlglot reads the statements. What it cannot read is not the user's mistake: Spark knows syntax that sqlglot does not, and has
the last word. Such a statement is searched for the words that write, and refused only when it writes to a table whose name
cannot be told.
"""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass
from enum import StrEnum

import sqlglot
from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ParseError
from sqlglot.tokenizer_core import Token, TokenType

from icefloe.errors import UsageError
from icefloe.spark.statements import Statement, split

# It warns on stderr about each statement that it does not know; those are dealt with here.
logging.getLogger("sqlglot").setLevel(logging.ERROR)


class UnknownTargetError(UsageError):
    """A statement writes, and the table it writes to cannot be read off its text."""

    code = "spark.unknown-target"


class Effect(StrEnum):
    """What a statement does to tables."""

    NONE = "none"
    """Reads, or sets something up for the session."""
    ROWS = "rows"
    """Changes the rows of a table: can be done on a branch."""
    TABLE = "table"
    """Makes a table and fills it (CREATE TABLE AS): takes effect at once, on no branch."""
    DEFINITION = "definition"
    """CREATE, DROP, ALTER: takes effect at once, on no branch."""


@dataclass(frozen=True, slots=True)
class Write:
    """A statement with its target: the table whose rows it changes, if it changes any."""

    statement: Statement
    target: str | None
    effect: Effect = Effect.NONE

    @property
    def is_definition(self) -> bool:
        return self.effect in (Effect.TABLE, Effect.DEFINITION)


def parse(script: str, *, where: str = "script") -> tuple[Write, ...]:
    """The statements of a script, in order."""
    return tuple(_write(statement, where) for statement in split(script))


def _write(statement: Statement, where: str) -> Write:
    try:
        tree = sqlglot.parse_one(statement.text, dialect="spark")
    except ParseError:
        tree = None
    if tree is None or _IDENTIFIER_CLAUSE.search(statement.text):
        return _by_words(statement, where)
    if isinstance(tree, exp.Create | exp.Drop | exp.Alter):
        fills = isinstance(tree, exp.Create) and (tree.kind or "").upper() == "TABLE" and tree.expression is not None
        is_view = isinstance(tree, exp.Create) and (tree.kind or "").upper() in ("VIEW", "FUNCTION")
        if fills:
            return Write(statement, _named(tree.this, statement, where), Effect.TABLE)
        temporary = is_view and "TEMP" in statement.text.upper().split("AS", 1)[0]
        return Write(statement, None, Effect.NONE if temporary else Effect.DEFINITION)
    if isinstance(tree, exp.Insert | exp.Merge | exp.Update | exp.Delete):
        if isinstance(tree, exp.Insert) and isinstance(tree.this, exp.Directory):
            return Write(statement, "directory", Effect.ROWS)
        return Write(statement, _named(tree.this, statement, where), Effect.ROWS)
    if isinstance(tree, exp.TruncateTable):
        return Write(statement, _named(tree.expressions[0], statement, where), Effect.ROWS)
    if isinstance(tree, exp.Query | exp.Set | exp.Use | exp.Cache):
        return Write(statement, None)
    return _by_words(statement, where)


_IDENTIFIER_CLAUSE = re.compile(r"\b(INTO|OVERWRITE|TABLE|FROM|UPDATE)\s+IDENTIFIER\s*\(", re.IGNORECASE)
_VERBS = {"INSERT": ("INTO", "OVERWRITE"), "MERGE": ("INTO",), "DELETE": ("FROM",), "TRUNCATE": ("TABLE",)}
_FILLERS = {"INTO", "OVERWRITE", "FROM", "TABLE", "WITH", "SCHEMA", "EVOLUTION"}


def _by_words(statement: Statement, where: str) -> Write:
    """A statement that sqlglot does not know: the table behind INSERT INTO and the like, wherever in it that stands."""
    tokens = Spark().tokenize(statement.text)
    words = [token.text.upper() for token in tokens]
    targets: dict[str, None] = {}
    starts_anew = True
    for index, word in enumerate(words):
        follows = words[index + 1] if index + 1 < len(words) else ""
        writes = (word in _VERBS and follows in (*_VERBS[word], "WITH")) or (word == "UPDATE" and starts_anew)
        if writes and words[0] not in ("EXPLAIN", "DESCRIBE", "DESC", "ALTER", "SHOW"):
            targets[_name_at(tokens, index + 1, statement, where)] = None
        starts_anew = word in (";", "BEGIN", "THEN", "ELSE", "DO", "LOOP", "REPEAT")
    if words[:2] == ["REPLACE", "TABLE"] and "AS" in words:
        return Write(statement, _name_at(tokens, 1, statement, where), Effect.TABLE)
    if not targets:
        definition = words[0] in ("ALTER", "CREATE", "DROP", "REPLACE")
        return Write(statement, None, Effect.DEFINITION if definition else Effect.NONE)
    if len(targets) > 1:
        raise UnknownTargetError(
            f"one statement that writes to several tables ({', '.join(targets)}) cannot be published table by table",
            where=_place(statement, where),
            hint="write one statement per table",
        )
    return Write(statement, next(iter(targets)), Effect.ROWS)


def _name_at(tokens: list[Token], index: int, statement: Statement, where: str) -> str:
    while index < len(tokens) and tokens[index].text.upper() in _FILLERS:
        index += 1
    parts: list[str] = []
    while index < len(tokens):
        token = tokens[index]
        if token.token_type in (TokenType.L_PAREN, TokenType.STRING, TokenType.PARAMETER):
            break
        parts.append(_quoted(token.text))
        if index + 1 >= len(tokens) or tokens[index + 1].token_type is not TokenType.DOT:
            if tokens[index].text.upper() == "IDENTIFIER" and not tokens[index].text.startswith("`"):
                break
            return ".".join(parts)
        index += 2
    raise _unknown(statement, where)


def _named(node: exp.Expr | None, statement: Statement, where: str) -> str:
    table = node.find(exp.Table) if node is not None and not isinstance(node, exp.Table) else node
    if not isinstance(table, exp.Table) or not all(isinstance(part, exp.Identifier) for part in table.parts):
        raise _unknown(statement, where)
    return ".".join(_quoted(part.name) for part in table.parts)


def _unknown(statement: Statement, where: str) -> UnknownTargetError:
    return UnknownTargetError(
        "the table that this statement writes to cannot be read off it, so the write cannot be protected",
        where=_place(statement, where),
        hint="write the table's name out; parameters are filled in with ${NAME}",
    )


def _place(statement: Statement, where: str) -> str:
    return f"{where}, line {statement.line}, column {statement.column}"


def _quoted(name: str) -> str:
    return name if name.replace("_", "a").isalnum() and not name[0].isdigit() else "`" + name.replace("`", "``") + "`"
