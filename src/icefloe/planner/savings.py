"""The arithmetic of the savings ledger: what a planned write read and wrote, against what it stands in for would have read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from icefloe.planner.inputs import Size

_UNITS = ("B", "KB", "MB", "GB", "TB", "PB")


@dataclass(frozen=True, slots=True)
class SavingsEstimate:
    """Counted before the write. ``read`` is what the plan's statements read; ``instead`` what ``compared_with`` would have read."""

    pattern: str
    read: Size
    instead: Size
    compared_with: str
    notes: tuple[str, ...] = ()
    rechecked: bool = False
    """What is written is read again once, to look for keys that stand twice; ``read`` has only the part that was there before."""

    def to_json(self) -> dict[str, Any]:
        return {
            "pattern": self.pattern,
            "read": _triple(self.read),
            "instead": _triple(self.instead),
            "compared_with": self.compared_with,
            "notes": list(self.notes),
            "rechecked": self.rechecked,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> SavingsEstimate:
        return cls(
            data["pattern"],
            Size(*data["read"]),
            Size(*data["instead"]),
            data["compared_with"],
            tuple(data["notes"]),
            data["rechecked"],
        )

    def settled(self, written: WriteTotals) -> SavingsEstimate:
        """With the second look at what was written."""
        if not self.rechecked:
            return self
        return SavingsEstimate(
            self.pattern, self.read + written.size, self.instead, self.compared_with, self.notes, rechecked=False
        )


@dataclass(frozen=True, slots=True)
class WriteTotals:
    """``size`` has all new files, delete files too; its rows are those of data files."""

    size: Size = field(default_factory=Size)
    delete_files: int = 0

    @classmethod
    def of(cls, summaries: Iterable[Mapping[str, str]]) -> WriteTotals:
        """By the summaries of the snapshots that a batch published."""
        total, deletes = Size(), 0
        for summary in summaries:
            own = _number(summary, "added-delete-files")
            files = _number(summary, "added-data-files") + own
            total += Size(files, _number(summary, "added-records"), _number(summary, "added-files-size"))
            deletes += own
        return cls(total, deletes)


def joined(summaries: Iterable[Mapping[str, str]]) -> Size:
    """What commits that only rewrite had to read, by their summaries: what they replaced."""
    total = Size()
    for summary in summaries:
        files = _number(summary, "deleted-data-files") + _number(summary, "removed-delete-files")
        total += Size(files, _number(summary, "deleted-records"), _number(summary, "removed-files-size"))
    return total


def ratio(read: float, instead: float) -> float | None:
    """Of what would have been read, how much was; ``None`` where nothing would have been."""
    return read / instead if instead else None


def line(read: int, instead: int) -> str:
    """One line for a log: ``read 12.0 MB of 1.4 GB, 0.9 %``."""
    return f"read {bytes_text(read)} of {bytes_text(instead)}{_share(ratio(read, instead))}"


def percent(part: float | None) -> str:
    """A share for people. What is small is not rounded to nothing."""
    if part is None:
        return "-"
    number = part * 100
    return f"{number:.0f} %" if number >= 10 else f"{number:.1f} %" if number >= 0.05 or number == 0 else "< 0.1 %"


def bytes_text(size: float) -> str:
    for unit in _UNITS:
        if size < 1000 or unit == _UNITS[-1]:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    raise AssertionError("unreachable")


def _share(part: float | None) -> str:
    return "" if part is None else f", {percent(part)}"


def _triple(size: Size) -> list[int]:
    return [size.files, size.rows, size.bytes]


def _number(summary: Mapping[str, str], name: str) -> int:
    text = str(summary.get(name, ""))
    return int(text) if text.isdigit() else 0
