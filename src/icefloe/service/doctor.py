"""``doctor``: looks at everything a project needs, one check after the other, each with what to do about it.

A check is tried for real: jars are hashed, the warehouse is written to, Spark runs a statement and must see the namespaces that
PyIceberg sees. For a table it is tried whether it can be tagged and whether a change table of it can be registered and read
by both engines; whatever is made for that is removed again.
"""

from __future__ import annotations

import importlib.metadata
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from pyiceberg.io import load_file_io

from icefloe.config import Config
from icefloe.errors import IcefloeError
from icefloe.lake import Lake, storage
from icefloe.spark import jars, java, server
from icefloe.spark.session import session

Note = Callable[[str], None]
OWNER = "doctor"


@dataclass(frozen=True)
class Check:
    """One finding. ``fix`` is what to type when it is not ``ok``."""

    name: str
    ok: bool
    detail: str
    fix: str | None = None


def examine(
    config: Config | IcefloeError, *, table: str | None = None, spark: bool = True, note: Note | None = None
) -> Iterator[Check]:
    """All checks, as they are done. A configuration that could not be read is the first finding, and most of the rest is left out."""
    yield _check("python", _python)
    yield _check("spark", _spark_version)
    if isinstance(config, IcefloeError):
        yield Check("project", False, str(config), config.hint)
        yield _check("java", lambda: _java(None))
        return
    known = config
    yield Check("project", True, str(known.root))
    yield _check("java", lambda: _java(known.spark.java_home))
    yield _check("jars", lambda: _jars(known))
    catalog = _check("catalog", lambda: _catalog(known))
    yield catalog
    if known.catalog.warehouse and "://" in known.catalog.warehouse:
        yield _check("warehouse", lambda: _writable(known, known.catalog.warehouse or ""))
    if known.change_tables.location:
        yield _check("change tables", lambda: _writable(known, known.change_tables.location or ""))
    yield _check("state", lambda: _state(known))
    if spark:
        yield _check("spark server", lambda: _spark_sees_the_catalog(known, note))
    if table is not None and catalog.ok:
        yield from _table(known, table, spark=spark, note=note)


def _check(name: str, look: Callable[[], str]) -> Check:
    try:
        return Check(name, True, look())
    except IcefloeError as error:
        return Check(name, False, str(error), error.hint)
    except Exception as error:  # a doctor reports what it does not understand; it does not fall over it
        return Check(name, False, f"{type(error).__name__}: {error}".strip()[:500], "icefloe doctor --help")


# -- the machine ---------------------------------------------------------------------------------------------------------


def _python() -> str:
    # For the reader's information: pip installs this package on a Python that it supports, or not at all.
    return f"{sys.version.split()[0]} at {sys.executable}"


def _spark_version() -> str:
    try:
        version = importlib.metadata.version("pyspark")
    except importlib.metadata.PackageNotFoundError:
        version = "not installed"
    if not version.startswith("4.1."):
        raise IcefloeError(
            f"PySpark {version}; the locked Iceberg runtime is for 4.1",
            hint="pip install 'pyspark[connect]>=4.1.4,<4.2'",
        )
    return f"PySpark {version}"


def _java(configured: str | None) -> str:
    found = java.find(configured)
    return f"Java {found.version} at {found.home}"


def _jars(config: Config) -> str:
    wanted, folder = jars.required(config), jars.cache_folder()
    if bad := jars.verify(wanted, folder):
        names = ", ".join(jar.file_name for jar in bad)
        raise IcefloeError(
            f"not the locked content: {names}", hint=f"rm {' '.join(str(folder / jar.file_name) for jar in bad)}"
        )
    absent = jars.missing(wanted, folder)
    if absent:
        jars.ensure(wanted, java.find(config.spark.java_home).launcher)
        return f"{len(wanted)} in {folder} ({len(absent)} fetched just now)"
    return f"{len(wanted)} in {folder}"


# -- the project ---------------------------------------------------------------------------------------------------------


def _catalog(config: Config) -> str:
    names = Lake.open(config).tables.catalog.list_namespaces()
    return f"{config.catalog.name} ({config.catalog.type}), {len(names)} namespaces"


