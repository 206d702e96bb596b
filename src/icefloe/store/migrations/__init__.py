"""Numbered migrations. Each module ``m0001_name`` has ``UPGRADE``: SQL statements for both databases.

Written once, never changed: what a migration did must stay what it does. Where the databases differ, the text says
``{blob}`` and ``{serial}``. Each migration is one transaction with its own version number, on both databases.
"""

from __future__ import annotations

import importlib
import pkgutil
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from icefloe.errors import IcefloeError
from icefloe.store.database import Database, prepare_file

_DIALECT = {
    True: {"blob": "BLOB", "serial": "INTEGER PRIMARY KEY AUTOINCREMENT"},
    False: {"blob": "BYTEA", "serial": "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY"},
}
# Any number: PostgreSQL's advisory lock that lets one process migrate at a time.
_LOCK = 7_246_173_001


class SchemaError(IcefloeError):
    """The database's schema and this program do not fit each other."""

    code = "state.schema"
    exit_code = 3


@dataclass(frozen=True)
class Migration:
    number: int
    name: str
    statements: tuple[str, ...]


def available() -> tuple[Migration, ...]:
    """All migrations of this program, in order, without gaps."""
    migrations = []
    for module in pkgutil.iter_modules(__path__):
        if module.name.startswith("m"):
            number, _, name = module.name.removeprefix("m").partition("_")
            loaded = importlib.import_module(f"{__name__}.{module.name}")
            migrations.append(Migration(int(number), name, tuple(loaded.UPGRADE)))
    migrations.sort(key=lambda migration: migration.number)
    assert [m.number for m in migrations] == list(range(1, len(migrations) + 1)), (
        "migration numbers have a gap or a double"
    )
    return tuple(migrations)


def current(database: Database) -> int:
    """The number of the last migration that was applied; 0 for an empty database."""
    with database.read() as connection:
        return _current(connection)


def _current(connection: Connection) -> int:
    if not sa.inspect(connection).has_table("schema_version"):
        return 0
    return int(connection.execute(sa.text("SELECT max(version) FROM schema_version")).scalar() or 0)


def upgrade(database: Database) -> list[Migration]:
    """Bring the schema up to this program's. Returns what was applied. Two processes may do so at once."""
    if database.file is not None:
        prepare_file(database.file)
    applied = []
    for migration in available():
        with database.write() as connection:
            if not database.is_sqlite:
                connection.execute(sa.text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})
            if _current(connection) >= migration.number:
                continue
            for statement in migration.statements:
                connection.exec_driver_sql(statement.format(**_DIALECT[database.is_sqlite]))
            connection.execute(sa.text("INSERT INTO schema_version (version) VALUES (:n)"), {"n": migration.number})
            applied.append(migration)
    return applied


def check(database: Database) -> None:
    """Refuse a database that this program does not understand."""
    have, want = current(database), len(available())
    if have > want:
        raise SchemaError(
            f"the state database has schema {have}, this program knows {want}",
            where=database.label,
            hint="upgrade icefloe on this machine: a newer one has already used this database",
        )
    if have < want:
        raise SchemaError(
            f"the state database has schema {have}, this program needs {want}",
            where=database.label,
            hint="stop the workers, then run: icefloe db upgrade",
        )
