"""Errors as answers: problem documents (RFC 9457) for programs, pages for people, each with the status code that fits."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from icefloe.credentials import masked
from icefloe.errors import ConflictError, IcefloeError, NotFoundError, UnreachableError, UsageError

LOG = logging.getLogger("icefloe.server")
API = "/api/v1"

_BY_CODE = {
    "server.unauthorized": 401,
    "access.link": 403,
    "access.forbidden": 403,
    "server.stale-form": 403,
    "server.no-such-path": 404,
    "server.method": 405,
    "server.too-slow": 408,
    "server.changed": 412,
    "server.too-large": 413,
    "server.host": 421,
    "server.key-reused": 422,
    "server.too-many": 429,
    "server.too-many-logins": 429,
}
_BY_KIND: tuple[tuple[type[IcefloeError], int], ...] = (
    (NotFoundError, 404),
    (UsageError, 400),
    (ConflictError, 409),
    (UnreachableError, 503),
)

ErrorPage = Callable[[Request, IcefloeError, int], Response]
"""Makes the page that shows an error to people."""


class RequestError(UsageError):
    """The request is not what the path takes."""

    code = "request.invalid"


class MalformedError(UsageError):
    """The body is not JSON."""

    code = "request.malformed"


class NoSuchPathError(UsageError):
    """Nothing is at this address."""

    code = "server.no-such-path"


class MethodError(UsageError):
    """The address does not take this method."""

    code = "server.method"


class InternalError(IcefloeError):
    """A mistake of the program. What went wrong is in its log, not in the answer."""

    code = "internal"


def problem(error: IcefloeError, headers: Mapping[str, str] | None = None) -> JSONResponse:
    """The problem document: ``code``, ``where``, ``hint``, ``retryable`` and ``fatal`` are members of our own."""
    status = status_of(error)
    own = {name: masked(part) if isinstance(part, str) else part for name, part in error.to_dict().items()}
    document = {
        "type": f"urn:icefloe:problem:{error.code}",
        "title": title_of(error),
        "status": status,
        "detail": own.pop("message"),
        **own,
    }
    return JSONResponse(document, status, headers, media_type="application/problem+json")


def title_of(error: IcefloeError) -> str:
    """What this kind of error is about: the same for all errors of one code."""
    documented = type(error).__doc__ or error.code
    return documented.strip().splitlines()[0]


def status_of(error: IcefloeError) -> int:
    if error.code in _BY_CODE:
        return _BY_CODE[error.code]
    return next((status for kind, status in _BY_KIND if isinstance(error, kind)), 500)


def install(app: FastAPI, error_page: ErrorPage) -> None:
    """Every way to fail gets its answer: a document below the API's path, a page elsewhere."""

    def answer(request: Request, error: IcefloeError, headers: Mapping[str, str] | None = None) -> Response:
        if request.scope["path"].startswith(API):
            return problem(error, headers)
        return error_page(request, error, status_of(error))

    def ours(request: Request, error: Exception) -> Response:
        assert isinstance(error, IcefloeError)
        return answer(request, error)

    def invalid(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        return answer(request, _invalid(error))

    def http(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        return answer(request, _http(request, error), error.headers)

    def unexpected(request: Request, _error: Exception) -> Response:
        # Its trace is logged by uvicorn, to which it goes on.
        hint = "see what icefloe serve has logged"
        return answer(request, InternalError("something went wrong inside the server", hint=hint))

    app.add_exception_handler(IcefloeError, ours)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(HTTPException, http)
    app.add_exception_handler(Exception, unexpected)


def _invalid(error: RequestValidationError) -> IcefloeError:
    first = error.errors()[0]
    if first["type"] == "json_invalid":
        told = first.get("ctx", {}).get("error", "it cannot be read")
        return MalformedError(f"the body is not JSON: {told}")
    place = ".".join(str(part) for part in first["loc"])
    hint = "send JSON with the header Content-Type: application/json" if place == "body" else None
    return RequestError(str(first["msg"]), where=place, hint=hint)


def _http(request: Request, error: HTTPException) -> IcefloeError:
    if error.status_code == 404:
        hint = f"GET {API}/openapi.json lists them" if request.scope["path"].startswith(API) else None
        return NoSuchPathError("there is no such path", hint=hint)
    if error.status_code == 405:
        return MethodError(f"{request.method} is not for this path")
    if error.status_code == 400:
        return MalformedError("the body cannot be read")
    return InternalError(str(error.detail))
