"""What dead workers have left in the project's folder: attempts' folders and workers' lock files.

A worker takes away the folders of its own attempts, and who takes over from a dead one those whose result it could use. Others stay, and
so do the lock files of killed workers. Each of them is named by a claim or a worker that never comes again (a claim's generation only
goes up), so what no claim holds any more is left over.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import sqlalchemy as sa

from icefloe.engine.attempts import attempt_folder
from icefloe.steps.contract import AttemptKey
from icefloe.store import workers
from icefloe.store.database import Database
from icefloe.store.tables import steps

KEPT_SECONDS = 86_400.0
"""So long it stays for people who look into what happened."""


def leftovers(home: Path, database: Database, now: float) -> list[Path]:
    """Folders and lock files that are older than a day and nobody's. Listed before the claims are read: what is claimed since is newer."""
    folders = [path for path in _entries(home / "attempts") if _modified(path) < now - KEPT_SECONDS]
    locks = [path for path in _entries(home / "workers") if _modified(path) < now - KEPT_SECONDS]
    if not folders and not locks:
        return []
    query = sa.select(steps.c.run_id, steps.c.step_id, steps.c.attempt, steps.c.generation).where(
        steps.c.owner.is_not(None)
    )
    with database.read() as connection:
        claimed = {attempt_folder(home, AttemptKey(*row)).name for row in connection.execute(query)}
        living = {f"{worker.id}.lock" for worker in workers.living(connection)}
    return [
        *(path for path in folders if path.name not in claimed),
        *(path for path in locks if path.suffix == ".lock" and path.name not in living),
    ]


def remove(path: Path) -> int:
    """Returns how many bytes its files had."""
    size = bytes_of(path)
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
    return size


def bytes_of(path: Path) -> int:
    files = path.rglob("*") if path.is_dir() else [path]
    return sum(file.lstat().st_size for file in files if file.is_file())


def _entries(folder: Path) -> Iterator[Path]:
    try:
        yield from sorted(folder.iterdir())
    except FileNotFoundError:
        return


def _modified(path: Path) -> float:
    """When it was last written to; something that goes at this moment is not old."""
    try:
        return path.lstat().st_mtime
    except FileNotFoundError:
        return float("inf")
