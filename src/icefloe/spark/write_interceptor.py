"""Sees every write of a Connect session before it leaves this process, whatever API the user's code wrote it with.

``spark.sql("INSERT …")``, ``df.writeTo(…)``, ``df.write.insertInto(…)``, ``df.mergeInto(…)``: over Connect each of them is one
command of the protocol. An interceptor on the client's channel reads the target off the command and has the fence protect it,
so a PySpark script needs to declare nothing. A command whose target is published already is replaced by one that does nothing.

A client that has lost its connection may send a command again (PySpark 4.1: when the server answers a reattach with
``OPERATION_NOT_FOUND``, and at every retry where executions are not reattachable). It is still the same operation, by its id, and so the
same statement: the fence counts operations, not arrivals.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any
from uuid import uuid4

import grpc  # type: ignore[import-untyped]

from icefloe.errors import UsageError
from icefloe.spark.fence import Fence
from icefloe.spark.statements import Statement
from icefloe.spark.targets import Effect, Write, parse

_NOTHING = "SELECT 'published already' AS icefloe WHERE false"


class StreamingError(UsageError):
    """A streaming query in a step: it would outlive the step, and no batch of it could be published."""

    code = "spark.streaming"


class WriteInterceptor(grpc.UnaryStreamClientInterceptor):  # type: ignore[misc]
    """Passes everything through until :attr:`fence` is set."""

    def __init__(self) -> None:
        self.fence: Fence | None = None

    def intercept_unary_stream(self, continuation: Callable[[Any, Any], Any], details: Any, request: Any) -> Any:
        """Called in the thread that sends a request. What is raised here is raised by the user's own call."""
        if self.fence is None or not str(details.method).endswith("/ExecutePlan"):
            return continuation(details, request)
        write = written_by(request.plan)
        if write is None or write.effect in (Effect.NONE, Effect.DEFINITION):
            return continuation(details, request)
        if not self.fence.admit(write, operation_id(request)):
            replaced = type(request)()
            replaced.CopyFrom(request)
            replaced.plan.ClearField("command")
            replaced.plan.command.sql_command.input.sql.query = _NOTHING
            # The server may remember the operation from its first sending, and refuses its id with another plan, or once it is over (4.1).
            replaced.operation_id = str(uuid4())
            return continuation(details, replaced)
        call = continuation(details, request)
        return _WatchedStream(call, partial(self.fence.ended, write)) if write.effect is Effect.TABLE else call


def operation_id(request: Any) -> str:
    """The operation that an ExecutePlan request stands for. Where the client gives it no id, as one that does not reattach, it gets one
    here: what is sent again is the same request, and has it then."""
    if not request.operation_id:
        request.operation_id = str(uuid4())
    return str(request.operation_id)


class _WatchedStream:
    """A response stream that tells when it has ended; otherwise the stream itself."""

    def __init__(self, call: Any, ended: Callable[[], object]) -> None:
        self._call = call
        self._ended = ended
        self._open = True

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        try:
            return next(self._call)
        except BaseException:
            if self._open:
                self._open = False
                self._ended()
            raise

    def __getattr__(self, name: str) -> Any:
        return getattr(self._call, name)


def written_by(plan: Any) -> Write | None:
    """The write that a plan of the protocol stands for."""
    if plan.WhichOneof("op_type") != "command":
        return None
    command = plan.command
    kind = command.WhichOneof("command_type")
    if kind == "sql_command":
        text = _text(command.sql_command)
        writes = parse(text, where="spark.sql") if text else ()
        return writes[0] if len(writes) == 1 else None
    if kind == "write_operation_v2":
        return _v2(command.write_operation_v2)
    if kind == "write_operation":
        return _v1(command.write_operation)
    if kind == "merge_into_table_command":
        return _write(command.merge_into_table_command.target_table_name, Effect.ROWS)
    if kind == "write_stream_operation_start":
        raise StreamingError(
            "a step cannot start a streaming query: what it writes could not be published with the step",
            hint="read the change table of a capture instead: icefloe.job.changes()",
        )
    return None


def _text(command: Any) -> str:
    relation = command.input
    while relation.WhichOneof("rel_type") == "with_relations":
        relation = relation.with_relations.root
    return str(relation.sql.query or command.sql)


def _v2(operation: Any) -> Write:
    modes = type(operation).Mode
    makes = operation.mode in (modes.MODE_CREATE, modes.MODE_REPLACE, modes.MODE_CREATE_OR_REPLACE)
    return _write(operation.table_name, Effect.TABLE if makes else Effect.ROWS)


def _v1(operation: Any) -> Write | None:
    if operation.WhichOneof("save_type") != "table":
        if operation.source in ("noop", "console", "memory"):
            return None
        return _write(operation.path or operation.source, Effect.ROWS)
    table = operation.table
    into = table.save_method == type(table).TableSaveMethod.TABLE_SAVE_METHOD_INSERT_INTO
    appends = operation.mode == type(operation).SaveMode.SAVE_MODE_APPEND
    # saveAsTable replaces the table unless it appends to one that exists.
    return _write(table.table_name, Effect.ROWS if into or appends else Effect.TABLE)


def _write(name: str, effect: Effect) -> Write:
    return Write(Statement(f"write to {name}", 1, 1), name, effect)
