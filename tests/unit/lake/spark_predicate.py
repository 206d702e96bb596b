"""Evaluates the predicates that the lake writes, as Spark 4 would: its lexer's rules, NULL, NaN and ANSI casts.

Written from Spark's SQL reference and independent of the code that writes them. Anything Spark would refuse (a number too
large for its type, a literal of another type than the column, an unknown escape) raises here.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Mapping
from datetime import UTC, date, datetime, time
from decimal import Context, Decimal
from typing import Any
from uuid import UUID

from lark import Lark, Token, Transformer

GRAMMAR = r"""
?start: any
?any: all ("OR" all)*
?all: one ("AND" one)*
?one: "(" any ")"
    | "TRUE" -> true
    | "FALSE" -> false
    | column OPERATOR literal -> compare
    | column "IN" "(" literal ("," literal)* ")" -> among
    | column "IS" "NULL" -> is_null
    | "isnan" "(" column ")" -> is_nan
    | "startswith" "(" column "," STRING ")" -> starts_with
column: NAME ("." NAME)*
literal: STRING -> text
    | "TRUE" -> yes
    | "FALSE" -> no
    | INTEGER -> integer
    | LONG -> long
    | "CAST" "(" STRING "AS" TYPE ")" -> cast
    | TYPE "(" STRING ")" -> function
    | WORD STRING -> typed
NAME: /`(?:[^`]|``)+`/
STRING: /'(?:[^'\\]|\\.)*'/s
OPERATOR: ">=" | "<=" | "=" | "<"
LONG.2: /-?\d+L/
INTEGER: /-?\d+/
TYPE: /(?:FLOAT|DOUBLE|DECIMAL\(\s*\d+\s*,\s*\d+\s*\))/
WORD.2: "DATE" | "TIMESTAMP_NTZ" | "TIMESTAMP" | "TIME" | "X"
%ignore " "
"""
_ESCAPES = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a"}


def unquote(literal: str) -> str:
    """Spark's reading of a string literal (escapedStringLiterals off). ``${…}`` would be replaced before parsing."""
    assert "$" not in literal, "Spark substitutes variables in the text of a statement"

    def one(match: re.Match[str]) -> str:
        if match[1]:
            return chr(int(match[1], 16))
        if match[2] in "%_":
            return "\\" + match[2]
        return _ESCAPES.get(match[2], match[2])

    return re.sub(r"\\(?:u([0-9A-Fa-f]{4})|(.))", one, literal[1:-1], flags=re.S)


class _Evaluate(Transformer[Any, Any]):
    def __init__(self, row: Mapping[tuple[str, ...], Any]) -> None:
        super().__init__()
        self.row = row

    def any(self, parts: list[bool | None]) -> bool | None:
        return True if True in parts else (None if None in parts else False)

    def all(self, parts: list[bool | None]) -> bool | None:
        return False if False in parts else (None if None in parts else True)

    def true(self, _: list[Any]) -> bool:
        return True

    def false(self, _: list[Any]) -> bool:
        return False

    def column(self, names: list[Token]) -> Any:
        return self.row[tuple(name[1:-1].replace("``", "`") for name in names)]

    def is_null(self, parts: list[Any]) -> bool:
        return parts[0] is None

    def is_nan(self, parts: list[Any]) -> bool:
        assert parts[0] is None or isinstance(parts[0], float)
        return parts[0] is not None and math.isnan(parts[0])

    def starts_with(self, parts: list[Any]) -> bool | None:
        return None if parts[0] is None else parts[0].startswith(unquote(parts[1]))

    def among(self, parts: list[Any]) -> bool | None:
        return self.any([_compare(parts[0], "=", value) for value in parts[1:]])

    def compare(self, parts: list[Any]) -> bool | None:
        return _compare(*parts)

    def text(self, parts: list[Token]) -> str:
        return unquote(parts[0])

    def yes(self, _: list[Any]) -> bool:
        return True

    def no(self, _: list[Any]) -> bool:
        return False

    def integer(self, parts: list[Token]) -> int:
        return int(parts[0])

    def long(self, parts: list[Token]) -> int:
        value = int(parts[0][:-1])
        assert -(2**63) <= value < 2**63, f"{parts[0]} is no BIGINT literal"
        return value

    def cast(self, parts: list[Token]) -> Any:
        return _cast(unquote(parts[0]), parts[1])

    def function(self, parts: list[Token]) -> Any:
        return _cast(unquote(parts[1]), parts[0])

    def typed(self, parts: list[Token]) -> Any:
        word, body = str(parts[0]), unquote(parts[1])
        if word == "DATE":
            return date.fromisoformat(body)
        if word == "TIME":
            return time.fromisoformat(body)
        if word == "X":
            return bytes.fromhex(body)
        moment = datetime.fromisoformat(body)
        assert (moment.tzinfo is not None) == (word == "TIMESTAMP"), f"{word}{body}: the session's zone would count"
        return moment


def _cast(body: str, kind: str) -> Any:
    if kind == "DOUBLE":
        return float(body)
    if kind == "FLOAT":
        return struct.unpack("<f", struct.pack("<f", float(body)))[0]
    precision, scale = map(int, re.findall(r"\d+", kind))
    value = Decimal(body)
    assert abs(int(value.scaleb(scale, Context(prec=80)))) < 10**precision, f"CAST('{body}' AS {kind}) overflows"
    return value


def _compare(value: Any, sign: str, literal: Any) -> bool | None:
    if value is None:
        return None
    if isinstance(value, UUID):  # Spark reads uuid columns as strings.
        value = str(value)
    assert type(value) is type(literal), f"{value!r} is compared with {literal!r}"
    if isinstance(value, datetime):
        assert (value.tzinfo is None) == (literal.tzinfo is None)
    low, high = _order(value), _order(literal)
    return {">=": low >= high, "<=": low <= high, "<": low < high, "=": low == high}[sign]


def _order(value: Any) -> Any:
    """In Spark NaN is equal to itself and above all others; datetimes are compared in UTC."""
    if isinstance(value, float):
        return (math.isnan(value), 0.0 if math.isnan(value) else value)
    return value.astimezone(UTC) if isinstance(value, datetime) and value.tzinfo else value


_PARSER = Lark(GRAMMAR, parser="lalr")


def evaluate(predicate: str, row: Mapping[tuple[str, ...], Any]) -> bool | None:
    """The predicate for one row, whose columns are named by their paths."""
    result: bool | None = _Evaluate(row).transform(_PARSER.parse(predicate))
    return result
