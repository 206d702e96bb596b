"""Making a project: ``icefloe.toml`` and the folder beside it."""

from __future__ import annotations

from pathlib import Path

from icefloe import config
from icefloe.errors import ConfigError


def init(folder: Path) -> Path:
    """Make the embedded default in ``folder``. What is there already stays; a second time changes nothing."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        home = folder / config.HOME_NAME
        home.mkdir(exist_ok=True)
        (home / ".gitignore").write_text("*\n", encoding="utf-8")
        file = folder / config.FILE_NAME
        if not file.exists():
            file.write_text(config.DEFAULT_FILE, encoding="utf-8")
        catalog = config.load(file).catalog
        if catalog.type == "sql" and (catalog.uri or "").startswith("sqlite"):
            database = Path((catalog.uri or "").partition(":///")[2])
            database.parent.mkdir(parents=True, exist_ok=True)
            database.touch(exist_ok=True)
        if (catalog.warehouse or "").startswith("file://"):
            Path((catalog.warehouse or "").removeprefix("file://")).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"cannot make a project here: {error}", where=str(folder)) from error
    return file
