"""Expressions: Maestro's look, a grammar and an interpreter of our own, and nothing reachable beyond ``library.py``.

``parse`` text to a tree, ``check`` its types before anything runs, ``evaluate`` it in a scope.
"""

from icefloe.workflow.expressions.checker import Checked, check
from icefloe.workflow.expressions.errors import (
    ExpressionError,
    ExpressionLimitError,
    ExpressionSyntaxError,
    ExpressionTypeError,
    ExpressionValueError,
)
from icefloe.workflow.expressions.interpreter import evaluate, evaluate_condition
from icefloe.workflow.expressions.tree import parse

__all__ = [
    "Checked",
    "ExpressionError",
    "ExpressionLimitError",
    "ExpressionSyntaxError",
    "ExpressionTypeError",
    "ExpressionValueError",
    "check",
    "evaluate",
    "evaluate_condition",
    "parse",
]
