"""Http steps against a real server: what is read of an answer, and what a service can tell a repetition by."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from icefloe.steps import http
from icefloe.steps.http import MOST_BODY, MOST_REDIRECTS
from tests.projects import Project

PIECE = b"x" * 65536


@dataclass
class Service:
    """``answers``: by path, what writes the answer. ``sent`` counts the bytes of bodies that went out, ``keys`` what was shown."""

    address: str
    answers: dict[str, Callable[[BaseHTTPRequestHandler], None]]
    keys: list[str] = field(default_factory=list)
    sent: int = 0
    cut: threading.Event = field(default_factory=threading.Event)
    """Set when a client hung up before the end."""


def _head(handler: BaseHTTPRequestHandler, status: int = 200, **headers: str) -> None:
    handler.send_response(status)
    for name, value in headers.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.end_headers()


@pytest.fixture
def service() -> Iterator[Service]:
    made: Service

    def pour(handler: BaseHTTPRequestHandler, wrap: Callable[[bytes], bytes]) -> None:
        try:
            while made.sent < 1 << 30:
                handler.wfile.write(wrap(PIECE))
                made.sent += len(PIECE)
        except OSError:
            made.cut.set()

    def endless(handler: BaseHTTPRequestHandler) -> None:
        _head(handler, Content_Length=str(1 << 40))
        pour(handler, lambda data: data)

    def chunked(handler: BaseHTTPRequestHandler) -> None:
        _head(handler, Transfer_Encoding="chunked")
        pour(handler, lambda data: b"%x\r\n%s\r\n" % (len(data), data))

    def until_closed(handler: BaseHTTPRequestHandler) -> None:
        _head(handler, Connection="close")
        pour(handler, lambda data: data)

    def trickle(handler: BaseHTTPRequestHandler) -> None:
        _head(handler, Transfer_Encoding="chunked")
        try:
            while True:
                handler.wfile.write(b"1\r\nx\r\n")
        except OSError:
            made.cut.set()

    def moved_with_a_body(handler: BaseHTTPRequestHandler) -> None:
        _head(handler, 302, Location="/fine", Content_Length=str(1 << 40))
        pour(handler, lambda data: data)

    def fine(handler: BaseHTTPRequestHandler) -> None:
        _head(handler, Content_Length="5")
        handler.wfile.write("grüß".encode()[:5])

    def busy(handler: BaseHTTPRequestHandler) -> None:
        _head(handler, 503 if len(made.keys) % 2 else 200, Content_Length="0")

    answers = {
        "/endless": endless,
        "/chunked": chunked,
        "/until-closed": until_closed,
        "/trickle": trickle,
        "/moved": moved_with_a_body,
        "/circle": lambda handler: _head(handler, 302, Location="/circle", Content_Length="0"),
        "/fine": fine,
        "/busy": busy,
    }

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            made.keys.append(self.headers["Idempotency-Key"])
            made.answers[self.path](self)
            self.close_connection = True

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    made = Service(f"http://127.0.0.1:{server.server_port}", answers)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield made
    server.shutdown()
    thread.join()
    server.server_close()


def workflow(service: Service, path: str, more: str = "") -> str:
    return f"""
    Workflow:
      id: asking
      jobs:
        - job: {{id: ask, type: Http, http: {{url: "{service.address}{path}"}}{more}}}
    """


@pytest.mark.parametrize("path", ["/endless", "/chunked", "/until-closed"])
def test_no_more_of_a_body_is_read_than_is_kept(project: Project, service: Service, path: str) -> None:
    view = project.execute(project.push(workflow(service, path)))
    assert view.status == "SUCCEEDED", view.steps[0].cause
    assert view.steps[0].outputs["body"] == "x" * MOST_BODY
    assert service.cut.wait(20), "the rest is not wanted, and the service is told so"
    buffers = 64 * 1024 * 1024  # what the two ends of a connection may take in between
    assert service.sent < MOST_BODY + buffers


def test_an_answer_that_never_ends_ends_at_the_bound_on_time(
    project: Project, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "WHOLE_SECONDS", 0.2)
    monkeypatch.setattr(http, "MOST_BODY", 1 << 40)
    view = project.execute(project.push(workflow(service, "/trickle", ", retry: {platform: 0}")))
    assert (view.steps[0].cause or {})["code"] == "http.unreachable"
    assert service.cut.wait(20)


def test_the_body_of_a_redirect_is_not_read(project: Project, service: Service) -> None:
    view = project.execute(project.push(workflow(service, "/moved")))
    assert view.status == "SUCCEEDED", view.steps[0].cause
    assert view.steps[0].outputs["body"] == "grü�"
    assert service.cut.wait(20)


def test_redirects_that_go_in_circles_come_to_an_end(project: Project, service: Service) -> None:
    view = project.execute(project.push(workflow(service, "/circle")))
    assert (view.steps[0].cause or {})["code"] == "http.request"
    assert len(service.keys) == MOST_REDIRECTS + 1


def test_a_retry_shows_the_same_key_and_a_restart_from_the_beginning_another(
    project: Project, service: Service
) -> None:
    view = project.execute(project.push(workflow(service, "/busy", ", retry: {platform: 1, backoff: {initial: 0s}}")))
    assert view.status == "SUCCEEDED", view.steps[0].cause
    first = list(service.keys)
    assert len(first) == 2 and len(set(first)) == 1
    project.client.runs.restart(view.run_id, from_beginning=True)
    assert project.client.work(view.run_id).status == "SUCCEEDED"
    again = service.keys[2:]
    assert len(again) == 2 and len(set(again)) == 1
    assert set(again).isdisjoint(first)


def test_nobody_there_is_the_platforms_fault(project: Project) -> None:
    with socket.socket() as taken:  # bound, and nobody listens
        taken.bind(("127.0.0.1", 0))
        gone = Service(f"http://127.0.0.1:{taken.getsockname()[1]}", {})
        view = project.execute(project.push(workflow(gone, "/", ", retry: {platform: 0}")))
    assert (view.steps[0].cause or {})["code"] == "http.unreachable"
