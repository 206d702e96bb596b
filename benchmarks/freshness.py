"""How soon rows that were committed at a source are in the last of two targets, all by triggers.

    python -m benchmarks.freshness [--batches 10]

A writer (PyIceberg) commits to the source; `daily` copies by INSERT, `totals` adds up by MERGE, each a workflow with an
incremental trigger under one `icefloe serve`. Measured per batch, with the rest idle: the source's commit to the start of the
first run (a commit made outside: at most a tick), the end of the step that published the first target to the start of the second run (made through
Icefloe: at most a second at the median), and the whole way. Beside it the bare time of the same two statements on the same warm
server. It needs Spark, and the tests' helpers that prepare a project.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.integration.test_live_story import Story, serving
from tests.projects import wait_until
from tests.spark_server import fresh_namespace, shared_project

from icefloe.service.views import RunView
from icefloe.spark.session import connect


def published_at(story: Story, table: str) -> float:
    snapshot = story.lake.tables.catalog.load_table(f"{story.namespace}.{table}").current_snapshot()
    return snapshot.timestamp_ms / 1000 if snapshot else 0.0


def recorded_at(story: Story, run: RunView, step: str) -> float:
    """When a step's publication was recorded. The snapshot itself is older: it was written on a branch first."""
    return next(one.ended_at or 0.0 for one in story.client.runs.show(run.run_id).steps if one.id == step)


def last(story: Story, stage: str, count: int) -> RunView:
    runs = wait_until(lambda: (found := story.runs(stage)) and len(found) >= count and found[0].ended and found, 300)
    return runs[0]  # type: ignore[no-any-return]


def bare(story: Story, spark: Any, batches: int) -> list[float]:
    """The two statements alone, over as many rows as a batch has."""
    ns, times = story.namespace, []
    spark.sql(f"CREATE TABLE {ns}.bare_daily (id BIGINT, account BIGINT, seconds BIGINT, day BIGINT) USING iceberg")
    spark.sql(f"CREATE TABLE {ns}.bare_totals (account BIGINT, day BIGINT, seconds BIGINT, views BIGINT) USING iceberg")
    for _ in range(batches):
        began = time.monotonic()
        spark.sql(
            f"INSERT INTO {ns}.bare_daily SELECT id, account, minutes * 60 AS seconds, day FROM {ns}.events WHERE minutes > 0 LIMIT 20"
        )
        spark.sql(
            f"MERGE INTO {ns}.bare_totals t USING (SELECT account, day, sum(seconds) AS seconds, count(*) AS views FROM {ns}.bare_daily "
            "GROUP BY account, day) s ON t.account = s.account AND t.day = s.day "
            "WHEN MATCHED THEN UPDATE SET seconds = t.seconds + s.seconds, views = t.views + s.views "
            "WHEN NOT MATCHED THEN INSERT (account, day, seconds, views) VALUES (s.account, s.day, s.seconds, s.views)"
        )
        times.append(time.monotonic() - began)
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batches", type=int, default=10)
    options = parser.parse_args()
    first, second, whole = [], [], []
    with shared_project() as config, tempfile.TemporaryDirectory() as folder:
        spark = connect(config)
        story = Story(config, fresh_namespace(spark), Path(folder), seed=1)
        with serving(config):
            story.write()
            last(story, "totals", 1)
            for batch in range(2, options.batches + 2):
                story.write()
                committed = time.time()
                daily = last(story, "daily", batch)
                totals = last(story, "totals", batch)
                first.append((daily.started_at or 0) - committed)
                second.append((totals.started_at or 0) - recorded_at(story, daily, "copy"))
                whole.append(published_at(story, "totals") - committed)
        alone = bare(story, spark, options.batches)
        story.close()
        tick = config.scheduler.tick_seconds
        spark.stop()
    result = {
        "benchmark": "freshness",
        "cores": os.cpu_count(),
        "tick_seconds": tick,
        "outside_commit_to_start_median_s": round(statistics.median(first), 3),
        "own_commit_to_start_median_s": round(statistics.median(second), 3),
        "commit_to_last_target_median_s": round(statistics.median(whole), 3),
        "bare_statements_median_s": round(statistics.median(alone), 3),
        "over_bare": round(statistics.median(whole) / statistics.median(alone), 2),
    }
    for name, value in result.items():
        print(f"{name:36} {value}", flush=True)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
