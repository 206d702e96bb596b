"""Runs of the past, for people: a page of a listing, a strip of outcomes, a grid of steps by runs. Reads the state database alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from icefloe.engine.states import RunStatus
from icefloe.errors import UsageError
from icefloe.store import definitions, run_history
from icefloe.store.database import Database
from icefloe.store.run_history import RunLine, StepOutcome

__all__ = ["RunHistory", "RunLine", "RunListing", "StepGrid", "StepOutcome"]

STATUSES = tuple(status.value for status in RunStatus)
MOST_STEPS = 400
"""Rows of a grid. A workflow with more of them shows the first."""


@dataclass(frozen=True, slots=True)
class RunListing:
    """``older`` and ``newer``: the ``seq`` to go on from; None where there is nothing more."""

    runs: tuple[RunLine, ...]
    older: int | None
    newer: int | None

    def to_dict(self) -> dict[str, Any]:
        return {"runs": [run.to_dict() for run in self.runs], "older": self.older, "newer": self.newer}


@dataclass(frozen=True, slots=True)
class StepGrid:
    """``cells`` by step and run. ``runs`` are oldest first; ``left_out`` counts the steps that are not shown."""

    runs: tuple[RunLine, ...]
    steps: tuple[str, ...]
    cells: dict[tuple[str, str], StepOutcome]
    left_out: int = 0

    def to_dict(self) -> dict[str, Any]:
        rows = {step: {run.id: self._status(step, run.id) for run in self.runs} for step in self.steps}
        return {"runs": [run.id for run in self.runs], "steps": rows, "left_out": self.left_out}

    def _status(self, step: str, run_id: str) -> str | None:
        cell = self.cells.get((step, run_id))
        return cell.status if cell is not None else None


class RunHistory:
    def __init__(self, database: Database) -> None:
        self._database = database

    def listing(
        self,
        *,
        workflow_id: str | None = None,
        status: str | None = None,
        since: float | None = None,
        until: float | None = None,
        before: int | None = None,
        after: int | None = None,
        most: int = 50,
    ) -> RunListing:
        """Newest first. ``before`` and ``after`` come from an earlier listing; ``since`` and ``until`` are moments."""
        if status is not None and status not in set(RunStatus):
            raise UsageError(f"{status!r} is not a status of a run", hint=f"one of {', '.join(RunStatus)}")
        with self._database.read() as connection:
            lower = run_history.seq_at(connection, since) if since is not None else None
            upper = run_history.seq_at(connection, until) if until is not None else None
            found = run_history.lines(
                connection, workflow_id=workflow_id, status=status, before=before, after=after, since=lower,
                until=upper, most=most + 1,
            )  # fmt: skip
        more = len(found) > most
        if after is not None:
            shown = found[1:] if more else found
            newer = shown[0].seq if shown and more else None
            older = shown[-1].seq if shown else None
        else:
            shown = found[:most]
            newer = shown[0].seq if shown and before is not None else None
            older = shown[-1].seq if shown and more else None
        return RunListing(tuple(shown), older, newer)

    def active(self, most: int = 50) -> list[RunLine]:
        with self._database.read() as connection:
            return run_history.active(connection, most)

    def newest(self, workflow_id: str, most: int) -> list[RunLine]:
        """Newest first."""
        with self._database.read() as connection:
            return run_history.lines(connection, workflow_id=workflow_id, most=most)

    def grid(self, runs: list[RunLine], steps: tuple[str, ...]) -> StepGrid:
        """``runs`` newest first, as :meth:`newest` gives them; ``steps`` in the definition's order. Steps that only older
        versions had come last."""
        shown = tuple(reversed(runs))
        with self._database.read() as connection:
            outcomes = run_history.step_outcomes(connection, [run.id for run in shown])
        names = tuple(dict.fromkeys((*steps, *(outcome.step_id for outcome in outcomes))))
        cells = {(outcome.step_id, outcome.run_id): outcome for outcome in outcomes}
        return StepGrid(shown, names[:MOST_STEPS], cells, max(0, len(names) - MOST_STEPS))

    def workflow_names(self) -> list[str]:
        with self._database.read() as connection:
            return [record.id for record in definitions.listing(connection) if record.latest_version]
