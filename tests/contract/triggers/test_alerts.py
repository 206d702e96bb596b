"""Alerts, on both databases and through a real HTTP channel: one message per incident, and one when it is over."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from icefloe.store import incidents
from icefloe.triggers.clocks import Clock
from icefloe.triggers.messages import Messenger, fill
from tests.contract.triggers.conftest import Stage


class Inbox:
    """A web hook that keeps what it is sent."""

    def __init__(self) -> None:
        self.messages: list[dict[str, str]] = []
        self.broken = False
        inbox = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if not inbox.broken:
                    inbox.messages.append(json.loads(body))
                self.send_response(500 if inbox.broken else 200)
                self.end_headers()

            def log_message(self, *args: object) -> None:
                """Nothing to the test's output."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self.address = f"json://127.0.0.1:{self._server.server_address[1]}/"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def inbox() -> Iterator[Inbox]:
    made = Inbox()
    yield made
    made.close()


def failing(inbox: Inbox, more: str = "") -> str:
    return f"""
    Workflow:
      id: fragile
      owner: data-team
      retry_policy: {{error: 0, platform: 0}}
      alerting: {{channels: ["{inbox.address}"]{more}}}
      jobs: [{{job: {{id: one, type: Shell, shell: {{script: "test ! -e broken"}}}}}}]
    """


def run(stage: Stage) -> str:
    status = stage.project.execute("fragile").status
    stage.look()
    stage.scheduler.messenger.deliver()
    return status


def test_failures_in_a_row_are_one_message_and_the_first_good_run_is_another(stage: Stage, inbox: Inbox) -> None:
    stage.project.push(failing(inbox))
    stage.look()
    assert run(stage) == "SUCCEEDED"
    assert inbox.messages == []
    (stage.project.root / "broken").touch()
    for _ in range(3):
        assert run(stage) == "FAILED"
    assert [message["title"] for message in inbox.messages] == ["fragile failed"]
    assert "run fragile-2 ended as FAILED" in inbox.messages[0]["message"]
    assert "icefloe why fragile" in inbox.messages[0]["message"]
    (stage.project.root / "broken").unlink()
    assert run(stage) == "SUCCEEDED"
    assert run(stage) == "SUCCEEDED"
    assert len(inbox.messages) == 2 and "over" in inbox.messages[1]["title"]
    (stage.project.root / "broken").touch()
    assert run(stage) == "FAILED"
    assert len(inbox.messages) == 3, "the next incident is another one"


def test_two_schedulers_send_a_message_once_and_one_that_died_while_sending_is_replaced(
    stage: Stage, inbox: Inbox
) -> None:
    stage.project.push(failing(inbox))
    (stage.project.root / "broken").touch()
    assert stage.project.execute("fragile").status == "FAILED"
    other = stage.make_scheduler()
    stage.look()
    stage.look(other)
    with stage.project.client.database.write() as connection:
        (record,) = incidents.untold(connection)
        assert incidents.claim(connection, record, "somebody who died")
    for _ in range(2):
        stage.scheduler.messenger.deliver()
        other.messenger.deliver()
    assert inbox.messages == [], "somebody else says it sends the message"
    stage.hands.pass_by(61)
    for _ in range(2):
        stage.scheduler.messenger.deliver()
        other.messenger.deliver()
    assert len(inbox.messages) == 1


def test_a_channel_that_does_not_answer_is_tried_again_later(stage: Stage, inbox: Inbox) -> None:
    inbox.broken = True
    stage.project.push(failing(inbox))
    (stage.project.root / "broken").touch()
    assert run(stage) == "FAILED"
    inbox.broken = False
    stage.scheduler.messenger.deliver()
    assert inbox.messages == []
    stage.hands.pass_by(31)
    stage.scheduler.messenger.deliver()
    assert len(inbox.messages) == 1


def test_templates_and_events_are_the_users(stage: Stage, inbox: Inbox) -> None:
    stage.project.push(
        failing(inbox, ", events: [failure], templates: {failure: '{owner}: {workflow} is {state} {no_such} [{url}]'}")
    )
    (stage.project.root / "broken").touch()
    assert run(stage) == "FAILED"
    assert inbox.messages[0]["message"] == "data-team: fragile is open {no_such} []"
    assert fill("{message.__class__} {url}", {"message": "m", "url": "u"}) == "{message.__class__} u"


def test_channels_may_be_named_in_the_configuration_and_hold_secrets(
    stage: Stage, inbox: Inbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOOK_HOST", inbox.address.removeprefix("json://").rstrip("/"))
    settings = stage.project.config.alerts.model_copy(update={"channels": {"ops": "json://$ENV{HOOK_HOST}/"}})
    stage.project.push(failing(inbox).replace(inbox.address, "ops"))
    (stage.project.root / "broken").touch()
    assert stage.project.execute("fragile").status == "FAILED"
    stage.look()
    Messenger(
        stage.project.client.database, settings, stage.scheduler._workflow, server_url=lambda: None, clock=Clock()
    ).deliver()
    assert len(inbox.messages) == 1


LATE = """
Workflow:
  id: copy
  freshness: 30m
  alerting: {channels: ["%s"], max_lag: {rows: 5}}
  jobs:
    - job: {id: look, type: IpCapture, ip_capture: {source_tables: [db.events]}}
    - job: {id: commit, type: IpCommit, ip_commit: {capture_step: look}}
  dag: sequential
"""


def test_lateness_and_lag_are_incidents_until_the_batch_is_done(stage: Stage, inbox: Inbox) -> None:
    stage.create("db.events")
    stage.append("db.events", 1)
    stage.project.push(LATE % inbox.address)
    stage.hands.pass_by(100)
    stage.project.execute("copy")
    stage.look()
    stage.append("db.events", 2)
    stage.look()
    stage.hands.pass_by(29 * 60)
    stage.look()
    stage.scheduler.messenger.deliver()
    assert inbox.messages == []
    stage.hands.pass_by(120)
    stage.look()
    stage.append("db.events", *range(10, 20))
    stage.look()
    stage.scheduler.messenger.deliver()
    assert sorted(message["title"] for message in inbox.messages) == ["copy is late", "copy lags behind"]
    stage.project.execute("copy")
    stage.look()
    stage.scheduler.messenger.deliver()
    stage.scheduler.messenger.deliver()
    assert len(inbox.messages) == 4 and all("over" in message["title"] for message in inbox.messages[2:])


def test_lost_history_is_an_incident_and_a_catalog_that_is_away_ends_none(stage: Stage, inbox: Inbox) -> None:
    stage.create("db.events")
    stage.append("db.events", 1)
    stage.project.push(LATE % inbox.address)
    stage.project.execute("copy")
    stage.catalog.drop_table("db.events")
    stage.create("db.events")
    stage.append("db.events", 1)
    stage.look()
    stage.scheduler.messenger.deliver()
    assert [message["title"] for message in inbox.messages] == ["copy has lost its place in a source"]
    stage.catalog.drop_table("db.events")
    stage.look()
    stage.scheduler.messenger.deliver()
    assert len(inbox.messages) == 1
