"""What the planner refuses, each with its own code. All of it is found before anything is published."""

from __future__ import annotations

from icefloe.errors import IcefloeError, UsageError


class NotASelectError(UsageError):
    """``write:`` needs one SELECT: not several statements, none that writes, none that only sets something."""

    code = "planner.not-a-select"


class KeysMissingError(UsageError):
    """``write.keys`` names a column that the SELECT does not give."""

    code = "planner.keys-missing"


class KeysNotUniqueError(UsageError):
    """Two rows of the result have the same keys."""

    code = "planner.keys-not-unique"


class UnsoundPatternError(UsageError):
    """The pattern that was asked for would give a wrong result for this SELECT or this change."""

    code = "planner.unsound-pattern"


class NotRepeatableError(UsageError):
    """Shadow mode was asked for, and the SELECT gives something else at each run."""

    code = "planner.shadow-not-repeatable"


class ShadowMismatchError(IcefloeError):
    """What was written is not what the SELECT gives. ``detail`` shows rows that differ."""

    code = "planner.shadow-mismatch"
    fatal = True

    def __init__(self, message: str, *, where: str, hint: str, detail: str) -> None:
        super().__init__(message, where=where, hint=hint)
        self.detail = detail


class TargetMismatchError(UsageError):
    """The target has other columns or types than the SELECT gives."""

    code = "planner.target-mismatch"


class LogicChangedError(UsageError):
    """The SELECT is not the one that has filled the target, and nobody has said what that means for the rows that are there."""

    code = "planner.logic-changed"


class RangeError(UsageError):
    """The range that is to be written anew has no sense for this SELECT or this target."""

    code = "planner.range"
