"""Progress of jobs and stages, as the log tells it."""

from __future__ import annotations

from dataclasses import dataclass

from icefloe.spark.progress import ProgressLog


@dataclass
class Stage:
    num_tasks: int
    num_completed_tasks: int
    num_bytes_read: int = 0
    done: bool = False


def test_a_quick_statement_says_nothing_and_a_slow_one_now_and_then() -> None:
    said: list[str] = []
    moment = 0.0
    log = ProgressLog(said.append, lambda: moment)
    log([Stage(4, 1)], 2, "first", False)
    log([Stage(4, 4, done=True)], 0, "first", True)
    assert said == []
    log([Stage(4, 0)], 2, "second", False)
    moment = 3.0
    log([Stage(4, 4, 3 * 1024 * 1024, True), Stage(200, 12)], 2, "second", False)
    moment = 4.0
    log([Stage(4, 4, 3 * 1024 * 1024, True), Stage(200, 90)], 2, "second", False)
    assert said == ["  stage 2 of 2, 16 of 204 tasks, 2 running, 3.0 MiB read"]
    moment = 6.0
    log([Stage(4, 4, 500, True), Stage(200, 200, 0, True)], 0, "second", False)
    assert said[1:] == ["  stage 2 of 2, 204 of 204 tasks, 0 running, 500 B read"]
