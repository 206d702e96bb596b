"""Errors that are not passed on: each is logged, counted by its place, and kept for whoever asks.

Some work is done as well as it can be, and its failure must not fail what it belongs to: moving a tag after a commit, telling a
process that may be gone. Such a place names itself::

    with suppressed.errors("capture.unpin", IcefloeError, where="db.events"):
        lake.unpin(...)

or, where an ``except`` has more to do, calls :func:`count`. The counts are this process's own (:func:`counts`); a worker leaves them
in a file beside its lock, where ``icefloe workers`` reads them.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from icefloe.whole_files import write_json

LOG = logging.getLogger("icefloe.suppressed")
SAY_AGAIN_SECONDS = 60.0
"""A place that fails all the time is logged so often, with how many there were."""
_lock = threading.Lock()


@dataclass(frozen=True, slots=True)
class Suppressed:
    """What was suppressed at one place: how often, and the last one."""

    count: int
    last: str
    at: float


_counts: dict[str, Suppressed] = {}
_said: dict[str, float] = {}


@contextmanager
def errors(place: str, *classes: type[Exception], where: object = "") -> Iterator[None]:
    """Go on after an error of these classes. ``where`` says for people what it was about."""
    try:
        yield
    except classes as error:
        count(place, error, where=where)


def count(place: str, error: BaseException | str, *, where: object = "") -> None:
    """Log and count an error, or a trouble in words, that is not passed on."""
    text = error if isinstance(error, str) else f"{type(error).__name__}: {error}".strip()
    if where:
        text = f"{where}: {text}"
    now = time.monotonic()
    with _lock:
        known = _counts.get(place)
        total = known.count + 1 if known else 1
        _counts[place] = Suppressed(total, text[:500], time.time())
        quiet = place in _said and now - _said[place] < SAY_AGAIN_SECONDS
        if not quiet:
            _said[place] = now
    LOG.log(logging.DEBUG if quiet else logging.WARNING, "%s (%d so far): %s", place, total, text)


def counts() -> dict[str, Suppressed]:
    """By place, since this process began."""
    with _lock:
        return dict(_counts)


def file_beside(lock_file: Path) -> Path:
    """Where a worker leaves its counts."""
    return lock_file.with_suffix(".suppressed")


def write(file: Path) -> None:
    """Leave the counts for other processes on this machine."""
    write_json(file, {place: asdict(item) for place, item in counts().items()})


def read(file: Path) -> dict[str, Suppressed]:
    """What a process has left; empty when it has suppressed nothing, or runs elsewhere."""
    try:
        return {place: Suppressed(**item) for place, item in json.loads(file.read_text()).items()}
    except (FileNotFoundError, ValueError, TypeError):
        return {}
