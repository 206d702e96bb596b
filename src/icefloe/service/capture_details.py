"""One capture with all that is on record of it: what was found, what ran on it, what was published, and what it waits for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy.engine import Connection

from icefloe.capture.sources import Source
from icefloe.engine.evaluation import Evaluation
from icefloe.engine.run_snapshot import RunSnapshot
from icefloe.errors import IcefloeError, NotFoundError
from icefloe.service.client import Client
from icefloe.service.consumers import CaptureView, capture_view
from icefloe.store import captures, definitions, runs
from icefloe.store.captures import CaptureRecord
from icefloe.workflow.files import script_key
from icefloe.workflow.model import TypedStep

MOST_PARTITIONS = 200
MOST_MEMBERS = 50
_ENDED = ("SUCCEEDED", "FAILED", "STOPPED", "TIMED_OUT")


@dataclass(frozen=True, slots=True)
class CapturedSource:
    """One source's part. ``read_point`` is how SQL names the source as it was captured; ``ranges`` have ``min`` and ``max`` by column, None
    where they are not known; ``partitions`` are the first so many of ``partition_count``."""

    table: str
    ref: str
    from_snapshot: int | None
    to_snapshot: int | None
    change_table: str | None
    read_point: str
    pin: str | None
    files: int
    rows: int
    bytes: int | None
    removed_files: int
    append_only: bool
    exact: bool
    skipped: Mapping[str, int]
    ranges: Mapping[str, Any]
    partitions: tuple[Mapping[str, Any], ...]
    partition_count: int
    range_filter: str | None
    partition_filter: str | None


@dataclass(frozen=True, slots=True)
class StepSql:
    """A step of the capture's run with its text, filled in as far as it can be."""

    run_id: str
    step: str
    status: str
    sql: str
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class CaptureDetails:
    """``waits_for``: in words; None: it has ended. ``release_at``: when its change tables and pins go."""

    capture: CaptureView
    workflow_id: str | None
    run_status: str | None
    sources: tuple[CapturedSource, ...]
    steps: tuple[StepSql, ...]
    waits_for: str | None
    release_at: float | None

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def show(client: Client, capture_id: str) -> CaptureDetails:
    with client.database.read() as connection:
        record = captures.capture(connection, capture_id)
        if record is None:
            raise NotFoundError(f"there is no capture {capture_id!r}", hint="icefloe captures")
        published = captures.publications_of(connection, [capture_id])
        owner = captures.consumer(connection, record.consumer)
        run = runs.load(connection, record.run_id)
        steps = tuple(_steps(client, connection, record)) if run is not None else ()
    status = run.status if run is not None else None
    return CaptureDetails(
        capture_view(record, published),
        owner.workflow_id if owner is not None else None,
        status,
        tuple(_source(Source.from_json(one), client.config.catalog.name) for one in record.sources),
        steps,
        _waits_for(record, status, steps),
        record.release_at,
    )


def _source(source: Source, catalog: str) -> CapturedSource:
    found = source.found
    partitions = found.get("partitions") or []
    return CapturedSource(
        source.table,
        source.ref,
        source.start.snapshot_id if source.start else None,
        source.end.snapshot_id if source.end else None,
        f"{catalog}.{source.change_table}" if source.change_table else None,
        source.read_point(catalog),
        source.branch,
        found.get("added_files") or 0,
        found.get("added_rows") or 0,
        found.get("added_bytes"),
        found.get("removed_files") or 0,
        bool(found.get("append_only")),
        bool(found.get("exact")),
        dict(found.get("skipped_operations") or {}),
        dict(found.get("ranges") or {}),
        tuple(partitions[:MOST_PARTITIONS]),
        len(partitions),
        found.get("range_filter"),
        found.get("partition_filter"),
    )


def _waits_for(record: CaptureRecord, status: str | None, steps: tuple[StepSql, ...]) -> str | None:
    if not record.is_open:
        return None
    if status is None or status in _ENDED:
        ended = (
            f"run {record.run_id} has ended as {status}" if status else f"run {record.run_id} is not on record any more"
        )
        return f"{ended}: the next run takes this capture over as it is, or a restart goes on with it"
    active = ", ".join(one.step for one in steps if one.status in ("RUNNING", "STARTING"))
    return f"run {record.run_id} works on it" + (f": step {active}" if active else "")


def _steps(client: Client, connection: Connection, record: CaptureRecord) -> Iterator[StepSql]:
    """The Spark steps of the run, and of the runs inside it."""

    def image_of(run_id: str) -> RunSnapshot:
        return client.conductor.snapshots.get(connection, run_id)

    def content(digest: str) -> bytes | None:
        return definitions.file(connection, digest)

    for member in runs.members(connection, record.run_id)[:MOST_MEMBERS]:
        try:
            image = image_of(member.id)
        except NotFoundError:
            continue  # its definition is not on record any more
        statuses = {step.step_id: step.status for step in runs.load_steps(connection, member.id)}
        evaluation = Evaluation(image_of, image, content)
        for step in image.definition.container(image.record.path).steps:
            if isinstance(step, TypedStep) and step.type == "Spark" and step.id in statuses:
                yield _step(member.id, step, statuses[step.id], evaluation, image.definition.files, content)


def _step(
    run_id: str, step: TypedStep, status: str, evaluation: Evaluation, files: Mapping[str, str], content: Any
) -> StepSql:
    problem = None
    try:
        settings: Mapping[str, Any] = evaluation.step(step).settings
    except IcefloeError as error:
        settings, problem = step.settings, f"its parameters are not complete: {error.message}"
    script = str(settings.get("script", ""))
    key = script_key(script)
    if key is not None:
        read = content(files[key]) if key in files else None
        script = read.decode("utf-8", "replace") if read is not None else script
    return StepSql(run_id, step.id, status, script, problem)
