"""The driver of a step with ``submit: spark-submit``: the same work as :mod:`icefloe.spark.program`, in a classic session.

Earlier attempts need no ending here: an application lives and dies with its driver, which the engine has ended before it starts
another attempt.
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from types import FrameType
from typing import NoReturn

from icefloe import config as configuration
from icefloe.environment import take_over
from icefloe.faults import fault
from icefloe.lake import Lake
from icefloe.spark import batch, targets
from icefloe.spark.driver import watched
from icefloe.spark.failure import short_errors
from icefloe.spark.fence import Fence
from icefloe.spark.program import carrier, carry_out, report, say
from icefloe.spark.program_order import PROPERTIES, ProgramKind, ProgramOrder


def main() -> int:
    file = Path(sys.argv[1])
    take_over(file.parent)
    file.with_name(PROPERTIES).unlink(missing_ok=True)  # Spark has read it
    order = ProgramOrder.read(file)
    signal.signal(signal.SIGTERM, _cancel)
    published: dict[str, int] = {}
    return report(lambda: _run(order, published), published)


def _run(order: ProgramOrder, published: dict[str, int]) -> None:
    from pyspark.sql import SparkSession

    with short_errors():
        session = SparkSession.builder.getOrCreate()
    lake = Lake.open(configuration.load(Path(order.config)))
    say(f"application {session.sparkContext.applicationId} on {session.sparkContext.master}")
    fault("spark.session")
    try:
        with short_errors():
            if order.kind is ProgramKind.CARRIED:
                carrier(order)(session, lake, order, published, say)
                return
            if order.kind is ProgramKind.SQL:
                writes = targets.parse(order.script, where=order.where)
                work = batch.Batch(writes, order.fencing, order.where, published=published)
                batch.run(session, lake, work, say)
                return
            fence = Fence(session, lake, order.fencing(), say, published=published)
            fence.open()
            for name in order.targets:
                fence.protect(name)
            with watched(fence):
                carry_out(order, session, fence)
    finally:
        session.stop()


def _cancel(number: int, frame: FrameType | None) -> NoReturn:
    say("cancelled")
    sys.exit(143)
