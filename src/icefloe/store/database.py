"""The state database: one class that hides which of the two databases it is.

Everything above sees transactions (:meth:`Database.write`, :meth:`Database.read`), a hint that something changed
(:meth:`Database.announce`, :meth:`Database.watch`) and errors that say what to do. Which SQL runs in them is the business of
the sibling modules, one per group of tables.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.engine import Connection, Engine
from sqlalchemy.exc import DBAPIError

from icefloe.errors import ConfigError, IcefloeError, MissingComponentError, UnreachableError

CHANNEL = "icefloe"
BUSY_SECONDS = 30.0
PAGES_AT_ONCE = 500
"""Pages that are given back in one transaction: two megabytes."""
IDLE_SECONDS = 30.0
"""A process that stops in the middle of a transaction (a frozen machine, a lost network) holds its rows for so long."""


class StateUnreachableError(UnreachableError):
    """The state database does not answer now; nothing was written."""

    code = "state.unreachable"


class StateUnusableError(IcefloeError):
    """The state database answers, but cannot be used as it is: read-only, full disk, corrupt, foreign."""

    code = "state.unusable"
    exit_code = 3


class Watch(Protocol):
    """Tells cheaply whether somebody else may have changed the database."""

    def wait(self, seconds: float) -> bool:
        """Wait up to ``seconds`` for a hint. False means nothing was heard, not that nothing happened."""
        ...

    def close(self) -> None: ...


class Database:
    """Transactions on SQLite or PostgreSQL.

    On SQLite every write transaction begins IMMEDIATE: a transaction that reads first and writes later would otherwise fail
    with SQLITE_BUSY, without waiting, when another process wrote in between. WAL lets readers go on meanwhile, and
    ``synchronous=FULL`` makes a commit survive a power cut, not only a killed process.

    It does not retry: who began a transaction knows whether it may be repeated.
    """

    def __init__(self, url: str) -> None:
        self.url = _with_driver(url)
        self.is_sqlite = self.url.startswith("sqlite")
        self.file = Path(self.url.partition(":///")[2]) if self.is_sqlite else None
        self._engine = _sqlite_engine(self.url) if self.is_sqlite else _postgres_engine(self.url)

    @property
    def label(self) -> str:
        """The address without its password, for messages."""
        return sa.make_url(self.url).render_as_string(hide_password=True)

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """A transaction that writes: committed at the end, rolled back on an error."""
        with self._transaction(write=True) as connection:
            yield connection

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A transaction that only reads, with one view of the data."""
        with self._transaction(write=False) as connection:
            yield connection

    @contextmanager
    def _transaction(self, *, write: bool) -> Iterator[Connection]:
        try:
            with self._engine.connect() as connection:
                connection = connection.execution_options(icefloe_write=write)
                with connection.begin():
                    yield connection
        except DBAPIError as error:
            # A broken constraint or a wrong statement is our mistake, not the database's state.
            if isinstance(error, sa.exc.IntegrityError | sa.exc.ProgrammingError) and not error.connection_invalidated:
                raise
            raise self._translated(error) from error
        except sa.exc.TimeoutError as error:
            raise StateUnreachableError(str(error), where=self.label) from error

    def announce(self, connection: Connection, topic: str = "") -> None:
        """Wake who watches, when this transaction commits. On SQLite the commit itself is the hint."""
        if not self.is_sqlite:
            connection.execute(sa.text("SELECT pg_notify(:channel, :what)"), {"channel": CHANNEL, "what": topic})

    def watch(self) -> Watch:
        return _FileWatch(self._engine) if self.is_sqlite else _NotifyWatch(self.url)

    def give_back_space(self, *, whole: bool = False) -> int | None:
        """SQLite: return pages that hold nothing any more to the file system, a few at a time. Returns how many bytes went; None:
        this file was made without that, and only ``whole``, which rewrites the file while nobody else may write, gives them back."""
        if self.file is None:
            return 0
        connection = sqlite3.connect(self.file, timeout=BUSY_SECONDS, isolation_level=None)
        try:
            before = self.file.stat().st_size
            if connection.execute("PRAGMA auto_vacuum").fetchone()[0] != 2:
                if not whole:
                    return None
                connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
                connection.execute("VACUUM")
            free, left = int(connection.execute("PRAGMA freelist_count").fetchone()[0]), -1
            while free > 0 and free != left:
                left = free
                connection.execute(f"PRAGMA incremental_vacuum({PAGES_AT_ONCE})").fetchall()
                free = int(connection.execute("PRAGMA freelist_count").fetchone()[0])
            # Only as far as nobody reads: the rest follows with the next checkpoint.
            connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
            return max(before - self.file.stat().st_size, 0)
        except sqlite3.Error as error:
            raise StateUnreachableError(f"space is not given back now: {error}", where=self.label) from error
        finally:
            connection.close()

    def server_facts(self) -> tuple[str, int]:
        """PostgreSQL: its version, and how large this database is."""
        with self.read() as connection:
            row = connection.execute(
                sa.text("SELECT current_setting('server_version'), pg_database_size(current_database())")
            ).one()
        return str(row[0]).partition(" ")[0], int(row[1])

    def close(self) -> None:
        self._engine.dispose()

    def _translated(self, error: DBAPIError) -> IcefloeError:
        """The database's own words as one of our errors; programming errors stay what they are."""
        text = str(error.orig).strip()
        low = text.lower()
        if self.is_sqlite:
            if "readonly" in low or "read-only" in low:
                return StateUnusableError(
                    "the state database is read-only",
                    where=self.label,
                    hint="give this user write access to the file and its folder",
                )
            if "disk is full" in low or "disk i/o" in low:
                return StateUnusableError(
                    f"cannot write: {text}",
                    where=self.label,
                    hint="free some disk space, then repeat the command; nothing was lost",
                )
            if "malformed" in low or "not a database" in low or "corrupt" in low:
                return StateUnusableError(
                    f"the file is damaged: {text}",
                    where=self.label,
                    hint="restore it from a backup, or try: sqlite3 state.db .recover | sqlite3 recovered.db",
                )
            if "unable to open" in low:
                return StateUnusableError(
                    "the state database cannot be opened", where=self.label, hint="make the project with: icefloe init"
                )
            if "is locked" in low or "busy" in low:
                return StateUnreachableError(
                    f"still locked by another process after {BUSY_SECONDS:.0f} s", where=self.label
                )
        return StateUnreachableError(text.splitlines()[0] if text else "no answer", where=self.label)


