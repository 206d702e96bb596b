"""Splits SQL text into statements, each with its place in the text.

The tokenizer of sqlglot's Spark dialect finds the semicolons that end statements: those in strings, comments, quoted names and
``BEGIN … END`` scripts do not. The text of a statement is the user's own, byte for byte.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot.dialects.spark import Spark
from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import Token, TokenType

from icefloe.errors import UsageError

_OPENING_AT_START = {"BEGIN", "LOOP", "WHILE", "REPEAT", "FOR", "IF", "CASE"}
_STARTS_AFTER = {";", "BEGIN", "THEN", "ELSE", "DO", "LOOP", "REPEAT", ":"}


@dataclass(frozen=True)
class Statement:
    """One statement; ``line`` and ``column`` of its first character count from 1."""

    text: str
    line: int
    column: int

    def place(self, line: int, column: int) -> tuple[int, int]:
        """Where in the whole text a place in this statement is."""
        return self.line + line - 1, column + (self.column - 1 if line == 1 else 0)


def split(text: str) -> list[Statement]:
    """The statements of ``text``, without their semicolons; comments alone are none."""
    try:
        tokens = Spark().tokenize(text)
    except TokenError as error:
        raise UsageError(f"this SQL cannot be read: {error}") from error
    statements: list[Statement] = []
    current: list[Token] = []
    depth = 0
    for token in tokens:
        if token.token_type is TokenType.SEMICOLON and depth == 0:
            statements += _statement(text, current)
            current = []
            continue
        depth = _depth(depth, current, token)
        current.append(token)
    return statements + _statement(text, current)


def _depth(depth: int, before: list[Token], token: Token) -> int:
    """How deep in blocks of a SQL script we are after this token. Outside a script it stays 0."""
    word = token.text.upper()
    if depth == 0:
        starts_script = word == "BEGIN" and (not before or before[-1].text == ":")
        return 1 if starts_script else 0
    previous = before[-1].text.upper() if before else ";"
    if word == "END":
        return depth - 1
    if previous == "END":  # END IF, END WHILE …: closed already
        return depth
    if word == "CASE" or (word in _OPENING_AT_START and previous in _STARTS_AFTER):
        return depth + 1
    return depth


def _statement(text: str, tokens: list[Token]) -> list[Statement]:
    if not tokens:
        return []
    start, end = tokens[0].start, tokens[-1].end + 1
    before = text[:start]
    return [Statement(text[start:end], before.count("\n") + 1, start - (before.rfind("\n") + 1) + 1)]
