"""A process by identity: its id together with its start time, so that a recycled id is never taken for it.

Standard library only: the watchdog imports this.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")
_BOOT_ID = _PROC / "sys/kernel/random/boot_id"


@dataclass(frozen=True)
class ServerProcess:
    """A process that was seen running. ``started`` is opaque: equal only for one and the same process."""

    pid: int
    started: str

    @classmethod
    def of(cls, pid: int) -> ServerProcess | None:
        """The process that has this id now, or None. A zombie is gone: it runs nothing and holds nothing."""
        started = _start_time(pid)
        return cls(pid, started) if started else None

    def alive(self) -> bool:
        return _start_time(self.pid) == self.started

    def cpu_seconds(self) -> float:
        """Processor time used so far; 0 when it is gone."""
        if fields := _stat(self.pid):
            return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        return _clock_seconds(_ps(self.pid, "time"))

    def signal(self, number: int) -> None:
        """Send a signal, unless the process has gone."""
        if self.alive():
            try:
                os.kill(self.pid, number)
            except ProcessLookupError:
                return

    def end(self, *, grace: float = 20) -> None:
        """Ask it to end, and kill it when it has not after ``grace`` seconds. Returns when it is gone."""
        self.signal(signal.SIGTERM)
        if not self.wait(grace):
            self.signal(signal.SIGKILL)
            self.wait(grace)

    def wait(self, seconds: float) -> bool:
        """Whether it is gone within that time."""
        deadline = time.monotonic() + seconds
        while self.alive():
            if time.monotonic() > deadline:
                return False
            time.sleep(0.02)
        return True


def _start_time(pid: int) -> str | None:
    if _BOOT_ID.exists():
        fields = _stat(pid)
        if fields is None or fields[0] in "ZX":
            return None
        # Ticks since boot repeat after a reboot; the boot's id does not.
        return f"{_BOOT_ID.read_text(encoding='ascii').strip()}/{fields[19]}"
    if _ps(pid, "state").startswith("Z"):
        return None
    return _ps(pid, "lstart") or None


def _stat(pid: int) -> list[str] | None:
    """``/proc/<pid>/stat`` from the state on; the command before it may hold spaces and brackets."""
    try:
        text = (_PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    return text.rpartition(")")[2].split()


def _ps(pid: int, column: str) -> str:
    """One column of ``ps``, for systems without ``/proc``."""
    command = ["ps", "-o", f"{column}=", "-p", str(pid)]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def _clock_seconds(text: str) -> float:
    total = 0.0
    for part in text.replace("-", ":").split(":"):
        total = total * 60 + (float(part) if part else 0)
    return total