def _with_driver(url: str) -> str:
    for scheme in ("postgresql://", "postgres://"):
        if url.startswith(scheme):
            return "postgresql+psycopg://" + url.removeprefix(scheme)
    if url.startswith(("sqlite:///", "postgresql+psycopg://")):
        return url
    raise ConfigError(
        f"a state database at {url.partition(':')[0]}: is not supported", hint="use sqlite:///… or postgresql://…"
    )


def _sqlite_engine(url: str) -> Engine:
    file = quote(url.partition(":///")[2])

    def connect() -> sqlite3.Connection:
        # mode=rw: a file that is gone is an error, not a new and empty database.
        return sqlite3.connect(f"file:{file}?mode=rw", uri=True, timeout=BUSY_SECONDS, check_same_thread=False)

    engine = sa.create_engine(url, creator=connect)

    @event.listens_for(engine, "connect")
    def _prepare(connection: Any, _record: Any) -> None:
        # The driver must not begin transactions by itself: _begin below says how they begin.
        connection.isolation_level = None
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("PRAGMA foreign_keys=ON")
        connection.execute("PRAGMA cache_size=-16000")

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        write = connection.get_execution_options().get("icefloe_write", True)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if write else "BEGIN")

    return engine


def _postgres_engine(url: str) -> Engine:
    try:
        engine = sa.create_engine(url, pool_size=4, max_overflow=8, connect_args={"connect_timeout": 10})
    except ModuleNotFoundError as error:
        raise MissingComponentError(
            "PostgreSQL needs the psycopg driver", hint="pip install 'icefloe[postgres]'"
        ) from error

    @event.listens_for(engine, "connect")
    def _prepare(connection: Any, _record: Any) -> None:
        # The server ends such a transaction: without this it would be held until TCP gives up, hours later.
        connection.execute(f"SET idle_in_transaction_session_timeout = {IDLE_SECONDS * 1000:.0f}")
        connection.commit()

    return engine


