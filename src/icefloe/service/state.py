"""Opening the state database: made and upgraded by itself when it is the embedded one, only checked when it is a server's."""

from __future__ import annotations

from icefloe.config import Config
from icefloe.errors import ConfigError
from icefloe.store import migrations
from icefloe.store.database import Database


def open_database(config: Config) -> Database:
    """The project's state, ready for use. Raises when the project was never made, or its schema does not fit."""
    database = Database(config.state.resolved_url())
    if database.file is not None:
        if not database.file.parent.is_dir():
            raise ConfigError(
                f"the folder {database.file.parent} does not exist",
                where=str(config.root),
                hint="make it with: icefloe init",
            )
        if not database.file.exists() or migrations.current(database) < len(migrations.available()):
            migrations.upgrade(database)
    migrations.check(database)
    return database


def upgrade(config: Config) -> list[migrations.Migration]:
    """``icefloe db upgrade``."""
    database = Database(config.state.resolved_url())
    try:
        applied = migrations.upgrade(database)
        migrations.check(database)
        return applied
    finally:
        database.close()
