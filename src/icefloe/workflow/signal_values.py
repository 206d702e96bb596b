"""What a published signal may be: its name, its id and its parameters. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from icefloe.errors import UsageError
from icefloe.workflow.values import Mismatch, clip, conform, plain, type_of

LONGEST_NAME = 200
MOST_PARAMS = 100


class SignalError(UsageError):
    """A signal that cannot be published."""

    code = "signal.invalid"


def checked_name(text: str, what: str) -> str:
    """A name or id as it is: not empty, not endless, and nothing in it that a terminal or a database would stumble over."""
    if not text.strip():
        raise SignalError(f"{what} must not be empty")
    if len(text) > LONGEST_NAME:
        raise SignalError(f"{what} has {len(text)} characters, {LONGEST_NAME} are allowed")
    if not text.isprintable():
        raise SignalError(f"{what} has unprintable characters in it: {clip(text)!a}")
    return text


def checked_params(params: Mapping[str, Any]) -> dict[str, Any]:
    """Texts, numbers, true, false and lists of one of these: what definitions can compare and steps can read."""
    if len(params) > MOST_PARAMS:
        raise SignalError(f"a signal has {len(params)} parameters, {MOST_PARAMS} are allowed")
    return {checked_name(name, "a parameter's name"): _value(name, value) for name, value in params.items()}


def _value(name: str, value: Any) -> object:
    if isinstance(value, Mapping):
        raise SignalError(f"parameter {name}: a signal's parameter is a text, a number, true, false or a list of these")
    try:
        return plain(conform(type_of(value), value))
    except Mismatch as error:
        raise SignalError(f"parameter {name}: {error}") from None
