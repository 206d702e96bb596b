"""What can go wrong with an expression. Every outcome of parsing and evaluating is a value or one of these."""

from __future__ import annotations

from icefloe.errors import UsageError


class ExpressionError(UsageError):
    """``column`` counts from 1 in the expression's text; None when the whole of it is meant."""

    code = "expression.invalid"

    def __init__(
        self, message: str, column: int | None = None, *, hint: str | None = None, where: str | None = None
    ) -> None:
        super().__init__(message, hint=hint, where=where)
        self.column = column

    def __str__(self) -> str:
        place = f" (column {self.column} of the expression)" if self.column is not None else ""
        return f"{super().__str__()}{place}"


class ExpressionSyntaxError(ExpressionError):
    """The text is no expression."""

    code = "expression.syntax"


class ExpressionTypeError(ExpressionError):
    """An operator or method does not go with the types it is given, or does not exist."""

    code = "expression.type"


class ExpressionValueError(ExpressionError):
    """The types are right and the value is not: division by zero, an index out of bounds, an unknown parameter."""

    code = "expression.value"


class ExpressionLimitError(ExpressionError):
    """It is too long, too deep, takes too long, or builds something too large."""

    code = "expression.limit"
