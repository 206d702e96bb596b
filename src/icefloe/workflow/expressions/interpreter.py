"""Evaluates a tree in a scope.

There are no loops in the language, so work is bounded by the tree times what functions build; both are charged to a
budget, and a clock is looked at besides. No Python attribute is ever looked up by a name from an expression.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from icefloe.workflow.expressions import kinds
from icefloe.workflow.expressions.arithmetic import compute, wrap
from icefloe.workflow.expressions.dates import DateProblem
from icefloe.workflow.expressions.errors import (
    ExpressionError,
    ExpressionLimitError,
    ExpressionTypeError,
    ExpressionValueError,
)
from icefloe.workflow.expressions.library import (
    ARRAY_ELEMENTS,
    CLASSES,
    CONSTRUCTORS,
    FIELDS,
    METHODS,
    Function,
    as_text,
)
from icefloe.workflow.expressions.tree import (
    Call,
    Chain,
    Field,
    Index,
    Literal,
    Logical,
    Name,
    New,
    Ternary,
    Tree,
    Unary,
    parse,
)
from icefloe.workflow.problems import suggestion
from icefloe.workflow.scope import Scope, UnknownNameError
from icefloe.workflow.values import Mismatch, TypedValue, clip


@dataclass(frozen=True, slots=True)
class Limits:
    """``work`` counts tree nodes, characters and array items built, all together."""

    text: int = 1_000_000
    array: int = 100_000
    work: int = 5_000_000
    seconds: float = 5.0


DEFAULT_LIMITS = Limits()


def evaluate(expression: str, scope: Scope, limits: Limits = DEFAULT_LIMITS) -> TypedValue:
    """The expression's value. Raises :class:`ExpressionError` or :class:`UnknownNameError`, nothing else."""
    value = _Interpreter(scope, limits).run(parse(expression))
    kind = kinds.kind_of(value)
    if not kinds.is_plain(kind):
        hint = "compare it, or turn it into a text with toString(…)" if kind != kinds.NULL else None
        raise ExpressionTypeError(f"the expression gives a {kind}, which cannot be a parameter's value", hint=hint)
    try:
        return TypedValue.of(value)
    except Mismatch as error:  # results of several steps in one array need not have one type
        raise ExpressionTypeError(f"the expression's value cannot be a parameter's: {error}") from None


def evaluate_condition(expression: str, scope: Scope, limits: Limits = DEFAULT_LIMITS) -> bool:
    """A condition's value; anything but true or false is an error."""
    value = _Interpreter(scope, limits).run(parse(expression))
    if not isinstance(value, bool):
        raise ExpressionTypeError(f"a condition must be true or false, this is a {kinds.kind_of(value)}")
    return value


def evaluate_tree(tree: Tree, scope: Scope, limits: Limits) -> Any:
    """Whatever a subtree comes to, also what cannot be a parameter's value."""
    return _Interpreter(scope, limits).run(tree)


@dataclass(frozen=True, slots=True)
class _ClassName:
    name: str


