"""Named points where a test may end the process: ``fault("worker.claimed")`` does nothing unless ``ICEFLOE_FAULT`` names it.

``ICEFLOE_FAULT="worker.claimed:3"`` kills the process, as ``kill -9`` would, when it passes the point for the third time;
``worker.claimed:3:STOP`` stops it there, until somebody lets it go on. With ``ICEFLOE_FAULT_ONCE`` (the path of a file that
does not exist yet) this happens only to the first process that comes so far.
The names are collected from the source by ``tests/chaos``, which fails when one of them has no schedule.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

VARIABLE = "ICEFLOE_FAULT"
ONCE_VARIABLE = "ICEFLOE_FAULT_ONCE"

_name = ""
_left = 0
_signal = signal.SIGKILL


def arm(text: str) -> None:
    """Set the point; also for processes that this one starts."""
    global _name, _left, _signal
    os.environ[VARIABLE] = text
    _name, count, kind, *_ = *text.split(":"), "", ""
    _left = int(count or 1)
    _signal = signal.Signals[f"SIG{kind or 'KILL'}"]


def fault(name: str) -> None:
    global _left
    if name != _name:
        return
    _left -= 1
    if _left == 0 and _first(os.environ.get(ONCE_VARIABLE)):
        os.kill(os.getpid(), _signal)


def _first(once: str | None) -> bool:
    if once is None:
        return True
    try:
        Path(once).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


arm(os.environ.get(VARIABLE, ""))
