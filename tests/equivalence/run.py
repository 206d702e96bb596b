"""Many random pipelines: ``python -m tests.equivalence.run [--pipelines 60] [--seed N] [--pattern P]``.

A new first seed each time, printed; one that failed is printed with the command that replays it.
"""

from __future__ import annotations

import argparse
import secrets
import sys
import tempfile
from pathlib import Path

from icefloe.lake import Lake
from icefloe.spark.session import connect
from tests.equivalence.pipeline import PATTERNS, Pipeline
from tests.spark_server import fresh_namespace, shared_project


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pipelines", type=int, default=60)
    parser.add_argument("--batches", type=int, default=8)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--pattern", choices=PATTERNS, default=None)
    arguments = parser.parse_args()
    first = secrets.randbelow(1_000_000) if arguments.seed is None else arguments.seed
    patterns = PATTERNS if arguments.pattern is None else (arguments.pattern,)
    print(f"first seed {first}", flush=True)
    failed = 0
    with shared_project() as config, tempfile.TemporaryDirectory() as folder:
        spark = connect(config)
        for number in range(arguments.pipelines):
            seed, pattern = first + number // len(patterns), patterns[number % len(patterns)]
            pipeline = Pipeline(
                lambda statement: spark.sql(statement).collect(),
                Lake.open(config),
                Path(folder),
                fresh_namespace(spark),
                seed,
                pattern,
            )
            try:
                pipeline.run(arguments.batches)
                print(f"pattern {pattern}, seed {seed}: equal after every batch", flush=True)
            except Exception as error:
                failed += 1
                print(f"pattern {pattern}, seed {seed} FAILED: {error}", flush=True)
        spark.stop()
    print(f"{arguments.pipelines - failed} of {arguments.pipelines} pipelines equal", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
