"""What only REST has of some nouns, on both databases: drawings, texts of versions, logs in parts, change tables."""

from __future__ import annotations

import base64

import httpx

from tests.contract.server.conftest import Stage, code

SPEAKS = """
Workflow:
  id: speaks
  jobs:
    - job: {id: talk, type: Shell, shell: {script: "printf '\\\\377%s' one; echo; echo two"}}
    - job: {id: after, type: NoOp}
  dag: sequential
"""


def test_a_definition_is_checked_drawn_and_shown_before_and_after_it_is_pushed(rest: httpx.Client) -> None:
    body = {"yaml": SPEAKS, "name": "speaks.yaml"}
    assert rest.post("/api/v1/definitions/validate", json=body).json() == {
        "valid": True, "workflow": "speaks", "problems": []
    }  # fmt: skip
    wrong = rest.post("/api/v1/definitions/validate", json={**body, "yaml": SPEAKS.replace("NoOp", "NoOpp")}).json()
    assert not wrong["valid"] and wrong["problems"][0]["file"] == "speaks.yaml" and wrong["problems"][0]["line"] > 1
    refused = rest.post("/api/v1/workflows", json={**body, "yaml": "Workflow: {id: x}"})
    assert (refused.status_code, code(refused)) == (400, "definition.invalid") and refused.json()["problems"]
    assert rest.post("/api/v1/definitions/diff", json=body).json()["pushed"] is False
    assert rest.post("/api/v1/workflows", json=body).status_code == 201
    assert rest.post("/api/v1/definitions/diff", json=body).json()["changed"] is False
    svg = rest.get("/api/v1/workflows/speaks/graph")
    assert svg.headers["content-type"].startswith("image/svg+xml") and "talk" in svg.text
    assert "flowchart" in rest.get("/api/v1/workflows/speaks/graph", params={"format": "mermaid"}).text
    text = rest.get("/api/v1/workflows/speaks/definition").json()
    assert (text["source"], text["source_name"], text["pushed_by"]) == (SPEAKS, "speaks.yaml", "server-token")
    assert rest.post("/api/v1/definitions/diff", json={**body, "yaml": text["yaml"]}).json()["changed"] is False
    changed = SPEAKS.replace("echo two", "echo three")
    rest.post("/api/v1/workflows", json={**body, "yaml": changed})
    between = rest.get("/api/v1/workflows/speaks/diff", params={"before": 1, "after": 2}).json()
    assert between["changed"] and "three" in between["text"]
    assert [each["version"] for each in rest.get("/api/v1/workflows/speaks/versions").json()["versions"]] == [2, 1]
    assert code(rest.get("/api/v1/workflows/gone/graph")) == "not-found"


def test_files_of_the_server_are_not_read_whatever_a_definition_names(rest: httpx.Client, stage: Stage) -> None:
    (stage.project.root / "secret.sql").write_text("SELECT 'secret'")
    body = {
        "yaml": "Workflow: {id: x, jobs: [{job: {id: a, type: Spark, spark: {script: secret.sql}}}]}", "name": "x.yaml"
    }  # fmt: skip
    refused = rest.post("/api/v1/workflows", json=body)
    assert (refused.status_code, code(refused)) == (400, "definition.invalid")
    assert "was not sent" in refused.json()["detail"]
    sent = {**body, "files": {"file:secret.sql": base64.b64encode(b"SELECT 1").decode()}}
    assert rest.post("/api/v1/workflows", json=sent).status_code == 201
    odd = rest.post("/api/v1/workflows", json={**body, "files": {"file:secret.sql": "no base64!"}})
    assert (odd.status_code, code(odd)) == (400, "request.invalid")


def test_a_log_is_read_in_parts_as_the_bytes_that_it_is(rest: httpx.Client, stage: Stage) -> None:
    stage.project.push(SPEAKS)
    stage.project.execute("speaks")
    part = rest.get("/api/v1/runs/speaks-1/log", params={"step": "talk"}).json()
    content = base64.b64decode(part["content"])
    assert content.endswith(b"one\ntwo\n") and (part["ended"], part["gap"], part["attempt"]) == (True, False, 1)
    place = {"number": part["number"], "offset": part["offset"]}
    assert rest.get("/api/v1/runs/speaks-1/log", params={"step": "talk", **place}).json()["content"] == ""
    later = rest.get("/api/v1/runs/speaks-1/log", params={"step": "talk", "number": part["number"], "offset": 1}).json()
    assert base64.b64decode(later["content"]) == content[1:]
    assert rest.get("/api/v1/runs/speaks-1/log/tail", params={"step": "talk", "lines": 1}).json()["lines"] == ["two"]
    assert code(rest.get("/api/v1/runs/speaks-1/log", params={"step": "gone"})) == "not-found"
    attempts = rest.get("/api/v1/runs/speaks-1/attempts").json()["attempts"]
    assert [(step["step"], step["attempts"], step["history"][0]["status"]) for step in attempts] == [
        ("talk", 1, "SUCCEEDED"), ("after", 1, "SUCCEEDED")
    ]  # fmt: skip
    assert rest.get("/api/v1/runs/speaks-1/events").json()["events"][-1]["status"] == "SUCCEEDED"


def test_what_changed_in_a_table_is_told_and_made_a_table_of(rest: httpx.Client, stage: Stage) -> None:
    stage.create("db.events")
    first = stage.append("db.events", 1, 2)
    stage.append("db.events", 3, day=2)
    found = rest.get("/api/v1/tables/db.events/changes", params={"since": first}).json()
    assert (found["kind"], found["added_rows"], found["change_table"]) == ("log", 1, None)
    assert found["ranges"]["day"]["min"] == found["ranges"]["day"]["max"] == "2026-03-02"
    made = rest.post("/api/v1/tables/db.events/change-tables", json={"name": "second", "since": first})
    assert made.status_code == 201 and made.json()["change_table"].endswith("second")
    assert stage.ids_in(made.json()["change_table"]) == [3]
    assert [each["rows"] for each in rest.get("/api/v1/change-tables").json()["change_tables"]] == [1]
    assert rest.delete("/api/v1/change-tables/second").json()["source"] == "db.events"
    assert rest.get("/api/v1/change-tables").json()["change_tables"] == []
    assert rest.post("/api/v1/change-tables/clean", json={}).json() == {"removed": []}
    assert [(each["verb"], each["who"]) for each in rest.get("/api/v1/audit").json()["entries"]] == [
        ("change-tables drop", "server-token"), ("change-tables create", "server-token")
    ]  # fmt: skip
    for name in ("a b", "../x", "", "ü"):
        odd = rest.post("/api/v1/tables/db.events/change-tables", json={"name": name})
        assert odd.status_code == 400, odd.text
    assert code(rest.get("/api/v1/tables/db.gone/changes")) == "lake.table-not-found"
    assert code(rest.get("/api/v1/tables/db.events/changes", params={"since": 1})).startswith("lake.")
