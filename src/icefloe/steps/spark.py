"""``type: Spark``: SQL on Spark, published exactly once.

The statements run in a process of their own, which talks to the project's Spark server over Connect. What it publishes
carries a mark made of the captures that the run holds, so that a batch that is repeated, by a retry, a restart or a later run
that took the capture over, is recognised and not written twice.
"""

from __future__ import annotations

import json
import re
import time
from dataclasses import dataclass
from typing import Any, ClassVar

from sqlalchemy.engine import Connection

from icefloe.config import FILE_NAME
from icefloe.errors import UsageError
from icefloe.spark import targets
from icefloe.steps.contract import (
    Cause,
    Command,
    Done,
    Kind,
    Launch,
    Outcome,
    ProcessResult,
    Progress,
    StepContext,
    StepRuntime,
    builtin,
)
from icefloe.steps.process import default_outcome, environment, python_program, write_private
from icefloe.steps.writing import launch as writing
from icefloe.store import captures
from icefloe.store.captures import CaptureRecord
from icefloe.workflow.step_types import SparkSettings, StepType
from icefloe.workflow.values import TypedValue


class SparkStep(StepRuntime):
    """Outputs: ``published_tables`` and ``published_snapshots``, in one order."""

    type: ClassVar[StepType] = builtin("spark")

    def start(self, context: StepContext) -> Progress:
        settings = context.parsed(self.type)
        assert isinstance(settings, SparkSettings)
        try:
            if settings.write is not None:
                return _planned(context, settings)
            job = self._job(context, settings)
        except UsageError as error:
            return Done(Outcome(Kind.FATAL, cause=Cause.of(error)))
        file = context.folder / "job.json"
        write_private(file, json.dumps(job).encode())
        extra = {"ICEFLOE_RESULT": str(context.folder / "result.json")}
        return Launch(
            Command(
                (python_program(), "-m", "icefloe.spark.program", str(file)),
                {**environment(context), **extra},
                context.config.root,
            )
        )

    def ended(self, context: StepContext, result: ProcessResult) -> Done:
        outcome = default_outcome(context, result)
        told = _told(context)
        if outcome.kind is not Kind.SUCCEEDED:
            error = told.get("error")
            if error and outcome.kind is Kind.ERROR:
                kind = Kind.PLATFORM if error["retryable"] else Kind.ERROR
                return Done(Outcome(kind, cause=Cause(error["message"], error["code"], error["hint"])))
            return Done(outcome)
        published: dict[str, int] = told.get("published", {})
        outputs = {
            **outcome.outputs,
            "published_tables": TypedValue.of(tuple(published)),
            "published_snapshots": TypedValue.of(tuple(str(snapshot) for snapshot in published.values())),
        }
        held = _held(context)

        def record(connection: Connection) -> None:
            for capture in held:
                for target, snapshot_id in published.items():
                    captures.publish(
                        connection,
                        capture_id=capture.id,
                        step_path="/".join(context.step_path),
                        iteration=context.iteration,
                        target=target,
                        snapshot_id=snapshot_id,
                        now=time.time(),
                    )

        return Done(Outcome(Kind.SUCCEEDED, outputs), in_transaction=record)

    def _job(self, context: StepContext, settings: SparkSettings) -> dict[str, Any]:
        where = f"run {context.key.run_id}, step {context.key.step_id}"
        _refuse_what_is_not_built(settings, where)
        # Parsed here already: a script that is not SQL fails at once, before a session is asked for.
        targets.parse(settings.script, where=where)
        work = _work(context)
        return {
            "config": str(context.config.root / FILE_NAME),
            "script": settings.script,
            "where": where,
            "mark": work.mark,
            "labels": work.labels,
            "branch": _branch(context),
            "conf": {key: str(value) for key, value in settings.conf.items()},
            "direct": settings.publish == "direct",
        }


class NotBuiltError(UsageError):
    """A setting that definitions may have and this version does not act on: said, never passed over."""

    code = "spark.not-built"


def _planned(context: StepContext, settings: SparkSettings) -> Launch:
    """``write:`` is the planner's: see :mod:`icefloe.steps.writing`."""
    _refuse_what_is_not_built(settings, f"run {context.key.run_id}, step {context.key.step_id}")
    work = _work(context)
    return writing.launch(
        context, settings, _held(context), mark=work.mark, labels=work.labels, branch=_branch(context)
    )


def _refuse_what_is_not_built(settings: SparkSettings, where: str) -> None:
    for name, usual in (
        ("submit", "connect"),
        ("shadow", "off"),
        ("remote", None),
        ("master", None),
        ("on_logic_change", "ask"),
    ):
        if getattr(settings, name) != usual:
            raise NotBuiltError(f"spark.{name}: is not in this version", where=where, hint=f"leave {name} out")
    if settings.args:
        raise NotBuiltError("spark.args: PySpark scripts are not in this version", where=where, hint="use SQL")


@dataclass(frozen=True, slots=True)
class _Work:
    mark: str
    labels: dict[str, str]


def _work(context: StepContext) -> _Work:
    """What this step does, named so that every attempt at the same work has the same name."""
    path = "/".join(context.step_path)
    iteration = "" if context.iteration is None else str(context.iteration)
    held = _held(context)
    if not held:
        return _Work(f"run:{context.root_run_id}|{path}|{iteration}", {"icefloe.run": context.root_run_id})
    ids = ",".join(sorted(capture.id for capture in held))
    labels = {
        "icefloe.consumer": ",".join(sorted(capture.consumer for capture in held)),
        "icefloe.capture": ids,
        "icefloe.step": path,
        "icefloe.run": context.root_run_id,
        "icefloe.from": ",".join(_ends(held, "start")),
        "icefloe.to": ",".join(_ends(held, "end")),
    }
    return _Work(f"capture:{ids}|{path}|{iteration}", labels)


def _ends(held: list[CaptureRecord], which: str) -> list[str]:
    return [
        f"{source['table']}@{source[which]['snapshot_id'] if source[which] else '-'}"
        for capture in held
        for source in capture.sources
    ]


def _held(context: StepContext) -> list[CaptureRecord]:
    """The captures that this run holds open."""
    with context.database.read() as connection:
        return captures.held_by_run(connection, context.root_run_id)


def _branch(context: StepContext) -> str:
    return "icefloe_" + re.sub(r"[^A-Za-z0-9]+", "_", str(context.key))


def _told(context: StepContext) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads((context.folder / "result.json").read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return {}
    return found
