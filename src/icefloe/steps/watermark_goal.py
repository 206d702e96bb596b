"""Whose watermark a capture step derives, read off its settings and the steps behind it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from icefloe.capture.completeness import WatermarkGoal
from icefloe.errors import UsageError
from icefloe.lake import Lake
from icefloe.steps.contract import StepContext
from icefloe.store import definitions
from icefloe.workflow.graph import Graph
from icefloe.workflow.model import Step, TypedStep, Workflow, containers, walk
from icefloe.workflow.resolution import resolve_settings
from icefloe.workflow.scope import Scope
from icefloe.workflow.step_types import IpCaptureSettings
from icefloe.workflow.versions import WorkflowVersion


class CompletedTableError(UsageError):
    """Whose watermark a capture is to derive is not clear, or another capture derives it too."""

    code = "capture.watermark"


def goal_of(
    context: StepContext, settings: IpCaptureSettings, lake: Lake, tables: tuple[str, ...]
) -> WatermarkGoal | None:
    """Raises :class:`CompletedTableError` before anything has been captured."""
    wanted = settings.watermark
    if wanted is None:
        return None
    step_id = context.key.step_id
    where = f"run {context.key.run_id}, step {step_id}"
    workflow = definition_of(context)
    scope = Scope(params={name: item.value for name, item in context.params.items()})
    targets = _targets(workflow, step_id, wanted.table, scope, lake)
    if len(targets) != 1:
        raise CompletedTableError(
            f"the steps behind it write {', '.join(sorted(targets)) or 'no table that is known now'}",
            where=where,
            hint="say whose watermark it is: watermark: {table: db.table}",
        )
    (target,) = targets
    for other_id, table in _other_captures(workflow, step_id, scope):
        if target in _targets(workflow, other_id, table, scope, lake):
            raise CompletedTableError(
                f"the captures {step_id} and {other_id} both derive the watermark of {target}",
                where=where,
                hint="capture all sources of a table in one step, or give only one of them a watermark",
            )
    columns = dict.fromkeys(tables, wanted.column) if isinstance(wanted.column, str) else wanted.column
    if columns is not None:
        columns = {lake.canonical_name(table): column for table, column in columns.items()}
        if set(columns) != set(tables):
            raise CompletedTableError(
                "watermark.column does not name a column for each source",
                where=where,
                hint=f"the sources are: {', '.join(tables)}",
            )
    return WatermarkGoal(target, columns, wanted.lateness or 0.0, wanted.timezone or "UTC")


def _targets(workflow: Workflow, step_id: str, named: str | None, scope: Scope, lake: Lake) -> set[str]:
    names = [named] if named is not None else write_targets(workflow, step_id, scope)
    return {lake.canonical_name(name) for name in names}


def _other_captures(workflow: Workflow, step_id: str, scope: Scope) -> Iterator[tuple[str, str | None]]:
    """The other captures that derive a watermark, as far as it is known whose."""
    for _, step in workflow.all_steps():
        wanted = step.settings.get("watermark") if isinstance(step, TypedStep) and step.type == "IpCapture" else None
        if isinstance(wanted, Mapping) and step.id != step_id:
            with suppress(UsageError):  # it is named by something that is known later only
                resolved = resolve_settings({"watermark": wanted}, scope)["watermark"]
                yield step.id, resolved.get("table")


def definition_of(context: StepContext) -> Workflow:
    with context.database.read() as connection:
        version = definitions.version(connection, context.workflow_id, context.version)
    assert version is not None, "a run's version is never deleted"
    return WorkflowVersion.from_dict(json.loads(version.definition)).workflow


def write_targets(workflow: Workflow, capture: str, scope: Scope) -> Iterator[str]:
    """The ``write:`` tables of the Spark steps behind a capture, as far as their names are known before it."""
    for write in map(write_of, steps_behind(workflow, capture)):
        table = write.get("table") if write is not None else None
        if isinstance(table, str):
            with suppress(UsageError):  # it is named by something that is known later only
                yield str(resolve_settings({"table": table}, scope)["table"])


def steps_behind(workflow: Workflow, capture: str) -> Iterator[Step]:
    """The steps that come after a capture, those in loops too."""
    container = next(
        candidate for candidate in containers(workflow) if any(step.id == capture for step in candidate.steps)
    )
    behind = Graph.of(container).descendants(capture)
    return (step for path, step in walk(container) if path[0] in behind)


def write_of(step: Step) -> Mapping[str, Any] | None:
    """``write:`` of a Spark step, as it is defined."""
    write = step.settings.get("write") if isinstance(step, TypedStep) and step.type == "Spark" else None
    return write if isinstance(write, Mapping) else None
