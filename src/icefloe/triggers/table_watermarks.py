"""How far tables say themselves that they are complete, in a property; and what it says when that is no moment. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from icefloe.capture.completeness import VALID_THROUGH
from icefloe.workflow.matching import MomentError, moment

Properties = Callable[[str, str], str | None]
"""A table's property, as of the last look."""


@dataclass(frozen=True, slots=True)
class UnreadableWatermark:
    """A table whose property is no moment: whoever waits for its watermark would wait for ever."""

    table: str
    problem: str

    @property
    def message(self) -> str:
        return f"{self.table} does not say how far it is complete: its property {VALID_THROUGH}: {self.problem}"

    @property
    def hint(self) -> str:
        return f"ALTER TABLE {self.table} SET TBLPROPERTIES ('{VALID_THROUGH}' = '2026-03-01T00:00:00Z')"


def stated_watermark(table: str, properties: Properties) -> float | UnreadableWatermark | None:
    """None: the table says nothing, or has not been looked at."""
    text = properties(table, VALID_THROUGH)
    if text is None:
        return None
    try:
        return moment(text)
    except MomentError as error:
        return UnreadableWatermark(table, error.message)


def unreadable_watermarks(tables: Iterable[str], properties: Properties) -> list[UnreadableWatermark]:
    return [
        problem
        for table in sorted(tables)
        if isinstance(problem := stated_watermark(table, properties), UnreadableWatermark)
    ]
