"""Play the corpus: ``python -m tests.planner.run [--seed N] [--histories N] [--batches N] [--only TEXT] [--appends] [--searching] [--shadow sample|full]``.

Every SELECT of the corpus is kept exact through random changes of its sources; after each micro-batch each target must equal the
full recomputation. Seeds count up from ``--seed`` (by default one that was never used before) and are printed. The last line is a
summary as JSON.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import time
from collections import Counter

from icefloe.spark.session import connect
from tests.planner.corpus import CORPUS
from tests.planner.world import World, play
from tests.spark_server import shared_project


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.planner.run", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--seed", type=int, default=None, help="the first seed (default: from the clock)")
    parser.add_argument("--histories", type=int, default=1)
    parser.add_argument("--batches", type=int, default=5)
    parser.add_argument("--only", default="", help="only SELECTs whose name has this text")
    parser.add_argument("--appends", action="store_true", help="nothing but appends happens to the sources")
    parser.add_argument(
        "--shadow", choices=["off", "sample", "full"], default="off", help="compare every batch in shadow mode"
    )
    parser.add_argument(
        "--searching", action="store_true", help="late rows with every batch, looked up by the step itself"
    )
    asked = parser.parse_args()
    first = asked.seed if asked.seed is not None else int(time.time()) % 1_000_000_000
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(4))
    cases = [case for case in CORPUS if asked.only in case.name and case.runs == "spark"]
    failed: dict[int, list[str]] = {}
    used: Counter[str] = Counter()
    searches: Counter[str] = Counter()
    began = time.monotonic()
    with shared_project() as config:
        spark = connect(config)
        for seed in range(first, first + asked.histories):
            print(f"history {seed}: {len(cases)} SELECTs, {asked.batches} batches", flush=True)
            world = World.make(spark, config, seed, only_appends=asked.appends)
            world.shadow, world.searching = asked.shadow, asked.searching
            played = play(world, cases, asked.batches, lambda line: print(line, flush=True))
            used += played.patterns
            searches += played.searches
            for name, story in played.failed.items():
                failed.setdefault(seed, []).append(name)
                again = f"python -m tests.planner.run --seed {seed} --batches {asked.batches}"
                print(
                    f"{story}\n\nplay it again: {again}{' --appends' if asked.appends else ''}{' --searching' if asked.searching else ''} --only '{name}'",
                    flush=True,
                )
        spark.stop()
    seconds = round(time.monotonic() - began, 1)
    figures = {"first_seed": first, "selects": len(cases), "patterns": used, "searches": searches, "failed": failed}
    print(json.dumps({**figures, "seconds": seconds}))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
