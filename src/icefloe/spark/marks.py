"""The mark that published snapshots carry, and what the marks in a target's history say about the work at hand.

A mark names a piece of work, not an attempt: the consumers and ranges that a step works on and the step's place, so that every
retry, restart and later run that takes the same capture over has the same mark. It does not contain the capture's id: when the
state database is restored from an old backup the same range is captured again under another id, and is still the same work.

Each consumer's version is kept beside it. It goes up with every commit and every rewind, and so tells a batch that was
consumed before a rewind (a lower version: to be consumed again) from one that a restored state database has forgotten (the
same or a higher version: never to be consumed again).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from icefloe.errors import IcefloeError
from icefloe.lake.metadata import Snapshot

MARK = "icefloe.mark"
STATEMENT = "icefloe.statement"
CREATED = "icefloe.created"
"""The mark of a table that was made and filled by one statement (CREATE TABLE AS): it says nothing about later writes to it."""
PROPERTY = "spark.sql.iceberg.snapshot-property."
"""The session setting that puts a property into the summary of each snapshot that the session commits (Iceberg 1.12)."""


class ForeignBatchError(IcefloeError):
    """The target holds another batch of this consumer where this one belongs: writing could consume rows twice."""

    code = "spark.foreign-batch"
    fatal = True


@dataclass(frozen=True, slots=True)
class CapturedRange:
    """One capture: ``start`` and ``end`` are ``table@snapshot`` for each of its sources, in order."""

    capture: str
    consumer: str
    version: int
    start: tuple[str, ...]
    end: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Mark:
    """``place``: the step's path, with the loops around it. ``era`` counts how often a run's step was begun anew."""

    place: str
    run: str
    era: int = 0
    ranges: tuple[CapturedRange, ...] = ()

    @property
    def text(self) -> str:
        if not self.ranges:
            return f"run:{self.run}|{self.era}|{self.place}"
        ranges = ";".join(
            f"{range_.consumer}:{','.join(range_.start)}..{','.join(range_.end)}" for range_ in self.ranges
        )
        return f"batch:{ranges}|{self.place}"

    def properties(self) -> dict[str, str]:
        """What goes into the summary of each snapshot."""
        out = {MARK: self.text, "icefloe.step": self.place, "icefloe.run": self.run}
        if self.ranges:
            out |= {
                "icefloe.consumer": _joined(range_.consumer for range_ in self.ranges),
                "icefloe.version": _joined(str(range_.version) for range_ in self.ranges),
                "icefloe.capture": _joined(range_.capture for range_ in self.ranges),
                "icefloe.from": _joined(point for range_ in self.ranges for point in range_.start),
                "icefloe.to": _joined(point for range_ in self.ranges for point in range_.end),
            }
        return out

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Mark:
        ranges = tuple(
            CapturedRange(
                range_["capture"], range_["consumer"], range_["version"], tuple(range_["start"]), tuple(range_["end"])
            )
            for range_ in data["ranges"]
        )
        return cls(data["place"], data["run"], data["era"], ranges)


def published(
    past: Iterable[Snapshot],
    mark: Mark,
    *,
    table: str,
    statement: int | None = None,
    is_before: Callable[[str, str], bool] = operator.eq,
) -> int | None:
    """The newest snapshot of a history (newest first) that is this work's result; with ``statement``, that statement's.

    Raises :class:`ForeignBatchError` when the history holds another batch of the same consumers and step that this state
    database should not be behind of. ``is_before`` says whether one place in a source's history (``table@snapshot``) is
    another one or lies before it: a batch that ends where this one begins, or earlier, is simply the past.
    """
    wanted = mark.properties()
    newest: int | None = None
    for snapshot in past:
        summary = snapshot.summary
        if MARK not in summary or summary.get("icefloe.step") != mark.place:
            continue
        if statement is not None and summary.get(STATEMENT) != str(statement):
            continue
        same = summary[MARK] == mark.text or (
            bool(mark.ranges) and summary.get("icefloe.capture") == wanted.get("icefloe.capture")
        )
        if not mark.ranges:
            if same:
                return snapshot.id
            continue
        if summary.get("icefloe.consumer") != wanted["icefloe.consumer"] or not _not_older(summary, mark):
            continue
        if same:
            newest = snapshot.id if newest is None else newest
        elif newest is None and not _is_past(summary, mark, is_before):
            raise ForeignBatchError(
                f"snapshot {snapshot.id} holds another batch of consumer {summary['icefloe.consumer']} "
                f"({summary.get('icefloe.from')} to {summary.get('icefloe.to')}, version {summary.get('icefloe.version')}), "
                f"and the batch at hand starts at {wanted['icefloe.from']} with version {wanted['icefloe.version']}: "
                "the state database is older than the target, and part of this batch is in the target already",
                where=table,
                hint="move the checkpoint to the end of what is published: icefloe consumers fast-forward "
                f"{summary['icefloe.consumer']} --to {summary.get('icefloe.to', '').rpartition('@')[2]}",
            )
    return newest


def created(past: Iterable[Snapshot], mark: Mark) -> bool:
    """Whether a CREATE TABLE AS of this work has made the table."""
    return any(snapshot.summary.get(CREATED) == mark.text for snapshot in past)


def _is_past(summary: Mapping[str, str], mark: Mark, is_before: Callable[[str, str], bool]) -> bool:
    ends = summary.get("icefloe.to", "").split(",")
    starts = [point for range_ in mark.ranges for point in range_.start]
    return len(ends) == len(starts) and all(is_before(end, start) for end, start in zip(ends, starts, strict=True))


def _not_older(summary: Mapping[str, str], mark: Mark) -> bool:
    versions = summary.get("icefloe.version", "").split(",")
    if len(versions) != len(mark.ranges) or not all(version.isdigit() for version in versions):
        return False
    return all(int(version) >= range_.version for version, range_ in zip(versions, mark.ranges, strict=True))


def _joined(values: Iterable[str]) -> str:
    return ",".join(values)
