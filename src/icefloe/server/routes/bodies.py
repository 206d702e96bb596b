"""What bodies and parameters may hold: texts that a database can store, numbers that a definition can compare."""

from __future__ import annotations

import math
from typing import Annotated, Any

from fastapi import Depends, Query, Request
from pydantic import AfterValidator, BaseModel, ConfigDict, model_validator

from icefloe.server.answers import RequestError

DEEPEST = 20
_MOST = 2**63


class Body(BaseModel):
    """The body of a request. What it does not know is refused."""

    model_config = ConfigDict(extra="forbid", strict=True)

    @model_validator(mode="before")
    @classmethod
    def _storable(cls, data: Any) -> Any:
        _check(data, 0)
        return data


def _check(value: Any, depth: int) -> None:
    if depth > DEEPEST:
        raise ValueError(f"is nested deeper than {DEEPEST} levels")
    if isinstance(value, str):
        storable(value)
    elif isinstance(value, bool) or value is None:
        return
    elif isinstance(value, float) and not math.isfinite(value):
        raise ValueError("has a number that is not finite")
    elif isinstance(value, int) and not -_MOST <= value < _MOST:
        raise ValueError("has a number of more than 64 bits")
    elif isinstance(value, list):
        for item in value:
            _check(item, depth + 1)
    elif isinstance(value, dict):
        for name, item in value.items():
            storable(str(name))
            _check(item, depth + 1)


def storable(text: str) -> str:
    """Neither database takes half a surrogate pair, and PostgreSQL no NUL."""
    if "\0" in text:
        raise ValueError("has a NUL character in it")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("has half a surrogate pair in it") from None
    return text


def _checked_address(request: Request) -> None:
    for name, text in (*request.path_params.items(), *request.query_params.multi_items()):
        try:
            storable(str(name))
            storable(str(text))
        except ValueError as error:
            raise RequestError(str(error), where=str(name)) from None


CheckedAddress = Depends(_checked_address)
"""On every route: what stands in path and query."""


def _moment(at: float) -> float:
    if not math.isfinite(at) or not -1e12 < at < 1e12:
        raise ValueError("must be seconds since 1970")
    return at


Moment = Annotated[
    float | None,
    Query(description="Seconds since 1970.", examples=[1767225600]),
    AfterValidator(lambda at: at if at is None else _moment(at)),
]
