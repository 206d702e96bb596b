"""OpenLineage events as a receiver gets them: over HTTP and in a file, on both databases."""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Callable, Iterator
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from icefloe import suppressed
from icefloe.config import OpenLineageSettings
from icefloe.service import lineage_receivers
from icefloe.service import metrics as measuring
from icefloe.service.access import Role
from icefloe.service.lineage_delivery import LineageDelivery
from icefloe.service.lineage_receivers import HttpReceiver
from icefloe.service.run_events import run_uuid
from icefloe.store import captures, deliveries, janitor, savings
from icefloe.store.captures import CaptureRecord
from icefloe.store.janitor import PruningRecord
from icefloe.store.savings import SavingsRecord
from icefloe.store.tables import attempts, events, runs, steps
from tests.contract.capture.conftest import Bench
from tests.contract.server.serving import serving
from tests.projects import Project, wait_until

COPY = """
Workflow:
  id: copy
  dag: sequential
  jobs:
    - job: {id: look, type: IpCapture, ip_capture: {source_tables: [db.events], columns: [id, day]}}
    - job: {id: use, type: Shell, shell: {script: "until test -e go; do sleep 0.05; done"}}
    - job: {id: commit, type: IpCommit, ip_commit: {capture_step: look}}
"""
FLOW = """
Workflow: {id: flow, jobs: [{job: {id: one, type: Shell, shell: {script: "test ! -e broken"}, retry: {error: 0}}}]}
"""
WAITS = """
Workflow: {id: waits, jobs: [{job: {id: one, type: Shell, shell: {script: "touch began; sleep 300"}}}]}
"""
LOOP = """
Workflow:
  id: loop
  jobs:
    - foreach:
        id: days
        params: {day: {type: LONG_ARRAY, value: [1, 2]}}
        jobs: [{job: {id: inner, type: NoOp}}]
"""

FACETS = {
    "type": "object",
    "additionalProperties": {
        "type": "object",
        "required": ["_producer", "_schemaURL"],
        "properties": {"_producer": {"type": "string", "format": "uri"}, "_schemaURL": {"type": "string", "pattern": "^https://openlineage.io/spec/.+#/.defs/"}},
    },
}  # fmt: skip
JOB = {
    "type": "object",
    "required": ["namespace", "name"],
    "properties": {"namespace": {"type": "string", "minLength": 1}, "name": {"type": "string", "minLength": 1}, "facets": FACETS},
}  # fmt: skip
RUN = {"type": "object", "required": ["runId"], "properties": {"runId": {"type": "string", "format": "uuid"}}}
DATASETS = {
    "type": "array",
    "items": {
        **JOB,
        "properties": {**JOB["properties"], "inputFacets": FACETS, "outputFacets": FACETS},
        "additionalProperties": False,
    },
}
RUN_FACETS = {
    **FACETS,
    "required": ["processing_engine"],
    "properties": {
        "processing_engine": {"type": "object", "required": ["version"]},
        "parent": {"type": "object", "required": ["run", "job"], "properties": {"run": RUN, "job": JOB}},
        "errorMessage": {"type": "object", "required": ["message", "programmingLanguage"]},
    },
    "additionalProperties": FACETS["additionalProperties"],
}
RUN_EVENT = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "required": ["eventType", "eventTime", "producer", "schemaURL", "run", "job", "inputs", "outputs"],
    "additionalProperties": False,
    "properties": {
        "eventType": {"enum": ["START", "COMPLETE", "FAIL", "ABORT"]},
        "eventTime": {"type": "string"},
        "producer": {"type": "string", "format": "uri", "minLength": 1},
        "schemaURL": {"const": "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunEvent"},
        "run": {**RUN, "properties": {**RUN["properties"], "facets": RUN_FACETS}},
        "job": {**JOB, "properties": {**JOB["properties"], "facets": {**FACETS, "required": ["jobType"]}}},
        "inputs": DATASETS,
        "outputs": DATASETS,
    },
}
Event = dict[str, Any]


def valid(told: list[Event]) -> list[Event]:
    for event in told:
        jsonschema.Draft202012Validator(RUN_EVENT).validate(event)
        uuid.UUID(event["run"]["runId"])
        assert datetime.fromisoformat(event["eventTime"]).tzinfo is not None
    return told


