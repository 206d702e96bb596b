"""The program that a planned write's process runs: ``python -m icefloe.steps.writing.program ORDER.json``.

It writes what it published, or the error, to the file that ``ICEFLOE_RESULT`` names. Its standard output is the step's log.
SIGTERM cancels the statement on the server, not only this client.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any

from icefloe import config as configuration
from icefloe.errors import IcefloeError
from icefloe.lake import Lake
from icefloe.spark import session
from icefloe.steps.writing import execution
from icefloe.steps.writing.order import Order


class CancelledError(BaseException):
    """SIGTERM arrived."""


def main() -> int:
    order = Order.read(Path(sys.argv[1]))
    signal.signal(signal.SIGTERM, _cancel)
    try:
        published = _run(order)
    except IcefloeError as error:
        _write({"error": error.to_dict()})
        _say(f"error [{error.code}] {error}")
        if error.hint:
            _say(f"  {error.hint}")
        return 75 if error.retryable else 1
    _write({"published": published})
    return 0


def _run(order: Order) -> dict[str, int]:
    config = configuration.load(Path(order.config))
    lake = Lake.open(config)
    with session.session(config, note=_say) as spark:
        try:
            return execution.run(spark, lake, order, _say)
        except CancelledError:
            with suppress(Exception):
                spark.interruptAll()
            _say("cancelled")
            sys.exit(143)


def _write(result: dict[str, Any]) -> None:
    path = Path(os.environ["ICEFLOE_RESULT"])
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(result), encoding="utf-8")
    partial.replace(path)


def _say(line: str) -> None:
    print(line, flush=True)


def _cancel(number: int, frame: FrameType | None) -> None:
    raise CancelledError


if __name__ == "__main__":
    sys.exit(main())
