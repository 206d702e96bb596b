"""Who acts, and through what: for the audit record, and for what it causes.

The command line, REST and pages each say it once (:func:`acting`), around whatever they call. The service layer asks when it writes a
record, so no verb can be reached without being put down to somebody.
"""

from __future__ import annotations

import getpass
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Literal, TypeAlias

from icefloe import suppressed

Via: TypeAlias = Literal["cli", "rest", "page", "python"]


@dataclass(frozen=True, slots=True)
class _Acting:
    who: str | None
    via: Via


_NOBODY = _Acting(None, "python")
_acting: ContextVar[_Acting] = ContextVar("icefloe_acting", default=_NOBODY)


@contextmanager
def acting(name: str | None, through: Via) -> Iterator[None]:
    """Whatever is done inside is this person's or program's deed. None: the user of this process."""
    before = _acting.set(_Acting(name, through))
    try:
        yield
    finally:
        _acting.reset(before)


def who(by: str | None = None) -> str:
    """``by`` if somebody says so, else who acts now, else the user of this process."""
    return by or _acting.get().who or current_user()


def via() -> Via:
    return _acting.get().via


def current_user() -> str:
    with suppressed.errors("current_user", KeyError, ImportError, OSError):
        return getpass.getuser()
    return "unknown"
