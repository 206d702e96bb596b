"""Ends the Spark sessions of earlier attempts at the same work, and proves that they are gone.

Killing a Connect client leaves its statement running on the server, and it commits. On a branch that does no harm. Where no
branch is possible the next attempt must not start before that statement has ended: the session is entered by its id, what runs
in it is interrupted and waited for, and then the session is released, after which the server refuses whoever still holds it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from icefloe import suppressed
from icefloe.errors import IcefloeError

PATIENCE_SECONDS = 60.0


class OutcomeUnknownError(IcefloeError):
    """An earlier attempt may still be writing where nothing can be fenced, and it cannot be ended."""

    code = "spark.outcome-unknown"
    fatal = True


def end(url: str, session_ids: Sequence[str], log: Callable[[str], None], *, within: float = PATIENCE_SECONDS) -> None:
    """Raises :class:`OutcomeUnknownError` unless every session is proven gone."""
    for session_id in session_ids:
        try:
            stopped = _end(url, session_id, time.monotonic() + within)
        except IcefloeError:
            raise
        except Exception as error:
            if "SESSION_CLOSED" in str(error):
                continue  # it was released before: by itself, when its attempt ended, or by whoever came first
            raise unknown(f"the Spark session of an earlier attempt cannot be ended: {_first_line(error)}") from error
        if stopped:
            log(f"ended {stopped} statement(s) that an earlier attempt had left running")


def unknown(why: str) -> OutcomeUnknownError:
    return OutcomeUnknownError(
        f"{why}; what it writes cannot be fenced off, so its outcome is unknown",
        hint="look at the target, then either: end that Spark application and restart the run, or: icefloe skip RUN STEP "
        "if the batch is complete there",
    )


def _end(url: str, session_id: str, deadline: float) -> int:
    from pyspark.sql.connect.client.core import SparkConnectClient

    client = SparkConnectClient(connection=with_session(url, session_id), retry_policy={"max_retries": 3})
    try:
        running = client.interrupt_all() or []
        for operation_id in running:
            _wait_for_end(client, operation_id, deadline)
        client.release_session()
    finally:
        with suppressed.errors("spark.close_client", Exception):
            client.close()
    return len(running)


def _wait_for_end(client: Any, operation_id: str, deadline: float) -> None:
    """Follow the statement's answers to their end: the server sends the last one when the statement has ended."""
    import grpc  # type: ignore[import-untyped]
    from pyspark.sql.connect.proto import base_pb2

    request = base_pb2.ReattachExecuteRequest(session_id=client._session_id, operation_id=operation_id)
    if client._user_id:
        request.user_context.user_id = client._user_id
    while True:
        left = deadline - time.monotonic()
        if left <= 0:
            raise unknown("a statement of an earlier attempt does not end although it was interrupted")
        try:
            stream = client._stub.ReattachExecute(request, metadata=client._builder.metadata(), timeout=left)
            if any(response.HasField("result_complete") for response in stream):
                return
        except grpc.RpcError as error:
            if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
                continue
            if error.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.UNAUTHENTICATED):
                raise
            return  # cancelled, failed, or gone already: over in any case


def with_session(url: str, session_id: str) -> str:
    separator = "" if url.endswith("/;") else ";" if "/;" in url else "/;" if not url.endswith("/") else ";"
    return f"{url}{separator}session_id={session_id}"


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
