"""A state database with much in it, written straight into the store: what pages and listings meet after a year.

Workflows are pushed as a user pushes them; their runs, steps, attempts, events, captures and savings are rows as an engine would have
left them. Everything follows from the seed.
"""

from __future__ import annotations

import json
import random
import time
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from icefloe.store import tables
from tests.projects import Project

HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(2)>',
    "'; DROP TABLE runs; --",
    "\x1b[31mred\x1b[0m",
    "\u202egnp.exe",
    "{{ 7 * 7 }} ${x} %(y)s",
    "x" * 2_000,
)
DAY = 86_400.0
OUTCOMES = ("SUCCEEDED",) * 9 + ("FAILED",)
AT_ONCE = 1_000


@dataclass(frozen=True)
class Filled:
    """What is in there, to be asked for."""

    workflows: tuple[str, ...]
    wide: str
    """A workflow of many steps, and its newest run."""
    wide_run: str
    failed_run: str
    hostile: str
    """A workflow whose description, parameters and causes are hostile texts, and its run."""
    hostile_run: str


def fill(
    project: Project,
    *,
    runs: int = 10_000,
    steps: int = 300,
    tables_count: int = 100,
    workflows: int = 100,
    seed: int = 1,
) -> Filled:
    """``tables_count`` tables are named by the workflows, as a chain: each reads one and writes the next."""
    chance = random.Random(seed)
    now = time.time()
    names = [project.push(_pipeline(number, number % tables_count)) for number in range(workflows)]
    wide = project.push(_wide(steps))
    hostile = project.push(_hostile())
    share = max(runs // workflows, 1)
    for name in names:
        _add_runs(project, name, share, ("capture", "aggregate", "commit"), chance, now)
    _add_runs(project, wide, 3, [f"step_{number}" for number in range(steps)], chance, now)
    _add_runs(
        project, hostile, 1, ("say",), chance, now, cause=HOSTILE[0], params={"TEXT": "".join(HOSTILE)}, status="FAILED"
    )
    failed = project.client.runs.listing(status="FAILED", workflow_id=names[-1], most=1)
    _add_savings(project, names, chance, now)
    return Filled(
        tuple(names),
        wide,
        project.client.runs.listing(workflow_id=wide, most=1)[0].run_id,
        failed[0].run_id if failed else project.client.runs.listing(workflow_id=hostile, most=1)[0].run_id,
        hostile,
        project.client.runs.listing(workflow_id=hostile, most=1)[0].run_id,
    )


def _pipeline(number: int, table: int) -> str:
    return f"""
    Description: Pipeline {number}
    Trigger: {{incremental: {{tables: [db.table_{table}], at_most_every: 15m}}}}
    Workflow:
      id: pipeline_{number:03}
      owner: team-{number % 7}
      jobs:
        - job: {{id: capture, type: IpCapture, ip_capture: {{source_tables: [db.table_{table}]}}}}
        - job:
            id: aggregate
            type: Spark
            spark:
              script: SELECT account_id, count(*) AS events FROM db.table_{table} GROUP BY account_id
              write: {{table: db.table_{table + 1}, keys: [account_id]}}
        - job: {{id: commit, type: IpCommit, ip_commit: {{capture_step: capture}}}}
      dag: sequential
    """


def _wide(steps: int) -> str:
    """Ten steps side by side in each layer, each after two of the layer before."""
    jobs = []
    for number in range(steps):
        after = [] if number < 10 else sorted({number - 10, number - 10 + (1 if number % 10 < 9 else 0)})
        depends = f", depends_on: [{', '.join(f'step_{other}' for other in after)}]" if after else ""
        jobs.append(f"        - job: {{id: step_{number}, type: NoOp{depends}}}")
    return "\n    Workflow:\n      id: wide\n      jobs:\n" + "\n".join(jobs) + "\n"


def _hostile() -> str:
    text = json.dumps("".join(part for part in HOSTILE if part.isprintable()))
    return f"""
    Description: {text}
    Workflow:
      id: hostile
      owner: {json.dumps(HOSTILE[0])}
      TEXT: {text}
      jobs:
        - job: {{id: say, type: Shell, shell: {{script: "echo hello"}}}}
    """


def _add_runs(
    project: Project,
    workflow: str,
    count: int,
    steps: Any,
    chance: random.Random,
    now: float,
    *,
    cause: str = "exit code 1",
    params: dict[str, Any] | None = None,
    status: str | None = None,
) -> None:
    shown = json.dumps({name: {"type": "STRING", "value": value} for name, value in (params or {}).items()})
    with project.client.database.write() as connection:
        record = connection.execute(sa.select(tables.workflows).where(tables.workflows.c.id == workflow)).one()
        first = record.next_number
        connection.execute(
            sa.update(tables.workflows).where(tables.workflows.c.id == workflow).values(next_number=first + count)
        )
        rows: dict[sa.Table, list[dict[str, Any]]] = {
            t: [] for t in (tables.runs, tables.steps, tables.attempts, tables.events)
        }
        for index in range(count):
            began = now - (count - index) * min(900.0, 90 * DAY / count) - chance.random() * 100
            outcome = status or chance.choice(OUTCOMES)
            run_id = f"{workflow}-{first + index}"
            failure = json.dumps({"code": "step.exit", "message": cause}) if outcome == "FAILED" else None
            at = began
            for position, step in enumerate(steps):
                took = chance.lognormvariate(0, 1) * 2
                last = position == len(steps) - 1
                step_status = "SUCCEEDED" if not (last and failure) else "USER_FAILED"
                rows[tables.steps].append(
                    _step_row(run_id, step, position, step_status, at, at + took, failure if last else None)
                )
                rows[tables.attempts].append(
                    {"run_id": run_id, "step_id": step, "attempt": 1, "status": step_status,
                     "cause": failure if last else None, "worker": "worker-1", "started_at": at, "ended_at": at + took}
                )  # fmt: skip
                at += took
            rows[tables.runs].append(
                {"id": run_id, "workflow_id": workflow, "version": 1, "number": first + index, "root_id": run_id, "path": "",
                 "status": outcome, "params": shown, "initiator": json.dumps({"kind": "trigger", "by": "incremental"}),
                 "cause": failure, "restarts": 0, "revision": 1, "created_at": began, "started_at": began, "ended_at": at}
            )  # fmt: skip
            rows[tables.events].append(
                {"run_id": run_id, "at": at, "previous": "IN_PROGRESS", "status": outcome, "cause": None}
            )
            if index % AT_ONCE == AT_ONCE - 1 or index == count - 1:
                for table, values in rows.items():
                    if values:
                        connection.execute(sa.insert(table), values)
                        values.clear()


def _step_row(
    run_id: str, step: str, position: int, status: str, began: float, ended: float, cause: str | None
) -> dict[str, Any]:
    return {
        "run_id": run_id, "step_id": step, "root_id": run_id, "position": position, "type": "NoOp", "status": status,
        "attempt": 1, "generation": 1, "delay": 0.0, "tries": "{}", "params": "{}", "outputs": "{}", "resumes": 0,
        "cause": cause, "started_at": began, "ended_at": ended, "revision": 1, "era": 0,
    }  # fmt: skip


def _add_savings(project: Project, names: list[str], chance: random.Random, now: float) -> None:
    rows = []
    for name in names[:30]:
        for day in range(30):
            instead = chance.randint(1_000_000, 5_000_000)
            rows.append(
                {"root_id": f"{name}-saved-{day}", "place": "aggregate", "target": f"db.of_{name}", "workflow_id": name,
                 "step": "aggregate", "pattern": "key_filter", "compared_with": "the 14 days before",
                 "read_files": 10, "read_rows": instead // 12, "read_bytes": instead * 3, "instead_files": 140,
                 "instead_rows": instead, "instead_bytes": instead * 40, "written_files": 2, "written_rows": instead // 20,
                 "written_bytes": instead, "written_delete_files": 1, "seconds": chance.random() * 9, "notes": "[]",
                 "recorded_at": now - day * DAY}
            )  # fmt: skip
    with project.client.database.write() as connection:
        connection.execute(sa.insert(tables.savings), rows)
