"""Which systems Icefloe runs on, said in one line before anything that cannot work is imported or begun.

Linux: everything. Other Unix systems, macOS for one: all but executing steps, since a worker finds and ends what its steps have
forked by Linux's subreapers and ``/proc``. Windows: nothing, for want of ``flock``; WSL2 is a Linux.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from icefloe.errors import IcefloeError

EXECUTING = ("demo", "serve", "worker")
"""Verbs that cannot begin without a worker in this process. ``run --wait`` can: another machine's worker may do it."""
FIRST_VERBS = ("init", "doctor")
_ELSEWHERE = "run icefloe worker on Linux, or in a Linux container, on the same catalog and a PostgreSQL state database"


class UnsupportedPlatformError(IcefloeError):
    """This system lacks what Icefloe needs for that."""

    code = "platform.unsupported"
    fatal = True
    exit_code = 3


def check(words: Sequence[str]) -> str | None:
    """Refuses a command that this system cannot execute. Returns what a newcomer to it should know, if anything."""
    require_locks()
    verb = next((word for word in words if not word.startswith("-")), "")
    if verb in EXECUTING:
        require_linux()
    if verb in FIRST_VERBS and not _is_linux():
        return f"on {_name()} steps cannot be executed (demo, serve, worker, run --wait), and the rest is not tested: use Linux"
    return None


def require_locks() -> None:
    if sys.platform in ("win32", "cygwin"):
        raise UnsupportedPlatformError(
            "Icefloe runs on Linux, not on Windows", hint="use WSL2: wsl --install -d Debian"
        )


def require_linux() -> None:
    require_locks()
    if not _is_linux():
        raise UnsupportedPlatformError(f"steps are executed on Linux only, and this is {_name()}", hint=_ELSEWHERE)


def _is_linux() -> bool:
    return sys.platform == "linux"


def _name() -> str:
    return "macOS" if sys.platform == "darwin" else sys.platform
