"""The program that a Spark step's process runs: ``python -m icefloe.spark.program ORDER.json``.

It reads what to do from the file, talks to Spark over Connect, and writes what it published to the file that ``ICEFLOE_RESULT``
names. Its standard output is the step's log. SIGTERM cancels the statement on the server, not only this client.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import FrameType
from typing import Any

from icefloe import config as configuration
from icefloe import suppressed
from icefloe.environment import take_over
from icefloe.errors import IcefloeError
from icefloe.faults import fault
from icefloe.job import Job
from icefloe.job.batch import Changes
from icefloe.job.parameters import Parameters
from icefloe.lake import Lake
from icefloe.spark import batch, predecessors, scripts, session, targets
from icefloe.spark.failure import short_errors
from icefloe.spark.fence import Fence
from icefloe.spark.program_order import ProgramKind, ProgramOrder
from icefloe.spark.progress import ProgressLog
from icefloe.spark.write_interceptor import WriteInterceptor
from icefloe.whole_files import write_json


class CancelledError(BaseException):
    """SIGTERM arrived."""


def main() -> int:
    take_over(Path(sys.argv[1]).parent)
    order = ProgramOrder.read(Path(sys.argv[1]))
    signal.signal(signal.SIGTERM, cancel)
    running = Running(order)
    return report(running.run, running.published)


def report(action: Callable[[], object], published: Mapping[str, int]) -> int:
    """Do it, write down what came of it, and give the exit code."""
    try:
        action()
    except IcefloeError as error:
        write_result({"error": error.to_dict(), "published": dict(published)})
        detail = getattr(error, "detail", "")
        if detail:
            print(f"{detail}\n", flush=True)  # before the short form: the end of a log is what people are shown
        print(f"error [{error.code}] {error}", flush=True)
        if error.hint:
            print(f"  {error.hint}", flush=True)
        return 75 if error.retryable else 1
    fault("spark.before_result")
    write_result({"published": dict(published)})
    fault("spark.after_result")
    return 0


class Running:
    """One order, carried out over Connect."""

    def __init__(self, order: ProgramOrder) -> None:
        self.order = order
        self.lake = Lake.open(self._config())
        self.published: dict[str, int] = {}
        self._alone = not order.predecessors

    def _config(self) -> configuration.Config:
        return configuration.load(Path(self.order.config))

    def run(self) -> None:
        order = self.order
        wire = WriteInterceptor()
        opened = session.connect(
            self._config(),
            note=say,
            remote=order.remote,
            session_id=order.session_id,
            interceptor=wire,
            brings_code=order.kind in (ProgramKind.SCRIPT, ProgramKind.FUNCTION),
        )
        self._url = session.address(opened)
        fault("spark.session")
        try:
            self._carry_out(opened, wire)
        except CancelledError:
            with suppressed.errors("spark.interrupt", Exception):
                opened.interruptAll()
            say("cancelled")
            sys.exit(143)
        finally:
            with suppressed.errors("spark.stop_session", Exception):
                opened.stop()

    def _carry_out(self, opened: Any, wire: WriteInterceptor) -> None:
        order = self.order
        with short_errors(where=order.where):
            session.configure(opened, order.conf)
            handler: Any = ProgressLog(say)
            opened.registerProgressHandler(handler)
            if order.kind is ProgramKind.CARRIED:
                self._end_predecessors_if_quick()
                carrier(order)(opened, self.lake, order, self.published, say)
            elif order.kind is ProgramKind.SQL:
                self._sql(opened)
            else:
                self._python(opened, wire)

    def _sql(self, opened: Any) -> None:
        order = self.order
        writes = targets.parse(order.script, where=order.where)
        self._end_predecessors_if_quick()
        work = batch.Batch(writes, order.fencing, order.where, self._prove_alone, self.published)
        batch.run(opened, self.lake, work, say)

    def _python(self, opened: Any, wire: WriteInterceptor) -> None:
        order = self.order
        fence = Fence(opened, self.lake, order.fencing(), say, alone=self._prove_alone, published=self.published)
        self._end_predecessors_if_quick()
        fence.open()
        for name in order.targets:
            fence.protect(name)
        wire.fence = fence
        # What user code calls to get "the" session finds this one: PySpark looks here before it opens another.
        os.environ |= {"SPARK_CONNECT_MODE_ENABLED": "1", "SPARK_REMOTE": self._shown_url()}
        carry_out(order, opened, fence)

    def _shown_url(self) -> str:
        """A server that the configuration names with a token keeps it to itself; of the project's own server it is made anew each time."""
        return self._url if self._config().spark.remote is None else session.without_token(self._url)

    def _prove_alone(self) -> None:
        if not self._alone:
            predecessors.end(self._url, self.order.predecessors, say)
            self._alone = True

    def _end_predecessors_if_quick(self) -> None:
        """Not needed for what is fenced, but what nobody waits for should not use the server either."""
        with suppressed.errors("spark.end_predecessors", IcefloeError):
            if not self._alone:
                predecessors.end(self._url, self.order.predecessors, say, within=2)
                self._alone = True


def carrier(order: ProgramOrder) -> Callable[..., None]:
    module, _, name = order.script.partition(":")
    function: Callable[..., None] = getattr(importlib.import_module(module), name)
    return function


def carry_out(order: ProgramOrder, opened: Any, fence: Fence) -> None:
    """Run the user's Python code and publish what it wrote."""
    folder = Path(order.folder)
    scripts.admit_modules(folder, Path.cwd())
    job = Job(
        session=opened,
        params=Parameters(json.loads(Path(os.environ["ICEFLOE_PARAMS"]).read_text(encoding="utf-8"))),
        all_changes=tuple(
            Changes(
                opened, str(published["source"]), {key: value for key, value in published.items() if key != "source"}
            )
            for published in order.captures
        ),
        args=order.args,
        admit=lambda table: not fence.is_published(table),
        output_file=Path(os.environ["ICEFLOE_OUTPUT"]),
        log=say,
    )
    fault("spark.before_statement")
    try:
        if order.kind is ProgramKind.SCRIPT:
            scripts.run_file(Path(order.script), job, shown=order.where)
        else:
            scripts.run_function(order.script, job, folder=folder)
        fault("spark.before_first_publish")
        fence.publish()
    except BaseException:
        fence.discard()
        raise


def write_result(result: dict[str, Any]) -> None:
    write_json(Path(os.environ["ICEFLOE_RESULT"]), result)


def say(line: str) -> None:
    print(line, flush=True)


def cancel(number: int, frame: FrameType | None) -> None:
    raise CancelledError


if __name__ == "__main__":
    sys.exit(main())
