"""``type: IpCapture``: what changed in the sources since this consumer last committed, as tables and parameters.

Metadata only: it runs inside the worker, starts no process and no JVM. While another run still owns the consumer's open
capture it waits; a built capture that an ended run left open is taken over as it is, so that a failed micro-batch is
repeated as the same micro-batch.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import ClassVar

from icefloe.capture import commits, completeness, published, release
from icefloe.capture.build import CaptureOptions
from icefloe.capture.capture_attempt import BuiltCapture, CaptureAttempt, CaptureRequest, ConsumerBusy
from icefloe.capture.errors import CaptureLostError, StartError
from icefloe.capture.snapshot_ranges import Bounds
from icefloe.config import Config
from icefloe.errors import IcefloeError, UsageError
from icefloe.lake import Lake, history
from icefloe.lake.errors import TableNotFoundError
from icefloe.steps.contract import (
    Cause,
    Done,
    Json,
    Outcome,
    OutcomeKind,
    Progress,
    StepContext,
    StepRuntime,
    Waiting,
    builtin,
)
from icefloe.steps.watermark_goal import definition_of, goal_of, steps_behind, write_of, write_targets
from icefloe.steps.write import ranges
from icefloe.store import runs
from icefloe.workflow import write_ranges
from icefloe.workflow.consumers import consumer_name
from icefloe.workflow.model import SubworkflowStep
from icefloe.workflow.scope import Scope
from icefloe.workflow.step_types import IpCaptureSettings, StepType

_ENDED = ("SUCCEEDED", "FAILED", "STOPPED", "TIMED_OUT")
_WAIT_SECONDS = 1.0


class IpCaptureStep(StepRuntime):
    """Outputs: see :mod:`icefloe.capture.published`."""

    type: ClassVar[StepType] = builtin("ip_capture")

    def start(self, context: StepContext) -> Progress:
        settings = context.parsed(self.type)
        assert isinstance(settings, IpCaptureSettings)
        try:
            return self._capture(context, settings)
        except CaptureLostError as error:
            # Two runs looked at the same moment and the other was faster: look again, and find what it holds.
            return Waiting({}, _WAIT_SECONDS, str(error))
        except TableNotFoundError as error:
            if settings.on_missing_source == "wait":
                return Waiting({}, _WAIT_SECONDS * 5, f"waits for {error.where} to exist")
            return Done(Outcome(OutcomeKind.FATAL, cause=Cause.of(error)))
        except IcefloeError as error:
            return Done(Outcome(OutcomeKind.PLATFORM if error.retryable else OutcomeKind.FATAL, cause=Cause.of(error)))

    def poll(self, context: StepContext, handle: Json) -> Progress:
        """Look again: there is nothing to hold on to while it waits."""
        return self.start(context)

    def _capture(self, context: StepContext, settings: IpCaptureSettings) -> Progress:
        lake = Lake.open(context.config)
        context.check()
        tables = tuple(lake.canonical_name(table) for table in settings.source_tables)
        columns = range_columns_of(settings, lake, tables)
        anew = _writes_a_range(context)
        options = _with_watermark(
            options_of(settings, lake, tables, columns, context.config), goal_of(context, settings, lake, tables)
        )
        request = CaptureRequest(
            consumer=settings.consumer or consumer_name(context.workflow_id, context.step_path),
            workflow_id=context.workflow_id,
            run_id=context.root_run_id,
            step_path="/".join(context.step_path),
            claim=str(context.key),
            tables=tables,
            ref=settings.ref,
            start=settings.start,
            bounds=bounds_of(settings),
            options=replace(options, skip_empty=options.skip_empty and not anew),
        )
        capture = CaptureAttempt(
            lake,
            context.database,
            request,
            run_has_ended=lambda run_id: _has_ended(context, run_id),
            log=context.log,
            before_first=lambda: _refuse_filled_targets(context, lake),
            check=context.check,
        ).take()
        if isinstance(capture, ConsumerBusy):
            return Waiting(
                {}, _WAIT_SECONDS, f"run {capture.run_id} still holds the open capture of {request.consumer}"
            )
        _tell(context, capture)
        outputs = published.parameters(
            capture.sources, capture_id=capture.capture.id, catalog=lake.tables.name, range_columns=columns
        )
        if anew and not capture.has_changes:
            context.log("nothing changed, but a range is to be written anew: the rest is run")
        if capture.has_changes or anew or settings.on_empty == "run":
            return Done(Outcome(OutcomeKind.SUCCEEDED, outputs))
        context.log("nothing changed: the checkpoint moves, and the rest has nothing to do")

        def settle() -> None:
            release.settle(lake, context.database, [capture.capture], time.time())

        return Done(
            Outcome(OutcomeKind.SUCCEEDED, outputs, skips_rest="nothing changed in the sources"),
            in_transaction=lambda connection: commits.commit(connection, [capture.capture], time.time()),
            after_commit=settle,
        )


def bounds_of(settings: IpCaptureSettings) -> Bounds:
    return Bounds(settings.max_snapshots, settings.max_files, settings.max_rows, settings.max_bytes)


def options_of(
    settings: IpCaptureSettings,
    lake: Lake,
    tables: tuple[str, ...],
    ranges: Mapping[str, Mapping[str, str]],
    config: Config,
) -> CaptureOptions:
    """What a step's settings ask of a capture."""
    return CaptureOptions(
        operations=tuple(settings.data_operations),
        on_other_operations=settings.on_other_operations,
        on_gap=settings.on_gap,
        columns=_columns(settings, lake, ranges),
        pin=settings.pin,
        keep_seconds=settings.keep if settings.keep is not None else config.change_tables.keep_hours * 3600,
        pinned_batches=None if settings.keep is not None else config.change_tables.pinned_batches,
        change_tables=settings.capture_mode == "ICDC",
        alias=_alias(settings, lake, tables),
        skip_empty=settings.on_empty == "skip",
    )


