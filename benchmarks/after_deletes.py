"""What following a delete costs by changed keys, and by filling the target anew: ``python -m benchmarks.after_deletes [--rows 600000]``.

A source of ten days loses 1 % of its rows by a merge-on-read DELETE, in one, three and all ten of its days. Two targets that are not
partitioned by day follow it in three ways, each a workflow of its own, pushed and run by ``icefloe push`` and ``icefloe run --wait`` on one
warm server: by changed keys (``pattern: key_filter``), filled anew (``pattern: full``), and as the planner chooses (``pattern: auto``). The
last line is the figures as JSON: seconds of the Spark step, its ratio to the full run's, and what the planner took. The constants of
:mod:`icefloe.planner.cost` come from here. All targets must equal the full recomputation.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.project import measure_warm, say
from icefloe.config import FILE_NAME, Config

DAYS = 10
TOUCHED = (1, 3, 10)
"""Days that a delete goes to."""
WAYS = ("key_filter", "full", "auto")
SELECTS = {
    "rows": (
        "SELECT id, account_id, upper(country) AS country, day, minutes * 60 AS seconds, title FROM {source}",
        "id",
    ),
    "groups": (
        "SELECT account_id, country, count(*) AS views, sum(minutes) AS minutes FROM {source} GROUP BY account_id, country",
        "account_id, country",
    ),
}
WORKFLOW = """
Workflow:
  id: {id}
  owner: benchmarks
  jobs:
    - job:
        id: capture
        type: IpCapture
        ip_capture: {{source_tables: [{source}], capture_mode: ICDC, data_operations: [append, overwrite, delete]}}
    - job:
        id: follow
        type: Spark
        spark:
          script: "{select}"
          write: {{table: "db.{id}", keys: [{keys}], partition_by: [], pattern: {pattern}}}
    - job:
        id: commit
        type: IpCommit
        ip_commit: {{capture_step: capture}}
  dag: sequential
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=600_000)
    parser.add_argument("--only", choices=list(SELECTS), help="one target")
    return measure_warm(parser, _measure)


class Commands:
    """The project's own command line."""

    def __init__(self, config: Config) -> None:
        self.folder = config.root
        self._command = [sys.executable, "-m", "icefloe.cli.main", "--config", str(config.root / FILE_NAME)]

    def push(self, name: str, text: str) -> None:
        file = Path(self.folder, f"{name}.yaml")
        file.write_text(text, encoding="utf-8")
        self._run("push", str(file))

    def follow(self, workflow: str) -> tuple[float, str]:
        """Seconds of the Spark step, and the pattern that was taken."""
        run_id = json.loads(self._run("run", workflow, "--wait", "--output", "json"))["run_id"]
        steps = json.loads(self._run("show", run_id, "--output", "json"))["steps"]
        step = next(step for step in steps if step["id"] == "follow")
        log = self._run("logs", run_id, "follow").splitlines()
        pattern = next(line.partition("pattern ")[2].partition(":")[0] for line in log if "pattern " in line)
        return step["ended_at"] - step["started_at"], pattern

    def _run(self, *arguments: str) -> str:
        done = subprocess.run([*self._command, *arguments], capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"icefloe {' '.join(arguments)}:\n{done.stdout}\n{done.stderr}")
        return done.stdout


def _measure(asked: argparse.Namespace, spark: Any, config: Config) -> dict[str, Any]:
    spark.sql("CREATE NAMESPACE db")
    commands = Commands(config)
    selects = {name: parts for name, parts in SELECTS.items() if asked.only in (None, name)}
    _followed(spark, commands, selects, max(asked.rows // 10, 1), "warm_up", TOUCHED[-1:])
    figures, equal = _followed(spark, commands, selects, asked.rows, "measured", TOUCHED)
    return {"rows": asked.rows, "days": DAYS, "targets": figures, "equal": equal}


def _followed(
    spark: Any,
    commands: Commands,
    selects: dict[str, tuple[str, str]],
    rows: int,
    title: str,
    touched: tuple[int, ...],
) -> tuple[dict[str, Any], bool]:
    """One source, its deletes, and the workflows that follow them."""
    source = f"db.events_{title}"
    _fill(spark, source, rows)
    ids = {(name, way): f"{title}_{name}_{way}" for name in selects for way in WAYS}
    for (name, way), workflow in ids.items():
        text, keys = selects[name]
        select = text.format(source=source)
        commands.push(workflow, WORKFLOW.format(id=workflow, source=source, select=select, keys=keys, pattern=way))
        commands.follow(workflow)
    figures: dict[str, Any] = {name: {} for name in selects}
    for turn, days in enumerate(touched):
        spark.sql(
            f"DELETE FROM {source} WHERE pmod(hash(id), 100) = {turn} AND day < date_add(DATE'2026-03-01', {days})"
        )
        for name in selects:
            seconds, patterns = {}, {}
            for way in WAYS:
                seconds[way], patterns[way] = commands.follow(ids[name, way])
                say(
                    f"{rows:,} rows, {days} of {DAYS} days  {name:<6} {way:<10} {patterns[way]:<10} {seconds[way]:.2f} s"
                )
            figures[name][days] = {
                "seconds": {way: round(took, 2) for way, took in seconds.items()},
                "of_full": {way: round(took / seconds["full"], 2) for way, took in seconds.items()},
                "chosen": patterns["auto"],
            }
    equal = all(
        _fingerprint(spark, f"db.{workflow}") == _fingerprint(spark, f"({selects[name][0].format(source=source)})")
        for (name, _), workflow in ids.items()
    )
    return figures, equal


def _fill(spark: Any, source: str, rows: int) -> None:
    spark.sql(
        f"CREATE TABLE {source} (id BIGINT, account_id BIGINT, country STRING, day DATE, minutes INT, title STRING) "
        "USING iceberg PARTITIONED BY (day) TBLPROPERTIES ('write.delete.mode'='merge-on-read')"
    )
    spark.sql(
        f"INSERT INTO {source} SELECT /*+ REPARTITION(day) */ id, hash(id) % {max(rows // 10, 1)} AS account_id, "
        f"substr('DENOUSFR', 1 + 2 * int(id % 4), 2) AS country, date_add(DATE'2026-03-01', int(id % {DAYS})) AS day, "
        f"int(id % 90) AS minutes, sha2(string(id), 224) AS title FROM range({rows})"
    )


def _fingerprint(spark: Any, relation: str) -> Any:
    return spark.sql(f"SELECT count(*), sum(hash(*)) FROM {relation}").collect()[0]


if __name__ == "__main__":
    sys.exit(main())
