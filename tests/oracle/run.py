"""Play many random histories: ``python -m tests.oracle.run --histories 300 [--seed N]``.

Seeds count up from ``--seed`` (by default one that was never used before). A history that fails is told with its seed, the
command that plays it again and every statement that was run; the others go on. The last line is a summary as JSON.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import time
from pathlib import Path

from icefloe.spark.session import connect
from tests.oracle.tally import Tally
from tests.oracle.walk import STEPS, FailedHistoryError, Place, play
from tests.spark_server import shared_project


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.oracle.run", description=__doc__.split("\n")[0] if __doc__ else None
    )
    parser.add_argument("--histories", type=int, default=300)
    parser.add_argument("--seed", type=int, default=None, help="the first seed (default: from the clock)")
    parser.add_argument("--steps", type=int, default=STEPS, help="operations in a history")
    parser.add_argument("--failures", type=Path, default=None, help="a folder for the full text of each failure")
    asked = parser.parse_args()
    first = asked.seed if asked.seed is not None else int(time.time()) % 1_000_000_000
    # Ended from outside, the server must end too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(4))
    tally, failed, began = Tally(), [], time.monotonic()
    with shared_project() as config:
        spark = connect(config)
        place = Place.on(spark, config)
        for seed in range(first, first + asked.histories):
            started = time.monotonic()
            try:
                exercised = play(place, seed, tally, steps=asked.steps)
            except FailedHistoryError as error:
                failed.append(seed)
                print(error if asked.failures is None else str(error).splitlines()[0], flush=True)
                if asked.failures is not None:
                    asked.failures.mkdir(parents=True, exist_ok=True)
                    (asked.failures / f"{seed}.txt").write_text(str(error), encoding="utf-8")
            else:
                done = seed - first + 1
                print(
                    f"{done}/{asked.histories} history {seed}: {time.monotonic() - started:.1f} s, {', '.join(sorted(exercised))}",
                    flush=True,
                )
        spark.stop()
    seconds = round(time.monotonic() - began, 1)
    summary = {**vars(tally), "first_seed": first, "failed_seeds": failed, "seconds": seconds}
    print(json.dumps(summary, ensure_ascii=False))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
