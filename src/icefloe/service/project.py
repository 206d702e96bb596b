"""Making a project: ``icefloe.toml``, the folder beside it, and in that an empty catalog."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from icefloe import config
from icefloe.errors import ConfigError


def init(folder: Path) -> Path:
    """Make the embedded default in ``folder``. What is there already stays; a second time changes nothing."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        home = folder / config.HOME_NAME
        home.mkdir(exist_ok=True)
        _write_new(home / ".gitignore", "*\n")
        file = folder / config.FILE_NAME
        _write_new(file, config.DEFAULT_FILE)
        catalog = config.load(file, env={}).catalog
        if catalog.type == "sql" and (catalog.uri or "").startswith("sqlite"):
            _make_database(Path((catalog.uri or "").partition(":///")[2]))
        if (catalog.warehouse or "").startswith("file://"):
            Path((catalog.warehouse or "").removeprefix("file://")).mkdir(parents=True, exist_ok=True)
    except (OSError, sqlite3.Error) as error:
        raise ConfigError(f"cannot make a project here: {error}", where=str(folder)) from error
    return file


def _write_new(path: Path, text: str) -> None:
    """Write a file unless it is there."""
    try:
        with path.open("x", encoding="utf-8") as stream:
            stream.write(text)
    except FileExistsError:
        return


def _make_database(path: Path) -> None:
    """An empty SQLite file in WAL mode, which stays with the file: readers of either engine never wait for a writer."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(path, timeout=config.BUSY_SECONDS)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
