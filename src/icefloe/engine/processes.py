"""Processes on this machine: starting supervisors, and finding what a dead one left behind."""

from __future__ import annotations

import array
import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from icefloe import suppressed
from icefloe.config import Config
from icefloe.engine import supervisor, warm
from icefloe.environment import for_user_code
from icefloe.steps.contract import ProcessResult


@dataclass(frozen=True, slots=True)
class SupervisedJob:
    """What a supervisor is asked to do. ``lease_until`` is a time on this machine's monotonic clock."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: str
    folder: str
    lease_until: float
    timeout: float | None
    grace: float
    log_head: int
    log_tail: int
    secrets: tuple[str, ...]
    module: str | None = None
    """What ``argv`` runs; a launcher that has imported it calls its ``main()``."""

    def to_line(self) -> bytes:
        return json.dumps({name: getattr(self, name) for name in self.__slots__}).encode() + b"\n"


class AttemptLink:
    """The worker's end of the line to one supervisor."""

    def __init__(self, sock: socket.socket) -> None:
        self.socket = sock
        self._unread = b""

    def fileno(self) -> int:
        return self.socket.fileno()

    def messages(self) -> tuple[list[dict[str, Any]], bool]:
        """What has arrived, and whether the supervisor is gone."""
        try:
            data = self.socket.recv(65536)
        except ConnectionError:
            data = b""
        self._unread += data
        *lines, self._unread = self._unread.split(b"\n")
        return [json.loads(line) for line in lines], not data

    def extend(self, lease_until: float) -> None:
        self._send({"lease_until": lease_until})

    def cancel(self, *, at_once: bool = False) -> None:
        self._send({"cancel": {"at_once": at_once}})

    def _send(self, message: dict[str, Any]) -> None:
        with (
            suppressed.errors("supervisor.tell", OSError),
            suppress(ConnectionError),
        ):  # one that has ended needs no further word
            self.socket.sendall(json.dumps(message).encode() + b"\n")

    def close(self) -> None:
        self.socket.close()


class Launcher:
    """Starts supervisors through one launcher process, which is itself started on need and replaced when it dies.

    Without ``imports`` it is a small one; with them it has imported these modules (:mod:`icefloe.engine.warm`). Several threads may use it.
    """

    def __init__(self, imports: Sequence[str] = (), config: Config | None = None) -> None:
        self._imports = imports
        self._config = config
        self._lock = threading.RLock()
        self._control: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def launch(self, job: SupervisedJob) -> AttemptLink:
        mine, theirs = socket.socketpair()
        with theirs, self._lock:
            for attempt in (1, 2):
                try:
                    self._hand(theirs)
                    break
                except OSError:
                    self.close()
                    if attempt == 2:
                        raise
        link = AttemptLink(mine)
        with suppressed.errors("supervisor.tell", OSError), suppress(ConnectionError):  # its end is heard by the link
            mine.sendall(job.to_line())
        return link

    def _hand(self, theirs: socket.socket) -> None:
        self.start_if_down()
        assert self._control is not None
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [theirs.fileno()]))]
        self._control.sendmsg([b"!"], rights)

    def start_if_down(self) -> None:
        """Have the launcher ready before the first step needs it."""
        with self._lock:
            if self._control is None:
                self._start()

    def _start(self) -> None:
        mine, theirs = socket.socketpair()
        with theirs:
            command = [sys.executable, "-I", "-S", supervisor.__file__, str(theirs.fileno())]
            env = for_user_code(self._config)
            if self._imports:
                command = [
                    sys.executable,
                    "-m",
                    warm.__name__,
                    str(theirs.fileno()),
                    ",".join(self._imports),
                    warm.ROOM,
                ]
                env["ICEFLOE_ROOM"] = warm.ROOM
            self._process = subprocess.Popen(
                command,
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                env=env,
            )
        self._control = mine

    def close(self) -> None:
        with self._lock:
            if self._control is not None:
                self._control.close()
                self._control = None
            if self._process is not None:
                try:
                    self._process.wait(timeout=5)
                except subprocess.TimeoutExpired:
                    self._process.kill()
                    self._process.wait()
                self._process = None


def supervisor_lives(folder: Path) -> bool:
    """Whether the supervisor of the attempt in ``folder`` still runs, by the lock it holds."""
    try:
        with (folder / supervisor.LOCK_FILE).open("r+") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


def read_result(folder: Path) -> ProcessResult | None:
    """The result that a supervisor wrote, if it came so far."""
    try:
        data = json.loads((folder / supervisor.RESULT_FILE).read_text())
    except (OSError, json.JSONDecodeError):
        # Missing; or cut short by a power failure, since it is written atomically but not forced to the disk.
        return None
    return result_of(data)


def result_of(data: Mapping[str, Any]) -> ProcessResult:
    return ProcessResult(data.get("exit_code"), data.get("reason"), data.get("error"))


def end_leftovers(attempt: str, *, within: float = 5.0) -> list[int]:
    """End every process that carries this attempt in its environment. Returns those found."""
    needle = f"{supervisor.ATTEMPT_VARIABLE}={attempt}".encode()
    ended: list[int] = []
    deadline = time.monotonic() + within
    while left := _carrying(needle):
        ended += [pid for pid in left if pid not in ended]
        for pid in left:
            supervisor.signal_quietly(pid, signal.SIGKILL)
        if time.monotonic() > deadline:
            break
        time.sleep(0.005)
    return ended


def _carrying(needle: bytes) -> list[int]:
    pids = []
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            try:
                environ = Path(f"/proc/{entry.name}/environ").read_bytes()
                if needle in environ.split(b"\0") and not _is_zombie(entry.name):
                    pids.append(int(entry.name))
            except (FileNotFoundError, ProcessLookupError, PermissionError):  # has ended, or is another user's
                continue
    return pids


def _is_zombie(pid: str) -> bool:
    stat = Path(f"/proc/{pid}/stat").read_bytes()
    return stat[stat.rindex(b")") + 2 : stat.rindex(b")") + 3] in (b"Z", b"X")
