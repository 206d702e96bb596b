"""Named points where a test may end the process: ``fault("engine.claimed")`` does nothing unless ``ICEFLOE_FAULT`` names it.

``ICEFLOE_FAULT="engine.claimed:3"`` kills the process, as ``kill -9`` would, when the point is passed for the third time.
The names are collected from the source by ``tests/chaos``, which fails when one of them has no schedule.
"""

from __future__ import annotations

import os
import signal

VARIABLE = "ICEFLOE_FAULT"


def _armed(text: str) -> tuple[str, int]:
    name, _, count = text.partition(":")
    return name, int(count or 1)


_NAME, _LEFT = _armed(os.environ.get(VARIABLE, ""))


def fault(name: str) -> None:
    global _LEFT
    if name == _NAME:
        _LEFT -= 1
        if _LEFT == 0:
            os.kill(os.getpid(), signal.SIGKILL)
