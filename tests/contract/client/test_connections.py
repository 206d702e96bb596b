"""The client of a server elsewhere where the network, the server or the token is not as it should be."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

import icefloe
from icefloe.errors import IcefloeError, NotFoundError, UsageError
from icefloe.server.listening import Listener
from icefloe.service.access import Access
from icefloe.service.remote import RemoteClient
from icefloe.service.remote import connection as connections
from icefloe.service.remote.connection import NotIcefloeError, ServerUnreachableError
from tests.contract.server.conftest import Stage, listener, stage

__all__ = ["listener", "stage"]
MANY = "Workflow: {id: many, run_strategy: {rule: PARALLEL, concurrency: 100}, jobs: [{job: {id: one, type: NoOp}}]}"


class Lossy(httpx.BaseTransport):
    """The way to the server: ``loses`` says, by the number of a request, what is lost of it."""

    def __init__(self, loses: Callable[[int], str | None]) -> None:
        self._real = httpx.HTTPTransport()
        self._loses = loses
        self.requests: list[httpx.Request] = []

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        lost = self._loses(len(self.requests))
        self.requests.append(request)
        if lost == "request":
            raise httpx.ConnectError("no route to host")
        answer = self._real.handle_request(request)
        if lost == "answer":
            answer.read()
            raise httpx.ReadError("connection reset")
        return answer


def client(
    listener: Listener, stage: Stage, transport: httpx.BaseTransport | None = None, role: str = "operator"
) -> RemoteClient:
    token = Access(stage.project.client.database).add_token(f"t-{id(transport)}-{role}", role)
    return RemoteClient(listener.address, token, transport=transport)


@pytest.mark.parametrize("lost", ["request", "answer"])
def test_a_run_whose_answer_was_lost_is_started_once(
    listener: Listener, stage: Stage, lost: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "PAUSE_SECONDS", 0.01)
    stage.project.push(MANY)
    transport = Lossy(lambda number: lost if number < 2 else None)
    with client(listener, stage, transport) as icefloe_client:
        assert icefloe_client.runs.start("many").run_id == "many-1"
    assert len(stage.runs("many")) == 1
    assert len({request.headers["Idempotency-Key"] for request in transport.requests}) == 1
    assert len(transport.requests) == 3


def test_it_gives_up_after_some_tries_and_says_where(
    listener: Listener, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "PAUSE_SECONDS", 0.01)
    transport = Lossy(lambda _: "request")
    with client(listener, stage, transport) as lost, pytest.raises(ServerUnreachableError) as caught:
        lost.runs.listing()
    assert len(transport.requests) == connections.TRIES
    assert caught.value.where == listener.address and caught.value.exit_code == 3


def test_errors_are_those_of_the_server_with_their_codes(listener: Listener, stage: Stage) -> None:
    with client(listener, stage, role="viewer") as viewer:
        with pytest.raises(IcefloeError) as caught:
            viewer.runs.start("many")
        assert (caught.value.code, "operator" in (caught.value.hint or "")) == ("access.forbidden", True)
        with pytest.raises(NotFoundError) as absent:
            viewer.runs.show("many-1")
        assert (absent.value.code, absent.value.hint) == ("not-found", "icefloe runs")
    with icefloe.Client(listener.address, token="icefloe_wrong") as wrong, pytest.raises(IcefloeError) as refused:
        wrong.runs.listing()
    assert refused.value.code == "server.unauthorized"


@pytest.mark.parametrize(
    ("status", "kind"), [(404, NotIcefloeError), (200, NotIcefloeError), (502, ServerUnreachableError)]
)
def test_what_is_not_icefloe_is_said_to_be_something_else(
    status: int, kind: type[IcefloeError], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "PAUSE_SECONDS", 0.01)
    transport = httpx.MockTransport(lambda _: httpx.Response(status, text="<html>some other program</html>"))
    with RemoteClient("http://localhost:1", "t", transport=transport) as other, pytest.raises(kind):
        other.runs.listing()


def test_without_a_token_or_with_something_that_is_no_address_it_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("ICEFLOE_TOKEN", raising=False)
    with pytest.raises(UsageError, match="no token") as caught:
        icefloe.Client("https://localhost:1")
    assert "ICEFLOE_TOKEN" in (caught.value.hint or "")
    with pytest.raises(UsageError, match="not the address"):
        RemoteClient("localhost:1", "t")
    with pytest.raises(UsageError, match="folder"):
        icefloe.Client(tmp_path, token="t")


def test_the_command_line_speaks_to_a_server(
    listener: Listener, stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    from icefloe.cli import main

    token = Access(stage.project.client.database).add_token("shell", "operator")
    (tmp_path / "token").write_text(token + "\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ICEFLOE_CONFIG", raising=False)
    (tmp_path / "many.yaml").write_text(MANY)
    server = ["--server", listener.address, "--token-file", "token"]

    def icefloe_command(*words: str, expect: int = 0) -> str:
        monkeypatch.setattr("sys.argv", ["icefloe", *server, *words])
        with pytest.raises(SystemExit) as ended:
            main.main()
        out, err = capfd.readouterr()
        assert (ended.value.code or 0) == expect, err
        return out or err

    assert "many: version 1" in icefloe_command("push", "many.yaml")
    assert json.loads(icefloe_command("run", "many", "--output", "json"))["run_id"] == "many-1"
    assert [run["run_id"] for run in json.loads(icefloe_command("runs", "--output", "json"))] == ["many-1"]
    assert json.loads(icefloe_command("show", "many-1", "--output", "json"))["steps"][0]["id"] == "one"
    assert json.loads(icefloe_command("workflows", "--output", "json"))[0]["next_fire"] is None
    assert "many-1 is" in icefloe_command("stop", "many-1")
    assert "no run 'gone-1'" in icefloe_command("show", "gone-1", expect=2)
    assert "no signals" in icefloe_command("signals")
    assert json.loads(icefloe_command("workers", "--output", "json")) == []
    assert json.loads(icefloe_command("change-tables", "list", "--output", "json")) == []
    assert "add --output json" in icefloe_command("change-tables", "list", expect=2)
    for verb in ("serve", "worker", "doctor", "demo"):
        assert "not for a server elsewhere" in icefloe_command(verb, expect=2)
    assert "rehearsed" in icefloe_command("run", "many.yaml", "--dry-run", expect=2)
    server[:] = []
    monkeypatch.setenv("ICEFLOE_SERVER", listener.address)
    monkeypatch.setenv("ICEFLOE_TOKEN", token)
    assert json.loads(icefloe_command("runs", "--output", "json"))[0]["status"] == "STOPPED"
