"""``type: Spark``: SQL or PySpark on Spark, published exactly once.

The work runs in a process of its own, which talks to the project's Spark server over Connect, to another server (``remote``),
or is itself a Spark application (``submit: spark-submit``). What it publishes carries a mark made of the captures that the run
holds, so that a batch that is repeated, by a retry, a restart or a later run that took the capture over, is recognised and not
written twice.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar
from uuid import uuid4

from sqlalchemy.engine import Connection

from icefloe.capture import published
from icefloe.capture.sources import Source
from icefloe.config import FILE_NAME
from icefloe.environment import for_spark, hand_over
from icefloe.errors import IcefloeError, UsageError
from icefloe.lake import Lake
from icefloe.lake.catalog import RefChange
from icefloe.lake.pins import slug
from icefloe.spark import jars, java, server, targets
from icefloe.spark.fence import branches_of
from icefloe.spark.marks import CapturedRange, Mark
from icefloe.spark.program_order import ProgramKind as Script
from icefloe.spark.program_order import ProgramOrder
from icefloe.steps.contract import (
    Cause,
    Command,
    Done,
    Launch,
    Outcome,
    OutcomeKind,
    ProcessResult,
    Progress,
    StepContext,
    StepRuntime,
    builtin,
)
from icefloe.steps.process import PUBLISHED_FILE, default_outcome, environment, python_program, write_private
from icefloe.steps.write import ranges, write_job, write_record, write_report
from icefloe.store import captures, spark_sessions
from icefloe.store.captures import CaptureRecord
from icefloe.store.spark_sessions import SparkSessionRecord
from icefloe.workflow import write_ranges
from icefloe.workflow.files import script_key
from icefloe.workflow.step_types import SparkSettings, StepType
from icefloe.workflow.values import TypedValue, plain

IMPORTS = (
    "icefloe.spark.program",
    "icefloe.steps.write.execution",
    "pyiceberg.catalog.rest",
    "pyiceberg.catalog.sql",
    "pyiceberg.io.pyarrow",
    "pyspark.sql.connect.functions",
    "pyspark.sql.connect.session",
    "pyspark.sql.functions",
)
"""What takes a Spark step's process seconds to import."""
_FUNCTION = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")


class SparkStep(StepRuntime):
    """Outputs: ``published_tables`` and ``published_snapshots``, in one order, and what the script itself publishes; with ``write:`` also
    ``savings``, what was read of what would have been, ``searched_rows`` and ``searched_bytes`` where the step itself looked for keys, and
    with shadow mode ``shadow_compared_rows``."""

    type: ClassVar[StepType] = builtin("spark")

    def start(self, context: StepContext) -> Progress:
        settings = context.parsed(self.type)
        assert isinstance(settings, SparkSettings)
        try:
            order = _order(context, settings)
            _provide(context, settings)
        except IcefloeError as error:
            return Done(Outcome(OutcomeKind.PLATFORM if error.retryable else OutcomeKind.FATAL, cause=Cause.of(error)))
        file = context.folder / "order.json"
        write_private(file, order.to_json().encode())
        hand_over(context.config, context.folder)
        extra = {"ICEFLOE_RESULT": str(context.folder / PUBLISHED_FILE)}
        submits = settings.submit == "spark-submit"
        program = "icefloe.spark.submit" if submits else "icefloe.spark.program"
        return Launch(
            Command(
                (python_program(), "-m", program, str(file)),
                {**for_spark(context.config), **environment(context), **extra},
                context.config.root,
                () if submits else IMPORTS,
            )
        )

    def ended(self, context: StepContext, result: ProcessResult) -> Done:
        outcome = default_outcome(context, result)
        settings = context.parsed(self.type)
        assert isinstance(settings, SparkSettings)
        report = _report(context)
        results: dict[str, int] = report.get("published", {})
        written = write_report.read(context.folder)
        open_captures = _open_captures(context)
        mark = _mark(context, open_captures)

        def record(connection: Connection) -> None:
            # Also after a failure: of several targets some may be published, and are not to be written again.
            for capture in open_captures:
                for target, snapshot_id in results.items():
                    captures.publish(
                        connection,
                        capture_id=capture.id,
                        step_path=mark.place,
                        iteration=context.iteration,
                        target=target,
                        snapshot_id=snapshot_id,
                        now=time.time(),
                    )
            if outcome.kind is OutcomeKind.SUCCEEDED:
                spark_sessions.mark_ended(connection, mark.text, time.time())
                write_record.record(connection, context, settings, mark, written, time.time())

        if outcome.kind is not OutcomeKind.SUCCEEDED:
            error = report.get("error")
            if error and outcome.kind is OutcomeKind.ERROR:
                place = f"{error['where']}: " if error["where"] else ""
                kind = (
                    OutcomeKind.PLATFORM
                    if error["retryable"]
                    else OutcomeKind.FATAL
                    if error["fatal"]
                    else OutcomeKind.ERROR
                )
                outcome = Outcome(kind, cause=Cause(f"{place}{error['message']}", error["code"], error["hint"]))
            return Done(outcome, in_transaction=record)
        outputs = {
            **outcome.outputs,
            "published_tables": TypedValue.of(tuple(results)),
            "published_snapshots": TypedValue.of(tuple(str(snapshot) for snapshot in results.values())),
        }
        if written.savings is not None:
            outputs["savings"] = TypedValue.of(written.savings.line)
        if written.compared_rows is not None:
            outputs["shadow_compared_rows"] = TypedValue.of(written.compared_rows)
        if written.searched is not None:
            outputs["searched_rows"] = TypedValue.of(written.searched.rows)
            outputs["searched_bytes"] = TypedValue.of(written.searched.bytes)
        return Done(
            Outcome(OutcomeKind.SUCCEEDED, outputs),
            in_transaction=record,
            after_commit=lambda: _drop_left_behind(context, tuple(results)),
        )


