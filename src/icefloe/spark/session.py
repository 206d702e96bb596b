"""Sessions on Spark: over Connect, to the project's own server or to the address that ``[spark] remote`` names."""

from __future__ import annotations

import logging
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from icefloe.config import Config, expand
from icefloe.spark import server
from icefloe.spark.failure import short_errors

if TYPE_CHECKING:
    from pyspark.sql.connect.session import SparkSession

Note = Callable[[str], None]


def connect(config: Config, *, note: Note | None = None) -> SparkSession:
    """A new session. Starts the project's server when it is needed; ``note`` is told what is being waited for.

    The session keeps the server in use until it is stopped, forgotten or its process ends.
    """
    if config.spark.remote:
        session = _open(expand(config.spark.remote))
        with short_errors(where=_without_token(config.spark.remote)):
            # A server that others set up: what it can still be told is told to the session.
            for key, value in config.spark_conf().items():
                if _settable(key):
                    session.conf.set(key, value)
        return session
    lease = server.ensure(config, note=note)
    session = _open(lease.url, patient=False)
    weakref.finalize(session, lease.release)
    with short_errors():
        session.version  # noqa: B018  (asks the server: a refused token or a dead server shows here, not in user code)
    return session


@contextmanager
def session(config: Config, *, note: Note | None = None) -> Iterator[SparkSession]:
    """A session for the length of a ``with`` block."""
    opened = connect(config, note=note)
    try:
        with short_errors():
            yield opened
    finally:
        opened.stop()


def _open(url: str, *, patient: bool = True) -> SparkSession:
    from pyspark.sql.connect.client.retries import DefaultPolicy
    from pyspark.sql.connect.session import SparkSession

    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        # PySpark 4.1 prints each error with its trace as one line of JSON to stderr, besides raising it.
        logging.getLogger(name).setLevel(logging.CRITICAL)
    with short_errors(where=_without_token(url)):
        opened = SparkSession.builder.remote(url).create()
    if not patient:
        # PySpark's own policy retries for ten minutes, also at exit (4.1). A local server that is gone does not come back.
        opened.client.set_retry_policies([DefaultPolicy(max_retries=4, max_backoff=1000)])
    return opened


def _settable(key: str) -> bool:
    """Static settings, and the server's own business, cannot be set on a session."""
    return key.startswith("spark.sql.") and key != "spark.sql.extensions" and not key.startswith("spark.sql.warehouse")


def _without_token(url: str) -> str:
    return url.partition("/;")[0]
