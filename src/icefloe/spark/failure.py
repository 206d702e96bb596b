"""Spark's errors made short: the cause first, the whole Java trace kept apart for the log.

A failed Spark job arrives as several screens of Java. What a person needs is the innermost cause and what Spark was doing;
:func:`explain` finds both by the shape of the text, so that neither ``pyspark`` nor a server is needed to test it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from icefloe.errors import IcefloeError

_LONGEST = 600
_PASSING = (
    "CommitFailedException",
    "CommitStateUnknownException",
    "UncheckedSQLException",
    "ServiceFailureException",
    "ServiceUnavailableException",
    "ConnectException",
    "NoRouteToHostException",
    "SocketTimeoutException",
    "UnknownHostException",
)
"""Classes of Iceberg's and Java's that say nothing against the statement: done again, it may well succeed."""


class SparkError(IcefloeError):
    """A statement failed on Spark. ``detail`` is everything that Spark said."""

    code = "spark.failed"

    def __init__(
        self,
        message: str,
        *,
        detail: str = "",
        condition: str | None = None,
        line: int | None = None,
        column: int | None = None,
        hint: str | None = None,
        where: str | None = None,
    ) -> None:
        super().__init__(message, hint=hint, where=where)
        self.detail = detail
        self.condition = condition
        """Spark's own name for the error (``TABLE_OR_VIEW_NOT_FOUND``), where it has one."""
        self.line = line
        """Where in the statement: lines and columns count from 1."""
        self.column = column


class SqlSyntaxError(SparkError):
    """Spark could not parse the statement."""

    code = "spark.syntax"
    fatal = True
    exit_code = 2


class AnalysisError(SparkError):
    """The statement was parsed, but names or types in it do not fit the catalog."""

    code = "spark.analysis"
    exit_code = 2


class OutOfMemoryError(SparkError):
    """Spark ran out of memory."""

    code = "spark.out-of-memory"


class SparkUnreachableError(SparkError):
    """The Spark server does not answer, or ended while it worked. Whether the statement took effect is unknown."""

    code = "spark.unreachable"
    retryable = True
    exit_code = 3


class CatalogUnavailableError(SparkError):
    """Spark could not reach the catalog or the storage, or a commit was not taken: others were committing, or its database was busy."""

    code = "spark.catalog-unavailable"
    retryable = True
    exit_code = 3


class UnauthorizedError(SparkError):
    """The Spark server refused the token."""

    code = "spark.unauthorized"
    exit_code = 3


@contextmanager
def short_errors(where: str | None = None) -> Iterator[None]:
    """Within this, whatever PySpark raises becomes a :class:`SparkError`."""
    try:
        yield
    except IcefloeError:
        raise
    except Exception as error:
        short = explain(error, where=where)
        if short is None:
            raise
        raise short from error


def explain(error: BaseException, *, where: str | None = None) -> SparkError | None:
    """The short form of an error of PySpark or of gRPC; None for any other kind of error."""
    names = {cls.__name__ for cls in type(error).__mro__}
    if not names & {"PySparkException", "RpcError"}:
        return None
    message = str(error)
    trace = _call(error, "getStackTrace")
    detail = message if trace in message else f"{message}\n\n{trace}"
    if transport_error := _by_transport(error, names, message, detail, where):
        return transport_error
    condition = _condition(error, message)
    if "OutOfMemoryError" in detail:
        return OutOfMemoryError(
            f"Spark ran out of memory: {_first_sentence(_root_cause(detail) or message)}",
            detail=detail,
            condition=condition,
            where=where,
            hint="give it more: [spark] driver_memory in icefloe.toml, then: icefloe spark stop",
        )
    if cause := _unavailable(detail):
        return CatalogUnavailableError(
            cause,
            detail=detail,
            condition=condition,
            where=where,
            hint="the step is repeated; if it happens again and again, look at the catalog",
        )
    line, column = _place(message)
    kind: type[SparkError] = SparkError
    if "ParseException" in names:
        kind = SqlSyntaxError
    elif "AnalysisException" in names:
        kind = AnalysisError
    return kind(_headline(message, trace), detail=detail, condition=condition, line=line, column=column, where=where)


