"""The project's local Spark Connect server: one, detached, shared by every process that works on the project.

:func:`ensure` gives the address of a running server and starts one when there is none; :func:`status` looks, :func:`stop`
ends. Starting takes a lock, so of two processes that need a server at the same moment one starts it and the other waits. The server
survives whoever started it, a watchdog ends it when nobody uses it, and a record that outlived its server is recognised
by the process's start time and replaced.

A step's attempt never starts one: its supervisor ends every process the attempt has forked, the server included. Inside an attempt
:func:`ensure` leaves a request, and the attempt's worker, which calls :func:`start_if_requested`, starts the server.

It does not supervise statements: a client whose server dies gets an error, and the next :func:`ensure` starts a new server.
"""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from icefloe.config import Config
from icefloe.environment import for_spark_server
from icefloe.errors import IcefloeError
from icefloe.spark import jars, java
from icefloe.spark.launch import ServerCommand, server_command
from icefloe.spark.server_record import Lock, ServerFolder, ServerRecord
from icefloe.spark.watchdog import ServerLaunch

START_SECONDS = 180.0
ATTEMPT_VARIABLE = "ICEFLOE_ATTEMPT"
"""Set in every process of a step's attempt (:mod:`icefloe.engine.supervisor`)."""
Note = Callable[[str], None]


class SparkServerError(IcefloeError):
    """The local Spark server could not be started or does not answer."""

    code = "spark.server"
    retryable = True
    exit_code = 3


@dataclass(frozen=True)
class ServerStatus:
    """What is known of the server without touching it."""

    running: bool
    ready: bool = False
    pid: int | None = None
    port: int | None = None
    began: float | None = None
    in_use: bool = False


@dataclass
class ServerLease:
    """A running server that will not be ended for idleness until this is released (or the process ends)."""

    record: ServerRecord
    _lock: Lock

    @property
    def url(self) -> str:
        return self.record.url

    def release(self) -> None:
        self._lock.release()


def folder_of(config: Config) -> ServerFolder:
    return ServerFolder(config.home / "spark")


def ensure(config: Config, *, note: Note | None = None) -> ServerLease:
    """A server that answers, started when there is none. ``note`` is told what is being waited for."""
    tell = note or (lambda _: None)
    folder = folder_of(config)
    folder.make()
    in_use = folder.in_use_lock()
    in_use.take(shared=True)  # before looking: from here on no watchdog ends the server for idleness
    in_use.touch()
    try:
        record = _requested(folder, tell) if ATTEMPT_VARIABLE in os.environ else _own(config, folder, in_use, tell)
        return ServerLease(record, in_use)
    except BaseException:
        in_use.release()
        raise


def start_if_requested(config: Config) -> bool:
    """Start the server if an attempt waits for it; whether one did. Called by workers, outside of every attempt."""
    folder = folder_of(config)
    if not folder.request.exists():
        return False
    try:
        ensure(config).release()
    finally:
        folder.request.unlink(missing_ok=True)  # whoever waits sees the server, or that it could not be started
    return True


def status(config: Config) -> ServerStatus:
    """Whether a server runs, and which."""
    folder = folder_of(config)
    record = folder.read()
    if record is None or not record.process.alive():
        return ServerStatus(running=False)
    return ServerStatus(
        running=True,
        ready=_answers(record.port),
        pid=record.pid,
        port=record.port,
        began=record.began,
        in_use=folder.in_use_lock().taken_elsewhere(),
    )


def stop(config: Config) -> bool:
    """End the server; whether there was one. Statements that run on it fail."""
    folder = folder_of(config)
    if not folder.path.is_dir():
        return False
    with folder.start_lock().held():
        record = folder.read()
        alive = record is not None and record.process.alive()
        if record and alive:
            record.process.end()
        folder.forget()
        return alive


# -- starting ------------------------------------------------------------------------------------------------------------


def _own(config: Config, folder: ServerFolder, in_use: Lock, tell: Note) -> ServerRecord:
    """The running server if it is the right one, else a new one."""
    start = folder.start_lock()
    try:
        if not start.take(wait=False):
            tell("waiting for the Spark server that another process is starting")
            start.take()
        record = _usable(config, folder, in_use, tell) or _started(config, folder, start, tell)
        if not folder.watchdog_lock().taken_elsewhere():
            _spawn_watchdog(folder, ServerLaunch(config.spark.idle_minutes * 60, environment=for_spark_server(config)))
        return record
    finally:
        start.release()


def _requested(folder: ServerFolder, tell: Note) -> ServerRecord:
    """The running server, or the one that the attempt's worker starts now. Its settings are the worker's business."""
    record = _answering(folder)
    if record is not None:
        return record
    tell("asking the worker for the Spark server")
    folder.request.touch(mode=0o600)
    deadline = time.monotonic() + START_SECONDS
    while (record := _answering(folder)) is None:
        if not folder.request.exists() and _answering(folder) is None:
            raise SparkServerError(
                f"the worker could not start the Spark server: {_last_words(folder)}",
                hint=f"its log: {folder.log}; to try it by hand: icefloe sql 'SELECT 1'",
            )
        if time.monotonic() > deadline:
            raise SparkServerError(
                f"no worker has started the Spark server within {START_SECONDS:.0f} s", hint=f"its log: {folder.log}"
            )
        time.sleep(0.05)
    return record


