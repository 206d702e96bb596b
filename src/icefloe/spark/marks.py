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
    taken: tuple[CapturedRange, ...] = ()

    @property
    def text(self) -> str:
        if not self.taken:
            return f"run:{self.run}|{self.era}|{self.place}"
        ranges = ";".join(f"{one.consumer}:{','.join(one.start)}..{','.join(one.end)}" for one in self.taken)
        return f"batch:{ranges}|{self.place}"

    def properties(self) -> dict[str, str]:
        """What goes into the summary of each snapshot."""
        out = {MARK: self.text, "icefloe.step": self.place, "icefloe.run": self.run}
        if self.taken:
            out |= {
                "icefloe.consumer": _joined(one.consumer for one in self.taken),
                "icefloe.version": _joined(str(one.version) for one in self.taken),
                "icefloe.capture": _joined(one.capture for one in self.taken),
                "icefloe.from": _joined(point for one in self.taken for point in one.start),
                "icefloe.to": _joined(point for one in self.taken for point in one.end),
            }
        return out

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Mark:
        taken = tuple(
            CapturedRange(one["capture"], one["consumer"], one["version"], tuple(one["start"]), tuple(one["end"]))
            for one in data["taken"]
        )
        return cls(data["place"], data["run"], data["era"], taken)


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
    found: int | None = None
    for snapshot in past:
        told = snapshot.summary
        if MARK not in told or told.get("icefloe.step") != mark.place:
            continue
        if statement is not None and told.get(STATEMENT) != str(statement):
            continue
        same = told[MARK] == mark.text or (
            bool(mark.taken) and told.get("icefloe.capture") == wanted.get("icefloe.capture")
        )
        if not mark.taken:
            if same:
                return snapshot.id
            continue
        if told.get("icefloe.consumer") != wanted["icefloe.consumer"] or not _not_older(told, mark):
            continue
        if same:
            found = snapshot.id if found is None else found
        elif found is None and not _is_past(told, mark, is_before):
            raise ForeignBatchError(
                f"snapshot {snapshot.id} holds another batch of consumer {told['icefloe.consumer']} "
                f"({told.get('icefloe.from')} to {told.get('icefloe.to')}, version {told.get('icefloe.version')}), "
                f"and the batch at hand starts at {wanted['icefloe.from']} with version {wanted['icefloe.version']}: "
                "the state database is older than the target, and part of this batch is in the target already",
                where=table,
                hint="move the checkpoint to the end of what is published: icefloe consumers fast-forward "
                f"{told['icefloe.consumer']} --to {told.get('icefloe.to', '').rpartition('@')[2]}",
            )
    return found


def created(past: Iterable[Snapshot], mark: Mark) -> bool:
    """Whether a CREATE TABLE AS of this work has made the table."""
    return any(snapshot.summary.get(CREATED) == mark.text for snapshot in past)


def _is_past(told: Mapping[str, str], mark: Mark, is_before: Callable[[str, str], bool]) -> bool:
    ends = told.get("icefloe.to", "").split(",")
    starts = [point for one in mark.taken for point in one.start]
    return len(ends) == len(starts) and all(is_before(end, start) for end, start in zip(ends, starts, strict=True))


def _not_older(told: Mapping[str, str], mark: Mark) -> bool:
    versions = told.get("icefloe.version", "").split(",")
    if len(versions) != len(mark.taken) or not all(version.isdigit() for version in versions):
        return False
    return all(int(version) >= one.version for version, one in zip(versions, mark.taken, strict=True))


def _joined(values: Iterable[str]) -> str:
    return ",".join(values)
