"""The savings ledger's side of a write: counted before it, carried by the published snapshots, told to the step afterwards.

What was read is known when the batch is planned, and lost when the process dies between publishing and telling. So it stands in
the summary of a published snapshot, too, that of the last statement at least: the attempt that comes after finds it there, and counts
the batch once, for the run that published it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any

from icefloe.capture.sources import Source
from icefloe.lake import Lake, history
from icefloe.lake.metadata import Snapshot
from icefloe.planner import savings
from icefloe.planner.analysis import Analysis
from icefloe.planner.inputs import Size
from icefloe.planner.plan import Plan
from icefloe.planner.savings import SavingsEstimate, WriteTotals
from icefloe.spark.marks import MARK, PROPERTY
from icefloe.steps.write.facts import Facts
from icefloe.steps.write.scan_sizes import estimate_savings
from icefloe.workflow.lookbacks import Lookback

SAVINGS = "icefloe.savings"
_ONE_BATCH = (MARK, "icefloe.capture", "icefloe.version", "icefloe.run")
"""A batch that is consumed again after a rewind has the same mark, and another version."""


@dataclass(frozen=True, slots=True)
class SavingsEntry:
    """One batch on one target. ``run`` is the one that published it; ``seconds`` None: an attempt that could not tell."""

    target: str
    run: str
    reckoning: SavingsEstimate
    written: WriteTotals
    seconds: float | None

    @property
    def line(self) -> str:
        return savings.line(self.reckoning.read.bytes, self.reckoning.instead.bytes)

    def to_json(self) -> dict[str, Any]:
        size = self.written.size
        return {
            "target": self.target,
            "run": self.run,
            "reckoning": self.reckoning.to_json(),
            "written": [size.files, size.rows, size.bytes],
            "delete_files": self.written.delete_files,
            "seconds": self.seconds,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> SavingsEntry:
        written = WriteTotals(Size(*data["written"]), data["delete_files"])
        return cls(data["target"], data["run"], SavingsEstimate.from_json(data["reckoning"]), written, data["seconds"])


class SavingsLedger:
    """Of one attempt. Nothing that goes wrong in here fails the write: the entry is missing then, and the log says so."""

    def __init__(
        self,
        session: Any,
        lake: Lake,
        sources: tuple[Source, ...],
        lookback: Lookback | None,
        log: Callable[[str], None],
    ) -> None:
        self._session = session
        self._lake = lake
        self._sources = sources
        self._lookback = lookback
        self._log = log
        self._began = time.monotonic()
        self._planned: SavingsEstimate | None = None

    def forget(self) -> None:
        """What was counted for a plan that another one takes the place of."""
        if self._planned is not None:
            self._session.conf.unset(PROPERTY + SAVINGS)
        self._planned = None

    def planned(self, analysis: Analysis, facts: Facts, plan: Plan) -> None:
        """Count what is read, and have the snapshots of statements that begin from now on carry it."""
        try:
            self._planned = estimate_savings(self._lake, self._sources, self._lookback, analysis, facts, plan)
            self._session.conf.set(PROPERTY + SAVINGS, json.dumps(self._planned.to_json()))
        except Exception as error:
            self._log(f"savings: not counted, {error}")

    def entry(self, target: str, run: str, published: int | None) -> SavingsEntry | None:
        """What there is to record once the batch is published; ``published`` None: nothing had to be written."""
        try:
            entry = self._entry(target, run, published)
        except Exception as error:
            self._log(f"savings: not counted, {error}")
            return None
        if entry is not None:
            self._log(f"{entry.line} ({entry.reckoning.compared_with})")
            for note in entry.reckoning.notes:
                self._log(f"  {note}")
        return entry

    def joined(self, entry: SavingsEntry | None) -> SavingsEntry | None:
        """The same batch, with what joining small files after it has read and written: the commits that came since."""
        try:
            return self._joined(entry) if entry is not None else None
        except Exception as error:
            self._log(f"savings: what was joined is not counted, {error}")
            return entry

    def _joined(self, entry: SavingsEntry) -> SavingsEntry:
        metadata = self._lake.table(entry.target).metadata
        head = history.head(metadata, "main", table=entry.target)
        past = history.ancestors(metadata, head) if head is not None else iter(())
        own = [snapshot.summary for snapshot in takewhile(lambda snapshot: snapshot.operation == "replace", past)]
        if not own:
            return entry
        read, written = savings.joined(own), WriteTotals.of(own)
        note = f"{savings.bytes_text(read.bytes)} of it to join small files"
        counted = replace(entry.reckoning, read=entry.reckoning.read + read, notes=(*entry.reckoning.notes, note))
        total = WriteTotals(entry.written.size + written.size, entry.written.delete_files + written.delete_files)
        seconds = time.monotonic() - self._began if entry.seconds is not None else None
        return replace(entry, reckoning=counted, written=total, seconds=seconds)

    def _entry(self, target: str, run: str, published: int | None) -> SavingsEntry | None:
        seconds = time.monotonic() - self._began if self._planned is not None else None
        own: list[Snapshot] = []
        if published is not None:
            metadata = self._lake.table(target).metadata
            if published in metadata.snapshots:
                own = list(_batch(history.ancestors(metadata, published)))
        estimate = self._planned
        if estimate is None:
            text = next((summary.summary[SAVINGS] for summary in own if SAVINGS in summary.summary), None)
            if text is None:
                return None  # published by a program that did not count, or expired
            estimate = SavingsEstimate.from_json(json.loads(text))
        if own:
            run = own[0].summary.get("icefloe.run", run)
        written = WriteTotals.of(summary.summary for summary in own)
        return SavingsEntry(target, run, estimate.settled(written), written, seconds)


def _batch(past: Iterator[Snapshot]) -> Iterator[Snapshot]:
    """The snapshots of the batch whose last one comes first. A DELETE of whole files carries no mark, and adds nothing: it may lie among
    them, and is passed over."""
    first: tuple[str | None, ...] | None = None
    for snapshot in past:
        marks = tuple(snapshot.summary.get(name) for name in _ONE_BATCH)
        if marks[0] is None and first is not None:
            continue
        if marks[0] is None or (first is not None and marks != first):
            return
        first = marks
        yield snapshot
