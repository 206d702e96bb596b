"""What can be said of an expression's values before it runs: parts that depend on nothing are evaluated at push, and texts that
a method takes as a pattern are read as one. What fails here would fail in every run."""

from __future__ import annotations

from collections.abc import Iterator

from icefloe.workflow.expressions import dates, kinds
from icefloe.workflow.expressions.errors import ExpressionError, ExpressionLimitError, ExpressionValueError
from icefloe.workflow.expressions.interpreter import Limits, evaluate_tree
from icefloe.workflow.expressions.library import CLASSES, check_format, literal_pattern
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
)
from icefloe.workflow.scope import Scope, UnknownNameError

_VARYING = frozenset(
    {"random", "randomUUID", "currentTimeMillis", "now", "nextUniqueId"}
    | {"timeoutForDateTimeDeadline", "timeoutForDateIntDeadline"}
)
_LIMITS = Limits(work=200_000, seconds=0.5)


def constant_errors(tree: Tree) -> Iterator[ExpressionError]:
    """What evaluating the parts that depend on no parameter, clock or chance comes to, if that is an error."""
    if isinstance(tree, Literal | Name):  # a class is named, not evaluated
        return
    if not _is_constant(tree):
        for child in _children(tree):
            yield from constant_errors(child)
        return
    try:
        evaluate_tree(tree, Scope(), _LIMITS)
    except ExpressionLimitError:
        return  # it may be within the limits of a run
    except ExpressionError as error:
        yield error
    except UnknownNameError:
        return


def pattern_error(tree: Call, owner: str, given: list[str]) -> ExpressionError | None:
    """What is wrong with a text that a method takes as a pattern or format."""
    first = tree.arguments[0] if tree.arguments else None
    if not isinstance(first, Literal) or not isinstance(first.value, str):
        return None
    try:
        if owner in (kinds.STRING, kinds.ANY) and tree.name in ("split", "replaceAll"):
            if not literal_pattern(first.value) and tree.name == "split":
                raise ExpressionValueError("split needs a separator")
        elif owner == kinds.DATETIME and tree.name == "toString":
            dates.formatter(first.value)
        elif (owner, tree.name) == ("String", "format"):
            check_format(first.value, given[1:])
    except dates.DateProblem as error:
        return ExpressionValueError(str(error), tree.column)
    except ExpressionError as error:
        error.column = error.column or tree.column
        return error
    return None


def _is_constant(tree: Tree) -> bool:
    if isinstance(tree, Name):
        return tree.name in CLASSES
    if isinstance(tree, Call) and tree.name in _VARYING:
        return False
    if isinstance(tree, New) and tree.name == "DateTime" and not tree.arguments:
        return False
    return all(_is_constant(child) for child in _children(tree))


def _children(tree: Tree) -> tuple[Tree, ...]:
    match tree:
        case Chain(operands=operands) | Logical(operands=operands):
            return operands
        case Ternary(condition=condition, then=then, otherwise=otherwise):
            return (condition, then, otherwise)
        case Unary(operand=operand):
            return (operand,)
        case Call(receiver=receiver, arguments=arguments):
            return () if isinstance(receiver, Name) and receiver.name == "params" else (receiver, *arguments)
        case Field(receiver=receiver):
            return (receiver,)
        case Index(receiver=receiver, index=index):
            return (receiver, index)
        case New(arguments=arguments):
            return arguments
    return ()