class Receiver:
    """``status``: what it answers, by event. Until :meth:`listen` connections to its address are refused."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.asked = 0
        self.seen: set[tuple[str, str | None]] = set()
        self.status: Callable[[Event], int] = lambda _: 201
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                event = json.loads(self.rfile.read(int(self.headers["content-length"])))
                receiver.asked += 1
                status = receiver.status(event)
                if status < 300:
                    receiver.events.append(event)
                    receiver.seen.add((self.path, self.headers.get("authorization")))
                self.send_response(status)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler, bind_and_activate=False)
        self.server.server_bind()
        self.thread = threading.Thread(target=self.server.serve_forever)

    def listen(self) -> None:
        self.server.server_activate()
        self.thread.start()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}"

    def of(self, job: str) -> list[Event]:
        return valid([event for event in list(self.events) if event["job"]["name"] == job])

    def kinds(self, job: str) -> list[str]:
        return [event["eventType"] for event in self.of(job)]

    def close(self) -> None:
        if self.thread.is_alive():
            self.server.shutdown()
            self.thread.join()
        self.server.server_close()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    made.listen()
    yield made
    made.close()


@pytest.fixture
def absent() -> Iterator[Receiver]:
    made = Receiver()
    yield made
    made.close()


def told(project: Project, **settings: Any) -> None:
    update = {"openlineage": OpenLineageSettings(**settings)}
    project.client.config = project.config = project.config.model_copy(update=update)


@pytest.fixture
def project(bench: Bench, receiver: Receiver) -> Project:
    told(bench.project, url=receiver.address)
    with bench.project.client.database.write() as connection:
        deliveries.load(connection, "openlineage", 0.0)
    return bench.project


def ended(project: Project, run: str, status: str) -> None:
    wait_until(lambda: project.show(run).status == status, 60, f"{run} {status}")


def publish(bench: Bench, run: str, target: str, snapshot_id: int) -> None:
    """What a Spark step leaves in the state when it has written a table."""
    (capture,) = bench.captures("copy/look")
    line = SavingsRecord(
        run, "use", target, "copy", "use", "append", "a full recomputation", 1, 2, 3, 4, 5, 6, 1, 2, 700, 0, None, (), 1.0
    )  # fmt: skip
    with bench.project.client.database.write() as connection:
        captures.publish(
            connection, capture_id=capture.id, step_path="use", iteration=None, target=f"lake.{target}",
            snapshot_id=snapshot_id, now=1.0,
        )  # fmt: skip
        savings.add(connection, line)


def test_a_batch_tells_its_runs_steps_sources_and_targets(bench: Bench, project: Project, receiver: Receiver) -> None:
    told(project, url=f"{receiver.address}/", namespace="shop", api_key="s3cret")
    bench.create("db.events")
    head = bench.append("db.events", 1, 2)
    project.push(COPY)
    with serving(project, whole=True):
        run = project.start("copy")
        wait_until(lambda: project.statuses(run)["use"] == "RUNNING", 60, "the step")
        publish(bench, run, "db.copied", 77)
        (project.root / "go").touch()
        ended(project, run, "SUCCEEDED")
        wait_until(lambda: "COMPLETE" in receiver.kinds("copy"), 30, "the end")
    jobs = ("copy", "copy.look", "copy.use", "copy.commit")
    assert {job: receiver.kinds(job) for job in jobs} == {job: ["START", "COMPLETE"] for job in jobs}
    assert receiver.seen == {("/api/v1/lineage", "Bearer s3cret")}
    whole, look, use = (receiver.of(job)[1] for job in jobs[:3])
    assert whole["run"]["runId"] == run_uuid(run, 0) and "parent" not in whole["run"]["facets"]
    assert {event["job"]["namespace"] for event in receiver.events} == {"shop"}
    for step in (look, use):
        parent = step["run"]["facets"]["parent"]
        assert parent["run"]["runId"] == whole["run"]["runId"] and parent["job"]["name"] == "copy"
    where = project.config.catalog.warehouse
    for event in (look, use, whole):
        (source,) = event["inputs"]
        assert (source["namespace"], source["name"]) == (where, "db.events")
        assert source["facets"]["version"]["datasetVersion"] == str(head)
    for event in (use, whole):
        (target,) = event["outputs"]
        assert (target["namespace"], target["name"]) == (where, "db.copied")
        assert target["facets"]["version"]["datasetVersion"] == "77"
        statistics = target["outputFacets"]["outputStatistics"]
        assert (statistics["rowCount"], statistics["size"]) == (2, 700)
    assert look["outputs"] == [] and receiver.of("copy.commit")[1]["inputs"] == []
    assert whole["run"]["facets"]["icefloe"]["run"] == run


def test_failed_stopped_and_restarted_runs_say_so(project: Project, receiver: Receiver) -> None:
    project.push(FLOW)
    project.push(WAITS)
    (project.root / "broken").touch()
    with serving(project, whole=True):
        run = project.start("flow")
        ended(project, run, "FAILED")
        (project.root / "broken").unlink()
        project.client.runs.restart(run)
        ended(project, run, "SUCCEEDED")
        stopped = project.start("waits")
        wait_until((project.root / "began").exists, 60, "the step")
        project.client.runs.stop(stopped, "ana")
        ended(project, stopped, "STOPPED")
        wait_until(lambda: receiver.kinds("waits") == ["START", "ABORT"], 30, "the stop")
    assert receiver.kinds("flow") == ["START", "FAIL", "START", "COMPLETE"]
    ids = [event["run"]["runId"] for event in receiver.of("flow")]
    assert ids == [run_uuid(run, 0)] * 2 + [run_uuid(run, 1)] * 2
    assert receiver.kinds("flow.one") == ["START", "FAIL", "START", "COMPLETE"]
    attempts_told = receiver.of("flow.one")
    assert [event["run"]["facets"]["parent"]["run"]["runId"] for event in attempts_told] == ids
    assert len({event["run"]["runId"] for event in attempts_told}) == 2
    for event in (receiver.of("flow")[1], attempts_told[1]):
        assert "exit code 1" in event["run"]["facets"]["errorMessage"]["message"]
    assert receiver.kinds("waits.one") == ["START", "ABORT"]
    assert "ana" in receiver.of("waits")[1]["run"]["facets"]["errorMessage"]["message"]


def test_what_is_told_late_belongs_to_the_restart_in_which_it_happened(project: Project, receiver: Receiver) -> None:
    project.push(FLOW)
    (project.root / "broken").touch()
    run = project.execute("flow").run_id
    (project.root / "broken").unlink()
    project.client.runs.restart(run)
    assert project.client.work(run).status == "SUCCEEDED"
    delivery = LineageDelivery(project.config, project.client.database, lineage_receivers.configured(project.config))  # type: ignore[arg-type]
    delivery.start()
    wait_until(lambda: len(receiver.kinds("flow")) >= 4, 30, "both times")
    delivery.stop()
    told_of = [(event["eventType"], event["run"]["runId"]) for event in receiver.of("flow")]
    first, again = run_uuid(run, 0), run_uuid(run, 1)
    assert told_of == [("START", first), ("FAIL", first), ("START", again), ("COMPLETE", again)]
    parents = [event["run"]["facets"]["parent"]["run"]["runId"] for event in receiver.of("flow.one")]
    assert parents == [first, first, again, again]


def test_runs_inside_a_run_have_it_as_parent(project: Project, receiver: Receiver) -> None:
    project.push(LOOP)
    with serving(project, whole=True):
        run = project.start("loop")
        ended(project, run, "SUCCEEDED")
        wait_until(lambda: receiver.kinds("loop") == ["START", "COMPLETE"], 30, "the end")
    inner = receiver.of("loop.days.iteration")
    assert sorted(event["eventType"] for event in inner) == ["COMPLETE"] * 2 + ["START"] * 2
    assert {event["run"]["facets"]["parent"]["run"]["runId"] for event in inner} == {run_uuid(run, 0)}
    iterations = {event["run"]["runId"] for event in inner}
    assert {event["run"]["facets"]["parent"]["run"]["runId"] for event in receiver.of("loop.inner")} == iterations
    assert len(iterations) == 2


def test_a_receiver_that_was_away_gets_everything_in_order_also_after_a_restart_of_the_server(
    project: Project, receiver: Receiver, absent: Receiver
) -> None:
    project.push(FLOW)
    receiver.status = lambda event: 503
    with serving(project, whole=True):
        first = project.start("flow")
        ended(project, first, "SUCCEEDED")
        wait_until(lambda: receiver.asked, 30, "the first try")
    assert not receiver.events
    second = project.execute("flow").run_id  # while no server runs
    told(project, url=absent.address)
    before = suppressed.counts()["openlineage.send"].count
    with serving(project, whole=True):
        third = project.start("flow")
        ended(project, third, "SUCCEEDED")
        wait_until(lambda: suppressed.counts()["openlineage.send"].count > before, 30, "a try that is refused")
        receiver = absent
        receiver.listen()
        wait_until(lambda: len(receiver.kinds("flow")) >= 6, 60, "all events")
    assert receiver.kinds("flow") == ["START", "COMPLETE"] * 3
    in_order = [run_uuid(run, 0) for run in (first, second, third) for _ in ("START", "COMPLETE")]
    assert [event["run"]["runId"] for event in receiver.of("flow")] == in_order
    sent = len(receiver.events)
    with serving(project, whole=True) as server:
        wait_until(lambda: server.service and server.service.lineage and server.service.lineage.last, what="the place")
        fourth = project.start("flow")
        ended(project, fourth, "SUCCEEDED")
        wait_until(lambda: len(receiver.kinds("flow")) >= 8, 30, "the fourth run")
    assert len(receiver.events) == sent + 4, "nothing twice"


def test_what_is_refused_is_dropped_and_counted_and_the_rest_goes_on(
    project: Project, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measuring, "FRESH_SECONDS", 0.0)
    project.push(FLOW)
    receiver.status = lambda event: 400 if event["job"]["name"] == "flow.one" else 200
    known = suppressed.counts().get("openlineage.refused")
    with serving(project, whole=True) as server, server.program(Role.viewer) as viewer:
        ended(project, project.start("flow"), "SUCCEEDED")
        wait_until(lambda: receiver.kinds("flow") == ["START", "COMPLETE"], 30, "the rest")
        text = wait_until(lambda: _metrics_with(viewer, 'icefloe_openlineage_events_total{result="refused"} 2.0'))
        wait_until(lambda: _metrics_with(viewer, "icefloe_openlineage_behind 0.0"))
    assert 'icefloe_openlineage_events_total{result="sent"} 2.0' in text
    assert suppressed.counts()["openlineage.refused"].count == (known.count if known else 0) + 2
    assert not receiver.of("flow.one")


def test_an_entry_that_makes_no_event_holds_up_nothing_behind_it(project: Project, receiver: Receiver) -> None:
    project.push(FLOW)
    broken, whole = project.execute("flow").run_id, project.execute("flow").run_id
    capture = CaptureRecord(
        "c1", "flow/one", broken, "one", "x", "committed", 0, [{"no": "table"}], True, 0.0, 1.0, 2.0, 3.0
    )
    with project.client.database.write() as connection:
        captures.ensure_consumer(connection, "flow/one", "flow", 1.0)
        captures.add_capture(connection, capture)
    delivery = LineageDelivery(project.config, project.client.database, HttpReceiver(receiver.address))
    delivery.start()
    wait_until(lambda: len(receiver.kinds("flow")) >= 3, 30, "the run behind it")
    delivery.stop()
    ids = [(event["eventType"], event["run"]["runId"]) for event in receiver.of("flow")]
    assert ids == [("START", run_uuid(broken, 0)), ("START", run_uuid(whole, 0)), ("COMPLETE", run_uuid(whole, 0))]
    assert delivery.counts.refused == 2


def _metrics_with(viewer: Any, line: str) -> str:
    text = str(viewer.get("/metrics").text)
    return text if line in text else ""


def test_a_key_that_is_wrong_drops_nothing(project: Project, receiver: Receiver) -> None:
    project.push(FLOW)
    receiver.status = lambda event: 401
    with serving(project, whole=True):
        ended(project, project.start("flow"), "SUCCEEDED")
        wait_until(lambda: receiver.asked, 30, "a try")
        receiver.status = lambda event: 200
        wait_until(lambda: receiver.kinds("flow") == ["START", "COMPLETE"], 30, "all events")
    assert receiver.kinds("flow.one") == ["START", "COMPLETE"]


def test_what_was_deleted_before_it_was_sent_is_counted(project: Project, receiver: Receiver) -> None:
    project.push(FLOW)
    lost, kept = project.execute("flow").run_id, project.execute("flow").run_id
    database = project.client.database
    with database.write() as connection:
        for table in (events, attempts, steps):
            gone = connection.execute(table.delete().where(table.c.run_id == lost)).rowcount
            if table is events:
                number = gone
        connection.execute(runs.delete().where(runs.c.id == lost))
        janitor.record(connection, PruningRecord(5.0, "x", "runs", 1, 1, 0.1))
    delivery = LineageDelivery(project.config, database, HttpReceiver(receiver.address))
    delivery.start()
    wait_until(lambda: receiver.kinds("flow") == ["START", "COMPLETE"], 30, "the run that is there")
    delivery.stop()
    assert receiver.of("flow")[0]["run"]["runId"] == run_uuid(kept, 0)
    assert delivery.counts.pruned == number > 0
    assert suppressed.counts()["openlineage.pruned"].last.startswith(f"{number} entries")


def test_of_two_servers_one_sends_and_the_other_goes_on_when_it_ends(project: Project, receiver: Receiver) -> None:
    project.push(FLOW)
    database, address = project.client.database, receiver.address
    first, second = (LineageDelivery(project.config, database, HttpReceiver(address)) for _ in range(2))
    first.start()
    wait_until(lambda: first.last is not None, what="the first one's place")
    second.start()
    project.execute("flow")
    wait_until(lambda: receiver.kinds("flow") == ["START", "COMPLETE"], 30, "the first run")
    assert second.last is None
    first.stop()
    wait_until(lambda: second.last is not None, what="the second one's place")
    project.execute("flow")
    wait_until(lambda: len(receiver.kinds("flow")) >= 4, 30, "the second run")
    second.stop()
    assert receiver.kinds("flow") == ["START", "COMPLETE"] * 2


def test_one_that_died_is_followed_after_its_lease(project: Project, receiver: Receiver) -> None:
    project.push(FLOW)
    database = project.client.database
    with database.write() as connection:
        assert deliveries.take(connection, deliveries.load(connection, "openlineage", 0.0), "dead")
    heir = LineageDelivery(project.config, database, HttpReceiver(receiver.address), lease_seconds=0.1)
    project.execute("flow")
    heir.start()
    wait_until(lambda: receiver.kinds("flow") == ["START", "COMPLETE"], 30, "the run")
    heir.stop()


def test_a_file_gets_one_event_a_line_and_a_line_that_was_cut_off_is_ended(bench: Bench) -> None:
    project = bench.project
    told(project, file="out/lineage.jsonl")
    file: Path = project.root / "out" / "lineage.jsonl"
    file.parent.mkdir()
    file.write_text('{"cut')
    project.push(FLOW)

    def lines() -> list[Event]:
        return valid([json.loads(line) for line in file.read_text().splitlines()[1:]])

    with serving(project, whole=True) as server:
        wait_until(lambda: server.service and server.service.lineage and server.service.lineage.last is not None)
        ended(project, project.start("flow"), "SUCCEEDED")
        wait_until(lambda: len(lines()) >= 4, 30, "the lines")
    assert [(event["eventType"], event["job"]["name"]) for event in lines()] == [
        ("START", "flow"), ("START", "flow.one"), ("COMPLETE", "flow.one"), ("COMPLETE", "flow"),
    ]  # fmt: skip
    assert file.read_text().startswith('{"cut\n')


def test_without_configuration_nothing_is_made(bench: Bench) -> None:
    assert lineage_receivers.configured(bench.project.config) is None
    with serving(bench.project, whole=True) as server:
        assert server.service is not None and server.service.lineage is None
