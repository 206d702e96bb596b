"""Why a workflow has not started, and when it will: the scheduler's own judgement, made once for whoever asks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from icefloe.config import SchedulerSettings
from icefloe.lake import Lake
from icefloe.store import definitions, triggers
from icefloe.store.database import Database
from icefloe.store.triggers import TriggerRecord
from icefloe.triggers import table_watermarks, workflow_snapshots
from icefloe.triggers.clocks import AgeTracker, Clock
from icefloe.triggers.judgement import SignalReader, first_state, judge
from icefloe.triggers.next_fires import next_fires
from icefloe.triggers.plans import text_of
from icefloe.triggers.table_watch import Question, TableWatch
from icefloe.triggers.table_watermarks import UnreadableWatermark
from icefloe.triggers.verdicts import Verdict
from icefloe.triggers.workflow_snapshots import WorkflowSnapshot


@dataclass(frozen=True, slots=True)
class Explanation:
    """One trigger: what it is, and what comes of looking at it now."""

    name: str
    text: str
    verdict: Verdict
    last_run: str | None
    next_fires: tuple[float, ...] = ()
    problem: str | None = None
    """The last occasion that could not be started, or was missed."""

    def to_dict(self) -> dict[str, Any]:
        return {
            "trigger": self.name,
            "what": self.text,
            **self.verdict.to_dict(),
            "last_run": self.last_run,
            "next_fires": list(self.next_fires),
            "problem": self.problem,
        }


def explain(
    database: Database,
    open_lake: Callable[[], Lake],
    settings: SchedulerSettings,
    workflow_id: str,
    *,
    catalog: str,
    clock: Clock | None = None,
) -> tuple[list[Explanation], list[UnreadableWatermark]]:
    """Reads the state database and the tables the workflow's triggers and steps wait for. Changes nothing.

    The second list: tables whose watermarks it waits for, and whose own word on them is none.
    """
    clock = clock or Clock()
    snapshot = _snapshot_of(database, workflow_id, catalog)
    if snapshot is None:
        return [], []
    tables = TableWatch(open_lake, tick=settings.tick_seconds)
    questions = {question for armed in snapshot.plan.triggers for question in snapshot.questions(armed)}
    tables.ask(questions | {Question(table, "main", None, ("append",)) for table in snapshot.plan.completeness})
    tables.look()

    def lineage(run_ids: Any) -> dict[str, dict[str, int]]:
        with database.read() as connection:
            return triggers.lineages(connection, set(run_ids))

    explanations = []
    for armed in snapshot.plan.triggers:
        judgement = judge(
            snapshot,
            armed,
            now=clock.wall(),
            settings=settings,
            tracker=AgeTracker(clock),
            answer=tables.answer,
            lineage=lineage,
            signals=SignalReader(database, tables.table_property),
        )
        verdict = judgement.verdict
        if tables.trouble is not None and armed.watches:
            verdict = Verdict(verdict.kind, f"its tables cannot be looked at: {tables.trouble}", "icefloe doctor")
        row = snapshot.rows.get(armed.name)
        explanations.append(
            Explanation(
                armed.name,
                text_of(armed.trigger),
                verdict,
                row.last_run if row else None,
                tuple(next_fires(snapshot.record, armed, snapshot.rows, clock.wall(), 3)),
                row.state.get("problem") if row else None,
            )
        )
    return explanations, table_watermarks.unreadable_watermarks(snapshot.plan.completeness, tables.table_property)


def _snapshot_of(database: Database, workflow_id: str, catalog: str) -> WorkflowSnapshot | None:
    with database.read() as connection:
        record = definitions.load(connection, workflow_id)
        plan = workflow_snapshots.read_plan(connection, record, catalog=catalog) if record else None
        if record is None or plan is None:
            return None
        snapshot = workflow_snapshots.read(connection, record, plan)
        rows = dict(snapshot.rows)
        for armed in plan.triggers:
            if armed.name not in rows:  # no scheduler has come by yet: this is what the first one will write
                state = first_state(connection, armed, record.updated_at)
                rows[armed.name] = TriggerRecord(workflow_id, armed.name, armed.kind, record.updated_at, state)
        return replace(snapshot, rows=rows)