def _refuse_contradictions(settings: SparkSettings, where: str) -> None:
    submits = settings.submit == "spark-submit"
    if settings.master is not None and not submits:
        raise UsageError("spark.master is for submit: spark-submit", where=where, hint="add submit: spark-submit")
    if settings.on_logic_change != "ask" and settings.write is None:
        raise UsageError("spark.on_logic_change is for write:", where=where, hint="leave on_logic_change out")
    if settings.remote is not None and submits:
        raise UsageError("spark.remote is for submit: connect", where=where, hint="name a master instead of a remote")
    if settings.remote is not None and not settings.remote.startswith(("sc://", "$ENV{")):
        raise UsageError(f"{settings.remote!r} is no Spark Connect address", where=where, hint="sc://host:port")
    if settings.shadow != "off" and settings.write is None:
        raise UsageError(
            "spark.shadow compares what write: has written, and this step has none",
            where=where,
            hint="leave shadow out",
        )
    if settings.target_branch is not None and settings.publish == "direct":
        raise UsageError(
            "spark.target_branch is where batches are published to, publish: direct writes to main",
            where=where,
            hint="leave out one of the two",
        )


def _order(context: StepContext, settings: SparkSettings) -> ProgramOrder:
    where = f"run {context.key.run_id}, step {context.key.step_id}"
    _refuse_contradictions(settings, where)
    open_captures = _open_captures(context)
    mark = _mark(context, open_captures)
    work: Mapping[str, Any] = {}
    if settings.write is not None:
        kind, script, shown = Script.CARRIED, write_job.CARRIER, where
        sources = [Source.from_json(data) for capture in open_captures for data in capture.sources]
        text = context.script(settings.script)
        logic = write_record.logic_order(context, settings, settings.write, mark, text)
        anew = ranges.order(context.params.get(write_ranges.PARAMETER), settings.write.range, where)
        work = write_job.work(settings, text, sources, where, logic, anew).to_json()
    else:
        kind, script, shown = _script(context, settings, where)
    branch = _branch(context)
    session_id = str(uuid4())
    with context.database.write() as connection:
        earlier = spark_sessions.opened(
            connection,
            SparkSessionRecord(session_id, mark.text, context.key.run_id, context.key.step_id, branch, time.time()),
        )
    return ProgramOrder(
        kind=kind,
        config=str(context.config.root / FILE_NAME),
        script=script,
        where=shown,
        mark=mark,
        branch=branch,
        session_id=session_id,
        conf={key: _conf_value(value) for key, value in settings.conf.items()},
        remote=settings.remote,
        master=settings.master,
        direct=settings.publish == "direct",
        ref=settings.target_branch or "main",
        targets=tuple(settings.targets),
        args=tuple(settings.args),
        captures=tuple(
            published for capture in open_captures for published in _published(capture, context.config.catalog.name)
        ),
        known=_known(context, open_captures, mark),
        predecessors=tuple(session.session_id for session in earlier),
        stale_branches=tuple(dict.fromkeys(session.branch for session in earlier)),
        work=work,
        folder=str(context.folder / "files"),
    )


def _provide(context: StepContext, settings: SparkSettings) -> None:
    """What attempts share and none owns: the project's server, or the jars. Asked for here, in the worker, since an attempt's
    supervisor ends whatever the attempt starts."""
    if settings.submit == "spark-submit":
        runtime = java.find(context.config.spark.java_home)
        jars.ensure(jars.required(context.config), runtime.launcher, note=context.log)
    elif settings.remote is None and context.config.spark.remote is None:
        server.ensure(context.config, note=context.log).release()


