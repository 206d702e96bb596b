"""Errors as documents, ``{"error": {…}}`` as ``--output json`` prints them, with the status code that fits."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from icefloe.errors import ConflictError, IcefloeError, NotFoundError, UnreachableError, UsageError

LOG = logging.getLogger("icefloe.server")

_BY_CODE = {
    "server.unauthorized": 401,
    "server.no-such-path": 404,
    "server.method": 405,
    "server.too-slow": 408,
    "server.too-large": 413,
}
_BY_KIND: tuple[tuple[type[IcefloeError], int], ...] = (
    (NotFoundError, 404),
    (UsageError, 400),
    (ConflictError, 409),
    (UnreachableError, 503),
)


class RequestError(UsageError):
    """The request is not what the path takes."""

    code = "request.invalid"


class MalformedError(UsageError):
    """The body is no JSON."""

    code = "request.malformed"


class NoSuchPathError(UsageError):
    code = "server.no-such-path"


class MethodError(UsageError):
    code = "server.method"


class InternalError(IcefloeError):
    """A mistake of the program. What went wrong is in its log, not in the answer."""

    code = "internal"


def problem(error: IcefloeError, headers: Mapping[str, str] | None = None) -> JSONResponse:
    return JSONResponse({"error": error.to_dict()}, status_of(error), headers)


def status_of(error: IcefloeError) -> int:
    if error.code in _BY_CODE:
        return _BY_CODE[error.code]
    return next((status for kind, status in _BY_KIND if isinstance(error, kind)), 500)


def install(app: FastAPI) -> None:
    """Every way to fail gets its document."""
    app.add_exception_handler(IcefloeError, _ours)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(Exception, _unexpected)


def _ours(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, IcefloeError)
    return problem(error)


def _invalid(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    if first["type"] == "json_invalid":
        told = first.get("ctx", {}).get("error", "it cannot be read")
        return problem(MalformedError(f"the body is no JSON: {told}"))
    place = ".".join(str(part) for part in first["loc"])
    hint = "send JSON with the header Content-Type: application/json" if place == "body" else None
    return problem(RequestError(str(first["msg"]), where=place, hint=hint))


def _http(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    if error.status_code == 404:
        return problem(NoSuchPathError("there is no such path", hint="GET /api/v1/openapi.json lists them"))
    if error.status_code == 405:
        return problem(MethodError(f"{request.method} is not for this path"), error.headers)
    if error.status_code == 400:
        return problem(MalformedError("the body is no JSON that can be read"))
    return JSONResponse({"error": InternalError(str(error.detail)).to_dict()}, error.status_code)


def _unexpected(_request: Request, _error: Exception) -> JSONResponse:
    # Its trace is logged by uvicorn, to which it goes on.
    return problem(InternalError("something went wrong inside the server", hint="see what icefloe serve has logged"))
