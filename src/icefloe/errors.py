"""The one tree of errors.

Every error that Icefloe raises on purpose is an :class:`IcefloeError`: it has a stable ``code`` that scripts may match
on, says whether trying again soon can help (``retryable``) or cannot at all (``fatal``), where it happened (``where``: a file with line and column, a
table, a run and step) and what to type next (``hint``).

An error class belongs to the package that raises it when only that package raises it; here stand the base and the kinds
that several packages share.
"""

from __future__ import annotations

from typing import ClassVar


class IcefloeError(Exception):
    """Base of all errors. Subclasses set ``code``, ``retryable``, ``fatal`` and ``exit_code`` on the class."""

    code: ClassVar[str] = "error"
    retryable: ClassVar[bool] = False
    fatal: ClassVar[bool] = False
    """The same input gives the same error: a step that fails with it is not tried again."""
    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, *, hint: str | None = None, where: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.where = where

    def __str__(self) -> str:
        place = f"{self.where}: " if self.where else ""
        return f"{place}{self.message}"

    def to_dict(self) -> dict[str, object]:
        """What ``--output json`` and REST print."""
        return {
            "code": self.code,
            "message": self.message,
            "where": self.where,
            "hint": self.hint,
            "retryable": self.retryable,
            "fatal": self.fatal,
        }


class UsageError(IcefloeError):
    """What the caller asked for cannot be meant: wrong argument, unknown name, malformed input."""

    code = "usage"
    fatal = True
    exit_code = 2


class ConfigError(UsageError):
    """The configuration is missing, malformed or contradicts itself."""

    code = "config.invalid"


class NotFoundError(UsageError):
    """Something named by the caller does not exist."""

    code = "not-found"
    fatal = False  # it may come to exist


class ConflictError(IcefloeError):
    """Somebody else was faster; the caller's view is out of date. Nothing was written."""

    code = "conflict"
    retryable = True


class UnreachableError(IcefloeError):
    """A service that is needed (catalog, database, Spark) does not answer."""

    code = "unreachable"
    retryable = True
    exit_code = 3


class MissingComponentError(IcefloeError):
    """A program or package that this needs is not installed; the hint says how to get it."""

    code = "component.missing"
    exit_code = 3
