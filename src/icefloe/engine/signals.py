"""Signals inside runs: published with a step's success, waited for by steps.

A step's signals are published in the transaction that records its success, so they are there exactly when the success is. The
steps that wait are looked at whenever something has changed; one goes on when every signal and watermark it names is there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sqlalchemy.engine import Connection

from icefloe.engine.evaluation import Evaluation, evaluation_errors
from icefloe.engine.run_snapshot import RunSnapshot
from icefloe.errors import IcefloeError
from icefloe.store import signals
from icefloe.workflow import matching
from icefloe.workflow.model import SignalDependency, Step
from icefloe.workflow.resolution import resolve_params
from icefloe.workflow.scope import Scope
from icefloe.workflow.values import plain

_LOOK_BACK = 1000


def publish(
    connection: Connection, snapshot: RunSnapshot, evaluation: Evaluation, step: Step, attempt: int, now: float
) -> list[str]:
    """Publish a step's signals. Returns what could not be: a success is not taken back for it."""
    troubles = []
    for index, output in enumerate(step.signal_outputs):
        try:
            with evaluation_errors(f"the parameters of signal {output.name}"):
                scope = evaluation.after(step, snapshot.state)
                params = {name: plain(item.value) for name, item in resolve_params(output.params, scope).items()}
        except IcefloeError as error:
            troubles.append(f"signal {output.name} was not published: {error}")
            continue
        run_id = snapshot.record.id
        signals.publish(
            connection,
            signal_id=f"{run_id}/{step.id}/{attempt}/{index}",
            name=output.name,
            params=params,
            publisher=f"run {run_id}, step {step.id}",
            now=now,
        )
    return troubles


def satisfying(connection: Connection, dependency: SignalDependency, scope: Scope) -> Mapping[str, Any] | None:
    """The parameters of the newest signal that satisfies a dependency."""
    conditions = matching.wanted(dependency.match, scope)
    known = signals.newest(connection, dependency.name, _LOOK_BACK)
    return next((signal.params for signal in known if matching.satisfies(signal.params, conditions)), None)


def arrived(
    connection: Connection, snapshot: RunSnapshot, evaluation: Evaluation, step: Step, canonical: Callable[[str], str]
) -> bool:
    """Whether everything that a step waits for is there."""
    with evaluation_errors(f"what step {step.id} waits for"):
        scope = evaluation.before(step)
        if any(satisfying(connection, dependency, scope) is None for dependency in step.signal_dependencies):
            return False
        moments = [
            matching.moment(plain(resolve_params([watermark.reached], scope)["reached"].value))
            for watermark in step.watermark_dependencies
        ]
    for watermark, reached in zip(step.watermark_dependencies, moments, strict=True):
        record = signals.watermark(connection, canonical(watermark.table))
        if record is None or record.valid_through < reached:
            return False
    return True