def _script(context: StepContext, settings: SparkSettings, where: str) -> tuple[Script, str, str]:
    """What to run, and how errors call it."""
    script = settings.script.strip()
    files = context.folder / "files"
    files.mkdir(mode=0o700, exist_ok=True)
    for name in settings.files:
        _place(files, name, context.read_file(f"file:{name.strip()}"))
    if _FUNCTION.fullmatch(script):
        return Script.FUNCTION, script, script
    key = script_key(settings.script)
    if key is None:
        text, shown = settings.script, where
    elif script.lower().endswith(".py"):
        return Script.SCRIPT, str(_place(files, PurePosixPath(script).name, context.read_file(key))), script
    elif script.lower().endswith(".sql"):
        text, shown = context.script(settings.script), script
    else:
        raise UsageError(
            f"{script} is neither SQL nor Python", where=where, hint="a Spark step takes a .sql or a .py file"
        )
    # Parsed here already: a target that cannot be read off it fails at once, before a session is asked for.
    targets.parse(text, where=shown)
    return Script.SQL, text, shown


def _place(folder: Path, name: str, content: bytes) -> Path:
    """A file of the version under its own name, for imports and for reading; never outside of the folder."""
    relative = PurePosixPath(name.strip())
    file = folder / relative
    if relative.is_absolute() or ".." in relative.parts:
        file = folder / relative.name
    file.parent.mkdir(parents=True, exist_ok=True)
    write_private(file, content)
    return file


def _conf_value(value: str | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else value


def _mark(context: StepContext, open_captures: list[CaptureRecord]) -> Mark:
    """What this step does, named so that every attempt at the same work has the same name."""
    # The run's own id says which iterations of which loops it is in; without the root's it is the same in every run.
    loops = context.key.run_id.removeprefix(context.root_run_id).strip(":")
    place = "/".join((*([loops] if loops else []), *context.step_path))
    ranges = tuple(
        CapturedRange(
            capture.id, capture.consumer, capture.base_version, _ends(capture, "start"), _ends(capture, "end")
        )
        for capture in sorted(open_captures, key=lambda record: record.consumer)
    )
    return Mark(place, context.root_run_id, context.era, ranges)


def _ends(capture: CaptureRecord, which: str) -> tuple[str, ...]:
    return tuple(
        f"{source['table']}@{source[which]['snapshot_id'] if source[which] else '-'}" for source in capture.sources
    )


def _published(capture: CaptureRecord, catalog: str) -> list[Mapping[str, Any]]:
    parameters: list[Mapping[str, Any]] = []
    for source in (Source.from_json(data) for data in capture.sources):
        values = published.parameters([source], capture_id=capture.id, catalog=catalog, range_columns={})
        plain_values = {name: plain(item.value) for name, item in values.items()}
        parameters.append({"source": f"{catalog}.{source.table}", **plain_values})
    return parameters


def _known(context: StepContext, open_captures: list[CaptureRecord], mark: Mark) -> dict[str, int]:
    """What the state database says is published, for all captures at hand."""
    if not open_captures:
        return {}
    with context.database.read() as connection:
        rows = captures.publications_of(connection, [capture.id for capture in open_captures])
    iteration = -1 if context.iteration is None else context.iteration
    return {
        row["target"]: row["snapshot_id"]
        for row in rows
        if row["step_path"] == mark.place and row["iteration"] == iteration
    }


def _open_captures(context: StepContext) -> list[CaptureRecord]:
    """The captures that this run holds open."""
    with context.database.read() as connection:
        return captures.held_by_run(connection, context.root_run_id)


def _branch(context: StepContext) -> str:
    key = context.key
    return f"icefloe_attempt__{slug(key.run_id)}__{slug(key.step_id)}__{key.attempt}_{key.generation}"


def _drop_left_behind(context: StepContext, tables: Sequence[str]) -> None:
    """Branches that killed attempts of ended runs have left on these tables. Expiry would take them away, but later."""
    with context.database.read() as connection:
        dead = spark_sessions.left_behind(connection)
    if not dead:
        return
    lake = Lake.open(context.config)
    for name in tables:
        table = lake.table(name)
        stale = branches_of(table.metadata.refs, dead)
        if stale:
            lake.tables.set_refs(table.identifier, [RefChange(ref, None) for ref in stale])


def _report(context: StepContext) -> dict[str, Any]:
    try:
        report: dict[str, Any] = json.loads((context.folder / PUBLISHED_FILE).read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return {}
    return report
