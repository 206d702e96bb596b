"""Text to tree. The tree is built bottom-up while parsing, so that its depth is bounded before anything walks it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeAlias

import lark
from lark import Lark, Token, Transformer, v_args

from icefloe.workflow.expressions.errors import ExpressionLimitError, ExpressionSyntaxError
from icefloe.workflow.values import LONG_MAX, LONG_MIN, clip

MAX_LENGTH = 20_000
MAX_DEPTH = 64


@dataclass(frozen=True, slots=True)
class Literal:
    value: str | int | float | bool | None
    column: int
    depth: int = 1


@dataclass(frozen=True, slots=True)
class Name:
    name: str
    column: int
    depth: int = 1


@dataclass(frozen=True, slots=True)
class Unary:
    operator: str
    operand: Tree
    column: int
    depth: int


@dataclass(frozen=True, slots=True)
class Chain:
    """Operands joined by operators of one precedence, applied from the left."""

    operands: tuple[Tree, ...]
    operators: tuple[str, ...]
    columns: tuple[int, ...]
    column: int
    depth: int


@dataclass(frozen=True, slots=True)
class Logical:
    """Operands joined by ``&&`` or by ``||``."""

    operator: str
    operands: tuple[Tree, ...]
    column: int
    depth: int


@dataclass(frozen=True, slots=True)
class Ternary:
    condition: Tree
    then: Tree
    otherwise: Tree
    column: int
    depth: int


@dataclass(frozen=True, slots=True)
class Call:
    receiver: Tree
    name: str
    arguments: tuple[Tree, ...]
    column: int
    depth: int


@dataclass(frozen=True, slots=True)
class Field:
    receiver: Tree
    name: str
    column: int
    depth: int


@dataclass(frozen=True, slots=True)
class Index:
    receiver: Tree
    index: Tree
    column: int
    depth: int


@dataclass(frozen=True, slots=True)
class New:
    """``new DateTime(…)``, or with ``is_array`` ``new long[]{…}``."""

    name: str
    arguments: tuple[Tree, ...]
    column: int
    depth: int
    is_array: bool = field(default=False)


Tree: TypeAlias = Literal | Name | Unary | Chain | Logical | Ternary | Call | Field | Index | New


@lru_cache(maxsize=1024)
def parse(text: str) -> Tree:
    """The tree of an expression. Raises :class:`ExpressionSyntaxError` or :class:`ExpressionLimitError`."""
    if len(text) > MAX_LENGTH:
        raise ExpressionLimitError(f"an expression may have {MAX_LENGTH:,} characters, this one has {len(text):,}")
    try:
        tree: Any = _parser().parse(text)
    except lark.exceptions.VisitError as error:
        if isinstance(error.orig_exc, ExpressionSyntaxError | ExpressionLimitError):
            raise error.orig_exc from None
        raise
    except lark.exceptions.UnexpectedInput as error:
        raise _syntax_error(text, error) from None
    return tree  # type: ignore[no-any-return]


def _syntax_error(text: str, error: lark.exceptions.UnexpectedInput) -> ExpressionSyntaxError:
    at = error.pos_in_stream if error.pos_in_stream is not None and error.pos_in_stream >= 0 else len(text)
    token = getattr(error, "token", None)
    if not text.strip():
        return ExpressionSyntaxError("the expression is empty")
    if at >= len(text) or (token is not None and token.type == "$END"):
        return ExpressionSyntaxError("the expression ends too early", len(text) + 1)
    rest = text[at:]
    word = re.match(r"[\w$]+|\S", rest)
    found = word.group() if word else rest[:1]
    hint = None
    if found == "=" or (found in "&|" and rest[:2] not in ("&&", "||")):
        hint = {"=": "compare with ==", "&": "write &&", "|": "write ||"}[found]
    elif found in ('"', "'"):
        hint = "the quote is not closed"
    elif text[max(0, at - 1) : at + 1] == ";" or text[:at].rstrip().endswith(";"):
        hint = "one expression only: no statements"
    return ExpressionSyntaxError(f"'{clip(found)}' is not expected here", at + 1, hint=hint)


_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "0": "\0", '"': '"', "'": "'", "\\": "\\"}


_TOO_LARGE = "the number does not fit into 64 bits"


def _is_overlong(tree: Tree) -> bool:
    return isinstance(tree, Literal) and isinstance(tree.value, int) and tree.value > LONG_MAX


def _deep(column: int, *parts: Tree) -> int:
    """The depth of a tree made of ``parts``, within bounds."""
    for part in parts:
        if _is_overlong(part):
            raise ExpressionSyntaxError(_TOO_LARGE, part.column)
    depth = 1 + max((part.depth for part in parts), default=0)
    if depth > MAX_DEPTH:
        raise ExpressionLimitError(f"an expression may be nested {MAX_DEPTH} deep", column)
    return depth


def _column(token: Token) -> int:
    return (token.start_pos or 0) + 1


@v_args(inline=True)
class _Build(Transformer[Token, Any]):
    """Called by the parser at each reduction, innermost first."""

    def start(self, tree: Tree) -> Tree:
        _deep(tree.column, tree)
        return tree

    def ternary(self, condition: Tree, then: Tree, otherwise: Tree) -> Tree:
        return Ternary(
            condition, then, otherwise, condition.column, _deep(condition.column, condition, then, otherwise)
        )

    def either(self, *operands: Tree) -> Tree:
        return Logical("||", operands, operands[0].column, _deep(operands[0].column, *operands))

    def both(self, *operands: Tree) -> Tree:
        return Logical("&&", operands, operands[0].column, _deep(operands[0].column, *operands))

    def chain(self, *parts: Any) -> Tree:
        operands, operators = parts[::2], parts[1::2]
        return Chain(
            operands,
            tuple(str(operator) for operator in operators),
            tuple(_column(operator) for operator in operators),
            operands[0].column,
            _deep(operands[0].column, *operands),
        )

    equality = relational = sum = product = chain

    def unary(self, operator: Token, operand: Tree) -> Tree:
        column = _column(operator)
        if operator == "-" and _is_overlong(operand):
            return Literal(LONG_MIN, column)
        return Unary(str(operator), operand, column, _deep(column, operand))

    def call(self, receiver: Tree, name: Token, arguments: list[Tree] | None) -> Tree:
        given = tuple(arguments or ())
        return Call(receiver, str(name), given, _column(name), _deep(_column(name), receiver, *given))

    def field(self, receiver: Tree, name: Token) -> Tree:
        return Field(receiver, str(name), _column(name), _deep(_column(name), receiver))

    def index(self, receiver: Tree, index: Tree) -> Tree:
        return Index(receiver, index, receiver.column, _deep(receiver.column, receiver, index))

    def name(self, token: Token) -> Tree:
        return Name(str(token), _column(token))

    def new(self, name: Token, arguments: list[Tree] | None) -> Tree:
        given = tuple(arguments or ())
        return New(str(name), given, _column(name), _deep(_column(name), *given))

    def new_array(self, name: Token, arguments: list[Tree] | None) -> Tree:
        given = tuple(arguments or ())
        return New(str(name), given, _column(name), _deep(_column(name), *given), is_array=True)

    def arguments(self, *items: Tree) -> list[Tree]:
        return list(items)

    def true(self, token: Token) -> Tree:
        return Literal(True, _column(token))

    def false(self, token: Token) -> Tree:
        return Literal(False, _column(token))

    def null(self, token: Token) -> Tree:
        return Literal(None, _column(token))

    def verbatim(self, token: Token) -> Tree:
        return Literal(str(token)[1:-1], _column(token))

    def escaped(self, token: Token) -> Tree:
        column = _column(token)

        def unescape(found: re.Match[str]) -> str:
            code, letter = found.group(1), found.group(2)
            if code is not None:
                return chr(int(code, 16))
            if letter not in _ESCAPES:
                raise ExpressionSyntaxError(f"\\{letter} is no escape", column + found.start() + 1)
            return _ESCAPES[letter]

        body = re.sub(r"\\(?:u([0-9a-fA-F]{4})|(.))", unescape, str(token)[1:-1], flags=re.DOTALL)
        return Literal(_joined_surrogates(body, column), column)

    def number(self, token: Token) -> Tree:
        column, text = _column(token), str(token)
        if text[:2] in ("0x", "0X"):
            return _whole(int(text[2:].rstrip("lL").lstrip("0")[:40] or "0", 16), column)
        if re.fullmatch(r"[0-9]+[lL]?", text):
            digits = text.rstrip("lL")
            if len(digits) > 1 and digits[0] == "0":
                raise ExpressionSyntaxError(
                    "a whole number must not begin with 0", column, hint=f"write {digits.lstrip('0') or '0'}"
                )
            return _whole(int(digits[:40]), column)
        if text[-1] in "lL":
            raise ExpressionSyntaxError(f"'{clip(text)}' is no whole number", column)
        value = float(text.rstrip("dDfF"))
        if value == float("inf"):
            raise ExpressionSyntaxError("the number is too large", column)
        return Literal(value, column)


def _whole(value: int, column: int) -> Literal:
    # 9223372036854775808 is a number behind a minus sign only, as in Java: ``unary`` takes it, ``_deep`` refuses it.
    if value > LONG_MAX + 1:
        raise ExpressionSyntaxError(_TOO_LARGE, column)
    return Literal(value, column)


def _joined_surrogates(text: str, column: int) -> str:
    """Java writes a character beyond the first plane as two escapes; alone, each half is no text."""
    try:
        return text.encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError:
        raise ExpressionSyntaxError("half of a surrogate pair is no text", column) from None


@lru_cache(maxsize=1)
def _parser() -> Lark:
    grammar = Path(__file__).with_name("grammar.lark").read_text(encoding="utf-8")
    return Lark(grammar, parser="lalr", transformer=_Build(), maybe_placeholders=True)
