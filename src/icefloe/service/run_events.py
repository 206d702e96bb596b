"""OpenLineage's run events, made of what happened to runs and steps.

A workflow's run is a run of the job ``WORKFLOW``, an attempt of a step one of ``WORKFLOW.STEP``, an iteration of a foreach one of
``WORKFLOW.STEP.iteration``. Their ids follow from what they are about: an event that is sent again says the same. A restarted run goes on
under a new id. Tables are named by the catalog: its location is the namespace.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

from sqlalchemy.engine import Connection

import icefloe
from icefloe.config import Config, expand
from icefloe.engine.states import PENDING, RunStatus, StepStatus
from icefloe.store import run_lineage
from icefloe.store.activity import MoveRecord
from icefloe.store.run_lineage import CapturedTable, PublishedTable, RunOrigin

SPEC = "https://openlineage.io/spec"
SCHEMA_URL = f"{SPEC}/2-0-2/OpenLineage.json#/$defs/RunEvent"
PRODUCER = f"urn:icefloe:{icefloe.__version__}"
MOST_MESSAGE = 10_000
_IDS = uuid.uuid5(uuid.NAMESPACE_URL, "urn:icefloe:openlineage")
_ACTIVE_STEP = {status.value for status in StepStatus if status.active}
_PENDING_STEP = {status.value for status in PENDING}
_RUN_ENDS = {
    RunStatus.SUCCEEDED.value: "COMPLETE",
    RunStatus.FAILED.value: "FAIL",
    RunStatus.TIMED_OUT.value: "FAIL",
    RunStatus.STOPPED.value: "ABORT",
}
_FAILED_ATTEMPT = {status.value for status in StepStatus if status.failed} - {StepStatus.STOPPED.value}
_ENDS_IN_FAILURE = _FAILED_ATTEMPT | {StepStatus.COMPLETED_WITH_ERROR.value}
Event = dict[str, Any]


class RunEvents:
    """Of one project. Reads the state, and sends nothing."""

    def __init__(self, config: Config) -> None:
        self._catalog = config.catalog.name
        self._jobs = config.openlineage.namespace or config.catalog.name or "icefloe"
        self._tables = dataset_namespace(config)

    def of(self, connection: Connection, move: MoveRecord) -> list[Event]:
        """What is to be told of a move: nothing, its event, or a start and an end in one."""
        kinds = kinds_of(move)
        origin = run_lineage.origin(connection, move.run_id, move.seq) if kinds else None
        if origin is None:
            return []
        return [self._event(connection, move, origin, kind) for kind in kinds]

    def _event(self, connection: Connection, move: MoveRecord, origin: RunOrigin, kind: str) -> Event:
        inputs: list[CapturedTable] = []
        outputs: list[PublishedTable] = []
        if kind != "START":
            outputs = self._outputs(connection, move)
            inputs = self._inputs(connection, move, outputs)
        return {
            "eventType": kind,
            "eventTime": datetime.fromtimestamp(move.at, UTC).isoformat(timespec="microseconds"),
            "producer": PRODUCER,
            "schemaURL": SCHEMA_URL,
            "run": {"runId": _event_id(move, origin), "facets": self._run_facets(connection, move, origin, kind)},
            "job": {**self._job(_job_name(move, origin)), "facets": _job_facets(move)},
            "inputs": [self._dataset(table.table, table.snapshot_id) for table in inputs],
            "outputs": [self._output(table) for table in outputs],
        }

    def _run_facets(self, connection: Connection, move: MoveRecord, origin: RunOrigin, kind: str) -> dict[str, Any]:
        version = icefloe.__version__
        facets = {
            "processing_engine": _facet(
                "facets/1-1-0/ProcessingEngineRunFacet.json#/$defs/ProcessingEngineRunFacet",
                name="icefloe", version=version, openlineageAdapterVersion=version,
            ),
            "icefloe": _facet(
                "2-0-2/OpenLineage.json#/$defs/RunFacet",
                run=move.run_id, restarts=origin.restarts, workflow=move.workflow_id, version=origin.version,
                **({"step": move.step_id, "attempt": move.attempt} if move.step_id is not None else {}),
            ),
        }  # fmt: skip
        parent = origin if move.step_id is not None else None
        if parent is None and origin.parent_id is not None:
            parent = run_lineage.origin(connection, origin.parent_id, move.seq)
        if parent is not None:
            facets["parent"] = _facet(
                "facets/1-0-1/ParentRunFacet.json#/$defs/ParentRunFacet",
                run={"runId": run_uuid(parent.run_id, parent.restarts)}, job=self._job(_run_name(parent)),
            )  # fmt: skip
        if kind == "FAIL" or (kind == "ABORT" and move.cause):
            facets["errorMessage"] = _facet(
                "facets/1-0-0/ErrorMessageRunFacet.json#/$defs/ErrorMessageRunFacet",
                message=(move.cause or move.attempt_status or move.status)[:MOST_MESSAGE], programmingLanguage="PYTHON",
            )  # fmt: skip
        return facets

    def _job(self, name: str) -> dict[str, Any]:
        return {"namespace": self._jobs, "name": name}

    # -- tables ------------------------------------------------------------------------------------------------------------

    def _inputs(
        self, connection: Connection, move: MoveRecord, outputs: Iterable[PublishedTable]
    ) -> list[CapturedTable]:
        if move.step_id is None:
            return run_lineage.captured(connection, move.root_id) if move.run_id == move.root_id else []
        sources = run_lineage.captured(connection, move.root_id, move.workflow_id, move.step_id)
        for place in sorted({table.place for table in outputs}):
            sources += run_lineage.captured_for(connection, move.root_id, place)
        return list({source.table: source for source in sources}.values())

    def _outputs(self, connection: Connection, move: MoveRecord) -> list[PublishedTable]:
        inside = [
            table
            for table in run_lineage.published(connection, move.root_id, self._catalog)
            if is_inside(table.place, move.root_id, move.run_id, move.step_id)
        ]
        return inside if move.step_id is not None else list({table.table: table for table in inside}.values())

    def _dataset(self, table: str, snapshot_id: int | None) -> dict[str, Any]:
        facets = {}
        if snapshot_id is not None:
            facets["version"] = _facet(
                "facets/1-0-0/DatasetVersionDatasetFacet.json#/$defs/DatasetVersionDatasetFacet",
                datasetVersion=str(snapshot_id),
            )
        name = table.removeprefix(f"{self._catalog}.")
        return {"namespace": self._tables, "name": name, "facets": facets}

    def _output(self, table: PublishedTable) -> dict[str, Any]:
        facets = {}
        if table.rows is not None:
            facets["outputStatistics"] = _facet(
                "facets/1-0-1/OutputStatisticsOutputDatasetFacet.json#/$defs/OutputStatisticsOutputDatasetFacet",
                rowCount=table.rows, **({"size": table.bytes} if table.bytes is not None else {}),
            )  # fmt: skip
        return {**self._dataset(table.table, table.snapshot_id), "outputFacets": facets}


def kinds_of(move: MoveRecord) -> tuple[str, ...]:
    """The types of the events that a move is. A run that ends before it has begun starts and ends at once."""
    if move.previous == move.status:
        return ()
    if move.step_id is None:
        if move.status == RunStatus.IN_PROGRESS:
            return ("START",) if move.previous == RunStatus.CREATED else ()
        end = _RUN_ENDS.get(move.status)
        if end is None:
            return ()
        return ("START", end) if move.previous == RunStatus.CREATED else (end,)
    if move.previous in _ACTIVE_STEP and move.status not in _ACTIVE_STEP:
        if move.status in _PENDING_STEP and not _is_over(move):
            return ()
        status = move.attempt_status or move.status
        if status == StepStatus.SUCCEEDED:
            return ("COMPLETE",)
        return ("FAIL",) if status in _ENDS_IN_FAILURE else ("ABORT",)
    return ("START",) if move.status in _ACTIVE_STEP and move.previous not in _ACTIVE_STEP else ()


def _is_over(move: MoveRecord) -> bool:
    """Whether the attempt ended with the move. One that goes on elsewhere is taken up again by another worker."""
    return move.attempt_ended_at is not None and move.attempt_ended_at <= move.at


def run_uuid(run_id: str, restarts: int) -> str:
    return str(uuid.uuid5(_IDS, f"run {run_id} {restarts}"))


def attempt_uuid(run_id: str, step_id: str, attempt: int | None) -> str:
    """Attempts are numbered over all restarts."""
    return str(uuid.uuid5(_IDS, f"attempt {run_id}/{step_id}/{attempt}"))


def is_inside(place: str, root_id: str, run_id: str, step_id: str | None) -> bool:
    """Whether what is named by its loops and its path belongs to the run, or to the step of the run."""
    loops = run_id.removeprefix(root_id).strip(":")
    if step_id is None:
        return not loops or place.startswith((f"{loops}/", f"{loops}:"))
    return place == step_id if not loops else place.startswith(f"{loops}/") and place.rpartition("/")[2] == step_id


def dataset_namespace(config: Config) -> str:
    """Where the catalog is, without logins: its address for REST and Hive, else its warehouse."""
    catalog = config.catalog
    if catalog.type in ("rest", "hive") and catalog.uri:
        address = _without_login(catalog.uri)
        return address.replace("thrift://", "hive://", 1) if catalog.type == "hive" else address
    return _without_login(catalog.warehouse) if catalog.warehouse else catalog.name


def _without_login(address: str) -> str:
    parts = urlsplit(expand(address))
    if not parts.scheme:
        return address
    place = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{place}{parts.path}".rstrip("/")


def _event_id(move: MoveRecord, origin: RunOrigin) -> str:
    if move.step_id is None:
        return run_uuid(move.run_id, origin.restarts)
    return attempt_uuid(move.run_id, move.step_id, move.attempt)


def _run_name(origin: RunOrigin) -> str:
    return f"{origin.workflow_id}.{origin.path}.iteration" if origin.path else origin.workflow_id


def _job_name(move: MoveRecord, origin: RunOrigin) -> str:
    return _run_name(origin) if move.step_id is None else f"{origin.workflow_id}.{move.step_id}"


def _job_facets(move: MoveRecord) -> dict[str, Any]:
    kind = "ITERATION" if move.path else "WORKFLOW"
    return {
        "jobType": _facet(
            "facets/2-0-4/JobTypeJobFacet.json#/$defs/JobTypeJobFacet",
            processingType="BATCH", integration="ICEFLOE", jobType=kind if move.step_id is None else "STEP",
        ),
    }  # fmt: skip


def _facet(schema: str, **values: Any) -> dict[str, Any]:
    return {"_producer": PRODUCER, "_schemaURL": f"{SPEC}/{schema}", **values}
