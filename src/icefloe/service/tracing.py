"""OpenTelemetry: spans of runs, attempts, captures and publications, read from the record of events; and of this server's requests.

A thread of ``icefloe serve`` sends them. No step waits for it, and workers elsewhere need no setting. Spans have ids that follow from what
they are about, so those of one run make one trace, whoever sends them. What happens while no server runs is not sent; what cannot be
sent is dropped and counted as a suppressed error. Off unless an endpoint is configured; needs ``icefloe[otel]``.
"""

from __future__ import annotations

import hashlib
import logging
import os
import threading
from collections import deque
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import icefloe
from icefloe import suppressed
from icefloe.config import Config
from icefloe.engine.states import RunStatus, StepStatus
from icefloe.errors import IcefloeError, MissingComponentError
from icefloe.store import captures as stored_captures
from icefloe.store import runs
from icefloe.store.activity import Activity, MoveRecord
from icefloe.store.captures import CaptureRecord
from icefloe.store.database import Database

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.trace.export import SpanExporter

LOG = logging.getLogger("icefloe.telemetry")
EVERY_SECONDS = 1.0
MOVES_AT_ONCE = 2_000
MOST_REQUESTS = 2_000
"""Requests that wait to be sent; more of them are dropped."""
_STANDARD = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_ENDED_RUN = {status.value for status in RunStatus if status.ended}
_ACTIVE_STEP = {status.value for status in StepStatus if status.active}
Attributes = Mapping[str, str | int | float]


def is_configured(config: Config) -> bool:
    if os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return False
    return config.telemetry.otlp_endpoint is not None or any(os.environ.get(name) for name in _STANDARD)


def otlp_exporter(config: Config) -> SpanExporter:
    """To the configured endpoint, else to the one in the standard variables; headers and timeouts are theirs to set."""
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    except ModuleNotFoundError as error:
        raise MissingComponentError("OpenTelemetry is not installed", hint="pip install 'icefloe[otel]'") from error
    endpoint = config.telemetry.otlp_endpoint
    return OTLPSpanExporter(endpoint=f"{endpoint.rstrip('/')}/v1/traces" if endpoint else None)


