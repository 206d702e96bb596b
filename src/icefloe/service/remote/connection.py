"""Requests to a server: its token, its errors as the classes they were, and trying again what the network lost.

A change carries an ``Idempotency-Key``, so that one whose answer was lost is sent again without being done again.
"""

from __future__ import annotations

import importlib
import time
import uuid
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote, urlsplit

import httpx

from icefloe import __version__
from icefloe.errors import ConflictError, IcefloeError, NotFoundError, UnreachableError, UsageError
from icefloe.workflow.problems import DefinitionError, Position, Problem, Severity

API = "/api/v1"
TRIES = 4
PAUSE_SECONDS = 0.25
"""After the first try; doubled with each further one."""
TIMEOUT_SECONDS = 60.0
_RAISED_BY = (
    "icefloe.engine.events",
    "icefloe.lake.errors",
    "icefloe.service.access",
    "icefloe.service.idempotency",
    "icefloe.service.interventions",
    "icefloe.service.preconditions",
    "icefloe.service.runs",
    "icefloe.service.workflows",
    "icefloe.workflow.resolution",
    "icefloe.workflow.signal_values",
)
"""Modules whose errors servers send."""


class ServerError(IcefloeError):
    """The server answered with an error whose code this program does not know."""

    code = "remote.error"


class NotIcefloeError(UsageError):
    """What answers at the address is not an Icefloe server, or not a REST one."""

    code = "remote.not-icefloe"


class ServerUnreachableError(UnreachableError):
    """The server does not answer."""

    code = "remote.unreachable"


class Connection:
    def __init__(self, address: str, token: str, *, transport: httpx.BaseTransport | None = None) -> None:
        parts = urlsplit(address)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise UsageError(f"{address!r} is not the address of a server", hint="such as https://icefloe.example.com")
        self.address = address.rstrip("/")
        self._http = httpx.Client(
            base_url=self.address + API,
            headers={"Authorization": f"Bearer {token}", "User-Agent": f"icefloe/{__version__}"},
            timeout=TIMEOUT_SECONDS,
            transport=transport,
        )

    def close(self) -> None:
        self._http.close()

    def get(self, path: str, **query: Any) -> Any:
        """``query``: what is None is left out."""
        params = {name: _text(told) for name, told in query.items() if told is not None}
        return self._answer("GET", path, params=params)

    def post(self, path: str, body: Mapping[str, Any] | None = None, *, seen: object | None = None) -> Any:
        """``seen``: the state to which the change is made, or none is."""
        headers = {"Idempotency-Key": uuid.uuid4().hex}
        if seen is not None:
            headers["If-Match"] = f'"{seen}"'
        return self._answer("POST", path, json=body, headers=headers)

    def delete(self, path: str) -> Any:
        return self._answer("DELETE", path)

    def pages(self, path: str, noun: str, most: int | None, **query: Any) -> Iterator[Any]:
        """The items of a listing, page by page, ``most`` at most."""
        left, after = most, query.pop("after", None)
        while left is None or left > 0:
            page = self.get(path, **query, after=after, limit=min(left or 500, 500))
            yield from page[noun]
            after = page["next"]
            if after is None:
                return
            left = None if left is None else left - len(page[noun])

    def _answer(self, method: str, path: str, **options: Any) -> Any:
        pause = PAUSE_SECONDS
        for last in (*(False,) * (TRIES - 1), True):
            try:
                answer = self._http.request(method, path, **options)
            except httpx.TransportError as error:
                # A DELETE has no key: whether it was done is not known.
                failure: IcefloeError = ServerUnreachableError(
                    f"{type(error).__name__}: {error}".rstrip(": "),
                    where=self.address,
                    hint="is icefloe serve running there, and is it the right address?",
                )
                again = method != "DELETE" or isinstance(error, httpx.ConnectError)
            else:
                if answer.is_success:
                    return self._document(answer)
                failure = self._error(answer)
                again = answer.status_code in (429, 502, 503, 504) or failure.code == "server.key-in-use"
            if last or not again:
                raise failure
            time.sleep(pause)
            pause *= 2
        raise AssertionError("the last try returns or raises")

    def _document(self, answer: httpx.Response) -> Any:
        try:
            return answer.json()
        except ValueError:
            raise NotIcefloeError(
                "it answered with something that is not JSON",
                where=self.address,
                hint="is this the address that icefloe serve has printed?",
            ) from None

    def _error(self, answer: httpx.Response) -> IcefloeError:
        try:
            document = answer.json()
            return error_of(document)
        except (ValueError, KeyError, TypeError):
            pass
        told = f"it answered {answer.status_code} {answer.reason_phrase}, and no problem document"
        if answer.status_code in (502, 503, 504):
            return ServerUnreachableError(told, where=self.address, hint="is icefloe serve running behind it?")
        return NotIcefloeError(told, where=self.address, hint="is this the address that icefloe serve has printed?")


def error_of(document: Mapping[str, Any]) -> IcefloeError:
    """The error as it was raised over there."""
    kind = _classes().get(document["code"]) or _nearest(document["status"])
    error = kind.__new__(kind)
    IcefloeError.__init__(error, document["detail"], hint=document["hint"], where=document["where"])
    # On the object: a class that several codes share must not say another one's.
    error.__dict__ |= {name: document[name] for name in ("code", "retryable", "fatal")}
    if isinstance(error, DefinitionError):
        error.problems = tuple(_problem(each) for each in document.get("problems", ()))
    return error


def segment(text: str) -> str:
    """A name as one part of a path."""
    return quote(text, safe="")


def _classes() -> dict[str, type[IcefloeError]]:
    for module in _RAISED_BY:
        importlib.import_module(module)
    found: dict[str, type[IcefloeError]] = {}
    waiting = [IcefloeError]
    while waiting:
        kind = waiting.pop(0)
        # The server's own are not known where only the client is: they become the nearest kind.
        ours = kind.__module__.startswith("icefloe.") and not kind.__module__.startswith("icefloe.server.")
        if ours and "code" in kind.__dict__:
            found.setdefault(kind.code, kind)
        waiting += kind.__subclasses__()
    return found


def _nearest(status: int) -> type[IcefloeError]:
    by_status: dict[int, type[IcefloeError]] = {
        400: UsageError, 404: NotFoundError, 409: ConflictError, 503: UnreachableError
    }  # fmt: skip
    return by_status.get(status, ServerError)


def _problem(data: Mapping[str, Any]) -> Problem:
    position = Position(data["file"], data["line"], data["column"]) if data["file"] is not None else None
    return Problem(data["code"], data["message"], position, data["hint"], Severity(data["severity"]))


def _text(told: Any) -> str:
    return str(told).lower() if isinstance(told, bool) else str(told)
