"""One small process per attempt: it starts the step's command, watches it, and leaves nothing behind.

Runs as ``python -I -S supervisor.py`` and imports only the standard library, so that it starts in milliseconds and cannot be
broken by the user's packages. The first process is the *launcher*: it waits on a socket and forks one supervisor per attempt,
since a fork costs 2 ms and a new interpreter 25. :mod:`icefloe.engine.warm` is a launcher for Python commands that have much to
import: there a supervisor does not execute the command but forks once more.

A supervisor
- is a subreaper: whatever the command forks and detaches stays its child, and is ended with it;
- pumps stdout and stderr into log segments, masks secrets, keeps the start and the end of a long log;
- ends the command by TERM, then KILL: when told to, at its timeout, when the worker's lease runs out (the worker sends each
  extension as a time on the machine's monotonic clock), or when the worker is gone (end of file on the socket);
- writes ``result.json`` atomically before it says anything, so that a result outlives the worker it was meant for.

It does not decide what a failure means, and never talks to the database.
"""

# pathlib and contextlib would cost a third of the start-up time.
# ruff: noqa: PTH105, PTH108, PTH118, PTH123, PTH208, SIM105
from __future__ import annotations

import array
import ctypes
import errno
import fcntl
import json
import os
import re
import select
import signal
import socket
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

RESULT_FILE = "result.json"
LOCK_FILE = "supervisor.lock"
ATTEMPT_VARIABLE = "ICEFLOE_ATTEMPT"
SEGMENT_BYTES = 64 * 1024
MASK = b"***"
_SET_CHILD_SUBREAPER = 36
_SET_PARENT_DEATH_SIGNAL = 1


# -- the log -----------------------------------------------------------------------------------------------------------------


class Masker:
    """Replaces secrets in a stream of bytes, whatever the pieces it arrives in.

    The leftmost secret is replaced, the longest where several begin. What may still become one is held back until more bytes,
    or the end, decide; so the result does not depend on how the stream was cut.
    """

    def __init__(self, secrets: list[bytes]) -> None:
        self._secrets = sorted({secret for secret in secrets if secret}, key=len, reverse=True)
        self._pattern = re.compile(b"|".join(re.escape(secret) for secret in self._secrets))
        self._pending = b""

    def feed(self, data: bytes) -> bytes:
        if not self._secrets:
            return data
        data = self._pending + data
        parts: list[bytes] = []
        at = 0
        while True:
            undecided = self._undecided(data, at)
            match = self._pattern.search(data, at)
            if match is None or match.start() >= undecided:
                self._pending = data[undecided:]
                return b"".join([*parts, data[at:undecided]])
            parts += [data[at : match.start()], MASK]
            at = match.end()

    def end(self) -> bytes:
        rest, self._pending = self._pending, b""
        return self._pattern.sub(MASK, rest) if self._secrets else rest

    def _undecided(self, data: bytes, at: int) -> int:
        """Where the first tail begins that some secret begins with; the end when there is none."""
        for start in range(max(at, len(data) - len(self._secrets[0]) + 1), len(data)):
            tail = data[start:]
            if any(len(secret) > len(tail) and secret.startswith(tail) for secret in self._secrets):
                return start
        return len(data)


