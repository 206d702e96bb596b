"""What an incremental trigger watches: tables, and whose reading of them counts as having seen. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from icefloe.errors import IcefloeError, UsageError
from icefloe.table_names import format_identifier, parse_identifier
from icefloe.workflow.consumers import consumer_name
from icefloe.workflow.default_params import DEFAULTS
from icefloe.workflow.model import IncrementalTrigger, TypedStep, Workflow
from icefloe.workflow.resolution import Layer, merge, resolve_params, resolve_settings
from icefloe.workflow.scope import Scope
from icefloe.workflow.step_types import BUILTIN, IpCaptureSettings


class UnclearSourcesError(UsageError):
    """Which tables a trigger watches cannot be told before a run."""

    code = "trigger.tables"


@dataclass(frozen=True, slots=True)
class WatchedTable:
    """One table as one consumer reads it. Without a consumer the trigger itself remembers what it has started runs for."""

    table: str
    consumer: str | None
    ref: str = "main"
    on_gap: str = "fail"
    pinned: bool = True


def watched_tables(workflow: Workflow, trigger: IncrementalTrigger, *, catalog: str) -> tuple[WatchedTable, ...]:
    """Every table the trigger watches. Raises :class:`UnclearSourcesError` or what is wrong with a table's name."""
    captured = _captures(workflow, catalog, needed=not trigger.tables)
    if not trigger.tables:
        return captured
    tables: list[WatchedTable] = []
    for name in trigger.tables:
        table = format_identifier(parse_identifier(_filled(workflow, name), catalog=catalog))
        readings = [
            reading for reading in captured if reading.table == table and trigger.consumer in (None, reading.consumer)
        ]
        tables += readings or [WatchedTable(table, trigger.consumer)]
    return tuple(dict.fromkeys(tables))


def canonical(name: str, catalog: str) -> str:
    return format_identifier(parse_identifier(name, catalog=catalog))


def workflow_values(workflow: Workflow) -> Mapping[str, Any]:
    """The workflow's own parameters with their usual values, as far as they can be told without a run."""
    params = merge([(Layer.DEFAULTS, DEFAULTS), (Layer.DEFINITION, workflow.params)])
    values: dict[str, Any] = {"workflow_id": workflow.id}
    try:
        return values | {name: item.value for name, item in resolve_params(params, Scope(params=values)).items()}
    except UsageError:
        pass  # one of them needs a run: take the others one by one, in any order
    for param in [*params, *params]:
        with suppress(UsageError):
            values[param.name] = resolve_params([param], Scope(params=values))[param.name].value
    return values


def _captures(workflow: Workflow, catalog: str, *, needed: bool) -> tuple[WatchedTable, ...]:
    tables_read: list[WatchedTable] = []
    scope = Scope(params=workflow_values(workflow))
    described = BUILTIN.find("ip_capture")
    assert described is not None
    for path, step in workflow.all_steps():
        if not isinstance(step, TypedStep) or step.type != "IpCapture":
            continue
        try:
            settings = described.parse(resolve_settings(step.settings, scope), where=f"step {step.id}")
            assert isinstance(settings, IpCaptureSettings)
            tables = [canonical(name, catalog) for name in settings.source_tables]
        except IcefloeError as error:
            if needed:
                raise UnclearSourcesError(
                    f"the sources of step {step.id} cannot be told before a run: {error.message}",
                    hint="name them in the trigger: incremental: {tables: [db.table]}",
                ) from error
            continue
        consumer = settings.consumer or consumer_name(workflow.id, path)
        tables_read += [
            WatchedTable(table, consumer, settings.ref, settings.on_gap, settings.pin != "off") for table in tables
        ]
    return tuple(dict.fromkeys(tables_read))


def _filled(workflow: Workflow, text: str) -> str:
    if "$" not in text:
        return text
    return str(resolve_settings({"name": text}, Scope(params=workflow_values(workflow)))["name"])
