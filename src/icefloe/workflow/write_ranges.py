"""What a planned write computes anew, whatever has changed: ``event_day 2026-01-01..2026-01-31``, ``event_day last 14d``, ``all``.

Only the form is read here. Values are texts until the column's type is known.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from icefloe.workflow import lookbacks
from icefloe.workflow.lookbacks import Lookback
from icefloe.workflow.values import clip

PARAMETER = "WRITE_RANGE"
"""The run parameter that says it for one run."""
FORMS = "COLUMN FROM..TO (both belong to it, one may be left out), COLUMN last 14d, COLUMN last 14, or all"
_COLUMN = r"(?P<column>`(?:[^`]|``)+`|[^\s`]+)"
_VALUE = r"'(?:[^']|'')*'|[^']*?"
_LAST = re.compile(rf"{_COLUMN}\s+last\s+(?P<amount>\S.*)", re.IGNORECASE | re.DOTALL)
_BETWEEN = re.compile(rf"{_COLUMN}\s+(?P<first>{_VALUE})\s*\.\.\s*(?P<last>{_VALUE})", re.DOTALL)


@dataclass(frozen=True, slots=True)
class WriteRange:
    """``column`` None: everything. Else from ``first`` to ``last``, or what ``lookback`` says. ``text`` is all of it as people wrote it."""

    text: str
    column: str | None = None
    first: str | None = None
    last: str | None = None
    lookback: Lookback | None = None

    @property
    def everything(self) -> bool:
        return self.column is None


def parse(text: str) -> WriteRange:
    """Raises ValueError with a reason fit for the user."""
    words = text.strip()
    if words.lower() == "all":
        return WriteRange(words)
    found = _LAST.fullmatch(words)
    if found is not None and ".." not in found["amount"]:
        return WriteRange(words, _plain(found["column"], "`"), lookback=lookbacks.parse(found["amount"].strip()))
    found = _BETWEEN.fullmatch(words)
    if found is None:
        raise ValueError(f"'{clip(words)}' is no range: write {FORMS}")
    first, last = (_value(found[side]) for side in ("first", "last"))
    if first is None and last is None:
        raise ValueError(f"'{clip(words)}' has neither FROM nor TO: write one of them, or all")
    return WriteRange(words, _plain(found["column"], "`"), first, last)


def _value(text: str) -> str | None:
    return _plain(text, "'") if text else None


def _plain(text: str, mark: str) -> str:
    if len(text) > 1 and text.startswith(mark) and text.endswith(mark):
        return text[1:-1].replace(mark * 2, mark)
    return text
