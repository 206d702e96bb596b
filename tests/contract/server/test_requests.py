"""What all of REST has in common, on both databases: pages of listings, repeated requests, changes to what was seen."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from icefloe.service.access import Access
from icefloe.service.idempotency import IdempotencyKeys
from tests.contract.server.conftest import Stage, code

MANY = "Workflow: {id: many, run_strategy: {rule: PARALLEL, concurrency: 100}, jobs: [{job: {id: one, type: NoOp}}]}"
HELD = """
Workflow:
  id: held
  run_strategy: {rule: PARALLEL, concurrency: 100}
  jobs: [{job: {id: one, type: NoOp, signal_dependencies: [{name: go}]}}]
"""


def start(rest: httpx.Client, key: str | None = None, **body: object) -> httpx.Response:
    headers = {} if key is None else {"Idempotency-Key": key}
    return rest.post("/api/v1/runs", json={"workflow": "many", **body}, headers=headers)


def test_a_listing_is_walked_by_its_cursor_and_what_is_added_meanwhile_moves_nothing(
    rest: httpx.Client, stage: Stage
) -> None:
    stage.project.push(MANY)
    for _ in range(7):
        assert start(rest).status_code == 201
    address, seen = "/api/v1/runs?limit=3&workflow=many&count=true", []
    while address:
        answer = rest.get(address)
        page = answer.json()
        assert page["count"] == str(7 + (1 if seen else 0))
        seen += [run["run_id"] for run in page["runs"]]
        assert (page["next"] is None) == ("next" not in answer.links)
        address = answer.links.get("next", {}).get("url", "")
        if len(seen) == 3:
            start(rest)
    assert seen == [f"many-{number}" for number in range(7, 0, -1)]


def test_listings_of_every_noun_go_on_where_they_ended(rest: httpx.Client, stage: Stage) -> None:
    for name in "abc":
        stage.project.push(MANY.replace("many", name))
        assert rest.post("/api/v1/signals", json={"name": name}).status_code == 201
        assert rest.post(f"/api/v1/workflows/{name}/pause").status_code == 200
    for noun, key, expected in (
        ("workflows", "id", ["a", "b", "c"]),
        ("signals", "name", ["c", "b", "a"]),
    ):
        seen, after = [], None
        while True:
            page = rest.get(f"/api/v1/{noun}", params={"limit": 1} | ({"after": after} if after else {})).json()
            seen += [item[key] for item in page[noun]]
            if (after := page["next"]) is None:
                break
        assert seen == expected
    audit = rest.get("/api/v1/audit", params={"limit": 2}).json()
    rest_of_it = rest.get("/api/v1/audit", params={"after": audit["next"]}).json()
    entries = [*audit["entries"], *rest_of_it["entries"]]
    assert [(entry["verb"], entry["subject"]) for entry in entries] == [("pause", name) for name in "cba"]
    assert {entry["who"] for entry in entries} == {"server-token"}


@pytest.mark.parametrize("noun", ["runs", "signals", "incidents", "audit", "captures"])
@pytest.mark.parametrize("after", ["x", "-1", "1.5:", "9" * 30, "nan:x"])
def test_a_cursor_that_is_none_is_refused(rest: httpx.Client, noun: str, after: str) -> None:
    answer = rest.get(f"/api/v1/{noun}", params={"after": after})
    if (noun, after) in (("captures", "1.5:"),):
        assert answer.json()["captures"] == []
    else:
        assert (answer.status_code, code(answer)) == (400, "request.invalid")


def test_runs_are_filtered_by_status_and_time(rest: httpx.Client, stage: Stage) -> None:
    stage.project.push(MANY)
    for _ in range(3):
        start(rest)
    stage.project.client.work("many-2")
    statuses = {run["run_id"]: run["status"] for run in rest.get("/api/v1/runs").json()["runs"]}
    assert statuses["many-2"] == "SUCCEEDED"
    done = rest.get("/api/v1/runs", params={"status": "succeeded", "count": True}).json()
    assert "many-2" in [run["run_id"] for run in done["runs"]] and done["count"] == str(len(done["runs"]))
    second = next(run for run in rest.get("/api/v1/runs").json()["runs"] if run["run_id"] == "many-2")
    since = rest.get("/api/v1/runs", params={"since": second["created_at"]}).json()["runs"]
    until = rest.get("/api/v1/runs", params={"until": second["created_at"]}).json()["runs"]
    assert [run["run_id"] for run in since] == ["many-3", "many-2"] and [run["run_id"] for run in until] == ["many-1"]
    assert code(rest.get("/api/v1/runs", params={"status": "gone"})) == "usage"
    assert code(rest.get("/api/v1/runs", params={"workflow": "gone"})) == "not-found"
    assert code(rest.get("/api/v1/runs", params={"since": "inf"})) == "request.invalid"


# -- the same request twice --------------------------------------------------------------------------------------------------


def test_a_request_that_is_sent_twice_with_one_key_is_done_once(rest: httpx.Client, stage: Stage) -> None:
    stage.project.push(MANY)
    first, again = (start(rest, "k-1") for _ in range(2))
    assert first.status_code == again.status_code == 201
    assert first.json() == again.json() and first.headers["location"] == again.headers["location"]
    assert ("idempotency-replayed" in first.headers, again.headers["idempotency-replayed"]) == (False, "true")
    assert len(stage.runs("many")) == 1
    assert start(rest, "k-2").json()["run_id"] == "many-2"
    other = start(rest, "k-1", version=1)
    assert (other.status_code, code(other)) == (422, "server.key-reused")
    elsewhere = rest.post("/api/v1/runs/many-1/stop", headers={"Idempotency-Key": "k-1"})
    assert (elsewhere.status_code, code(elsewhere)) == (422, "server.key-reused")


def test_of_many_that_come_at_once_with_one_key_one_is_done(rest: httpx.Client, stage: Stage) -> None:
    stage.project.push(MANY)
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: start(rest, "together"), range(8)))
    assert len(stage.runs("many")) == 1
    assert {answer.status_code for answer in answers} <= {201, 409}
    assert {code(answer) for answer in answers if answer.status_code == 409} <= {"server.key-in-use"}
    assert start(rest, "together").json()["run_id"] == "many-1"


def test_while_the_first_is_under_way_the_second_is_told_so(rest: httpx.Client, stage: Stage) -> None:
    stage.project.push(MANY)
    keys, held, done = IdempotencyKeys(stage.project.client.database), threading.Event(), threading.Event()
    real = stage.project.client.runs.start

    def slow(*args: object, **options: object) -> object:
        held.set()
        assert done.wait(30)
        return real(*args, **options)  # type: ignore[arg-type]

    stage.project.client.runs.start = slow  # type: ignore[method-assign]
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(start, rest, "slow")
        assert held.wait(30)
        second = start(rest, "slow")
        assert (second.status_code, code(second), second.json()["retryable"]) == (409, "server.key-in-use", True)
        done.set()
        assert first.result().status_code == 201
    assert keys.begin("nobody", "slow", "digest") is None, "keys belong to who uses them"


def test_what_has_failed_may_be_tried_again_with_the_same_key(rest: httpx.Client, stage: Stage) -> None:
    missing = start(rest, "early")
    assert (missing.status_code, code(missing)) == (404, "not-found")
    stage.project.push(MANY)
    assert start(rest, "early").status_code == 201


@pytest.mark.parametrize("key", ["", "x" * 201, "a\tb", "ü"])
def test_a_key_that_is_none_is_refused(rest: httpx.Client, key: str) -> None:
    answer = rest.post("/api/v1/signals", json={"name": "a"}, headers=[(b"Idempotency-Key", key.encode("latin-1"))])
    assert (answer.status_code, code(answer)) == (400, "request.invalid")
    assert rest.get("/api/v1/signals").json()["signals"] == []


# -- changes to what was seen ------------------------------------------------------------------------------------------------


def test_of_two_who_act_on_a_run_as_they_have_seen_it_one_is_told(rest: httpx.Client, stage: Stage) -> None:
    stage.project.push(HELD)
    rest.post("/api/v1/runs", json={"workflow": "held"})
    seen = rest.get("/api/v1/runs/held-1").headers["etag"]
    first = rest.post("/api/v1/runs/held-1/pause", headers={"If-Match": seen})
    assert (first.status_code, first.json()["status"]) == (200, "PAUSED")
    second = rest.post("/api/v1/runs/held-1/stop", headers={"If-Match": seen})
    assert (second.status_code, code(second)) == (412, "server.changed")
    assert rest.get("/api/v1/runs/held-1").json()["status"] == "PAUSED"
    assert rest.post("/api/v1/runs/held-1/resume", headers={"If-Match": first.headers["etag"]}).status_code == 200
    stopped = rest.post("/api/v1/runs/held-1/stop", headers={"If-Match": "*"})
    assert (stopped.status_code, stopped.headers["location"]) == (202, "/api/v1/runs/held-1")
    old = rest.post("/api/v1/runs/held-1/restart", json={}, headers={"If-Match": seen})
    assert (old.status_code, code(old)) == (412, "server.changed")
    now = rest.get("/api/v1/runs/held-1").headers["etag"]
    again = rest.post("/api/v1/runs/held-1/restart", json={}, headers={"If-Match": now})
    assert (again.status_code, again.json()["restarts"]) == (202, 1)


def test_of_two_who_act_on_a_workflow_as_they_have_seen_it_one_is_told(rest: httpx.Client) -> None:
    body = {"yaml": MANY}
    assert rest.post("/api/v1/workflows", json=body).json()["version"] == 1
    seen = rest.get("/api/v1/workflows/many").headers["etag"]
    assert rest.post("/api/v1/workflows/many/pause", headers={"If-Match": seen}).json()["paused"] is True
    for verb in ("resume", "activate", "deactivate"):
        late = rest.post(f"/api/v1/workflows/many/{verb}", headers={"If-Match": seen})
        assert (late.status_code, code(late)) == (412, "server.changed")
    changed = {"yaml": MANY.replace("100", "7")}
    assert rest.post("/api/v1/workflows", json=changed, headers={"If-Match": seen}).status_code == 412
    pushed = rest.post("/api/v1/workflows", json=changed)
    assert (pushed.status_code, pushed.json()["version"], pushed.headers["location"]) == (
        201,
        2,
        "/api/v1/workflows/many",
    )
    assert rest.post("/api/v1/workflows", json=changed).status_code == 200


@pytest.mark.parametrize("header", ["7", '"', '"x"', "", '"' + "9" * 90 + '"'])
def test_a_precondition_that_is_none_is_refused(rest: httpx.Client, header: str) -> None:
    answer = rest.post("/api/v1/runs/gone-1/stop", headers={"If-Match": header})
    assert (answer.status_code, code(answer)) == (400, "request.invalid")


# -- who may ------------------------------------------------------------------------------------------------------------------


def test_a_viewer_looks_an_operator_acts_and_what_was_done_has_their_name(rest: httpx.Client, stage: Stage) -> None:
    stage.project.push(MANY)
    access = Access(stage.project.client.database)
    viewer, operator = (access.add_token(name, name) for name in ("viewer", "operator"))
    as_viewer = {"Authorization": f"Bearer {viewer}"}
    assert rest.get("/api/v1/runs", headers=as_viewer).status_code == 200
    refused = rest.post("/api/v1/runs", json={"workflow": "many"}, headers=as_viewer)
    assert (refused.status_code, code(refused)) == (403, "access.forbidden")
    started = rest.post("/api/v1/runs", json={"workflow": "many"}, headers={"Authorization": f"Bearer {operator}"})
    assert started.status_code == 201
    run = rest.get("/api/v1/runs/many-1", headers=as_viewer).json()
    assert (run["initiator"]["kind"], run["initiator"]["by"]) == ("user", "operator")
    access.revoke_token("viewer")
    assert rest.get("/api/v1/runs", headers=as_viewer).status_code == 401


# -- what is sent ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "params", ['{"A": "\\u0000"}', '{"A": "\\ud800"}', '{"A\\u0000": 1}', '{"A": 1e999}', '{"A": 99999999999999999999}', '{"A": ' + "[" * 30 + "]" * 30 + "}"],
)  # fmt: skip
def test_values_that_no_database_or_definition_could_hold_are_refused(
    rest: httpx.Client, stage: Stage, params: str
) -> None:
    stage.project.push(MANY)
    body = f'{{"workflow": "many", "params": {params}}}'
    answer = rest.post("/api/v1/runs", content=body, headers={"Content-Type": "application/json"})
    assert (answer.status_code, code(answer)) == (400, "request.invalid")
    assert stage.runs("many") == []


@pytest.mark.parametrize(
    "path", ["runs/a%00b", "workflows/a%00b", "consumers/a%00b", "captures/x%00", "runs?workflow=%00"]
)
def test_addresses_that_no_database_could_look_up_are_refused(rest: httpx.Client, path: str) -> None:
    answer = rest.get(f"/api/v1/{path}")
    assert (answer.status_code, code(answer)) == (400, "request.invalid")