def _by_transport(
    error: BaseException, names: set[str], message: str, detail: str, where: str | None
) -> SparkError | None:
    code = getattr(_call_raw(error, "getGrpcStatusCode") or _call_raw(error, "code"), "name", "")
    if code == "UNAUTHENTICATED" or "UNAUTHENTICATED" in message:
        return UnauthorizedError(
            "the Spark server refused the token",
            detail=detail,
            where=where,
            hint="check [spark] remote, or end the local server with: icefloe spark stop",
        )
    if code == "UNAVAILABLE" or "RetriesExceeded" in names or "StatusCode.UNAVAILABLE" in message:
        return SparkUnreachableError(
            "the Spark server does not answer, or ended while it worked",
            detail=detail,
            where=where,
            hint="icefloe spark status; the server's log is .icefloe/spark/server.log",
        )
    return None


def _unavailable(detail: str) -> str | None:
    """What the catalog, its database or the network said, where that is what a statement failed of."""
    match = re.search(rf"^(?:Caused by: )?\(?[\w.$]*\b({'|'.join(_PASSING)})\)?:? ?(.*)$", detail, re.MULTILINE)
    return f"{_first_sentence(match[2])} ({match[1]})" if match else None


def _headline(message: str, trace: str) -> str:
    """Cause first. Spark's own message is enough unless it only says that a job was aborted."""
    first = _first_sentence(message)
    cause = _root_cause(message) or _root_cause(trace)
    wrapped = re.match(r"(Job aborted|\[FAILED_EXECUTE_UDF|Writing job aborted|\[TASK_WRITE_FAILED)", first) is not None
    if cause is None:
        return _lost_task(first) or first
    if wrapped:
        return cause
    return first if cause in first or first in cause else f"{first} ({cause})"


def _root_cause(text: str) -> str | None:
    """The innermost ``Caused by:``, as its message and the short name of its class."""
    causes = re.findall(r"^Caused by: ([\w.$]+)(?:: (.*))?$", text, re.MULTILINE)
    if not causes:
        return None
    name, message = causes[-1]
    short = name.rpartition(".")[2]
    message = _first_sentence(message)
    return f"{message} ({short})" if message else short


def _lost_task(first: str) -> str | None:
    """``…Lost task 0.0 in stage 0.0 (TID 0) (host executor driver): java.lang.X: what`` -> ``what (X)``."""
    match = re.search(r"Lost task .*?executor \w+\): ([\w.$]+)(?:: (.*))?$", first)
    if match is None:
        return None
    short = match[1].rpartition(".")[2]
    return f"{match[2]} ({short})" if match[2] else short


def _first_sentence(message: str) -> str:
    """The first line that says something, without Spark's state number, plan and position."""
    lines = [text.strip() for text in message.strip().splitlines()] or ["no message"]
    line = " ".join(lines[:3]) if lines[0].endswith(":") else lines[0]
    line = re.sub(r"\s*SQLSTATE: \w+", "", line)
    line = re.sub(r"\s*;? ?(line \d+,? pos \d+|\(line \d+, pos \d+\));?$", "", line)
    return line if len(line) <= _LONGEST else line[:_LONGEST] + "…"


def _condition(error: BaseException, message: str) -> str | None:
    if known := _call(error, "getCondition"):
        return known
    match = re.match(r"\[([A-Z][A-Z0-9_.]+)\]", message.strip())
    return match[1] if match else None


def _place(message: str) -> tuple[int | None, int | None]:
    match = re.search(r"line (\d+),? pos (\d+)", message)
    if match:
        return int(match[1]), int(match[2]) + 1  # counted from 0 here, and from 1 in what follows
    match = re.search(r"\(line (\d+), position (\d+)\)", message)
    return (int(match[1]), int(match[2])) if match else (None, None)


def _call(target: object, method: str) -> str:
    value = _call_raw(target, method)
    return value if isinstance(value, str) else ""


def _call_raw(target: object, method: str) -> object:
    attribute = getattr(target, method, None)
    if not callable(attribute):
        return None
    try:
        return attribute()
    except Exception:
        return None
