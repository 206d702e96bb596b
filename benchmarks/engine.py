"""How fast the engine is: ``python -m benchmarks.engine`` (last line: one JSON object).

Measured in one run: a chain of NoOp steps and a fan-out of them, durable after each; the time from a step's end to its
successor's start when steps are processes, with one worker and with four; foreach iterations, the last against the first; an
idle worker. ``--against PYTHON`` names an interpreter that has Prefect or Dagster installed: the same DAGs are run there.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.postgres import running_postgres
from tests.projects import Project, make_project, wait_until

from icefloe.store import migrations, tables
from icefloe.store.database import Database

DURABLE = {"lease_seconds": 30.0}


def chain(steps: int) -> str:
    jobs = "\n".join(f"    - job: {{id: s{n}, type: NoOp}}" for n in range(steps))
    return f"Workflow:\n  id: chain\n  jobs:\n{jobs}\n  dag: sequential\n"


def fan_out(steps: int) -> str:
    """One step, then all but two at once, then one: a workflow may have 1,000 steps in all."""
    steps -= 2
    jobs = "\n".join(f"    - job: {{id: s{n}, type: NoOp}}" for n in range(steps))
    targets = ", ".join(f"s{n}" for n in range(steps))
    ends = "\n".join(f"    s{n}: [end]" for n in range(steps))
    return (
        f"Workflow:\n  id: fan\n  jobs:\n    - job: {{id: start, type: NoOp}}\n{jobs}\n    - job: {{id: end, type: NoOp}}\n"
        f"  dag:\n    start: [{targets}]\n{ends}\n"
    )


def processes(steps: int) -> str:
    """Each step writes its own first and last moment."""
    script = "date +%s.%N > start.$ICEFLOE_STEP_ID; date +%s.%N > end.$ICEFLOE_STEP_ID"
    jobs = "\n".join(f'    - job: {{id: s{n}, type: Shell, shell: {{script: "{script}"}}}}' for n in range(steps))
    return f"Workflow:\n  id: processes\n  jobs:\n{jobs}\n  dag: sequential\n"


def foreach(iterations: int) -> str:
    return (
        "Workflow:\n  id: each\n  jobs:\n    - foreach:\n        id: each\n        concurrency: 50\n"
        f"        params: {{'!x<array<long>>': 'Util.intsBetween(0, {iterations}, 1)'}}\n"
        "        jobs:\n          - job: {id: item, type: NoOp}\n"
    )


def seconds(project: Project, text: str, repeat: int = 3) -> float:
    """The best of several runs, from start to end, by the run's own record."""
    workflow = project.push(text)
    times = []
    for _ in range(repeat):
        run = project.start(workflow)
        view = project.client.wait(run)
        assert view.status == "SUCCEEDED", view.cause
        times.append((view.ended_at or 0) - (view.started_at or 0))
    return min(times)


def gaps(project: Project, steps: int) -> list[float]:
    """From one step's last breath to the next one's first, in milliseconds."""
    run = project.start(project.push(processes(steps)))
    assert project.client.wait(run).status == "SUCCEEDED"
    read = lambda name: float((project.root / name).read_text())  # noqa: E731
    return [(read(f"start.s{n + 1}") - read(f"end.s{n}")) * 1000 for n in range(steps - 1)]


def _work(config: Any) -> None:
    import signal

    from icefloe.engine.worker import Worker
    from icefloe.service.state import open_database

    worker = Worker(config, open_database(config))
    signal.signal(signal.SIGTERM, lambda *_: worker.stop())
    worker.run()


class Workers:
    """Worker processes for one measurement."""

    def __init__(self, project: Project, count: int) -> None:
        context = multiprocessing.get_context("spawn")
        self._processes = [context.Process(target=_work, args=(project.config,)) for _ in range(count)]
        self._project = project

    def __enter__(self) -> Workers:
        for process in self._processes:
            process.start()
        wait_until(lambda: len(self._project.client.workers()) == len(self._processes), 60)
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            process.join(30)

    def cpu_seconds(self) -> float:
        import psutil

        return sum(sum(psutil.Process(p.pid).cpu_times()[:2]) for p in self._processes)

    def memory(self) -> int:
        import psutil

        return sum(psutil.Process(p.pid).memory_info().rss for p in self._processes)


def measure(name: str, project: Project, options: argparse.Namespace) -> dict[str, Any]:
    found: dict[str, Any] = {}
    with Workers(project, 1) as workers:
        found["chain_ms_per_step"] = seconds(project, chain(options.chain)) / options.chain * 1000
        found["fan_out_ms_per_step"] = seconds(project, fan_out(options.fan)) / options.fan * 1000
        found["gap_ms_1_worker"] = statistics.median(gaps(project, options.gaps))
        before, began = workers.cpu_seconds(), time.monotonic()
        time.sleep(options.idle)
        found["idle_cpu_percent"] = (workers.cpu_seconds() - before) / (time.monotonic() - began) * 100
        if options.foreach:
            found |= measure_foreach(project, workers, options.foreach)
    with Workers(project, 4):
        found["gap_ms_4_workers"] = statistics.median(gaps(project, options.gaps))
    for key, value in found.items():
        print(f"{name:12} {key:28} {value:10.2f}", flush=True)
    return {key: round(value, 3) for key, value in found.items()}


