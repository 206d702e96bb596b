"""The process beside a Spark server: starts it, outlives whoever asked for it, ends it when nobody uses it.

``python -m icefloe.spark.watchdog FOLDER`` reads a :class:`ServerLaunch` as JSON from its standard input. With a command it forks;
the child *records itself* and then becomes Java, so that there is no moment in which a server runs that no record names. Without a
command it watches the recorded server, whose first watchdog was killed.

Idle means: no process holds the in-use lock or has taken it lately, and the server uses next to no processor time (a statement whose client was
killed still runs). It is a small Python process that imports nothing but the standard library.
"""

from __future__ import annotations

import json
import os
import sys
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from icefloe.spark.server_process import ServerProcess
from icefloe.spark.server_record import ServerFolder, ServerRecord, now

BUSY_SHARE = 0.05
"""Share of one core above which a server without clients counts as working. An idle Spark uses about 0.01."""


@dataclass(frozen=True)
class ServerLaunch:
    """What to start and for how long to keep it."""

    idle_seconds: float
    command: list[str] | None = None
    environment: dict[str, str] | None = None
    port: int = 0
    token: str = ""
    settings: str = ""
    start_lock: int | None = None
    """The starter's lock, inherited: held until the record is written."""

    def to_json(self) -> str:
        return json.dumps(asdict(self))


def main() -> None:
    folder = ServerFolder(Path(sys.argv[1]))
    launch = ServerLaunch(**json.load(sys.stdin))
    lock = folder.watchdog_lock()
    if launch.command:
        process = _start(folder, launch, launch.command)
        lock.take()  # the watchdog of a server that has just died may hold it for a moment
    elif lock.take(wait=False):
        record = folder.read()
        process = record.process if record else None
    else:
        return  # the server is being watched
    if process:
        watch(folder, process, launch.idle_seconds)


def watch(folder: ServerFolder, process: ServerProcess, idle_seconds: float) -> None:
    """Return when the server is gone: ended by itself, by somebody, or by us after ``idle_seconds`` without use."""
    tick = min(2.0, idle_seconds / 4)
    last_use, last_look, last_cpu = time.monotonic(), time.monotonic(), process.cpu_seconds()
    while _runs(process):
        time.sleep(tick)
        moment, cpu = time.monotonic(), process.cpu_seconds()
        busy = cpu - last_cpu > BUSY_SHARE * (moment - last_look)
        last_look, last_cpu = moment, cpu
        in_use = folder.in_use_lock()
        try:
            if busy or not in_use.take(wait=False):
                last_use = moment
            elif moment - last_use >= idle_seconds and in_use.seconds_since_use() >= idle_seconds:
                # The lock is held until the server is gone: a client that comes now waits, and then starts a new one.
                _end(process)
                folder.forget()
                return
        finally:
            in_use.release()


def _start(folder: ServerFolder, launch: ServerLaunch, command: list[str]) -> ServerProcess | None:
    if launch.start_lock is not None:
        os.set_inheritable(launch.start_lock, False)  # the child's copy closes when it becomes Java: after the record
    pid = os.fork()
    if pid == 0:
        try:
            own = ServerProcess.of(os.getpid())
            assert own is not None
            folder.write(ServerRecord(own.pid, own.started, launch.port, launch.token, launch.settings, now()))
            os.execve(command[0], command, launch.environment or dict(os.environ))
        except BaseException as error:
            print(f"cannot start {command[0]}: {error}", file=sys.stderr, flush=True)
            os._exit(127)
    if launch.start_lock is not None:
        os.close(launch.start_lock)
    return ServerProcess.of(pid)


def _runs(process: ServerProcess) -> bool:
    with suppress(ChildProcessError):  # not our child: a server that was recorded before
        os.waitpid(process.pid, os.WNOHANG)
    return process.alive()


def _end(process: ServerProcess) -> None:
    process.end()
    _runs(process)


if __name__ == "__main__":
    main()
