"""Planned writes and the state database: what is on record goes into the order, and what was told comes out of it.

It is recorded in the transaction in which the step succeeds.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from sqlalchemy.engine import Connection

from icefloe.errors import UsageError
from icefloe.planner.logic import CHOICES, PARAMETER, Choice, Logic, LogicVersion
from icefloe.spark.marks import Mark
from icefloe.steps.contract import StepContext
from icefloe.steps.write.defined_select import defined_select, hidden
from icefloe.steps.write.savings_ledger import SavingsEntry
from icefloe.steps.write.versions import LogicOrder
from icefloe.steps.write.write_report import WriteReport
from icefloe.store import definitions, logic_versions, savings
from icefloe.store.logic_versions import LogicRecord
from icefloe.store.savings import SavingsRecord
from icefloe.workflow.model import TypedStep
from icefloe.workflow.step_types import SparkSettings, WriteSettings
from icefloe.workflow.values import TypedValue
from icefloe.workflow.versions import WorkflowVersion


def record(
    connection: Connection, context: StepContext, settings: SparkSettings, mark: Mark, report: WriteReport, now: float
) -> None:
    if report.savings is not None:
        _savings(connection, context, mark, report.savings, now)
    if report.logic is not None and settings.write is not None:
        _logic(connection, context, settings, mark, report.logic, now)


def logic_order(
    context: StepContext, settings: SparkSettings, write: WriteSettings, mark: Mark, text: str
) -> LogicOrder:
    """What is on record of the step's logic, and what the user wants done when it changes."""
    with context.database.read() as connection:
        records = logic_versions.known(
            connection,
            context.workflow_id,
            mark.place,
            target_key(context.config.catalog.name, write),
            ref_of(settings),
        )
        version = definitions.version(connection, context.workflow_id, context.version)
    text = hidden(text, context.secrets)
    if version is not None:
        stored = WorkflowVersion.from_dict(json.loads(version.definition))
        step = next((candidate for path, candidate in stored.workflow.all_steps() if path == context.step_path), None)
        if isinstance(step, TypedStep):
            values = {name: item.value for name, item in context.params.items()}
            text = defined_select(stored.workflow, step, values, lambda key: _read(context, key), context.secrets)
    chosen = chosen_for(
        context.params.get(PARAMETER), settings, f"run {context.key.run_id}, step {context.key.step_id}"
    )
    writer = f"{context.workflow_id}/{mark.place}"
    return LogicOrder(writer, text, chosen, tuple(versions_of(records)), context.root_run_id)


def chosen_for(value: TypedValue | None, settings: SparkSettings, where: str) -> Choice:
    """What the run was told, else what the step says."""
    if value is None:
        return settings.on_logic_change
    choice = next((word for word in CHOICES if word == str(value.value).strip().lower()), None)
    if choice is None:
        raise UsageError(
            f"{PARAMETER} is {value.value!r}",
            where=where,
            hint=f"{PARAMETER}={' or '.join(CHOICES[1:])}, or leave it out",
        )
    return choice


def versions_of(records: Iterable[LogicRecord]) -> Iterator[LogicVersion]:
    for record in records:
        yield LogicVersion(record.fingerprint, record.root_id, Logic(record.text, record.columns))


def target_key(catalog: str, write: WriteSettings) -> str:
    return write.table.removeprefix(f"{catalog}.")


def ref_of(settings: SparkSettings) -> str:
    return settings.target_branch or "main"


def _read(context: StepContext, key: str) -> str:
    return context.read_file(key).decode("utf-8")


def _logic(
    connection: Connection, context: StepContext, settings: SparkSettings, mark: Mark, version: LogicVersion, now: float
) -> None:
    assert settings.write is not None and version.logic is not None
    logic_versions.add(
        connection,
        LogicRecord(
            workflow_id=context.workflow_id,
            place=mark.place,
            target=target_key(context.config.catalog.name, settings.write),
            ref=ref_of(settings),
            fingerprint=version.fingerprint,
            text=version.logic.text,
            columns=version.logic.columns,
            root_id=version.run,
            recorded_at=now,
        ),
    )


def _savings(connection: Connection, context: StepContext, mark: Mark, entry: SavingsEntry, now: float) -> None:
    counted, written = entry.reckoning, entry.written
    savings.add(
        connection,
        SavingsRecord(
            root_id=entry.run,
            place=mark.place,
            target=entry.target,
            workflow_id=context.workflow_id,
            step="/".join(context.step_path),
            pattern=counted.pattern,
            compared_with=counted.compared_with,
            read_files=counted.read.files,
            read_rows=counted.read.rows,
            read_bytes=counted.read.bytes,
            instead_files=counted.instead.files,
            instead_rows=counted.instead.rows,
            instead_bytes=counted.instead.bytes,
            written_files=written.size.files,
            written_rows=written.size.rows,
            written_bytes=written.size.bytes,
            written_delete_files=written.delete_files,
            seconds=entry.seconds,
            notes=counted.notes,
            recorded_at=now,
        ),
    )
