"""REST on both databases: the same verbs, checks and effects as the command line's."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from icefloe.workflow.signal_values import SignalError
from tests.contract.server.conftest import Stage, code

FOLLOWER = """
Trigger: {signal: {name: upstream_done, match_params: {region: eu}}}
Workflow: {id: follower, run_strategy: {rule: PARALLEL, concurrency: 9}, jobs: [{job: {id: one, type: NoOp}}]}
"""


def test_a_signal_starts_the_workflow_that_waits_for_it_and_twice_the_same_id_starts_it_once(
    rest: httpx.Client,
    stage: Stage,
) -> None:
    stage.project.push(FOLLOWER)
    stage.look()
    first = rest.post("/api/v1/signals", json={"name": "upstream_done", "params": {"region": "eu"}, "id": "load-7"})
    assert (first.status_code, first.json()) == (201, {"id": "load-7", "created": True})
    again = rest.post("/api/v1/signals", json={"name": "upstream_done", "params": {"region": "us"}, "id": "load-7"})
    assert (again.status_code, again.json()) == (200, {"id": "load-7", "created": False})
    rest.post("/api/v1/signals", json={"name": "upstream_done", "params": {"region": "us"}})
    stage.look()
    assert len(stage.runs("follower")) == 1


def test_signals_are_listed_newest_first_and_by_name(rest: httpx.Client) -> None:
    for name, params in (("a", {"n": 1, "x": [1, 2], "ok": True, "w": "words", "f": 0.5}), ("b", {}), ("a", {})):
        assert rest.post("/api/v1/signals", json={"name": name, "params": params}).status_code == 201
    found = rest.get("/api/v1/signals").json()["signals"]
    assert [one["name"] for one in found] == ["a", "b", "a"]
    assert found[-1]["params"] == {"n": 1, "x": [1, 2], "ok": True, "w": "words", "f": 0.5}
    assert {one["publisher"] for one in found} == {"server-token"}
    assert len(rest.get("/api/v1/signals", params={"name": "a"}).json()["signals"]) == 2
    assert len(rest.get("/api/v1/signals", params={"limit": 1}).json()["signals"]) == 1
    assert code(rest.get("/api/v1/signals", params={"limit": 0})) == "request.invalid"
    assert rest.get("/api/v1/signals", params={"name": "a\0"}).status_code == 400


@pytest.mark.parametrize("name", ["", "  ", "a\0b", "a\nb", "\x1b[31mred", "\u202egnp.exe", "\ud800", "x" * 201])
def test_a_hostile_name_is_refused_by_rest_and_by_the_service_alike(
    rest: httpx.Client,
    stage: Stage,
    name: str,
) -> None:
    for field in ("name", "id"):
        body = json.dumps({"name": "good", field: name})
        answer = rest.post("/api/v1/signals", content=body, headers={"Content-Type": "application/json"})
        assert (answer.status_code, code(answer)) in ((400, "signal.invalid"), (400, "request.invalid"))
    with pytest.raises(SignalError):
        stage.project.client.triggers.signal(name, {})
    assert rest.get("/api/v1/signals").json()["signals"] == []


@pytest.mark.parametrize("name", ["'; DROP TABLE signals; --", "<script>alert(1)</script>", "../../etc/passwd", "${x}"])
def test_an_odd_name_is_only_a_name(rest: httpx.Client, name: str) -> None:
    assert rest.post("/api/v1/signals", json={"name": name}).status_code == 201
    assert [one["name"] for one in rest.get("/api/v1/signals", params={"name": name}).json()["signals"]] == [name]


@pytest.mark.parametrize(
    "params",
    ['{"n": 1e999}', '{"n": NaN}', f'{{"n": {2**63}}}', '{"n": null}', '{"n": {"a": 1}}', '{"n": [1, "a"]}', '{"": 1}',
     '{"n": [[1]]}', "[1]", '"text"', json.dumps({f"p{n}": n for n in range(101)})],
)  # fmt: skip
def test_a_parameter_that_no_definition_could_compare_is_refused(rest: httpx.Client, params: str) -> None:
    body = f'{{"name": "upstream_done", "params": {params}}}'
    answer = rest.post("/api/v1/signals", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 400
    assert code(answer) in ("signal.invalid", "request.invalid")
    assert rest.get("/api/v1/signals").json()["signals"] == []


@pytest.mark.parametrize(
    "body",
    ["{", "", "\xff", "[" * 100_000, '{"name": ' + "9" * 10_000 + "}", "null", '{"name": "a", "extra": 1}', "[]"],
)
def test_a_body_that_is_not_what_is_asked_for_is_a_mistake_of_the_caller(rest: httpx.Client, body: str) -> None:
    content = body.encode("latin-1")
    answer = rest.post("/api/v1/signals", content=content, headers={"Content-Type": "application/json"})
    assert answer.status_code == 400
    assert code(answer) in ("request.malformed", "request.invalid")


def test_a_form_is_not_taken_for_json(rest: httpx.Client) -> None:
    answer = rest.post("/api/v1/signals", data={"name": "upstream_done"})
    assert (answer.status_code, code(answer)) == (400, "request.invalid")
    assert "Content-Type" in answer.json()["hint"]


def test_a_body_above_the_limit_is_refused_whether_or_not_it_says_its_size(rest: httpx.Client) -> None:
    large = b'{"name": "' + b"x" * 300 * 1024 + b'"}'
    for content in (large, iter([large[:1000], large[1000:]])):
        answer = rest.post("/api/v1/signals", content=content, headers={"Content-Type": "application/json"})
        assert (answer.status_code, code(answer)) == (413, "server.too-large")


@pytest.mark.parametrize("header", [None, "", "Bearer", "Bearer wrong", "Bearer {token}x", "Basic {token}", "{token}"])
@pytest.mark.parametrize("path", ["signals", "watermarks", "openapi.json", "nothing"])
def test_without_the_token_nothing_is_told_but_how_to_send_it(
    rest: httpx.Client, header: str | None, path: str
) -> None:
    token = rest.headers.pop("Authorization").removeprefix("Bearer ")
    sent = {} if header is None else {"Authorization": header.format(token=token)}
    answer = rest.get(f"/api/v1/{path}", headers=sent)
    assert (answer.status_code, code(answer)) == (401, "server.unauthorized")
    assert "Authorization: Bearer" in answer.json()["hint"]
    assert answer.headers["www-authenticate"] == "Bearer"
    assert rest.get("/api/v1/health").json() == {"status": "ok"}


def test_a_watermark_goes_forward_only_unless_told_otherwise(rest: httpx.Client) -> None:
    def put(through: object, **more: object) -> Any:
        return rest.post("/api/v1/watermarks", json={"table": "lake.db.events", "valid_through": through, **more})

    assert put("2026-03-02").json()["moved"] is True
    held = put("2026-03-01").json()
    assert (held["moved"], held["watermark"]["valid_through"]) == (False, 1772409600.0)
    assert put("2026-03-01", back=True).json()["moved"] is True
    assert put(1772409600000).json()["moved"] is True
    (found,) = rest.get("/api/v1/watermarks", params={"table": "db.events"}).json()["watermarks"]
    assert (found["source"], found["valid_through"], found["publisher"]) == ("db.events", 1772409600.0, "server-token")
    assert rest.get("/api/v1/watermarks", params={"table": "db.other"}).json() == {"watermarks": []}


@pytest.mark.parametrize(
    "through", ["soon", "2026-13-01", "", 5, 10**40, -1, None, True, 1.5, "٢٠٢٦٠٣٠١", "999999999999999"]
)
def test_a_moment_that_is_none_is_refused(rest: httpx.Client, through: object) -> None:
    answer = rest.post("/api/v1/watermarks", json={"table": "db.events", "valid_through": through})
    assert answer.status_code == 400
    assert code(answer) in ("watermark.moment", "request.invalid")
    assert rest.get("/api/v1/watermarks").json() == {"watermarks": []}


@pytest.mark.parametrize("table", ["", "events", "db.", "db.`a\0b`", "db.a\nb"])
def test_a_table_that_is_none_is_refused(rest: httpx.Client, table: str) -> None:
    answer = rest.post("/api/v1/watermarks", json={"table": table, "valid_through": "2026-03-01"})
    assert (answer.status_code, code(answer)) == (400, "request.invalid" if "\0" in table else "usage")


def test_paths_and_methods_that_do_not_exist_get_documents_too(rest: httpx.Client) -> None:
    missing = rest.get("/api/v1/nothing")
    assert (missing.status_code, code(missing)) == (404, "server.no-such-path")
    wrong = rest.delete("/api/v1/signals")
    assert (wrong.status_code, code(wrong)) == (405, "server.method")
    assert "POST" in wrong.headers["allow"] or "GET" in wrong.headers["allow"]


def test_a_mistake_of_the_program_is_told_without_its_details(
    rest: httpx.Client,
    stage: Stage,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("inside: secret")

    monkeypatch.setattr(stage.project.client.triggers, "signals", broken, raising=True)
    answer = rest.get("/api/v1/signals")
    assert (answer.status_code, code(answer)) == (500, "internal")
    assert "secret" not in answer.text
