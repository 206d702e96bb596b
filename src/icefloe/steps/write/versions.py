"""Versions of a step's logic: what has filled the target so far, what is about to, and what to do when the two differ.

The published snapshots say whose logic they hold, by its fingerprint, and the state database keeps the texts. Where they do not
agree, as after a restored backup or a rolled back target, the snapshots are right. Where neither says anything nothing is known,
and the step goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from icefloe.lake.metadata import Snapshot
from icefloe.planner import logic
from icefloe.planner.analysis import Analysis
from icefloe.planner.errors import LogicChangedError, TargetMismatchError
from icefloe.planner.inputs import Column, TargetState
from icefloe.planner.logic import PARAMETER, Choice, Logic, LogicChange, LogicVersion, text_fingerprint
from icefloe.planner.plan import Plan
from icefloe.planner.statements import quote
from icefloe.spark.marks import PROPERTY
from icefloe.steps.write.columns import ResultColumn, check

LOGIC = "icefloe.logic"
"""In the summary of each published snapshot: who wrote it, ``@``, and the fingerprint of the logic."""
COMPLETE = "icefloe.complete"
"""Likewise, where nothing is in the target but what the step's SELECT gives over its sources: filled anew it would lose nothing. The fingerprint is
that of the text as it was run, parameters filled in: with others it might give less."""


@dataclass(frozen=True)
class LogicOrder:
    """``writer`` names the step. ``known`` are the versions on record, the newest first."""

    writer: str
    text: str
    on_change: Choice = "ask"
    known: tuple[LogicVersion, ...] = ()
    run: str = ""

    def to_json(self) -> dict[str, Any]:
        return {
            "writer": self.writer,
            "text": self.text,
            "on_change": self.on_change,
            "known": [version.to_json() for version in self.known],
            "run": self.run,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> LogicOrder:
        known = tuple(LogicVersion.from_json(version) for version in data["known"])
        return cls(data["writer"], data["text"], data["on_change"], known, data["run"])

    def last(self, past: Iterable[Snapshot]) -> LogicVersion | None:
        """What this step has last published to a target with this history (newest first)."""
        for snapshot in past:
            writer, _, fingerprint = snapshot.summary.get(LOGIC, "").rpartition("@")
            if writer == self.writer:
                on_record = next((version for version in self.known if version.fingerprint == fingerprint), None)
                return on_record or LogicVersion(fingerprint, snapshot.summary.get("icefloe.run", ""))
        return self.known[0] if self.known else None

    def completes(self, past: Iterable[Snapshot], text: str) -> bool:
        """Whether all that a target with this history (newest first) holds is what this step's SELECT has given, as ``text`` has it with
        this run's parameters filled in. Compaction changes no rows; after anybody else's commit nobody knows."""
        last = next((snapshot for snapshot in past if snapshot.operation != "replace"), None)
        return last is not None and last.summary.get(COMPLETE) == self.complete(text)

    def complete(self, text: str) -> str:
        return f"{self.writer}@{text_fingerprint(text)}"


class LogicVersions:
    """Of one attempt. Without an order nothing is looked at and nothing recorded."""

    def __init__(self, session: Any, order: LogicOrder | None, log: Callable[[str], None]) -> None:
        self._session = session
        self._order = order
        self._log = log
        self._now: Logic | None = None

    def change_since(self, past: Iterable[Snapshot] | None, columns: Sequence[ResultColumn]) -> LogicChange | None:
        """Whether the logic at hand is another than what filled the target; ``past`` None: there was no target."""
        if self._order is None:
            return None
        self._now = Logic(self._order.text, tuple((column.name, column.type) for column in columns))
        last = self._order.last(past) if past is not None else None
        return logic.change(last, self._now) if last is not None else None

    def rebuilds(self, change: LogicChange | None) -> bool:
        return change is not None and self._order is not None and self._order.on_change == "rebuild"

    def evolve(self, target: TargetState, columns: Sequence[ResultColumn]) -> bool:
        """Add the columns that the target lacks, before it is rebuilt. Until then they are NULL."""
        in_target = {column.name.lower() for column in target.columns}
        lacking = [column for column in columns if column.name.lower() not in in_target and column.type != "void"]
        if not target.exists or not lacking:
            return False
        added = tuple(Column(column.name, column.iceberg) for column in lacking)
        check(replace(target, columns=(*target.columns, *added)), columns)  # what else does not fit is said before
        listed = ", ".join(f"{quote(column.name)} {column.type}" for column in lacking)
        self._session.sql(f"ALTER TABLE {target.sql_name} ADD COLUMNS ({listed})")
        self._log(f"{target.name}: added {', '.join(column.name for column in lacking)}")
        return True

    def also(self, change: LogicChange | None, error: TargetMismatchError) -> TargetMismatchError:
        """A target that does not fit a changed SELECT: a rebuild may be the way out."""
        if change is None or self._order is None or "has no column" not in error.message:
            return error
        hint = f"{error.hint}; or rebuild the target, which adds it: {self._command('rebuild')}"
        return TargetMismatchError(error.message, where=error.where, hint=hint)

    def decide(self, change: LogicChange | None, plan: Plan, target: str) -> None:
        """Refuse to mix two versions unless that was chosen; have the snapshots carry the one at hand."""
        if self._order is None or self._now is None or not plan.statements:
            return
        if change is not None:
            shown = "\n".join(f"  {line}" for line in change.lines)
            message = f"the SELECT has changed since {_run(change)} published to this target:\n{shown}"
            # A full run leaves no row of the old logic behind.
            if plan.pattern != "full" and self._order.on_change == "ask":
                raise LogicChangedError(
                    message,
                    where=target,
                    hint=f"keep the old rows and go on with the new SELECT: {self._command('from_now_on')}; or compute "
                    f"everything anew: {self._command('rebuild')}; or for good: on_logic_change on the step",
                )
            self._log(message)
            if plan.pattern != "full":
                self._log("on_logic_change: from_now_on, rows that do not change stay as they are")
        self._session.conf.set(f"{PROPERTY}{LOGIC}", f"{self._order.writer}@{self._now.fingerprint}")

    def complete(self, text: str, *, complete: bool) -> dict[str, str]:
        """What the snapshots are to say of the whole target, and those of the session do from now on."""
        name = f"{PROPERTY}{COMPLETE}"
        if self._order is None or not complete:
            self._session.conf.unset(name)
            return {}
        properties = {COMPLETE: self._order.complete(text)}
        self._session.conf.set(name, properties[COMPLETE])
        return properties

    def published(self, snapshot: Snapshot | None) -> LogicVersion | None:
        """What there is to record: the logic at hand, if it is what the published snapshot holds."""
        if self._order is None or snapshot is None:
            return None
        writer, _, fingerprint = snapshot.summary.get(LOGIC, "").rpartition("@")
        mine = self._now or Logic(self._order.text)
        same = fingerprint == mine.fingerprint or fingerprint.partition(".")[0] == mine.fingerprint.rstrip(".")
        if writer != self._order.writer or not same:
            return None
        return LogicVersion(fingerprint, snapshot.summary.get("icefloe.run", ""), mine)

    def _command(self, choice: Choice) -> str:
        assert self._order is not None
        return f"icefloe restart {self._order.run} {PARAMETER}={choice} --wait"


def rebuilding(analysis: Analysis, change: LogicChange) -> Analysis:
    """The same analysis, for a plan that writes everything anew."""
    reason = f"the SELECT has changed since {_run(change)}, and on_logic_change is rebuild"
    return replace(analysis, request=replace(analysis.request, rebuild=reason))


def _run(change: LogicChange) -> str:
    return f"run {change.since.run}" if change.since.run else "the last run"
