"""Opening the state database: made and upgraded by itself when it is the embedded one, only checked when it is a server's."""

from __future__ import annotations

from pathlib import Path

from icefloe.config import Config
from icefloe.errors import ConfigError
from icefloe.store import migrations
from icefloe.store.database import Database, StateUnusableError


def open_database(config: Config) -> Database:
    """The project's state, ready for use. Raises when the project was never made, or its schema does not fit."""
    database = Database(config.state.resolved_url())
    if database.file is not None:
        if not _is_there(database.file.parent):
            raise ConfigError(
                f"the folder {database.file.parent} does not exist",
                where=str(config.root),
                hint="make it with: icefloe init",
            )
        if not _is_there(database.file) or migrations.current(database) < len(migrations.available()):
            migrations.upgrade(database)
    migrations.check(database)
    return database


def _is_there(path: Path) -> bool:
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except PermissionError as error:
        raise StateUnusableError(
            "this user may not look into the project's folder", where=str(path), hint="give this user access to it"
        ) from error
    return True


def upgrade(config: Config) -> list[migrations.Migration]:
    """``icefloe db upgrade``."""
    database = Database(config.state.resolved_url())
    try:
        applied = migrations.upgrade(database)
        migrations.check(database)
        return applied
    finally:
        database.close()
