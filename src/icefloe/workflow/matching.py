"""Whether a signal's parameters satisfy the conditions on them, and moments as definitions write them. Pure."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from icefloe.errors import UsageError
from icefloe.workflow.model import MatchOperator, SignalMatch
from icefloe.workflow.resolution import resolve_params
from icefloe.workflow.scope import Scope
from icefloe.workflow.values import clip, plain

_COMPARE: dict[MatchOperator, Callable[[Any, Any], bool]] = {
    MatchOperator.EQ: operator.eq,
    MatchOperator.LT: operator.lt,
    MatchOperator.LE: operator.le,
    MatchOperator.GT: operator.gt,
    MatchOperator.GE: operator.ge,
}


def wanted(match: Sequence[SignalMatch], scope: Scope) -> list[tuple[str, MatchOperator, Any]]:
    """The conditions with their values filled in."""
    return [
        (one.param.name, one.operator, plain(resolve_params([one.param], scope)[one.param.name].value)) for one in match
    ]


def satisfies(params: Mapping[str, Any], conditions: Sequence[tuple[str, MatchOperator, Any]]) -> bool:
    """Every condition holds. A parameter that is missing, or of another kind, satisfies none."""
    return all(name in params and _compare(params[name], asked, value) for name, asked, value in conditions)


def _compare(have: Any, asked: MatchOperator, value: Any) -> bool:
    if isinstance(have, bool) != isinstance(value, bool):
        return False
    numbers = isinstance(have, int | float) and isinstance(value, int | float)
    if asked is not MatchOperator.EQ and not numbers and not (isinstance(have, str) and isinstance(value, str)):
        return False
    if type(have) is not type(value) and not numbers:
        return False
    return bool(_COMPARE[asked](have, value))


class MomentError(UsageError):
    """A text that should be a moment is none."""

    code = "watermark.moment"


def moment(value: object) -> float:
    """Seconds since the epoch of ``2026-03-01``, ``2026-03-01T06:00:00+01:00``, ``20260301`` or milliseconds. Without an
    offset it is UTC."""
    if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e15:  # not NaN either
        value = str(int(value))
    text = str(value).strip()
    if re.fullmatch(r"\d{8}", text, re.ASCII):
        text = f"{text[:4]}-{text[4:6]}-{text[6:]}"
    elif re.fullmatch(r"\d{12,14}", text, re.ASCII):
        return int(text) / 1000
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise MomentError(
            f"'{clip(text)}' is no moment", hint="2026-03-01, 2026-03-01T06:00:00Z, 20260301, or milliseconds"
        ) from None
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