def _answering(folder: ServerFolder) -> ServerRecord | None:
    record = folder.read()
    return record if record is not None and record.process.alive() and _answers(record.port) else None


def _usable(config: Config, folder: ServerFolder, in_use: Lock, tell: Note) -> ServerRecord | None:
    """The recorded server, if it is alive, answers and was started with today's configuration."""
    record = folder.read()
    if record is None or not record.process.alive():
        return None
    if not _answers(record.port):
        tell("waiting for the Spark server to come up")
        try:
            _wait_until_ready(record, folder)
        except SparkServerError:
            record.process.end()  # it is ours and it hangs or has just died: a new one takes its place
            return None
    if record.settings == _command(config, folder, tell).fingerprint:
        return record
    alone = in_use.take(wait=False)
    in_use.take(shared=True)
    if not alone:
        tell("the configuration has changed, but the Spark server is in use: to restart it, type: icefloe spark stop")
        return record
    tell("the configuration has changed: restarting the Spark server")
    record.process.end()
    return None


def _started(config: Config, folder: ServerFolder, start: Lock, tell: Note) -> ServerRecord:
    command = _command(config, folder, tell)
    tell("starting the Spark server")
    for attempt in (1, 2, 3):
        try:
            return _start_once(config, folder, start, command)
        except _PortTakenError:
            if attempt == 3:
                raise
    raise AssertionError("unreachable")


class _PortTakenError(SparkServerError):
    """Somebody took the free port between our look and the server's start."""


def _start_once(config: Config, folder: ServerFolder, start: Lock, command: ServerCommand) -> ServerRecord:
    folder.forget()
    _clear_scratch(folder)
    port, token = _free_port(), secrets.token_urlsafe(32)
    environment = for_spark_server(config)
    # What runs Python functions inside Spark: the default is whatever `python3` is, which may not have PySpark.
    environment.setdefault("PYSPARK_PYTHON", sys.executable)
    launch = ServerLaunch(
        idle_seconds=config.spark.idle_minutes * 60,
        command=command.write(folder, port=port, token=token),
        environment=environment,
        port=port,
        token=token,
        settings=command.fingerprint,
        start_lock=start.descriptor,
    )
    watchdog = _spawn_watchdog(folder, launch)
    deadline = time.monotonic() + 30
    while (record := folder.read()) is None:
        if watchdog.poll() is not None or time.monotonic() > deadline:
            raise SparkServerError(f"the Spark server was not started: {_last_words(folder)}", where=str(folder.log))
        time.sleep(0.01)
    try:
        _wait_until_ready(record, folder)
    except BaseException:
        record.process.end(grace=2)
        folder.forget()
        raise
    folder.arguments.unlink(missing_ok=True)
    return record


def _wait_until_ready(record: ServerRecord, folder: ServerFolder) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not _answers(record.port):
        if not record.process.alive():
            words = _last_words(folder)
            kind = _PortTakenError if "Address already in use" in words else SparkServerError
            raise kind(f"the Spark server ended while starting: {words}", hint=f"the whole log: {folder.log}")
        if time.monotonic() > deadline:
            raise SparkServerError(
                f"the Spark server did not come up within {START_SECONDS:.0f} s", hint=f"its log: {folder.log}"
            )
        time.sleep(0.05)


def _command(config: Config, folder: ServerFolder, tell: Note) -> ServerCommand:
    runtime = java.find(config.spark.java_home)
    paths = jars.ensure(jars.required(config), runtime.launcher, note=tell)
    return server_command(config, runtime, paths, folder)


def _spawn_watchdog(folder: ServerFolder, launch: ServerLaunch) -> subprocess.Popen[str]:
    descriptor = os.open(folder.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        watchdog = subprocess.Popen(
            [sys.executable, "-m", "icefloe.spark.watchdog", str(folder.path)],
            stdin=subprocess.PIPE,
            stdout=descriptor,
            stderr=descriptor,
            text=True,
            cwd=folder.path,
            start_new_session=True,
            env=launch.environment,  # it is the server's parent, which users' functions can look at
            pass_fds=() if launch.start_lock is None else (launch.start_lock,),
        )
    finally:
        os.close(descriptor)
    assert watchdog.stdin is not None
    with suppress(BrokenPipeError):  # it has ended already: its absence shows soon enough
        watchdog.stdin.write(launch.to_json())
        watchdog.stdin.close()
    return watchdog


def _clear_scratch(folder: ServerFolder) -> None:
    """Throw away what a killed server left, and keep one older log."""
    shutil.rmtree(folder.path / "scratch", ignore_errors=True)
    (folder.path / "scratch").mkdir(exist_ok=True)
    if folder.log.exists():
        folder.log.replace(folder.log.with_suffix(".log.1"))


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _answers(port: int) -> bool:
    """Whether something accepts connections. Spark opens the port when its session is ready, not before."""
    try:
        with socket.create_connection(("localhost", port), timeout=2):
            return True
    except OSError:
        return False


def _last_words(folder: ServerFolder) -> str:
    try:
        lines = folder.log.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return "it left no log"
    telling = [line.strip() for line in lines if line.strip() and not line.startswith(("\tat ", "WARNING", "\t..."))]
    causes = [line for line in telling if "Caused by" in line or line.startswith(("Error", "Exception"))]
    return ((causes or telling or ["it left an empty log"])[-1])[:400]
