"""Named points where a test may end the process: ``fault("worker.claimed")`` does nothing unless ``ICEFLOE_FAULT`` names it.

``ICEFLOE_FAULT="worker.claimed:3"`` kills the process, as ``kill -9`` would, when it passes the point for the third time. With
``ICEFLOE_FAULT_ONCE`` (the path of a file that does not exist yet) only the first process that comes so far is killed.
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


def arm(text: str) -> None:
    """Set the point; also for processes that this one starts."""
    global _name, _left
    os.environ[VARIABLE] = text
    _name, _, count = text.partition(":")
    _left = int(count or 1)


def fault(name: str) -> None:
    global _left
    if name != _name:
        return
    _left -= 1
    if _left == 0 and _first(os.environ.get(ONCE_VARIABLE)):
        os.kill(os.getpid(), signal.SIGKILL)


def _first(once: str | None) -> bool:
    if once is None:
        return True
    try:
        Path(once).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


arm(os.environ.get(VARIABLE, ""))
