"""What comes of looking at a trigger, in words: the same value starts a run and answers ``icefloe why``."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class VerdictKind(StrEnum):
    START = "start"
    WAIT = "wait"  # it will start by itself: something must pass first
    NOTHING = "nothing"  # there is nothing to start it for
    HELD = "held"  # somebody must do something


@dataclass(frozen=True, slots=True)
class Verdict:
    """``occasion`` names what the run is started for: one occasion, one run. ``after``: seconds until it is worth a look."""

    kind: VerdictKind
    reason: str
    hint: str | None = None
    occasion: str | None = None
    after: float | None = None
    details: dict[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        return {
            "verdict": self.kind.value,
            "reason": self.reason,
            "hint": self.hint,
            "occasion": self.occasion,
            "in_seconds": None if self.after is None else round(self.after, 1),
            **self.details,
        }


def nothing(reason: str, **details: Any) -> Verdict:
    return Verdict(VerdictKind.NOTHING, reason, details=details)


def wait(reason: str, after: float | None = None, **details: Any) -> Verdict:
    return Verdict(VerdictKind.WAIT, reason, after=after, details=details)


def blocked(reason: str, hint: str | None = None, **details: Any) -> Verdict:
    return Verdict(VerdictKind.HELD, reason, hint, details=details)
