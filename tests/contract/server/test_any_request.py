"""Any request that the OpenAPI document allows, and many that it does not: no answer is a mistake of the program, and each is as documented.

HYPOTHESIS_PROFILE=long python -m pytest tests/contract/server/test_any_request.py    # many more, and new ones
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from itertools import cycle
from typing import Any

import httpx
import hypothesis
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.contract.capture.test_micro_batches import copy
from tests.contract.server.conftest import Stage

LONG = os.environ.get("HYPOTHESIS_PROFILE") == "long"
SECONDS, EXAMPLES = (1800.0, 300) if LONG else (40.0, 12)
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
STREAMS = ("follow_changes",)
"""Answers that do not end."""
HOSTILE = (
    "<script>alert(1)</script>",
    "'; DROP TABLE runs; --",
    "\x1b]0;owned\x07\x1b[31mred",
    "\u202egnp.exe\u2066",
    "../../../etc/passwd",
    "${jndi:ldap://localhost/a}{{7*7}}%s%n",
    "\u0000",
    "😀" * 50,
    "x" * 20_000,
    " ",
    "",
)


@pytest.fixture
def described(rest: httpx.Client, stage: Stage) -> tuple[Any, dict[str, str]]:
    """The document as programs get it, and what there is to ask for."""
    stage.create("db.events")
    stage.append("db.events", 1, 2)
    stage.project.push(copy())
    stage.project.execute("copy")
    stage.append("db.events", 3)
    stage.project.start("copy")
    (capture,) = stage.captures("copy/look")
    names = {
        "workflow_id": "copy", "run_id": "copy-1", "name": "copy/look", "capture_id": capture.id, "table": "db.events"
    }  # fmt: skip
    document = rest.get("/api/v1/openapi.json").json()
    return schemathesis.openapi.from_dict(document), names


def operations(schema: Any) -> Iterator[Any]:
    for result in schema.get_all_operations():
        operation = result.ok()
        if operation.definition.raw["operationId"] not in STREAMS:
            yield operation


def test_every_answer_is_as_documented_and_none_is_a_mistake_of_the_program(
    rest: httpx.Client, described: tuple[Any, dict[str, str]]
) -> None:
    schema, names = described
    deadline = time.monotonic() + SECONDS
    asked = {
        operation.definition.raw["operationId"]: ask(operation, rest, names, deadline)
        for operation in operations(schema)
    }
    assert rest.get("/api/v1/health").json() == {"status": "ok"}
    assert len(asked) > 50 and min(asked.values()) >= 1


def ask(operation: Any, rest: httpx.Client, names: dict[str, str], deadline: float) -> int:
    """Send one operation many requests. How many it was: each is asked a little, however slow the machine."""
    known = cycle((True, False))  # half of the requests are about something that is there
    headers = {"Authorization": rest.headers["Authorization"]}
    asked = 0

    @hypothesis.settings(
        max_examples=EXAMPLES, deadline=None, database=None, derandomize=not LONG, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck), print_blob=True,
    )  # fmt: skip
    @hypothesis.given(case=operation.as_strategy())
    def one(case: Any) -> None:
        nonlocal asked
        if asked >= 2 and time.monotonic() > deadline:
            return
        if next(known):
            case.path_parameters |= {key: names[key] for key in case.path_parameters or {} if key in names}
        asked += 1
        answer = case.call(base_url=str(rest.base_url), headers=headers, timeout=60)
        case.validate_response(answer, checks=CHECKS)

    one()
    return asked


def test_hostile_strings_in_every_field_are_refused_or_given_back_as_they_are(
    rest: httpx.Client, described: tuple[Any, dict[str, str]]
) -> None:
    schema, names = described
    document = schema.raw_schema
    chance = random.Random(7)
    for operation in operations(schema):
        raw = operation.definition.raw
        for text in HOSTILE if LONG else chance.sample(HOSTILE, 4):
            path = operation.path
            for key in names:
                path = path.replace(f"{{{key}}}", httpx.QueryParams({"": names[key]}).__str__()[1:])
            query = {each["name"]: text for each in raw.get("parameters", ()) if each["in"] == "query"}
            body = raw.get("requestBody")
            sent = None
            if body is not None:
                reference = body["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
                fields = document["components"]["schemas"][reference]["properties"]
                sent = {name: _value(field, text) for name, field in fields.items()}
            for params in ({name: value} for name, value in query.items()) if query and sent is None else ({},):
                answer = rest.request(operation.method.upper(), path, params=params, json=sent)
                assert answer.status_code < 500, (raw["operationId"], text[:50], params, answer.text)
                if answer.status_code >= 400:
                    assert answer.headers["content-type"] == "application/problem+json"
                    assert {"code", "detail", "hint"} <= set(answer.json())
    for text in HOSTILE:  # in the path itself
        if text.strip() and text not in ("../../../etc/passwd",):
            for noun in ("runs", "workflows", "consumers", "captures"):
                answer = rest.get(f"/api/v1/{noun}/" + httpx.QueryParams({"": text}).__str__()[1:].replace("+", "%20"))
                assert answer.status_code in (400, 404, 414), (noun, text[:50], answer.text)


def _value(field: dict[str, Any], text: str) -> Any:
    kinds = {field.get("type"), *(each.get("type") for each in field.get("anyOf", ()))}
    if "string" in kinds:
        return text
    if "object" in kinds:
        return {text: text}
    if "array" in kinds:
        return [text]
    return False if "boolean" in kinds else 1


def test_what_is_hostile_and_allowed_is_stored_and_shown_as_it_is(rest: httpx.Client, stage: Stage) -> None:
    stage.project.push("Workflow: {id: plain, WHO: x, jobs: [{job: {id: one, type: NoOp}}]}")
    for text in HOSTILE:
        if "\0" in text:
            continue
        started = rest.post("/api/v1/runs", json={"workflow": "plain", "params": {"WHO": text}})
        assert started.status_code == 201, started.text
        assert rest.get(started.headers["location"]).json()["params"]["WHO"] == text
    large = rest.post("/api/v1/runs", json={"workflow": "plain", "params": {"WHO": "x" * 1_000_000}})
    assert large.status_code == 413
