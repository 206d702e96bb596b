"""Sessions on Spark: over Connect, to the project's own server or to the address that ``[spark] remote`` names."""

from __future__ import annotations

import logging
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from icefloe.config import Config, expand
from icefloe.errors import UsageError
from icefloe.spark import server
from icefloe.spark.failure import short_errors

if TYPE_CHECKING:
    from pyspark.sql.connect.session import SparkSession

Note = Callable[[str], None]


def connect(
    config: Config,
    *,
    note: Note | None = None,
    remote: str | None = None,
    session_id: str | None = None,
    interceptor: Any = None,
    brings_code: bool = True,
) -> SparkSession:
    """A new session. Starts the project's server when it is needed; ``note`` is told what is being waited for.

    ``remote`` is an address other than the configuration's. ``session_id`` (a UUID) is what others find the session by;
    ``interceptor`` sees what is sent. Without code of its own (``brings_code``: files, jars) it uses what the server has compiled for
    other sessions. The session keeps the server in use until it is stopped, forgotten or its process ends.
    """
    address = remote or config.spark.remote
    if address:
        url = expand(address)
        session = _open(url, session_id=session_id, interceptor=interceptor)
        with short_errors(where=without_token(url)):
            session.version  # noqa: B018  (asks the server, with little patience: a wrong address is told soon)
            _be_patient(session)
            # A server that others set up: what it can still be told is told to the session.
            for key, value in config.spark_conf().items():
                if _settable(key):
                    session.conf.set(key, value)
        return session
    lease = server.ensure(config, note=note)
    if not brings_code:
        session_id = _with_compiled_code(lease.url, session_id or str(uuid4()))
    session = _open(lease.url, session_id=session_id, interceptor=interceptor)
    weakref.finalize(session, lease.release)
    with short_errors():
        session.version  # noqa: B018  (asks the server: a refused token or a dead server shows here, not in user code)
    return session


def select(session: Any, text: str) -> Any:
    """A SELECT's rows, of which nothing is asked yet. Over Connect ``sql`` first has the server find out whether the text is a command,
    which takes as long as all of its analysis."""
    from pyspark.sql.connect.dataframe import DataFrame
    from pyspark.sql.connect.plan import SQL
    from pyspark.sql.connect.session import SparkSession

    return DataFrame(SQL(text), session) if isinstance(session, SparkSession) else session.sql(text)


class StaticSettingError(UsageError):
    """A setting that a running server cannot take."""

    code = "spark.static-setting"


def configure(session: SparkSession, conf: Mapping[str, str]) -> None:
    """A step's own settings. Those that hold for a whole Spark application are refused with the way to have them."""
    for key, value in conf.items():
        try:
            session.conf.set(key, value)
        except Exception as error:
            if "CANNOT_MODIFY" not in str(error):
                raise
            raise StaticSettingError(
                f"{key} cannot be set on a Spark server that is running",
                hint=f"set it for the whole server ([spark.conf] in icefloe.toml), or give the step an application of its "
                f"own: submit: spark-submit with conf: {{{key}: {value}}}",
            ) from error


def address(session: SparkSession) -> str:
    """Where the session's server is, with the token: never to be printed."""
    builder: Any = session.client._builder
    return "sc" + str(builder.url.geturl()).removeprefix("http")


@contextmanager
def session(config: Config, *, note: Note | None = None) -> Iterator[SparkSession]:
    """A session for the length of a ``with`` block."""
    opened = connect(config, note=note)
    try:
        with short_errors():
            yield opened
    finally:
        opened.stop()


def _open(url: str, *, session_id: str | None = None, interceptor: Any = None) -> SparkSession:
    from pyspark.sql.connect.client.core import DefaultChannelBuilder
    from pyspark.sql.connect.client.retries import DefaultPolicy
    from pyspark.sql.connect.session import SparkSession

    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        # PySpark 4.1 prints each error with its trace as one line of JSON to stderr, besides raising it.
        logging.getLogger(name).setLevel(logging.CRITICAL)
    # PySpark closes a forgotten session in __del__ (4.1): wherever the garbage collector happens to run, be it inside of gRPC with its
    # locks held, and there it waits for threads that need them. Sessions are stopped, or end with their process.
    SparkSession.__del__ = lambda self: None  # type: ignore[method-assign]
    with short_errors(where=without_token(url)):
        builder = DefaultChannelBuilder(url)
        if session_id is not None:
            builder.set("session_id", session_id)
        if interceptor is not None:
            builder.add_interceptor(interceptor)
        opened = SparkSession.Builder().channelBuilder(builder).create()
    if interceptor is not None:
        # Large plans would be sent compressed (4.1), and the interceptor could not read them.
        opened.client._plan_compression_threshold, opened.client._plan_compression_algorithm = -1, "NONE"
    # PySpark's own policy retries for ten minutes, also at exit (4.1). A local server that is gone does not come back.
    opened.client.set_retry_policies([DefaultPolicy(max_retries=4, max_backoff=1000)])
    return opened


def _with_compiled_code(url: str, session_id: str) -> str:
    """Make a session on the server that uses the code it has generated and compiled for others.

    Spark keeps generated code by class loader, and Connect gives each session one of its own, for the jars it may bring (4.1): every
    step would begin with cold code. That it shall not is read when a session is made, from its settings, and only a clone has any then.
    """
    parent = _open(url)
    try:
        with short_errors():
            for name in ("spark.sql.artifact.isolation.enabled", "spark.sql.artifact.isolation.alwaysApplyClassloader"):
                parent.conf.set(name, "false")
            parent.client.clone(session_id).close()
    finally:
        parent.stop()
    return session_id


def _be_patient(session: SparkSession) -> None:
    """A server elsewhere has answered: a network that is away for a minute should not end a long statement."""
    from pyspark.sql.connect.client.retries import DefaultPolicy

    session.client.set_retry_policies([DefaultPolicy()])


def _settable(key: str) -> bool:
    """Static settings, and the server's own business, cannot be set on a session."""
    return key.startswith("spark.sql.") and key != "spark.sql.extensions" and not key.startswith("spark.sql.warehouse")


def without_token(url: str) -> str:
    return url.partition("/;")[0]
