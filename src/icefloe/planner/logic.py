"""Versions of a step's logic: whether two SELECTs are the same, and how they differ.

They are compared token by token, as sqlglot reads them: white space, comments, hints, the letter case of keywords and columns and
the quoting of names do not matter. Everything else does, brackets included. A parser's tree would forgive more, and might forgive
what it has not understood.
"""

from __future__ import annotations

import difflib
import hashlib
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import sqlglot
from sqlglot import TokenType
from sqlglot.errors import SqlglotError

from icefloe.planner import query
from icefloe.planner.errors import NotASelectError

Choice = Literal["ask", "from_now_on", "rebuild"]
CHOICES: tuple[Choice, ...] = ("ask", "from_now_on", "rebuild")
PARAMETER = "ON_LOGIC_CHANGE"
"""The run parameter that chooses for one run."""
_LITERALS = {
    TokenType.STRING: "'",
    TokenType.RAW_STRING: "r'",
    TokenType.HEX_STRING: "x'",
    TokenType.BYTE_STRING: "b'",
    TokenType.NATIONAL_STRING: "n'",
    TokenType.HEREDOC_STRING: "$'",
    TokenType.UNICODE_STRING: "u'",
}
_MOST_LINES = 12


@dataclass(frozen=True, slots=True)
class Logic:
    """``columns``: names and types of the result; ``None`` where nobody has asked Spark."""

    text: str
    columns: tuple[tuple[str, str], ...] | None = None

    @property
    def fingerprint(self) -> str:
        """Of the text and of the columns, with a dot between; without columns it ends with the dot."""
        columns = "" if self.columns is None else _digest("\n".join(f"{name} {kind}" for name, kind in _folded(self)))
        return f"{text_fingerprint(self.text)}.{columns}"


@dataclass(frozen=True, slots=True)
class LogicVersion:
    """Logic that was published: ``run`` by which, ``logic`` None where only its fingerprint is left."""

    fingerprint: str
    run: str
    logic: Logic | None = None

    def to_json(self) -> dict[str, Any]:
        logic = self.logic
        return {
            "fingerprint": self.fingerprint,
            "run": self.run,
            "text": logic.text if logic else None,
            "columns": [list(pair) for pair in logic.columns] if logic and logic.columns is not None else None,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> LogicVersion:
        columns = data["columns"]
        pairs = tuple((str(name), str(kind)) for name, kind in columns) if columns is not None else None
        return cls(data["fingerprint"], data["run"], Logic(data["text"], pairs) if data["text"] is not None else None)


@dataclass(frozen=True, slots=True)
class LogicChange:
    """``lines`` are the difference, for people."""

    since: LogicVersion
    lines: tuple[str, ...]


def change(last: LogicVersion, now: Logic) -> LogicChange | None:
    """How the logic at hand differs from what was last published; ``None``: it does not."""
    before = last.logic
    if before is None:
        old_text, _, old_columns = last.fingerprint.partition(".")
        text, _, columns = now.fingerprint.partition(".")
        if text == old_text and (not columns or not old_columns or columns == old_columns):
            return None
        return LogicChange(last, ("its text is not on record any more",))
    lines: list[str] = []
    if normal(before.text) != normal(now.text):
        lines += _difference(before.text, now.text)
    if before.columns is not None and now.columns is not None and _folded(before) != _folded(now):
        lines += _column_difference(before.columns, now.columns)
    return LogicChange(last, tuple(lines)) if lines else None


def text_fingerprint(text: str) -> str:
    return _digest(normal(text))


def normal(text: str) -> str:
    """One spelling for all texts that are the same SELECT. What cannot be read is its own."""
    try:
        tokens = sqlglot.tokenize(text, read="spark")
    except SqlglotError:
        return text
    tables = _table_places(text)
    parts = []
    for token in tokens:
        if token.token_type is TokenType.HINT:
            continue
        if token.token_type in _LITERALS:
            parts.append(f"{_LITERALS[token.token_type]}{token.text}'")
        elif any(start <= token.start < end for start, end in tables):
            parts.append(token.text)  # a catalog may tell tables apart by letter case
        elif token.token_type is TokenType.IDENTIFIER:
            parts.append(token.text.lower())
        else:
            parts.append(" ".join(token.text.lower().split()))
    while parts and parts[-1] == ";":
        parts.pop()
    return "\n".join(parts)


def _table_places(text: str) -> list[tuple[int, int]]:
    try:
        return [(table.start, table.end) for table in query.read(text, where="").tables]
    except NotASelectError:
        return []


def _difference(before: str, after: str) -> list[str]:
    old, new = ([line.rstrip() for line in textwrap.dedent(text).strip().splitlines()] for text in (before, after))
    lines = [
        line for line in difflib.unified_diff(old, new, n=0, lineterm="") if not line.startswith(("---", "+++", "@@"))
    ]
    if len(lines) > _MOST_LINES:
        lines = [*lines[:_MOST_LINES], f"… and {len(lines) - _MOST_LINES} more lines"]
    return lines


def _column_difference(before: Sequence[tuple[str, str]], after: Sequence[tuple[str, str]]) -> list[str]:
    old, new = {name.lower(): kind for name, kind in before}, {name.lower(): kind for name, kind in after}
    lines = [f"- column {name} {kind}" for name, kind in old.items() if new.get(name) != kind]
    lines += [f"+ column {name} {kind}" for name, kind in new.items() if old.get(name) != kind]
    return lines or ["the columns are in another order"]


def _folded(logic: Logic) -> tuple[tuple[str, str], ...]:
    return tuple((name.lower(), kind) for name, kind in logic.columns or ())


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:20]