def _writable(config: Config, location: str) -> str:
    io = load_file_io(config.catalog.pyiceberg_properties(), location)
    probe = f"{location}/.icefloe-doctor-{uuid4().hex}"
    content = probe.encode()
    storage.write(io, probe, content)
    try:
        if storage.read(io, probe) != content:
            raise IcefloeError(f"what was written to {location} is not what is read from it")
    finally:
        storage.delete(io, [probe])
    return f"{location} can be written"


def _state(config: Config) -> str:
    import sqlalchemy

    url = sqlalchemy.make_url(config.state.resolved_url())
    if url.drivername.startswith("sqlite"):
        path = Path(url.database or "")
        if not path.exists():
            return f"{path} (made when first used)"
    if url.drivername in ("postgresql", "postgres"):
        url = url.set(drivername="postgresql+psycopg")
    engine = sqlalchemy.create_engine(url)
    try:
        with engine.connect() as connection:
            connection.execute(sqlalchemy.text("SELECT 1"))
    except sqlalchemy.exc.OperationalError as error:
        reason = str(error.orig).strip().splitlines()[0]
        raise IcefloeError(f"{url!r}: {reason}", hint="check [state] url in icefloe.toml") from error
    finally:
        engine.dispose()
    return repr(url)


def _spark_sees_the_catalog(config: Config, note: Note | None) -> str:
    with session(config, note=note) as spark:
        seen = {row[0] for row in spark.sql(f"SHOW NAMESPACES IN {config.catalog.name}").collect()}
    known = {".".join(name) for name in Lake.open(config).tables.catalog.list_namespaces()}
    if seen != known:
        raise IcefloeError(
            f"Spark and PyIceberg see different namespaces: {', '.join(sorted(seen ^ known))}",
            hint="compare [catalog.spark] and [catalog.pyiceberg]: something there points one side elsewhere",
        )
    if config.spark.remote:
        return f"{config.spark.remote.partition('/;')[0]} sees the same catalog"
    status = server.status(config)
    return f"port {status.port}, process {status.pid}, sees the same catalog"


# -- a table -------------------------------------------------------------------------------------------------------------


def _table(config: Config, table: str, *, spark: bool, note: Note | None) -> Iterator[Check]:
    lake = Lake.open(config)
    found = _check(f"table {table}", lambda: _loaded(lake, table))
    yield found
    if not found.ok:
        return
    if lake.checkpoint(table) is None:
        yield Check("tags", True, "not tried: the table has no snapshot yet")
        return
    yield _check("tags", lambda: _tagged(lake, table))
    yield _check("change table", lambda: _change_table_read(config, lake, table, spark=spark, note=note))


def _loaded(lake: Lake, table: str) -> str:
    metadata = lake.table(table).metadata
    return f"format v{metadata.format_version}, {len(metadata.snapshots)} snapshots"


def _tagged(lake: Lake, table: str) -> str:
    capture = uuid4().hex[:12]
    try:
        lake.pin(lake.changes(table, details=False), owner=OWNER, capture=capture, keep_seconds=600, mode="require")
    except IcefloeError as error:
        hint = "capture steps can still read it with pin: off; expiry may then take files away under them"
        raise IcefloeError(f"cannot be pinned: {error}", hint=hint) from error
    finally:
        lake.unpin(table, owner=OWNER, capture=capture)
    return "a pin was set and removed"


def _change_table_read(config: Config, lake: Lake, table: str, *, spark: bool, note: Note | None) -> str:
    changes = lake.changes(table, details=False)
    made = lake.create_change_table(changes)
    try:
        readers = "PyIceberg"
        rows = lake.tables.catalog.load_table(tuple(made.name.split("."))).scan().count()
        if spark:
            with session(config, note=note) as connected:
                by_spark = connected.sql(f"SELECT count(*) FROM {config.catalog.name}.{made.name}").collect()[0][0]
            if by_spark != rows:
                raise IcefloeError(f"PyIceberg reads {rows} rows from the change table, Spark {by_spark}")
            readers = "PyIceberg and Spark"
    finally:
        lake.drop_change_table(made.name)
    return f"registered, {rows:,} rows read by {readers}, dropped"
