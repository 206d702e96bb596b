"""``savings``: the ledger summed up by workflow, step and target, and over all of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from icefloe.planner.inputs import Size
from icefloe.planner.savings import ratio
from icefloe.store import savings as stored
from icefloe.store.database import Database
from icefloe.store.savings import SavingsRecord


@dataclass(frozen=True, slots=True)
class SavingsLine:
    """``seconds`` is the measured time of the writes, as far as it is known: of ``timed`` of the ``runs``."""

    workflow_id: str
    step: str
    target: str
    runs: int
    read: Size
    instead: Size
    written: Size
    written_delete_files: int
    seconds: float
    timed: int
    compared_with: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def ratio(self) -> float | None:
        """Bytes read of the bytes that would have been read."""
        return ratio(self.read.bytes, self.instead.bytes)

    def to_dict(self) -> dict[str, Any]:
        return {
            "workflow_id": self.workflow_id,
            "step": self.step,
            "target": self.target,
            "runs": self.runs,
            "read": _size(self.read),
            "instead": _size(self.instead),
            "written": {**_size(self.written), "delete_files": self.written_delete_files},
            "ratio": self.ratio,
            "seconds": self.seconds,
            "timed_runs": self.timed,
            "compared_with": list(self.compared_with),
            "notes": list(self.notes),
        }


@dataclass(frozen=True, slots=True)
class Savings:
    lines: tuple[SavingsLine, ...]
    total: SavingsLine

    def to_dict(self) -> dict[str, Any]:
        total = self.total.to_dict()
        for name in ("workflow_id", "step", "target"):
            del total[name]
        return {"lines": [line.to_dict() for line in self.lines], "total": total}


def savings(database: Database, *, workflow_id: str | None = None, since: float | None = None) -> Savings:
    """Of the batches recorded at or after ``since``."""
    with database.read() as connection:
        records = stored.listing(connection, workflow_id=workflow_id, since=since)
    groups: dict[tuple[str, str, str], list[SavingsRecord]] = {}
    for one in records:
        groups.setdefault((one.workflow_id, one.step, one.target), []).append(one)
    return Savings(tuple(_line(*key, groups[key]) for key in sorted(groups)), _line("", "", "", records))


def _line(workflow_id: str, step: str, target: str, records: list[SavingsRecord]) -> SavingsLine:
    timed = [one.seconds for one in records if one.seconds is not None]
    return SavingsLine(
        workflow_id=workflow_id,
        step=step,
        target=target,
        runs=len(records),
        read=_sum(Size(one.read_files, one.read_rows, one.read_bytes) for one in records),
        instead=_sum(Size(one.instead_files, one.instead_rows, one.instead_bytes) for one in records),
        written=_sum(Size(one.written_files, one.written_rows, one.written_bytes) for one in records),
        written_delete_files=sum(one.written_delete_files for one in records),
        seconds=sum(timed),
        timed=len(timed),
        compared_with=tuple(dict.fromkeys(one.compared_with for one in records)),
        notes=tuple(dict.fromkeys(note for one in records for note in one.notes)),
    )


def _sum(sizes: Iterable[Size]) -> Size:
    total = Size()
    for size in sizes:
        total += size
    return total


def _size(size: Size) -> dict[str, int]:
    return {"files": size.files, "rows": size.rows, "bytes": size.bytes}
