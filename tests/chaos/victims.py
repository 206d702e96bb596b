"""Worker processes that a test may kill, and what it can see of them from outside."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import psutil

from icefloe.engine.supervisor import ATTEMPT_VARIABLE
from tests.projects import Project

# Forked from a server that has everything imported: a new worker is there in milliseconds.
_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(
    [
        "icefloe.engine.worker",
        "icefloe.service.client",
        "icefloe.service.scheduling",
        "icefloe.steps.shell",
        "tests.projects",
    ]
)


def _work(config: Any, fault: str, once: str) -> None:
    from icefloe import faults
    from icefloe.engine.worker import Worker
    from icefloe.service.state import open_database

    if once:
        os.environ[faults.ONCE_VARIABLE] = once
    if fault:
        faults.arm(fault)
    worker = Worker(config, open_database(config))
    signal.signal(signal.SIGTERM, lambda *_: worker.stop())
    worker.run()


def start_worker(project: Project, fault: str = "", once: Path | None = None) -> BaseProcess:
    process = _context.Process(target=_work, args=(project.config, fault, str(once or "")), daemon=True)
    process.start()
    return process


@contextmanager
def worker_process(project: Project, fault: str = "", once: Path | None = None) -> Iterator[BaseProcess]:
    process = start_worker(project, fault, once)
    try:
        yield process
    finally:
        end(process)


def end(process: BaseProcess) -> None:
    if process.is_alive():
        process.terminate()
        process.join(15)
    if process.is_alive():
        process.kill()
        process.join(15)


def step_processes(project: Project) -> list[psutil.Process]:
    """Processes of steps of this project, wherever they have been reparented to."""
    found = []
    for process in psutil.process_iter():
        try:
            environ = process.environ()
            if ATTEMPT_VARIABLE in environ and environ.get("ICEFLOE_PARAMS", "").startswith(str(project.root)):
                found.append(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
            continue
    return [process for process in found if is_alive(process)]


def is_alive(process: psutil.Process) -> bool:
    """A process may end between any two questions about it."""
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def supervisors(worker: BaseProcess) -> list[psutil.Process]:
    """The launcher's children: one supervisor per attempt of this worker."""
    try:
        below = psutil.Process(worker.pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []
    return [process for process in below if _is_supervisor(process, worker.pid)]


def _is_supervisor(process: psutil.Process, worker: int | None) -> bool:
    try:
        return "supervisor.py" in " ".join(process.cmdline()) and process.ppid() != worker
    except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
        return False
