"""The program that a Spark step's process runs: ``python -m icefloe.spark.program JOB.json``.

It reads what to do from the file, talks to Spark, and writes what it published to the file that ``ICEFLOE_OUTPUT`` names. Its
standard output is the step's log. SIGTERM cancels the statement on the server, not only this client.
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
from icefloe.spark import batch, session, targets


class CancelledError(BaseException):
    """SIGTERM arrived."""


def main() -> int:
    job: dict[str, Any] = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    signal.signal(signal.SIGTERM, _cancel)
    try:
        published = _run(job)
    except IcefloeError as error:
        _write({"error": error.to_dict()})
        print(f"error [{error.code}] {error}", flush=True)
        if error.hint:
            print(f"  {error.hint}", flush=True)
        return 75 if error.retryable else 1
    _write({"published": published})
    return 0


def _run(job: dict[str, Any]) -> dict[str, int]:
    config = configuration.load(Path(job["config"]))
    lake = Lake.open(config)
    work = batch.Batch(
        writes=targets.parse(job["script"], where=job["where"]),
        mark=job["mark"],
        labels=job["labels"],
        branch=job["branch"],
        conf=job["conf"],
        direct=job["direct"],
    )
    with session.session(config, note=_say) as spark:
        try:
            return batch.run(spark, lake, work, _say)
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
