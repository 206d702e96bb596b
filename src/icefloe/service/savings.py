"""``savings``: the ledger summed up by workflow, step and target, and over all of them."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from icefloe.planner.inputs import Size
from icefloe.planner.savings import ratio
from icefloe.store import savings as stored
from icefloe.store.database import Database
from icefloe.store.savings import SavingsTotal


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
    """``left_out_until``: batches up to then are on record as one sum, which begins before what was asked for; it is not counted."""

    lines: tuple[SavingsLine, ...]
    total: SavingsLine
    left_out_until: float | None = None

    def to_dict(self) -> dict[str, Any]:
        total = self.total.to_dict()
        for name in ("workflow_id", "step", "target"):
            del total[name]
        return {
            "lines": [line.to_dict() for line in self.lines],
            "total": total,
            "left_out_until": self.left_out_until,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Savings:
        return cls(tuple(_line_of(each) for each in data["lines"]), _line_of(data["total"]), data["left_out_until"])


def savings(database: Database, *, workflow_id: str | None = None, since: float | None = None) -> Savings:
    """Of the batches recorded at or after ``since``; without it of all there ever were, deleted ones too."""
    with database.read() as connection:
        earlier = stored.totals(connection, workflow_id)
        records = stored.listing(connection, workflow_id=workflow_id, since=since)
    left_out = [entry for entry in earlier if since is not None and entry.first_at < since <= entry.last_at]
    counted = [entry for entry in earlier if since is None or since <= entry.first_at]
    groups: dict[tuple[str, str, str], list[SavingsTotal]] = {}
    for entry in (*counted, *(SavingsTotal.of(record) for record in records)):
        groups.setdefault((entry.workflow_id, entry.step, entry.target), []).append(entry)
    lines = {key: _line(*key, groups[key]) for key in sorted(groups)}
    total = _line(
        "", "", "", sorted((entry for group in groups.values() for entry in group), key=lambda entry: entry.last_at)
    )
    return Savings(tuple(lines.values()), total, max((entry.last_at for entry in left_out), default=None))


@dataclass(frozen=True, slots=True)
class SavingsDay:
    """What batches of one day, in UTC, came to. ``seconds`` are those of ``timed`` of the ``runs``."""

    day: str
    runs: int
    read: Size
    instead: Size
    seconds: float
    timed: int

    def to_dict(self) -> dict[str, Any]:
        return {
            "day": self.day,
            "runs": self.runs,
            "read": _size(self.read),
            "instead": _size(self.instead),
            "seconds": self.seconds,
            "timed_runs": self.timed,
        }


def savings_by_day(
    database: Database, *, workflow_id: str | None = None, days: int = 90, now: float | None = None
) -> list[SavingsDay]:
    """The last so many days with batches that are on record one by one; the oldest first."""
    midnight = datetime.fromtimestamp(time.time() if now is None else now, UTC).replace(hour=0, minute=0, second=0)
    since = (midnight.replace(microsecond=0) - timedelta(days=days - 1)).timestamp()
    with database.read() as connection:
        found = stored.by_day(connection, workflow_id=workflow_id, since=since)
    return [
        SavingsDay(
            datetime.fromtimestamp(one.day * 86_400, UTC).date().isoformat(),
            one.runs,
            Size(one.read_files, one.read_rows, one.read_bytes),
            Size(one.instead_files, one.instead_rows, one.instead_bytes),
            one.seconds,
            one.timed,
        )
        for one in found
    ]


def _line(workflow_id: str, step: str, target: str, records: list[SavingsTotal]) -> SavingsLine:
    return SavingsLine(
        workflow_id=workflow_id,
        step=step,
        target=target,
        runs=sum(entry.runs for entry in records),
        read=_sum(Size(entry.read_files, entry.read_rows, entry.read_bytes) for entry in records),
        instead=_sum(Size(entry.instead_files, entry.instead_rows, entry.instead_bytes) for entry in records),
        written=_sum(Size(entry.written_files, entry.written_rows, entry.written_bytes) for entry in records),
        written_delete_files=sum(entry.written_delete_files for entry in records),
        seconds=sum(entry.seconds for entry in records),
        timed=sum(entry.timed for entry in records),
        compared_with=tuple(dict.fromkeys(text for entry in records for text in entry.compared_with)),
        notes=tuple(dict.fromkeys(note for entry in records for note in entry.notes)),
    )


def _line_of(data: Mapping[str, Any]) -> SavingsLine:
    read, instead, written = (
        Size(data[name]["files"], data[name]["rows"], data[name]["bytes"]) for name in ("read", "instead", "written")
    )
    names = {name: data.get(name, "") for name in ("workflow_id", "step", "target")}
    return SavingsLine(
        **names,
        runs=data["runs"],
        read=read,
        instead=instead,
        written=written,
        written_delete_files=data["written"]["delete_files"],
        seconds=data["seconds"],
        timed=data["timed_runs"],
        compared_with=tuple(data["compared_with"]),
        notes=tuple(data["notes"]),
    )


def _sum(sizes: Iterable[Size]) -> Size:
    total = Size()
    for size in sizes:
        total += size
    return total


def _size(size: Size) -> dict[str, int]:
    return {"files": size.files, "rows": size.rows, "bytes": size.bytes}