def _with_watermark(options: CaptureOptions, goal: completeness.WatermarkGoal | None) -> CaptureOptions:
    """The options with a watermark to derive: its column's range has to be found too."""
    if goal is None or goal.columns is None:
        return replace(options, completes=goal)
    columns = dict(options.columns)
    for table, column in goal.columns.items():
        columns[table] = (*columns.get(table, ()), column)
    return replace(options, completes=goal, columns=columns)


def _has_ended(context: StepContext, run_id: str) -> bool:
    with context.database.read() as connection:
        run = runs.load(connection, run_id)
    return run is None or run.status in _ENDED


def _writes_a_range(context: StepContext) -> bool:
    """Whether a step behind the capture writes a range anew, so that it has something to do whatever has changed.

    Raises for what is no range, before anything is captured.
    """
    behind = list(steps_behind(definition_of(context), context.key.step_id))
    value = context.params.get(write_ranges.PARAMETER)
    if value is None:
        return any(write.get("range") for write in map(write_of, behind) if write is not None)
    ranges.order(value, None, f"run {context.key.run_id}, step {context.key.step_id}")
    # A subworkflow is given all parameters, and may have such a step.
    return any(isinstance(step, SubworkflowStep) or write_of(step) is not None for step in behind)


def _refuse_filled_targets(context: StepContext, lake: Lake) -> None:
    """A target with rows and a consumer that has read nothing: whether the rows are in there already, only people know."""
    workflow = definition_of(context)
    scope = Scope(params={name: item.value for name, item in context.params.items()})
    for target in write_targets(workflow, context.key.step_id, scope):
        try:
            table = lake.table(target)
        except TableNotFoundError:
            continue
        head = history.head(table.metadata, "main", table=target)
        rows = table.metadata.snapshots[head].summary.get("total-records") if head is not None else "0"
        if rows != "0":
            raise StartError(
                f"{table.name} has rows already, and this consumer has read nothing yet",
                where=f"run {context.key.run_id}, step {context.key.step_id}",
                hint="say where to begin, in ip_capture: start: earliest (everything, again), latest (only what comes), a snapshot id or a time",
            )


def _alias(settings: IpCaptureSettings, lake: Lake, tables: tuple[str, ...]) -> str | None:
    if settings.target_table is None:
        return None
    if len(tables) > 1:
        raise UsageError(
            "target_table names one change table, and this capture makes one for each of its sources",
            hint="leave it out, or capture each source in a step of its own",
        )
    name = lake.canonical_name(settings.target_table)
    if name in tables:
        raise UsageError(f"target_table: {name} is the source itself", hint="choose another name")
    return name


def _columns(
    settings: IpCaptureSettings, lake: Lake, ranges: Mapping[str, Mapping[str, str]]
) -> dict[str, tuple[str, ...]]:
    by_table: dict[str, tuple[str, ...]] = {}
    if isinstance(settings.columns, dict):
        by_table = {lake.canonical_name(table): tuple(names) for table, names in settings.columns.items()}
    elif settings.columns:
        by_table = {"*": tuple(settings.columns)}
    for columns in ranges.values():
        for table, column in columns.items():
            by_table[table] = (*by_table.get(table, ()), column)
    return by_table


def range_columns_of(settings: IpCaptureSettings, lake: Lake, tables: tuple[str, ...]) -> dict[str, dict[str, str]]:
    """Common name -> source -> column. A plain text is the same column in every source."""
    out: dict[str, dict[str, str]] = {}
    for name, columns in settings.range_columns.items():
        if isinstance(columns, str):
            out[name] = dict.fromkeys(tables, columns)
            continue
        named = {lake.canonical_name(table): column for table, column in columns.items()}
        strangers = [table for table in named if table not in tables]
        if strangers:
            raise UsageError(
                f"range_columns.{name} names {strangers[0]}, which is no source of this capture",
                hint=f"the sources are: {', '.join(tables)}",
            )
        out[name] = named
    return out


def _tell(context: StepContext, capture: BuiltCapture) -> None:
    for source in capture.sources:
        changes = source.found
        start = source.start.snapshot_id if source.start else "the beginning"
        end = source.end.snapshot_id if source.end else "no snapshot yet"
        context.log(
            f"{source.table}: {start} -> {end}, {changes.get('added_rows') or 0} rows in "
            f"{changes.get('added_files') or 0} files, change table {source.change_table or 'not made'}"
        )
        if changes.get("skipped_operations"):
            context.log(f"{source.table}: ignored operations {changes['skipped_operations']}")
    complete = completeness.reached(capture.sources)
    if complete is not None:
        until = datetime.fromtimestamp(complete[1], UTC).isoformat(sep=" ", timespec="seconds")
        context.log(f"with the commit {complete[0]} is complete up to {until} at least")
    for source in capture.sources:
        if source.completes is not None and source.through is None:
            context.log(f"the watermark of {source.completes} stays: how far {source.table} is complete is not known")
