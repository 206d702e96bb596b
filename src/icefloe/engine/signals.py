"""Signals inside runs: published with a step's success, waited for by steps.

A step's signals are published in the transaction that records its success, so they are there exactly when the success is. The
steps that wait are looked at whenever something has changed; one goes on when every signal and watermark it names is there.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlalchemy.engine import Connection

from icefloe.engine.evaluation import Evaluation
from icefloe.engine.images import Image
from icefloe.errors import IcefloeError
from icefloe.store import signals
from icefloe.workflow import matching
from icefloe.workflow.model import Step
from icefloe.workflow.resolution import resolve_params
from icefloe.workflow.values import plain

_LOOK_BACK = 1000


def publish(
    connection: Connection, image: Image, evaluation: Evaluation, step: Step, attempt: int, now: float
) -> list[str]:
    """Publish a step's signals. Returns what could not be: a success is not taken back for it."""
    troubles = []
    for index, output in enumerate(step.signal_outputs):
        try:
            scope = evaluation.scope(image.state)
            params = {name: plain(item.value) for name, item in resolve_params(output.params, scope).items()}
        except IcefloeError as error:
            troubles.append(f"signal {output.name} was not published: {error}")
            continue
        run_id = image.record.id
        signals.publish(
            connection,
            signal_id=f"{run_id}/{step.id}/{attempt}/{index}",
            name=output.name,
            params=params,
            publisher=f"run {run_id}, step {step.id}",
            now=now,
        )
    return troubles


def arrived(
    connection: Connection, image: Image, evaluation: Evaluation, step: Step, canonical: Callable[[str], str]
) -> bool:
    """Whether everything that a step waits for is there."""
    scope = evaluation.scope(image.state)
    for dependency in step.signal_dependencies:
        conditions = matching.wanted(dependency.match, scope)
        known = signals.newest(connection, dependency.name, _LOOK_BACK)
        if not any(matching.satisfies(one.params, conditions) for one in known):
            return False
    for watermark in step.watermark_dependencies:
        reached = matching.moment(plain(resolve_params([watermark.reached], scope)["reached"].value))
        held = signals.watermark(connection, canonical(watermark.table))
        if held is None or held.valid_through < reached:
            return False
    return True
