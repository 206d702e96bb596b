"""Runs lint and every test suite on one warm Spark server; ends with the slowest tests and one line of counts.

A suite is a folder of ``tests/``. The longer ones are run in parts. Two parts run side by side, and the next begins when one has ended. All of
them run also when one fails, so that one run shows everything. A skipped test counts as failed: what cannot be checked has not been checked.
So does a process that a test left behind.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

ROOT = Path(__file__).resolve().parent.parent
RUN_VARIABLE = "XDG_ICEFLOE_TEST_RUN"
"""Marks every process of a run. Steps and Spark servers get an allow-list of the environment, which this name passes."""
LINT = {
    "ruff check": ["ruff", "check", "."],
    "ruff format": ["ruff", "format", "--check", "."],
    "mypy": ["mypy"],
    "borders": ["lint-imports"],
    "docs": ["sphinx-build", "-q", "-W", "--keep-going", "-n", "-b", "html", "docs", "build/docs"],
}
PARTS = {
    "integration": 800,
    "e2e": 400,
    "chaos": 330,
    "contract/server": 300,
    "contract": 250,
    "unit": 200,
    "browser": 180,
    "contract/capture": 150,
    "contract/lake": 120,
    "oracle": 120,
}
"""A suite, or a folder or file of one, and about how many seconds it takes. What is listed by itself is left out of what it lies in.
The longest begin first, so that both lanes end at about the same time."""
SUITES = tuple(name for name in PARTS if "/" not in name)
LANES = 2
SLOWEST = 15
NO_TESTS = 5
SHOWN = 4_000
"""Characters of one failure that are shown at the end; the rest is above, where it happened."""
_running: list[subprocess.Popen[str]] = []


@dataclass(frozen=True)
class Result:
    """What a check, a suite or a part of one came to."""

    name: str
    passed: int
    failed: int
    seconds: float
    shown: str = ""
    """What failed and how, to be shown last, where it is looked for."""
    times: tuple[tuple[float, str], ...] = ()
    """Of each test, with its name."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--long", action="store_true", help="the many-examples form of every suite")
    parser.add_argument("--only", action="append", choices=("lint", *SUITES), help="just this (repeatable)")
    arguments = parser.parse_args()
    if arguments.long:
        os.environ.setdefault("HYPOTHESIS_PROFILE", "long")
    wanted = arguments.only or ["lint", *SUITES]
    os.environ[RUN_VARIABLE] = uuid4().hex
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # or each of the many processes would compile all that it imports
    signal.signal(signal.SIGTERM, end)
    # A shell starts background jobs with SIGINT ignored, and all their children inherit that: tests of Ctrl-C would hang.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return run(wanted, long=arguments.long)
    except (KeyboardInterrupt, SystemExit):
        orphans()
        raise


def end(*_: object) -> None:
    for process in _running:
        process.terminate()
    sys.exit(143)


def run(wanted: list[str], *, long: bool) -> int:
    results: list[Result] = []
    with tempfile.TemporaryDirectory(prefix="icefloe-test-") as scratch:
        os.environ["ICEFLOE_TEST_PROJECT"] = str(Path(scratch).resolve() / "project")
        try:
            with ThreadPoolExecutor(LANES) as pool:
                checks = LINT.items() if "lint" in wanted else ()
                asked = [pool.submit(lint, name, command) for name, command in checks]
                asked += [pool.submit(part, path, Path(scratch), long=long) for path in in_order(wanted)]
                results += [future.result() for future in asked]
        finally:
            end_server(Path(os.environ["ICEFLOE_TEST_PROJECT"]))
    results.append(orphans())
    for result in results:
        if result.shown:
            print(result.shown, flush=True)
    slowest = sorted((timed for result in results for timed in result.times), reverse=True)[:SLOWEST]
    print("\n".join(["the slowest tests:", *(f"  {seconds:>7.1f} s  {name}" for seconds, name in slowest)]))
    for result in results:
        mark = "FAILED" if result.failed else "ok"
        print(
            f"  {result.name:<24} {result.passed:>5} passed {result.failed:>4} failed {result.seconds:>7.1f} s  {mark}"
        )
    passed, failed = sum(r.passed for r in results), sum(r.failed for r in results)
    print(f"{passed} passed, {failed} failed", flush=True)
    return 1 if failed else 0


