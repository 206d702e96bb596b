"""The OpenAPI document: what every route has in common is added here, so that routes say only what is their own.

Every operation has the errors that it may answer with, each as a problem document; every POST takes an ``Idempotency-Key``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fastapi import APIRouter, FastAPI
from fastapi.routing import APIRoute

from icefloe import __version__
from icefloe.server.answers import API

MEDIA_TYPE = "application/problem+json"
PROBLEM: dict[str, Any] = {
    "title": "Problem",
    "description": "A problem document (RFC 9457). `code` stays the same; `hint` says what to do; `retryable`: the same request may "
    "succeed in a moment; `fatal`: it never will. docs/reference/errors.md has every code.",
    "type": "object",
    "required": ["type", "title", "status", "detail", "code", "where", "hint", "retryable", "fatal"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "code": {"type": "string"},
        "where": {"type": ["string", "null"]},
        "hint": {"type": ["string", "null"]},
        "retryable": {"type": "boolean"},
        "fatal": {"type": "boolean"},
    },
    "examples": [
        {
            "type": "urn:icefloe:problem:not-found",
            "title": "Something named by the caller does not exist.",
            "status": 404,
            "detail": "there is no run 'playback.agg-99'",
            "code": "not-found",
            "where": None,
            "hint": "icefloe runs",
            "retryable": False,
            "fatal": False,
        }
    ],
}
ERRORS = {
    "400": "What was asked for cannot be meant: malformed JSON, a field that is missing, unknown or of another kind; `where` names it.",
    "401": "The token is missing, wrong, expired or revoked.",
    "403": "Known, but not allowed to do this: it takes another role.",
    "404": "There is nothing of this name.",
    "408": "The body took too long to arrive.",
    "409": "Somebody else was faster, or its state does not allow this.",
    "412": "It is not what `If-Match` says any more.",
    "413": "The body is larger than `[server] max_body_kib`.",
    "421": "The request is for another host's name.",
    "422": "The `Idempotency-Key` was used for another request.",
    "429": "Too many streams are open.",
    "500": "A mistake of the program, or something on its side that cannot be used. The server's log says what.",
    "503": "The state database or the catalog does not answer. Try again.",
}
OF_ALL = ("400", "401", "403", "404", "409", "421", "500", "503")
OF_CHANGES = ("408", "413", "422")
WITHOUT_TOKEN = (f"{API}/health",)
KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "A text of your choice, new for each request. Sent again with the same body within a day, the request is not done again; "
    "the same answer is given, with `Idempotency-Replayed: true`.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 200},
}
DESCRIPTION = """\
Everything that the command line does, for programs.

Listings answer `{"NOUN": [...], "next": "cursor or null"}`; ask again with `after=cursor`, or follow the `Link` header. An error is a problem
document. What two people may act on has an `ETag`; with it as `If-Match` a change is made to what was seen, or not at all.
"""


def operation_id(route: APIRoute) -> str:
    return route.name


def document(routers: Iterable[APIRouter]) -> dict[str, Any]:
    """The document without a server: for the reference."""
    app = FastAPI(title="Icefloe", version=__version__, generate_unique_id_function=operation_id)
    for router in routers:
        app.include_router(router, prefix=API)
    describe(app)
    return app.openapi()


def describe(app: FastAPI) -> None:
    """Let the application give the finished document."""
    make = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.description = DESCRIPTION
            document = make()
            _finish(document)
            app.openapi_schema = document
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]


def _finish(document: dict[str, Any]) -> None:
    components = document.setdefault("components", {})
    schemas = components.setdefault("schemas", {})
    for generated in ("HTTPValidationError", "ValidationError"):
        schemas.pop(generated, None)
    schemas["Problem"] = PROBLEM
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    components["responses"] = {
        f"Error{status}": {"description": text, "content": content} for status, text in ERRORS.items()
    }
    components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            _finish_operation(path, method, operation)


def _finish_operation(path: str, method: str, operation: dict[str, Any]) -> None:
    operation["security"] = [] if path in WITHOUT_TOKEN else [{"token": []}]
    parameters = operation.setdefault("parameters", [])
    statuses = set(OF_ALL)
    if method == "post":
        parameters.append(KEY)
    if method != "get":
        statuses.update(OF_CHANGES)
    if any(parameter["name"].lower() == "if-match" for parameter in parameters):
        statuses.add("412")
    if path.endswith("/changes") and "{" not in path:
        statuses.add("429")
    responses = operation["responses"]
    responses.pop("422", None)
    responses |= {status: {"$ref": f"#/components/responses/Error{status}"} for status in sorted(statuses)}
    for status, answer in responses.items():
        if status.startswith("2") and "$ref" not in answer and answer.get("description") == "Successful Response":
            answer["description"] = "Done" if method != "get" else "What was asked for"
