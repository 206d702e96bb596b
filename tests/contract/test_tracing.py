"""OpenTelemetry, as a collector receives it: a real receiver of OTLP over HTTP, on both databases."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from icefloe import suppressed
from icefloe.service import tracing
from icefloe.store import captures
from icefloe.store.captures import CaptureRecord
from tests.contract.server.serving import serving
from tests.projects import Project, wait_until

FLOW = """
Workflow: {id: flow, dag: sequential, jobs: [{job: {id: good, type: NoOp}}, {job: {id: bad, type: Shell, shell: {script: exit 3}, retry: {error: 0}}}]}
"""


class Collector:
    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.paths: set[str] = set()
        self.status = 200
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                if self.headers.get("content-encoding") == "gzip":
                    import gzip

                    body = gzip.decompress(body)
                if collector.status == 200:
                    request = ExportTraceServiceRequest.FromString(body)
                    collector.spans += [
                        s for r in request.resource_spans for scope in r.scope_spans for s in scope.spans
                    ]
                    collector.paths.add(self.path)
                self.send_response(collector.status)
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever)
        self.thread.start()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}"

    def named(self, name: str) -> list[Span]:
        return [span for span in list(self.spans) if span.name == name]

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


@pytest.fixture
def collector() -> Iterator[Collector]:
    made = Collector()
    yield made
    made.close()


def told(project: Project, collector: Collector) -> None:
    settings = project.config.telemetry.model_copy(update={"otlp_endpoint": collector.address})
    project.client.config = project.config.model_copy(update={"telemetry": settings})


def test_a_run_is_one_trace_of_its_attempts_and_captures(project: Project, collector: Collector) -> None:
    told(project, collector)
    project.push(FLOW)
    with serving(project, whole=True) as server:
        wait_until(lambda: server.service and server.service.tracing and server.service.tracing._activity)
        run = project.start("flow")
        wait_until(lambda: project.show(run).status == "FAILED", 60)
        with project.client.database.write() as connection:
            captures.ensure_consumer(connection, "flow/capture", "flow", 1.0)
            captures.add_capture(connection, CaptureRecord(
                "c1", "flow/capture", run, "capture", "x", "committed", 0, [{"table": "db.a"}], True, 0.0, 100.0, 100.25, 101.0,
            ))  # fmt: skip
            captures.publish(
                connection, capture_id="c1", step_path="write", iteration=None, target="db.b", snapshot_id=7, now=100.5
            )
        with server.program() as program:
            program.get("/api/v1/signals")
        for name in (
            "run flow",
            "step good",
            "step bad",
            "capture flow/capture",
            "publish db.b",
            "GET /api/v1/signals",
        ):
            wait_until(lambda name=name: collector.named(name), 30, name)
    (whole,), (bad,), (good,) = (collector.named(name) for name in ("run flow", "step bad", "step good"))
    (capture,), (publish,), (request,) = (
        collector.named(name) for name in ("capture flow/capture", "publish db.b", "GET /api/v1/signals")
    )
    assert {span.trace_id for span in (whole, bad, good, capture, publish)} == {whole.trace_id}
    assert {span.parent_span_id for span in (bad, good, capture, publish)} == {whole.span_id}
    assert whole.parent_span_id == b"" and request.trace_id != whole.trace_id
    assert whole.start_time_unix_nano <= bad.start_time_unix_nano <= bad.end_time_unix_nano <= whole.end_time_unix_nano
    assert (bad.status.code, good.status.code) == (2, 1)
    about = {item.key: item.value for item in bad.attributes}
    assert about["icefloe.run_id"].string_value == run and about["icefloe.attempt"].int_value == 1
    assert collector.paths == {"/v1/traces"}


def test_a_collector_that_is_away_holds_nothing_up_and_what_is_lost_is_counted(
    project: Project, collector: Collector
) -> None:
    told(project, collector)
    collector.status = 400
    before = suppressed.counts().get("telemetry.send")
    project.push(FLOW)
    with serving(project, whole=True) as server:
        wait_until(lambda: server.service and server.service.tracing and server.service.tracing._activity)
        run = project.start("flow")
        wait_until(lambda: project.show(run).status == "FAILED", 60)
        wait_until(lambda: suppressed.counts().get("telemetry.send") != before, 30, "the loss")
    assert not collector.spans


def test_without_an_endpoint_nothing_is_made_or_sent(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)
    assert not tracing.is_configured(project.config)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://localhost:4318")
    assert tracing.is_configured(project.config)
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    assert not tracing.is_configured(project.config)