class _FileWatch:
    """SQLite: ``PRAGMA data_version`` changes when another connection has committed. A look costs microseconds.

    Looks often while something happens, and seldom when nothing does.
    """

    BUSY_INTERVAL, QUIET_INTERVAL = 0.01, 0.05

    def __init__(self, engine: Engine) -> None:
        raw = engine.raw_connection()
        self._connection: Any = raw.driver_connection
        raw.detach()
        self._last_version = self._version()
        self._changed_at = 0.0

    def _version(self) -> int:
        return int(self._connection.execute("PRAGMA data_version").fetchone()[0])

    def wait(self, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while (now := self._version()) == self._last_version:
            clock = time.monotonic()
            if clock >= deadline:
                return False
            interval = self.BUSY_INTERVAL if clock - self._changed_at < 1 else self.QUIET_INTERVAL
            time.sleep(min(interval, deadline - clock))
        self._last_version = now
        self._changed_at = time.monotonic()
        return True

    def close(self) -> None:
        self._connection.close()


class _NotifyWatch:
    """PostgreSQL: LISTEN on a connection of its own, made again when it breaks."""

    def __init__(self, url: str) -> None:
        self._conninfo = sa.make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
        self._connection: Any = None
        self._closed = threading.Event()

    def wait(self, seconds: float) -> bool:
        import psycopg

        try:
            if self._connection is None:
                self._connection = psycopg.connect(self._conninfo, autocommit=True, connect_timeout=10)
                self._connection.execute(f"LISTEN {CHANNEL}")
                return True  # whatever was said before we listened was not heard
            heard = False
            for _ in self._connection.notifies(timeout=seconds, stop_after=1):
                heard = True
            return heard
        except psycopg.Error:
            self._drop()
            self._closed.wait(min(seconds, 1.0))
            return False

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    def close(self) -> None:
        self._closed.set()
        self._drop()


def insert_if_absent(connection: Connection, table: sa.Table, values: Mapping[str, Any]) -> bool:
    """Add a row unless one with its key is there; False: one is. Saying it twice, or two at once, is fine."""
    if connection.dialect.name == "sqlite":
        from sqlalchemy.dialects.sqlite import insert as sqlite_insert

        query: sa.Executable = sqlite_insert(table).values(values).on_conflict_do_nothing().returning(_ADDED)
    else:
        from sqlalchemy.dialects.postgresql import insert as postgres_insert

        query = postgres_insert(table).values(values).on_conflict_do_nothing().returning(_ADDED)
    # Counted by what comes back: psycopg tells no row count here (SQLAlchemy 2.0).
    return connection.execute(query).first() is not None


_ADDED: sa.ColumnElement[int] = sa.literal_column("1")


def prepare_file(file: Path) -> None:
    """Make a new SQLite state file, readable by its owner only, and turn on WAL, which the file remembers."""
    if not file.exists():
        os.close(os.open(file, os.O_CREAT | os.O_RDWR, 0o600))
    try:
        connection = sqlite3.connect(file, timeout=BUSY_SECONDS)
        try:
            # Counts for a file without tables only; see Database.give_back_space.
            connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
            connection.execute("PRAGMA journal_mode=WAL")
        finally:
            connection.close()
    except sqlite3.Error as error:
        raise StateUnusableError(f"cannot be prepared: {error}", where=str(file)) from error