class _Interpreter:
    def __init__(self, scope: Scope, limits: Limits) -> None:
        self.scope = scope
        self._limits = limits
        self._work = 0
        self._deadline = time.monotonic() + limits.seconds

    def run(self, tree: Tree) -> Any:
        try:
            return self._value(tree)
        except RecursionError:  # the tree's depth is bounded; the caller's stack is not
            raise ExpressionLimitError("the expression is nested too deep") from None

    def text(self, length: int) -> None:
        if length > self._limits.text:
            raise ExpressionLimitError(f"a text may have {self._limits.text:,} characters")
        self._charge(length // 64)

    def array(self, length: int) -> None:
        if length > self._limits.array:
            raise ExpressionLimitError(f"an array may have {self._limits.array:,} items")
        self._charge(length)

    def _charge(self, work: int) -> None:
        self._work += work + 1
        if self._work > self._limits.work or time.monotonic() > self._deadline:
            raise ExpressionLimitError("the expression takes too long")

    def _value(self, tree: Tree) -> Any:
        """The value of a subtree; a class's name alone is none."""
        found = self._any(tree)
        if isinstance(found, _ClassName):
            raise ExpressionTypeError(f"'{found.name}' is a class, not a value", tree.column)
        return found

    def _any(self, tree: Tree) -> Any:
        self._charge(0)
        try:
            return self._dispatch(tree)
        except DateProblem as error:
            raise ExpressionValueError(str(error), tree.column) from None
        except UnknownNameError as error:
            if error.where is None:
                error.where = f"column {tree.column} of the expression"
            raise
        except ExpressionError as error:
            if error.column is None:
                error.column = tree.column
            raise

    def _dispatch(self, tree: Tree) -> Any:
        match tree:
            case Literal(value=value):
                return value
            case Name(name=name):
                return self._name(name)
            case Chain():
                return self._chain(tree)
            case Logical(operator=operator, operands=operands):
                return self._logical(operator, operands)
            case Ternary(condition=condition, then=then, otherwise=otherwise):
                return self._value(then if self._boolean(condition, "?") else otherwise)
            case Unary(operator=operator, operand=operand):
                return self._unary(operator, operand)
            case Call():
                return self._call(tree)
            case Field(receiver=receiver, name=name):
                return self._field(self._any(receiver), name)
            case Index(receiver=receiver, index=index):
                return self._index(self._value(receiver), self._value(index))
            case New():
                return self._new(tree)

    def _name(self, name: str) -> Any:
        if name == "params":
            return kinds.PARAMS_OBJECT
        if name in CLASSES:
            return _ClassName(name)
        return _checked(self.scope.param(name))

    def _boolean(self, tree: Tree, operator: str) -> bool:
        value = self._value(tree)
        if not isinstance(value, bool):
            raise ExpressionTypeError(
                f"'{operator}' needs true or false, this is a {kinds.kind_of(value)}", tree.column
            )
        return value

    def _logical(self, operator: str, operands: tuple[Tree, ...]) -> bool:
        stop = operator == "||"
        return stop if any(self._boolean(operand, operator) is stop for operand in operands) else not stop

    def _unary(self, operator: str, operand: Tree) -> Any:
        if operator == "!":
            return not self._boolean(operand, "!")
        value = self._value(operand)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ExpressionTypeError(f"'{operator}' needs a number, this is a {kinds.kind_of(value)}", operand.column)
        if operator == "+":
            return value
        return wrap(-value) if isinstance(value, int) else -value

    def _chain(self, tree: Chain) -> Any:
        left = self._value(tree.operands[0])
        for operator, operand, column in zip(tree.operators, tree.operands[1:], tree.columns, strict=True):
            try:
                left = self._binary(operator, left, self._value(operand))
            except ZeroDivisionError:
                raise ExpressionValueError("division by zero", column) from None
            except OverflowError:
                raise ExpressionValueError("the result is no finite number", column) from None
            except ExpressionError as error:
                error.column = error.column or column
                raise
        return left

    def _binary(self, operator: str, left: Any, right: Any) -> Any:
        if operator in ("==", "!="):
            return _equal(left, right) is (operator == "==")
        if operator == "+" and (isinstance(left, str) or isinstance(right, str)):
            one, other = as_text(left), as_text(right)
            self.text(len(one) + len(other))
            return one + other
        if not _is_number(left) or not _is_number(right):
            raise _mismatch(operator, left, right)
        if operator in ("<", "<=", ">", ">="):
            return _compare(operator, left, right)
        return compute(operator, left, right)

    def _call(self, tree: Call) -> Any:
        receiver = self._any(tree.receiver)
        arguments = [self._value(argument) for argument in tree.arguments]
        if isinstance(receiver, _ClassName):
            owner, first = receiver.name, []
        else:
            owner, first = kinds.kind_of(receiver), [receiver]
        functions = METHODS.get((owner, tree.name))
        if functions is None:
            raise unknown_method(owner, tree.name)
        return self._apply(functions, f"{owner}.{tree.name}", arguments, first)

    def _apply(self, functions: tuple[Function, ...], name: str, arguments: list[Any], first: list[Any]) -> Any:
        given = [kinds.kind_of(argument) for argument in arguments]
        for function in functions:
            if function.arity(len(given)) and all(kinds.fits(kind, function.wanted(i)) for i, kind in enumerate(given)):
                try:
                    return _checked(function.call(self, *first, *arguments))
                except (OverflowError, ValueError, ArithmeticError) as error:
                    if isinstance(error, DateProblem):
                        raise
                    raise ExpressionValueError(f"{name} cannot work with these values") from error
        raise wrong_arguments(name, functions, given)

    def _field(self, receiver: Any, name: str) -> Any:
        owner = receiver.name if isinstance(receiver, _ClassName) else kinds.kind_of(receiver)
        found = FIELDS.get((owner, name))
        if found is None:
            raise unknown_field(owner, name)
        return found[1](receiver)

    def _index(self, receiver: Any, index: Any) -> Any:
        if isinstance(receiver, kinds.ParamsObject | Mapping) and not isinstance(index, str):
            raise ExpressionTypeError(f"the index of a map is a STRING, this is a {kinds.kind_of(index)}")
        if isinstance(receiver, kinds.ParamsObject):
            return _checked(self.scope.param(index))
        if isinstance(receiver, Mapping):
            if index not in receiver:
                raise ExpressionValueError(f"the map has no '{clip(index)}'")
            return _checked(receiver[index])
        if not isinstance(receiver, tuple):
            raise ExpressionTypeError(f"a {kinds.kind_of(receiver)} has no elements")
        if isinstance(index, bool) or not isinstance(index, int):
            raise ExpressionTypeError(f"the index of an array is a LONG, this is a {kinds.kind_of(index)}")
        if not 0 <= index < len(receiver):
            raise ExpressionValueError(f"index {index} in an array of length {len(receiver)}")
        return receiver[index]

    def _new(self, tree: New) -> Any:
        arguments = [self._value(argument) for argument in tree.arguments]
        if not tree.is_array:
            functions = CONSTRUCTORS.get(tree.name)
            if functions is None:
                raise unknown_class(tree.name)
            return self._apply(functions, f"new {tree.name}", arguments, [])
        element = ARRAY_ELEMENTS.get(tree.name)
        if element is None:
            raise unknown_class(tree.name)
        for argument in arguments:
            if not kinds.fits(kinds.kind_of(argument), element):
                raise ExpressionTypeError(f"an array of {element} cannot hold a {kinds.kind_of(argument)}")
        self.array(len(arguments))
        return tuple(float(argument) if element == kinds.DOUBLE else argument for argument in arguments)


def _checked(value: Any) -> Any:
    """A value from the scope, as one of our kinds: lists become tuples, anything foreign is refused."""
    if isinstance(value, list):
        value = tuple(value)
    try:
        kinds.kind_of(value)
    except (TypeError, KeyError):
        raise ExpressionTypeError(f"a {type(value).__name__} is no value of an expression") from None
    return value


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _equal(left: Any, right: Any) -> bool:
    if left is None or right is None:
        return left is right
    one, other = kinds.kind_of(left), kinds.kind_of(right)
    if _is_number(left) and _is_number(right):
        return _compare("==", left, right)
    if one != other and not (kinds.is_array(one) and kinds.is_array(other)):
        raise _mismatch("==", left, right)
    return bool(left == right)


def _compare(operator: str, left: int | float, right: int | float) -> bool:
    if isinstance(left, float) or isinstance(right, float):  # as Java: both as doubles
        left, right = float(left), float(right)
    return {
        "==": left == right, "<": left < right, "<=": left <= right, ">": left > right, ">=": left >= right,
    }[operator]  # fmt: skip


def _mismatch(operator: str, left: object, right: object) -> ExpressionTypeError:
    return mismatch(operator, kinds.kind_of(left), kinds.kind_of(right))


def mismatch(operator: str, left: str, right: str) -> ExpressionTypeError:
    hint = None
    if operator in ("<", "<=", ">", ">=") and kinds.STRING in (left, right):
        hint = "compare texts with a.compareTo(b) > 0" if left == right else "Long.valueOf(text) makes a number"
    return ExpressionTypeError(f"'{operator}' does not go with {left} and {right}", hint=hint)


def unknown_method(owner: str, name: str) -> ExpressionTypeError:
    known = [method for kind, method in METHODS if kind == owner]
    return ExpressionTypeError(f"{owner} has no method '{clip(name)}'", hint=suggestion(name, known, "it has"))


def unknown_field(owner: str, name: str) -> ExpressionTypeError:
    known = [field for kind, field in FIELDS if kind == owner]
    hint = f"write {name}()" if (owner, name) in METHODS else suggestion(name, known, "it has")
    return ExpressionTypeError(f"{owner} has no field '{clip(name)}'", hint=hint)


def unknown_class(name: str) -> ExpressionTypeError:
    known = [*CONSTRUCTORS, *ARRAY_ELEMENTS]
    return ExpressionTypeError(f"'{clip(name)}' cannot be made with new", hint=suggestion(name, known, "classes"))


def wrong_arguments(name: str, functions: tuple[Function, ...], given: list[str]) -> ExpressionTypeError:
    takes = " or ".join(f"({', '.join(function.takes)})" for function in functions)
    return ExpressionTypeError(f"{name} takes {takes}, not ({', '.join(given)})")
