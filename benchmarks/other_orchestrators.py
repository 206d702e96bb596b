"""The engine benchmark's DAGs in Prefect and in Dagster. Run by ``benchmarks.engine --against``, with an interpreter of theirs.

Each in its quickest mode: Prefect's flow in this process against its own API on SQLite, Dagster's ``execute_in_process``. Neither
survives a kill there. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager


def best(run: Callable[[], object], repeat: int = 3) -> float:
    run()  # the first one pays for imports and databases
    times = []
    for _ in range(repeat):
        began = time.perf_counter()
        run()
        times.append(time.perf_counter() - began)
    return min(times)


def prefect(chain: int, fan: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as home:
        os.environ |= {
            "PREFECT_HOME": home,
            "PREFECT_LOGGING_LEVEL": "ERROR",
            "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        }
        with prefect_server() as url:
            os.environ["PREFECT_API_URL"] = url
            return prefect_flows(chain, fan)


@contextmanager
def prefect_server() -> Iterator[str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "prefect", "server", "start", "--host", "127.0.0.1", "--port", str(port)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{port}/api"
    deadline = time.monotonic() + 120
    try:
        while True:
            try:
                urllib.request.urlopen(f"{url}/health", timeout=2).read()
                break
            except OSError:
                if time.monotonic() > deadline or server.poll() is not None:
                    raise
                time.sleep(0.5)
        yield url
    finally:
        server.terminate()
        server.wait(30)


def prefect_flows(chain: int, fan: int) -> dict[str, float]:
    from prefect import flow, task

    @task
    def noop(before: object = None) -> None:
        return None

    @flow
    def chained() -> None:
        last = None
        for _ in range(chain):
            last = noop(last)

    @flow
    def fanned() -> None:
        start = noop.submit()
        middle = [noop.submit(wait_for=[start]) for _ in range(fan - 2)]
        noop.submit(wait_for=middle).wait()

    return {
        "prefect_chain_ms_per_step": best(chained) / chain * 1000,
        "prefect_fan_out_ms_per_step": best(fanned, 1) / fan * 1000,
    }


def dagster(chain: int, fan: int) -> dict[str, float]:
    os.environ.setdefault("DAGSTER_DISABLE_TELEMETRY", "1")
    from dagster import DagsterInstance, In, Nothing, Out, graph, op

    @op(ins={"before": In(Nothing)}, out=Out(Nothing))
    def noop() -> None:
        return None

    @op(out=Out(Nothing))
    def first() -> None:
        return None

    @graph
    def chained() -> None:
        last = first()
        for number in range(chain - 1):
            last = noop.alias(f"s{number}")(last)

    @op(ins={"before": In(Nothing)})
    def last_one() -> None:
        return None

    @graph
    def fanned() -> None:
        start = first()
        last_one([noop.alias(f"s{number}")(start) for number in range(fan - 2)])

    with tempfile.TemporaryDirectory() as folder, DagsterInstance.local_temp(folder) as instance:
        jobs = {"chain": chained.to_job(), "fan": fanned.to_job()}
        return {
            "dagster_chain_ms_per_step": best(lambda: jobs["chain"].execute_in_process(instance=instance))
            / chain
            * 1000,
            "dagster_fan_out_ms_per_step": best(lambda: jobs["fan"].execute_in_process(instance=instance), 1)
            / fan
            * 1000,
        }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--chain", type=int, default=100)
    parser.add_argument("--fan", type=int, default=1000)
    options = parser.parse_args()
    found: dict[str, float] = {}
    for name, measure in (("prefect", prefect), ("dagster", dagster)):
        if importlib.util.find_spec(name) is None:  # not imported here: Prefect reads its settings when it is
            continue
        try:
            found |= measure(options.chain, options.fan)
        except Exception as error:
            print(f"{name} could not be measured: {error}")
    print(json.dumps({key: round(value, 2) for key, value in found.items()}), flush=True)
    os._exit(0)  # Prefect waits at its end for events to reach a server that has gone


if __name__ == "__main__":
    main()