def measure_foreach(project: Project, workers: Workers, iterations: int) -> dict[str, float]:
    """The time of the last tenth of the iterations against the first, and the growth of memory."""
    memory: list[int] = []
    run = project.start(project.push(foreach(iterations)))
    while not project.client.runs.show(run, events=False).ended:
        memory.append(workers.memory())
        time.sleep(0.5)
    with project.client.database.read() as connection:
        from sqlalchemy import text

        query = text("SELECT ended_at FROM runs WHERE parent_id = :run ORDER BY ended_at")
        ends = [float(row[0]) for row in connection.execute(query, {"run": run})]
    assert len(ends) == iterations
    tenth = iterations // 10
    early, late = ends[2 * tenth] - ends[tenth], ends[-1] - ends[-1 - tenth]
    steady = memory[len(memory) // 3 :] or [1]
    return {
        "foreach_ms_per_iteration": (ends[-1] - ends[0]) / iterations * 1000,
        "foreach_last_against_first": late / early,
        "foreach_memory_growth": max(steady) / steady[0],
    }


def measure_history(project: Project, count: int) -> dict[str, Any]:
    """Commands on a store with many finished runs, against the same on an almost empty one."""
    from sqlalchemy import text

    workflow = project.push(chain(3))
    run = project.start(workflow)
    with project.worker():
        project.client.wait(run)

    def times() -> dict[str, float]:
        def best(action: Any) -> float:
            found = []
            for _ in range(5):
                began = time.perf_counter()
                action()
                found.append(time.perf_counter() - began)
            return min(found) * 1000

        with project.worker():
            whole = best(lambda: project.client.wait(project.start(workflow)))
        return {
            "runs": best(project.client.runs.listing),
            "show": best(lambda: project.show(run)),
            "workflows": best(project.client.workflows.listing),
            "run": whole,
        }

    with project.worker():
        for _ in range(60):  # a full page of the listing
            project.client.wait(project.start(workflow))
    before = times()
    columns = "workflow_id, version, root_id, path, status, params, initiator, restarts, revision, created_at, started_at, ended_at"
    with project.client.database.write() as connection:
        for start in range(0, count, 1000):
            connection.execute(
                text(
                    f"INSERT INTO runs (id, number, {columns}) SELECT 'old-' || :start || '-' || n.i, n.i, {columns} FROM runs r, "
                    "(WITH RECURSIVE t(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM t WHERE i < 1000) SELECT i FROM t) n "
                    "WHERE r.id = :run"
                ),
                {"start": start, "run": run},
            )
        names = [column.name for column in tables.steps.columns]
        values = ["r.id" if name in ("run_id", "root_id") else f"s.{name}" for name in names]
        connection.execute(
            text(
                f"INSERT INTO steps ({', '.join(names)}) SELECT {', '.join(values)} FROM runs r, steps s "
                "WHERE s.run_id = :run AND r.id LIKE 'old-%'"
            ),
            {"run": run},
        )
    after = times()
    worst = max(after[name] / before[name] for name in before)
    for name in before:
        print(
            f"history      {name:28} {before[name]:10.2f} ms, with {count} finished runs {after[name]:10.2f} ms",
            flush=True,
        )
    return {"before_ms": before, "after_ms": after, "worst_ratio": round(worst, 2)}


def against(python: str, options: argparse.Namespace) -> dict[str, Any]:
    """The same chain and fan-out in the orchestrators that this interpreter has."""
    script = Path(__file__).parent / "other_orchestrators.py"
    command = [python, str(script), "--chain", str(options.chain), "--fan", str(options.fan)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, "DO_NOT_TRACK": "1"})
    lines = done.stdout.strip().splitlines()
    if done.returncode != 0 or not lines:
        return {"error": (done.stderr or done.stdout)[-500:]}
    found: dict[str, Any] = json.loads(lines[-1])
    for key, value in found.items():
        print(f"{'against':12} {key:28} {value:10.2f}", flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chain", type=int, default=100)
    parser.add_argument("--fan", type=int, default=1000)
    parser.add_argument("--gaps", type=int, default=30)
    parser.add_argument("--foreach", type=int, default=10_000)
    parser.add_argument("--history", type=int, default=100_000)
    parser.add_argument("--idle", type=float, default=10.0)
    parser.add_argument("--databases", default="sqlite,postgresql")
    parser.add_argument("--against", action="append", default=[], help="a Python that has prefect or dagster")
    options = parser.parse_args()
    result: dict[str, Any] = {"benchmark": "engine", "cores": os.cpu_count()}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        for name in options.databases.split(","):
            url = None
            if name == "postgresql":
                url = stack.enter_context(running_postgres()).new_database()
                database = Database(url)
                migrations.upgrade(database)
                database.close()
            project = make_project(folder / name, url, **DURABLE)
            stack.callback(project.client.close)
            result[name] = measure(name, project, options)
        if options.history:
            project = make_project(folder / "history", **DURABLE)
            result["history"] = measure_history(project, options.history)
            project.client.close()
    for python in options.against:
        result.setdefault("against", {}).update(against(python, options))
    others = [v for k, v in result.get("against", {}).items() if k.endswith("chain_ms_per_step")]
    if others and "sqlite" in result:
        result["chain_against_fastest"] = round(result["sqlite"]["chain_ms_per_step"] / min(others), 3)
    result["peak_mib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(json.dumps(result))


if __name__ == "__main__":
    main()
