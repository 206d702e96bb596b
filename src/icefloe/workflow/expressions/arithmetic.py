"""Numbers as Java has them: 64-bit integers that wrap around, division towards zero, doubles printed as Java prints."""

from __future__ import annotations

import math

from icefloe.workflow.values import LONG_MAX, LONG_MIN


def wrap(value: int) -> int:
    """Two's complement in 64 bits, as Java's ``long`` overflows."""
    if LONG_MIN <= value <= LONG_MAX:
        return value
    return (value + 2**63) % 2**64 - 2**63


def divide(left: int, right: int) -> int:
    """Towards zero. Raises ZeroDivisionError."""
    quotient = abs(left) // abs(right)
    return wrap(quotient if (left < 0) == (right < 0) else -quotient)


def remainder(left: int, right: int) -> int:
    """With the sign of the dividend. Raises ZeroDivisionError."""
    result = abs(left) % abs(right)
    return -result if left < 0 else result


def compute(operator: str, left: int | float, right: int | float) -> int | float:
    """``left operator right``. Raises ZeroDivisionError, OverflowError (a result that is no finite number)."""
    if isinstance(left, int) and isinstance(right, int):
        if operator == "+":
            return wrap(left + right)
        if operator == "-":
            return wrap(left - right)
        if operator == "*":
            return wrap(left * right)
        return divide(left, right) if operator == "/" else remainder(left, right)
    one, other = float(left), float(right)
    if operator == "+":
        result = one + other
    elif operator == "-":
        result = one - other
    elif operator == "*":
        result = one * other
    elif operator == "%" and other == 0:  # fmod calls it a domain error
        raise ZeroDivisionError
    else:
        result = one / other if operator == "/" else math.fmod(one, other)
    if not math.isfinite(result):
        raise OverflowError
    return result


def double_text(value: float) -> str:
    """As Java's Double.toString: 1.5, 100.0, 1.0E10."""
    if value == 0:
        return "-0.0" if math.copysign(1, value) < 0 else "0.0"
    sign = "-" if value < 0 else ""
    exponent = int(f"{abs(value):.16e}".partition("e")[2])
    digits = repr(abs(value)).split("e")[0].replace(".", "").strip("0") or "0"
    if -3 <= exponent < 7:
        if exponent >= 0:
            whole, fraction = digits[: exponent + 1].ljust(exponent + 1, "0"), digits[exponent + 1 :]
        else:
            whole, fraction = "0", "0" * (-exponent - 1) + digits
        return f"{sign}{whole}.{fraction or '0'}"
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{exponent}"
