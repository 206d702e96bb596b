"""The program that a planned write's process runs: ``python -m icefloe.steps.writing.program ORDER.json``.

It writes what it published, or the error, to the file that ``ICEFLOE_RESULT`` names. Its standard output is the step's log.
SIGTERM cancels the statement on the server, not only this client.
"""

from __future__ import annotations

import signal
import sys
from contextlib import suppress
from pathlib import Path

from icefloe import config as configuration
from icefloe.lake import Lake
from icefloe.spark import session
from icefloe.spark.program import CancelledError, cancel, report, say
from icefloe.steps.writing import execution
from icefloe.steps.writing.order import Order


def main() -> int:
    order = Order.read(Path(sys.argv[1]))
    signal.signal(signal.SIGTERM, cancel)
    published: dict[str, int] = {}
    return report(lambda: published.update(_run(order)), published)


def _run(order: Order) -> dict[str, int]:
    config = configuration.load(Path(order.config))
    lake = Lake.open(config)
    with session.session(config, note=say) as spark:
        try:
            return execution.run(spark, lake, order, say)
        except CancelledError:
            with suppress(Exception):
                spark.interruptAll()
            say("cancelled")
            sys.exit(143)


if __name__ == "__main__":
    sys.exit(main())