class SegmentedLog:
    """A log in numbered files of 64 KiB. Of a long one the first and the last segments are kept, the middle is dropped."""

    def __init__(self, folder: str, head_bytes: int, tail_bytes: int) -> None:
        self._folder = folder
        self._head = max(1, head_bytes // SEGMENT_BYTES)
        self._tail = max(1, tail_bytes // SEGMENT_BYTES)
        self._number = 0
        self._size = 0
        self._file = self._open(0)

    def _open(self, number: int) -> int:
        return os.open(segment_path(self._folder, number), os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)

    def write(self, data: bytes) -> None:
        while data:
            room = SEGMENT_BYTES - self._size
            piece, data = data[:room], data[room:]
            try:
                os.write(self._file, piece)
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
                return  # a full disk loses log lines, not the step
            self._size += len(piece)
            if self._size >= SEGMENT_BYTES:
                self._next()

    def close(self) -> None:
        os.close(self._file)

    def _next(self) -> None:
        os.close(self._file)
        self._number += 1
        self._size = 0
        self._file = self._open(self._number)
        dropped = self._number - self._tail
        if dropped >= self._head:
            os.unlink(segment_path(self._folder, dropped))


def segment_path(folder: str, number: int) -> str:
    return os.path.join(folder, f"log.{number:08d}")


# -- processes ---------------------------------------------------------------------------------------------------------------


def become_subreaper() -> None:
    """Orphaned descendants become our children instead of init's, so that they can be found and ended (Linux)."""
    _prctl(_SET_CHILD_SUBREAPER, 1)


def _prctl(option: int, value: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")


def children(pid: int) -> list[int]:
    """The direct children of a process, by /proc."""
    pids = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    stat = file.read()
            except (FileNotFoundError, ProcessLookupError):  # it has ended
                continue
            if int(stat[stat.rindex(b")") + 2 :].split()[1]) == pid:
                pids.append(int(name))
    return pids


def descendants(pid: int) -> list[int]:
    pids = []
    stack = [pid]
    while stack:
        below = children(stack.pop())
        pids += below
        stack += below
    return pids


def signal_quietly(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        pass


class Supervisor:
    """One attempt. ``link`` is the socket to the worker: lines of JSON both ways."""

    def __init__(self, spec: dict[str, Any], link: socket.socket, unread: bytes, run: Any = None) -> None:
        """``run`` takes the place of executing the command: it is called in the fork, with the spec, and does not return."""
        self.spec = spec
        self.run_forked = run
        self.link = link
        self.unread = unread
        self.folder: str = spec["folder"]
        self.lease_until: float = spec["lease_until"]
        self.timeout_at: float | None = time.monotonic() + spec["timeout"] if spec.get("timeout") else None
        self.grace: float = spec.get("grace", 10.0)
        self.reason: str | None = None  # why we end the command: timeout, cancelled, lease, worker-gone
        self.kill_at: float | None = None
        self.killed = False
        self.child = 0
        self.exit_status: int | None = None

    def run(self) -> None:
        lock = os.open(os.path.join(self.folder, LOCK_FILE), os.O_CREAT | os.O_RDWR, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX)
        become_subreaper()
        masker = Masker([secret.encode() for secret in self.spec.get("secrets", [])])
        log = SegmentedLog(self.folder, self.spec["log_head"], self.spec["log_tail"])
        wake_read, wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        output, child_end = os.pipe2(os.O_CLOEXEC)
        fault("supervisor.before_command")
        try:
            self.child = self._spawn(child_end)
        except OSError as error:
            os.close(child_end)
            self._finish({"error": f"cannot be started: {error.strerror}: {error.filename or self.spec['argv'][0]}"})
            return
        os.close(child_end)
        fault("supervisor.command_started")
        self._say({"started": self.child, "at": time.time()})
        pump_open = True
        self._understand(b"")  # what came along with the order itself
        while True:
            watched: list[Any] = [self.link, wake_read] if self.link.fileno() >= 0 else [wake_read]
            if pump_open:
                watched.append(output)
            readable, _, _ = select.select(watched, [], [], self._patience())
            if wake_read in readable:
                _drain(wake_read)
            self._reap()
            if pump_open and output in readable:
                data = os.read(output, SEGMENT_BYTES)
                if data:
                    log.write(masker.feed(data))
                else:
                    pump_open = False
            if self.link in readable:
                self._listen()
            self._enforce()
            if self.exit_status is not None:
                break
        # What the command left running in the background goes with it; then the rest of its output is read.
        self._end_leftovers()
        while pump_open and select.select([output], [], [], 0)[0] and (data := os.read(output, SEGMENT_BYTES)):
            log.write(masker.feed(data))
        log.write(masker.end())
        self._finish({})

    def _spawn(self, output: int) -> int:
        """Fork and execute. The exec's own error comes back through a pipe that closes by itself when it succeeds."""
        report_read, report_write = os.pipe2(os.O_CLOEXEC)
        pid = os.fork()
        if pid == 0:
            try:
                os.setsid()
                # Should this supervisor be killed, the command is too; what it forked is found by its environment.
                _prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)
                signal.set_wakeup_fd(-1)
                for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGPIPE, signal.SIGHUP):
                    signal.signal(number, signal.SIG_DFL)
                null = os.open(os.devnull, os.O_RDONLY)
                os.dup2(null, 0)
                os.dup2(output, 1)
                os.dup2(output, 2)
                os.chdir(self.spec["cwd"])
                if self.run_forked is not None:
                    os.close(report_write)
                    self.run_forked(self.spec)
                os.execvpe(self.spec["argv"][0], self.spec["argv"], self.spec["env"])
            except OSError as error:
                os.write(report_write, json.dumps([error.errno, error.strerror, str(error.filename or "")]).encode())
            finally:
                os._exit(127)
        os.close(report_write)
        try:
            report = os.read(report_read, 4096)
        finally:
            os.close(report_read)
        if report:
            os.waitpid(pid, 0)
            raise OSError(*json.loads(report))
        return pid

    def _patience(self) -> float:
        if self.killed:
            return 0.5
        now = time.monotonic()
        until = [self.kill_at] if self.kill_at is not None else [self.lease_until, self.timeout_at]
        return max(0.0, min([at - now for at in until if at is not None] + [5.0]))

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid == self.child:
                self.exit_status = status

    def _listen(self) -> None:
        try:
            data = self.link.recv(65536)
        except OSError:
            data = b""
        if not data:
            self.link.close()
            self._end("worker-gone")
            return
        self._understand(data)

    def _understand(self, data: bytes) -> None:
        self.unread += data
        *lines, self.unread = self.unread.split(b"\n")
        for line in lines:
            message = json.loads(line)
            if "lease_until" in message:
                self.lease_until = message["lease_until"]
            if "cancel" in message:
                self._end("cancelled", at_once=bool(message["cancel"].get("at_once")))

    def _enforce(self) -> None:
        now = time.monotonic()
        if self.reason is None and self.timeout_at is not None and now >= self.timeout_at:
            self._end("timeout")
        if now >= self.lease_until and self.reason != "lease":
            # Beyond this moment somebody else may start the same step: no time for manners.
            self._end("lease", at_once=True)
        if self.kill_at is not None and now >= self.kill_at and not self.killed:
            self.killed = True
            self._signal_all(signal.SIGKILL)

    def _end(self, reason: str, *, at_once: bool = False) -> None:
        if self.reason is None:
            self.reason = reason
            if not at_once:
                self._signal_all(signal.SIGTERM)
        kill_at = time.monotonic() + (0.0 if at_once else self.grace)
        self.kill_at = kill_at if self.kill_at is None else min(self.kill_at, kill_at)

    def _signal_all(self, number: int) -> None:
        for pid in descendants(os.getpid()):
            signal_quietly(pid, number)

    def _end_leftovers(self) -> None:
        """Until we have no child left: as a subreaper we inherit whatever the command has forked."""
        while True:
            try:
                pid, _ = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                self._signal_all(signal.SIGKILL)
                os.waitpid(-1, 0)

    def _finish(self, extra: dict[str, Any]) -> None:
        status = self.exit_status
        result = {
            "exit_code": os.waitstatus_to_exitcode(status) if status is not None else None,
            "reason": self.reason,
            "ended_at": time.time(),
            **extra,
        }
        fault("supervisor.before_result")
        path = os.path.join(self.folder, RESULT_FILE)
        with open(f"{path}.new", "w") as file:
            json.dump(result, file)
        os.replace(f"{path}.new", path)
        fault("supervisor.after_result")
        self._say({"ended": result})

    def _say(self, message: dict[str, Any]) -> None:
        if self.link.fileno() < 0:
            return  # the worker went before: who takes over reads the result from its file
        try:
            self.link.sendall(json.dumps(message).encode() + b"\n")
        except ConnectionError:
            pass  # it went just now
        except OSError as error:
            print(f"icefloe supervisor: the worker was not told: {error}", file=sys.stderr)


def fault(name: str) -> None:
    """As ``icefloe.faults.fault``, which cannot be imported here. Each attempt has its own process, so once is meant."""
    if os.environ.get("ICEFLOE_FAULT", "").partition(":")[0] == name:
        try:
            os.close(os.open(os.environ["ICEFLOE_FAULT_ONCE"], os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return
        os.kill(os.getpid(), signal.SIGKILL)


def _drain(descriptor: int) -> None:
    try:
        while os.read(descriptor, 4096):
            pass
    except BlockingIOError:
        pass


# -- the launcher --------------------------------------------------------------------------------------------------------------


def _read_line(link: socket.socket) -> tuple[bytes, bytes]:
    data = b""
    while b"\n" not in data:
        more = link.recv(65536)
        if not more:
            os._exit(0)  # the worker went before it said what to do
        data += more
    line, _, rest = data.partition(b"\n")
    return line, rest


def launcher(control: socket.socket, run: Any = None) -> None:
    """Fork a supervisor for every socket that arrives, until the worker is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the worker's business
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # supervisors need no funeral: they report by themselves
    while True:
        received = array.array("i")
        data, ancillary, _, _ = control.recvmsg(1, socket.CMSG_LEN(received.itemsize))
        if not data:
            return
        for level, kind, content in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                received.frombytes(content[: received.itemsize])
        link = socket.socket(fileno=received[0])
        if os.fork() == 0:
            control.close()
            os.setsid()
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            try:
                line, rest = _read_line(link)
                Supervisor(json.loads(line), link, rest, run).run()
            except BaseException as error:
                try:
                    link.sendall(json.dumps({"broken": f"{type(error).__name__}: {error}"}).encode() + b"\n")
                except ConnectionError:
                    pass  # the worker is gone
                except OSError:
                    print(f"icefloe supervisor: {type(error).__name__}: {error}", file=sys.stderr)
            finally:
                os._exit(0)
        link.close()


if __name__ == "__main__":
    launcher(socket.socket(fileno=int(sys.argv[1])))