def in_order(wanted: list[str]) -> list[str]:
    """The parts of these suites, longest first."""
    return sorted((path for path in PARTS if path.partition("/")[0] in wanted), key=PARTS.__getitem__, reverse=True)


def lint(name: str, command: list[str]) -> Result:
    began = time.monotonic()
    tool = Path(sys.executable).with_name(command[0])
    result = subprocess.run([tool, *command[1:]], cwd=ROOT, check=False, capture_output=True, text=True)
    shown = f"== {name}\n{result.stdout}{result.stderr}"[-SHOWN:] if result.returncode else ""
    return Result(name, int(result.returncode == 0), int(result.returncode != 0), time.monotonic() - began, shown)


def part(path: str, scratch: Path, *, long: bool) -> Result:
    say(path, "begins")
    began = time.monotonic()
    report = scratch / f"{path.replace('/', '-')}.xml"
    command = [sys.executable, "-m", "pytest", f"tests/{path}", "-q", f"--junitxml={report}"]
    command += [f"--ignore=tests/{other}" for other in PARTS if other.startswith(f"{path}/")]
    if not long:
        command += ["-m", "not long"]
    process = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    )
    _running.append(process)
    assert process.stdout is not None
    for line in process.stdout:
        say(path, line.rstrip())
    returned = process.wait()
    seconds = time.monotonic() - began
    if returned == NO_TESTS:
        return Result(path, 0, 0, seconds)
    if not report.exists():
        return Result(path, 0, 1, seconds, f"== {path}: pytest ended with {returned} before it could report")
    cases = list(ElementTree.parse(report).iter("testcase"))
    shown = [text for case in cases if (text := failure(case))]
    bad = len(shown)
    if returned and not bad:
        bad = 1  # pytest itself failed: collection, a plugin, a crash
    times = tuple((float(case.get("time", 0)), f"{case.get('classname')}::{case.get('name')}") for case in cases)
    return Result(path, len(cases) - bad if cases else 0, bad, seconds, "\n".join(shown), times)


def failure(case: ElementTree.Element) -> str:
    """What one test has to say, if it did not pass."""
    for kind in ("failure", "error", "skipped"):
        if (told := case.find(kind)) is not None:
            place = f"{case.get('classname')}::{case.get('name')} ({float(case.get('time', 0)):.1f} s)"
            return f"== {kind}: {place}\n{told.get('message', '')[:SHOWN]}\n{(told.text or '')[-SHOWN:]}"
    return ""


def say(name: str, line: str) -> None:
    print(f"{name:>16} | {line}", flush=True)


def end_server(project: Path) -> None:
    if (project / "icefloe.toml").exists():
        from icefloe import config
        from icefloe.spark import server

        server.stop(config.load(project / "icefloe.toml"))


def orphans() -> Result:
    """Processes that carry this run's mark in their environment and are still there. They are told, and then ended."""
    began = time.monotonic()
    mark = f"{RUN_VARIABLE}={os.environ[RUN_VARIABLE]}".encode()
    deadline = time.monotonic() + 15
    while (left := _marked(mark)) and time.monotonic() < deadline:
        time.sleep(0.2)
    for pid, words in left:
        print(f"left behind: process {pid}: {words}", flush=True)
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return Result("no orphans", int(not left), len(left), time.monotonic() - began)


def _marked(mark: bytes) -> list[tuple[int, str]]:
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        if folder.name == str(os.getpid()):
            continue
        try:
            if mark in (folder / "environ").read_bytes().split(b"\0"):
                words = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                found.append((int(folder.name), words[:150]))
        except OSError:
            continue
    return found


if __name__ == "__main__":
    sys.exit(main())
