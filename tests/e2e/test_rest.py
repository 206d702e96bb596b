"""``icefloe serve --listen``: a real process, and a caller that knows only its address and its token's file."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.e2e.test_run_commands import Shell, shell  # noqa: F401 - a fixture
from tests.projects import wait_until

FOLLOWER = """
Trigger: {signal: {name: upstream_done, match_params: {region: eu}}}
Workflow:
  id: follower
  jobs:
    - job: {id: one, type: Shell, shell: {script: "echo came > came.txt"}}
"""


@dataclass
class Server:
    process: subprocess.Popen[str]
    http: httpx.Client
    token: str

    def end(self) -> str:
        """Tell it to end. Returns all it has said since it listens."""
        self.process.send_signal(signal.SIGTERM)
        out, words = self.process.communicate(timeout=60)
        assert self.process.returncode == 0, words
        return out + words


@contextmanager
def serving(shell: Shell, *words: str) -> Iterator[Server]:  # noqa: F811
    process = shell.start("serve", *words)
    try:
        assert process.stderr is not None
        said = ""
        while not (found := re.search(r"REST on (\S+)/api/v1, token in (\S+)", said)):
            line = process.stderr.readline()
            assert line, f"it ended: {said}"
            said += line
        token = Path(found[2]).read_text().strip()
        assert token not in said
        with httpx.Client(base_url=found[1], headers={"Authorization": f"Bearer {token}"}, timeout=30) as http:
            yield Server(process, http, token)
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()


def error(answer: httpx.Response) -> Any:
    assert answer.headers["content-type"] == "application/problem+json"
    return answer.json()


def test_a_signal_over_rest_starts_the_workflow_that_waits_for_it(shell: Shell) -> None:  # noqa: F811
    shell.env["ICEFLOE_SCHEDULER__TICK_SECONDS"] = "3600"  # only the signal itself can wake the scheduler
    shell.push(FOLLOWER)
    with serving(shell, "--listen", "127.0.0.1:0") as server:
        wait_until(lambda: "no scheduler" not in shell("why", "follower").stderr, 60)
        body = {"name": "upstream_done", "params": {"region": "eu"}, "id": "load-7"}
        assert server.http.post("/api/v1/signals", json=body).status_code == 201
        assert server.http.post("/api/v1/signals", json=body).json() == {"id": "load-7", "created": False}
        wait_until((shell.folder / "came.txt").exists, 60)
        assert [one["id"] for one in shell.json("signals")] == ["load-7"], "the command line sees what REST published"
        shell("watermark", "db.events", "2026-03-01")
        assert server.http.get("/api/v1/watermarks").json()["watermarks"][0]["source"] == "db.events"
        said = server.end()
    assert [run["run_id"] for run in shell.json("runs")] == ["follower-1"]
    assert server.token not in said
    assert "Traceback" not in said


def test_what_callers_do_wrong_ends_with_a_document_and_the_server_lives_on(shell: Shell) -> None:  # noqa: F811
    with serving(shell, "--listen", "127.0.0.1:0") as server:
        wrong = server.http.get("/api/v1/signals", headers={"Authorization": "Bearer wrong-wrong-wrong"})
        assert (wrong.status_code, error(wrong)["code"]) == (401, "server.unauthorized")
        assert "Bearer" in error(wrong)["hint"]
        as_json = {"Content-Type": "application/json"}
        malformed = server.http.post("/api/v1/signals", content=b'{"name": ', headers=as_json)
        assert (malformed.status_code, error(malformed)["code"]) == (400, "request.malformed")
        large = server.http.post("/api/v1/signals", content=b'"' + b"x" * 500_000 + b'"', headers=as_json)
        assert (large.status_code, error(large)["code"]) == (413, "server.too-large")
        hostile = server.http.post("/api/v1/signals", json={"name": "\x1b]0;owned\x07"})
        assert (hostile.status_code, error(hostile)["code"]) == (400, "signal.invalid")
        assert server.http.get("/api/v1/health").json() == {"status": "ok"}
        said = server.end()
    assert "wrong-wrong-wrong" not in said
    assert server.token not in said
    assert "\x1b]0;" not in said


def test_told_to_end_it_answers_what_it_has_and_frees_the_port(shell: Shell) -> None:  # noqa: F811
    with serving(shell, "--listen", "127.0.0.1:0") as server:
        port = server.http.base_url.port
        idle = socket.create_connection(("127.0.0.1", port))  # a caller that says nothing does not hold it up
        assert server.http.get("/api/v1/health").status_code == 200
        server.end()
        idle.close()
        with pytest.raises(httpx.ConnectError):
            httpx.get(f"http://127.0.0.1:{port}/api/v1/health")
    with serving(shell, "--listen", f"127.0.0.1:{port}") as again:
        assert again.token == server.token, "the token outlives the server"
        again.end()


def test_it_says_when_it_cannot_listen_where_it_was_told_to(shell: Shell) -> None:  # noqa: F811
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listen = f"127.0.0.1:{taken.getsockname()[1]}"
        done = shell("serve", "--listen", listen, expect=2)
        assert f"[server.listen] {listen}: cannot be listened on: Address already in use" in done.stderr
        assert "--listen" in done.stderr
        with (shell.folder / "icefloe.toml").open("a") as file:
            file.write(f'\n[server]\nlisten = "{listen}"\n')
        assert "Address already in use" in shell("serve", expect=2).stderr
    assert "plain text" in shell("serve", "--listen", "0.0.0.0:0", expect=2).stderr
    with serving(shell, "--listen", "127.0.0.1:0") as server:
        server.end()


def test_without_listening_it_serves_all_the_same_and_runs_have_an_address_only_while_it_listens(
    shell: Shell,  # noqa: F811
) -> None:
    shell.push(FOLLOWER)
    assert shell.json("run", "follower")["url"] is None
    with serving(shell, "--listen", "127.0.0.1:0") as server:
        port = server.http.base_url.port
        assert shell.json("run", "follower")["url"] == f"http://localhost:{port}/runs/follower-2"
        assert f"http://localhost:{port}/runs/follower-3" in shell("run", "follower").stderr
        server.end()
    for options in (("--no-listen",), ()):
        shell.env["ICEFLOE_SERVER__LISTEN"] = "off"
        process = shell.start("serve", *options)
        assert process.stderr is not None
        said = process.stderr.readline()
        wait_until(lambda: {run["status"] for run in shell.json("runs")} == {"SUCCEEDED"}, 60)
        process.send_signal(signal.SIGTERM)
        said += process.communicate(timeout=60)[1]
        assert process.returncode == 0 and "REST on" not in said and "login?key" not in said
        assert shell.json("run", "follower")["url"] is None
