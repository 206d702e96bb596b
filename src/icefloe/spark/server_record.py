"""What a project's Spark server leaves in ``.icefloe/spark/``: its record, its locks, its log.

Three locks, all released by the kernel when their holder dies:

- ``start.lock`` is held while a server is started or stopped: one at a time. The starter shares it with the process that it
  starts, which lets go of it when the record is written: a starter that is killed in between leaves no gap.
- ``in-use.lock`` is held *shared* by every process that has a session. Whoever gets it exclusively knows that nobody
  uses the server, and that nobody will until it lets go.
- ``watchdog.lock`` is held by the watchdog as long as it lives.

``start.request`` is there while a step's attempt waits for its worker to start a server.

Standard library only: the watchdog imports this.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from icefloe.spark.server_process import ServerProcess


@dataclass(frozen=True)
class ServerRecord:
    """A started server. Readable by its owner only, since it holds the token."""

    pid: int
    started: str
    port: int
    token: str = field(repr=False)
    settings: str
    """A fingerprint of what the server was started with; another one means that the configuration has changed."""
    began: float
    """When it was started, in seconds since the epoch. For people; nothing is decided by it."""

    @property
    def process(self) -> ServerProcess:
        return ServerProcess(self.pid, self.started)

    @property
    def url(self) -> str:
        # The name, not 127.0.0.1: PySpark 4.1 sends a token without TLS to `localhost` only.
        return f"sc://localhost:{self.port}/;token={self.token}"


@dataclass(frozen=True)
class ServerFolder:
    """The folder and the names in it."""

    path: Path

    def make(self) -> None:
        self.path.mkdir(parents=True, exist_ok=True)
        self.path.chmod(0o700)

    @property
    def log(self) -> Path:
        return self.path / "server.log"

    @property
    def arguments(self) -> Path:
        return self.path / "server.args"

    @property
    def record_file(self) -> Path:
        return self.path / "server.json"

    @property
    def request(self) -> Path:
        return self.path / "start.request"

    def read(self) -> ServerRecord | None:
        """The record, or None when there is none that can be read (half-written ones do not occur, foreign ones may)."""
        try:
            data = json.loads(self.record_file.read_text(encoding="utf-8"))
            return ServerRecord(**data)
        except (OSError, ValueError, TypeError):
            return None

    def write(self, record: ServerRecord) -> None:
        private_file(self.record_file, json.dumps(asdict(record)))

    def forget(self) -> None:
        self.record_file.unlink(missing_ok=True)
        self.arguments.unlink(missing_ok=True)

    def start_lock(self) -> Lock:
        return Lock(self.path / "start.lock")

    def in_use_lock(self) -> Lock:
        return Lock(self.path / "in-use.lock")

    def watchdog_lock(self) -> Lock:
        return Lock(self.path / "watchdog.lock")


class Lock:
    """An advisory lock on a file. Not for threads: each ``Lock`` is a holder of its own, also within one process."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None

    def take(self, *, shared: bool = False, wait: bool = True) -> bool:
        """Take it, or change between shared and exclusive. Without ``wait``: whether that was possible at once."""
        if self._descriptor is None:
            self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(self._descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            return False
        return True

    def touch(self) -> None:
        """Note the time of use, for whoever looks when the lock is free again."""
        os.utime(self.descriptor)

    def seconds_since_use(self) -> float:
        """By the machine's clock, which may jump: what is in the future was just now."""
        return max(0.0, time.time() - os.fstat(self.descriptor).st_mtime)

    @property
    def descriptor(self) -> int:
        """The open file that carries the lock; whoever inherits it holds the lock too."""
        assert self._descriptor is not None
        return self._descriptor

    def release(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def taken_elsewhere(self) -> bool:
        """Whether another holder keeps it from us. Does not keep it."""
        try:
            return not self.take(wait=False)
        finally:
            self.release()

    @contextmanager
    def held(self) -> Iterator[None]:
        self.take()
        try:
            yield
        finally:
            self.release()


def private_file(path: Path, text: str) -> None:
    """Write a file that only its owner can read, whole or not at all."""
    scratch = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
        stream.write(text)
    scratch.replace(path)


def now() -> float:
    return time.time()
