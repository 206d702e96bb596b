"""Types before anything runs: what can be known of an expression from its text and its parameters' types.

The checker walks the whole tree, collects every finding, and notes which parameters and steps are referred to, so that
unknown ones are found at push. What is only known at run time (another step's result) has kind ANY and fits everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from icefloe.workflow.expressions import kinds
from icefloe.workflow.expressions.constants import constant_errors, pattern_error
from icefloe.workflow.expressions.errors import ExpressionError, ExpressionTypeError, ExpressionValueError
from icefloe.workflow.expressions.interpreter import (
    mismatch,
    unknown_class,
    unknown_field,
    unknown_method,
    wrong_arguments,
)
from icefloe.workflow.expressions.library import ARRAY_ELEMENTS, CLASSES, CONSTRUCTORS, FIELDS, METHODS, Function
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
from icefloe.workflow.values import ParamType


@dataclass(frozen=True, slots=True)
class ParamsCall:
    """A call of a method of ``params``; ``words`` are its arguments as far as they are texts, else None."""

    method: str
    words: tuple[str | None, ...]
    column: int


@dataclass(slots=True)
class Checked:
    """What is known of an expression. ``kind`` is a name from ``kinds.py``."""

    kind: str = kinds.ANY
    problems: list[ExpressionError] = field(default_factory=list)
    names: dict[str, int] = field(default_factory=dict)  # parameters referred to -> column
    steps: dict[tuple[str, str], int] = field(default_factory=dict)  # (step, parameter) -> column
    optional: set[str] = field(default_factory=set)  # asked for with containsKey: need not exist
    fields: dict[str, int] = field(default_factory=dict)  # of the present step -> column
    calls: list[ParamsCall] = field(default_factory=list)  # of params.getFrom…


def check(expression: str, types: Mapping[str, ParamType]) -> Checked:
    """Raises :class:`ExpressionError` only for what cannot be parsed; type findings are in the result."""
    checker = _Checker(types)
    tree = parse(expression)
    checker.found.kind = checker.infer(tree)
    if not checker.found.problems:
        checker.found.problems.extend(constant_errors(tree))
    return checker.found


@dataclass(slots=True)
class _Checker:
    types: Mapping[str, ParamType]
    found: Checked = field(default_factory=Checked)

    def problem(self, error: ExpressionError, column: int) -> str:
        error.column = error.column or column
        self.found.problems.append(error)
        return kinds.ANY

    def infer(self, tree: Tree) -> str:
        match tree:
            case Literal(value=value):
                return kinds.kind_of(value)
            case Name(name=name):
                return self._name(name, tree.column)
            case Chain():
                return self._chain(tree)
            case Logical(operator=operator, operands=operands):
                for operand in operands:
                    self._boolean(operand, operator)
                return kinds.BOOLEAN
            case Ternary(condition=condition, then=then, otherwise=otherwise):
                self._boolean(condition, "?")
                one, other = self.infer(then), self.infer(otherwise)
                return one if one == other else kinds.ANY
            case Unary(operator=operator, operand=operand):
                return self._unary(operator, operand)
            case Call():
                return self._call(tree)
            case Field(receiver=receiver, name=name):
                return self._field(receiver, name, tree.column)
            case Index():
                return self._index(tree)
            case New():
                return self._new(tree)

    def _name(self, name: str, column: int) -> str:
        if name == "params":
            return kinds.PARAMS
        if name in CLASSES:
            return self.problem(ExpressionTypeError(f"'{name}' is a class, not a value"), column)
        self.found.names.setdefault(name, column)
        known = self.types.get(name)
        return kinds.of_param(known) if known is not None else kinds.ANY

    def _boolean(self, tree: Tree, operator: str) -> None:
        kind = self.infer(tree)
        if kind not in (kinds.BOOLEAN, kinds.ANY):
            self.problem(ExpressionTypeError(f"'{operator}' needs true or false, this is a {kind}"), tree.column)

    def _unary(self, operator: str, operand: Tree) -> str:
        if operator == "!":
            self._boolean(operand, "!")
            return kinds.BOOLEAN
        kind = self.infer(operand)
        if not kinds.fits(kind, kinds.NUMBER):
            return self.problem(ExpressionTypeError(f"'{operator}' needs a number, this is a {kind}"), operand.column)
        return kind

    def _chain(self, tree: Chain) -> str:
        left = self.infer(tree.operands[0])
        for operator, operand, column in zip(tree.operators, tree.operands[1:], tree.columns, strict=True):
            right = self.infer(operand)
            if operator in "/%" and isinstance(operand, Literal) and operand.value == 0 and left == kinds.LONG:
                self.problem(ExpressionValueError("division by zero"), column)
            left = self._binary(operator, left, right, column)
        return left

    def _binary(self, operator: str, left: str, right: str, column: int) -> str:
        both_numbers = kinds.fits(left, kinds.NUMBER) and kinds.fits(right, kinds.NUMBER)
        if operator in ("==", "!="):
            related = left == right or both_numbers or {kinds.ANY, kinds.NULL} & {left, right}
            if not related and not (kinds.is_array(left) and kinds.is_array(right)):
                self.problem(mismatch(operator, left, right), column)
            return kinds.BOOLEAN
        if operator == "+" and kinds.STRING in (left, right):
            return kinds.STRING
        if not both_numbers:
            return self.problem(mismatch(operator, left, right), column)
        if operator in ("<", "<=", ">", ">="):
            return kinds.BOOLEAN
        if kinds.ANY in (left, right):
            return kinds.ANY
        return kinds.DOUBLE if kinds.DOUBLE in (left, right) else kinds.LONG

    def _owner(self, receiver: Tree) -> str:
        if isinstance(receiver, Name) and receiver.name in CLASSES:
            return receiver.name
        return self.infer(receiver)

    def _call(self, tree: Call) -> str:
        is_class = isinstance(tree.receiver, Name) and tree.receiver.name in CLASSES
        owner = self._owner(tree.receiver)
        given = [self.infer(argument) for argument in tree.arguments]
        if owner == kinds.PARAMS:
            self._reference(tree)
        wrong = pattern_error(tree, owner, given)
        if wrong is not None:
            return self.problem(wrong, tree.column)
        if owner == kinds.ANY and not is_class:
            if not any(method == tree.name for _, method in METHODS):
                return self.problem(unknown_method("a value", tree.name), tree.column)
            return kinds.ANY
        functions = METHODS.get((owner, tree.name))
        if functions is None:
            return self.problem(unknown_method(owner, tree.name), tree.column)
        kind = self._apply(functions, f"{owner}.{tree.name}", given, tree.column)
        return self._known(tree, kind)

    def _known(self, tree: Call, kind: str) -> str:
        """``params.get('x')`` has the type of x."""
        if kind == kinds.ANY and tree.name == "get" and tree.arguments and isinstance(tree.arguments[0], Literal):
            known = self.types.get(str(tree.arguments[0].value))
            if known is not None and isinstance(tree.receiver, Name) and tree.receiver.name == "params":
                return kinds.of_param(known)
        return kind

    def _reference(self, tree: Call) -> None:
        """Notes what ``params.get(…)`` and ``params.getFromStep(…)`` refer to when it stands there as text."""
        words = [argument.value for argument in tree.arguments if isinstance(argument, Literal)]
        texts = [argument.value if isinstance(argument, Literal) else None for argument in tree.arguments]
        given = tuple(text if isinstance(text, str) else None for text in texts)
        self.found.calls.append(ParamsCall(tree.name, given, tree.column))
        if len(words) != len(tree.arguments) or not all(isinstance(word, str) for word in words):
            return
        if tree.name == "get" and len(words) == 1:
            self.found.names.setdefault(str(words[0]), tree.column)
        elif tree.name == "containsKey" and len(words) == 1:
            self.found.optional.add(str(words[0]))
        elif tree.name == "getFromStep" and len(words) == 2:
            self.found.steps.setdefault((str(words[0]), str(words[1])), tree.column)
        elif tree.name == "getFromStep" and len(words) == 1:
            self.found.fields.setdefault(str(words[0]), tree.column)
        elif tree.name in ("getFromForeach", "getFromSubworkflow") and len(words) == 3:
            self.found.steps.setdefault((str(words[0]), ""), tree.column)

    def _apply(self, functions: tuple[Function, ...], name: str, given: list[str], column: int) -> str:
        fitting = [
            function
            for function in functions
            if function.arity(len(given)) and all(kinds.fits(kind, function.wanted(i)) for i, kind in enumerate(given))
        ]
        if fitting:
            gives = {function.gives for function in fitting}
            return fitting[0].gives if kinds.ANY not in given or len(gives) == 1 else kinds.ANY
        return self.problem(wrong_arguments(name, functions, given), column)

    def _field(self, receiver: Tree, name: str, column: int) -> str:
        owner = self._owner(receiver)
        if owner == kinds.ANY:
            known = {field for _, field in FIELDS}
            return kinds.ANY if name in known else self.problem(unknown_field("a value", name), column)
        found = FIELDS.get((owner, name))
        return found[0] if found is not None else self.problem(unknown_field(owner, name), column)

    def _index(self, tree: Index) -> str:
        receiver, index = self.infer(tree.receiver), self.infer(tree.index)
        if receiver in (kinds.PARAMS, kinds.MAP):
            if not kinds.fits(index, kinds.STRING):
                self.problem(ExpressionTypeError(f"the index of a map is a STRING, this is a {index}"), tree.column)
            if receiver == kinds.PARAMS and isinstance(tree.index, Literal) and isinstance(tree.index.value, str):
                return self._name(tree.index.value, tree.column)
            return kinds.ANY
        if receiver == kinds.ANY:
            return kinds.ANY
        if not kinds.is_array(receiver):
            return self.problem(ExpressionTypeError(f"a {receiver} has no elements"), tree.column)
        if not kinds.fits(index, kinds.LONG):
            self.problem(ExpressionTypeError(f"the index of an array is a LONG, this is a {index}"), tree.column)
        return kinds.element_of(receiver)

    def _new(self, tree: New) -> str:
        given = [self.infer(argument) for argument in tree.arguments]
        if not tree.is_array:
            functions = CONSTRUCTORS.get(tree.name)
            if functions is None:
                return self.problem(unknown_class(tree.name), tree.column)
            return self._apply(functions, f"new {tree.name}", given, tree.column)
        element = ARRAY_ELEMENTS.get(tree.name)
        if element is None:
            return self.problem(unknown_class(tree.name), tree.column)
        for kind in given:
            if not kinds.fits(kind, element):
                self.problem(ExpressionTypeError(f"an array of {element} cannot hold a {kind}"), tree.column)
        return kinds.ARRAYS[element]