class Tracing:
    """``start`` returns at once; ``stop`` sends what is left."""

    def __init__(self, database: Database, exporter: SpanExporter) -> None:
        from opentelemetry.sdk.resources import Resource

        self._database, self._exporter = database, exporter
        own = {"service.name": os.environ.get("OTEL_SERVICE_NAME", "icefloe"), "service.version": icefloe.__version__}
        self._resource = Resource.create(dict(own))
        self._activity: Activity | None = None
        self._requests: deque[tuple[str, str, int, float, float]] = deque()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._repeat, name="icefloe-telemetry", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join(10)

    def request(self, method: str, route: str, status: int, began: float, ended: float) -> None:
        """A request was answered. From any thread, and quick."""
        if len(self._requests) < MOST_REQUESTS:
            self._requests.append((method, route, status, began, ended))
        else:
            suppressed.count("telemetry.requests", "too many requests wait to be sent: dropped")

    def _repeat(self) -> None:
        last = False
        while not last:
            last = self._stopped.wait(EVERY_SECONDS if self._activity is not None else 0.0)
            try:
                self._send(self._spans())
            except IcefloeError as error:
                suppressed.count("telemetry.read", error)
            except Exception as error:
                suppressed.count("telemetry.send", error)

    def _send(self, spans: list[ReadableSpan]) -> None:
        from opentelemetry.sdk.trace.export import SpanExportResult

        if spans and self._exporter.export(spans) is not SpanExportResult.SUCCESS:
            suppressed.count("telemetry.send", f"{len(spans)} spans could not be sent and are dropped")

    # -- what is sent ------------------------------------------------------------------------------------------------------

    def _spans(self) -> list[ReadableSpan]:
        spans = [self._of_request(*self._requests.popleft()) for _ in range(len(self._requests))]
        with self._database.read() as connection:
            if self._activity is None:
                self._activity = Activity.from_now(connection)
            moves = self._activity.moves(connection, MOVES_AT_ONCE)
            ended = self._activity.captures(connection)
            roots = {
                record.run_id: run.root_id
                for record in ended
                if (run := runs.load(connection, record.run_id)) is not None
            }
            published = stored_captures.publications_of(connection, [record.id for record in ended])
        for move in moves:
            if move.step_id is None:
                spans += self._of_run(move)
            elif move.previous in _ACTIVE_STEP and move.status not in _ACTIVE_STEP:
                spans += self._of_attempt(move)
        for record in ended:
            root = roots.get(record.run_id, record.run_id)
            spans += self._of_capture(root, record)
            spans += [
                self._span(
                    f"publish {one['target']}", root, f"publish {one}", _run(record.run_id), one["published_at"],
                    one["published_at"], {"icefloe.table": str(one["target"]), "icefloe.snapshot_id": int(one["snapshot_id"])},
                )
                for one in published
                if one["capture_id"] == record.id
            ]  # fmt: skip
        return spans

    def _of_run(self, move: MoveRecord) -> Iterable[ReadableSpan]:
        if move.status not in _ENDED_RUN or move.started_at is None:
            return
        parent = _run(move.root_id) if move.root_id != move.run_id else None
        about = {"icefloe.run_id": move.run_id, "icefloe.workflow": move.workflow_id, "icefloe.status": move.status}
        problem = None if move.status == RunStatus.SUCCEEDED else move.cause or move.status
        yield self._span(
            f"run {move.workflow_id}", move.root_id, _run(move.run_id), parent, move.started_at, move.at, about, problem
        )

    def _of_attempt(self, move: MoveRecord) -> Iterable[ReadableSpan]:
        if move.attempt_started_at is None or move.attempt_ended_at is None or move.attempt is None:
            return
        about: dict[str, str | int | float] = {
            "icefloe.run_id": move.run_id,
            "icefloe.workflow": move.workflow_id,
            "icefloe.step_id": move.step_id or "",
            "icefloe.step_type": move.step_type or "",
            "icefloe.attempt": move.attempt,
            "icefloe.worker": move.worker or "",
            "icefloe.status": move.attempt_status or "",
        }
        key = f"attempt {move.run_id}/{move.step_id}/{move.attempt}"
        problem = None if move.attempt_status == StepStatus.SUCCEEDED else move.cause or move.attempt_status
        yield self._span(
            f"step {move.step_id}", move.root_id, key, _run(move.run_id), move.attempt_started_at, move.attempt_ended_at,
            about, problem,
        )  # fmt: skip

    def _of_capture(self, root: str, record: CaptureRecord) -> Iterable[ReadableSpan]:
        tables = ", ".join(str(source["table"]) for source in record.sources if "table" in source)
        about = {"icefloe.capture_id": record.id, "icefloe.consumer": record.consumer, "icefloe.tables": tables}
        about["icefloe.status"] = record.state
        until = record.built_at or record.ended_at or record.created_at
        key = f"capture {record.id}"
        yield self._span(f"capture {record.consumer}", root, key, _run(record.run_id), record.created_at, until, about)

    def _of_request(self, method: str, route: str, status: int, began: float, ended: float) -> ReadableSpan:
        about: Attributes = {"http.request.method": method, "http.route": route, "http.response.status_code": status}
        key = f"request {began} {os.urandom(8).hex()}"
        problem = f"status {status}" if status >= 500 else None
        return self._span(f"{method} {route}", key, key, None, began, ended, about, problem, server=True)

    def _span(
        self,
        name: str,
        trace: str,
        key: str,
        parent: str | None,
        began: float,
        ended: float,
        attributes: Attributes,
        problem: str | None = None,
        *,
        server: bool = False,
    ) -> ReadableSpan:
        from opentelemetry.sdk.trace import ReadableSpan
        from opentelemetry.sdk.util.instrumentation import InstrumentationScope
        from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

        def context(text: str) -> SpanContext:
            sampled = TraceFlags(TraceFlags.SAMPLED)
            return SpanContext(_number(f"trace {trace}", 16), _number(text, 8), is_remote=False, trace_flags=sampled)

        return ReadableSpan(
            name=name,
            context=context(key),
            parent=context(parent) if parent is not None else None,
            resource=self._resource,
            attributes=dict(attributes),
            kind=SpanKind.SERVER if server else SpanKind.INTERNAL,
            status=Status(StatusCode.ERROR, problem) if problem else Status(StatusCode.OK),
            start_time=int(began * 1e9),
            end_time=int(max(began, ended) * 1e9),
            instrumentation_scope=InstrumentationScope("icefloe", icefloe.__version__),
        )


def _run(run_id: str) -> str:
    return f"run {run_id}"


def _number(text: str, size: int) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:size], "big")
