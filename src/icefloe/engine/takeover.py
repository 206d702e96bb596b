"""What a dead worker held: its results are recorded, its processes ended, the rest is done again."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from sqlalchemy.engine import Connection

from icefloe import suppressed
from icefloe.engine import processes
from icefloe.engine.attempts import Attempt, attempt_folder
from icefloe.engine.events import Ended, Lost, Refused
from icefloe.engine.executor import failure_of
from icefloe.engine.graph import FOREACH, SUBWORKFLOW
from icefloe.engine.lease import this_host
from icefloe.engine.transaction import Applied, Claimed
from icefloe.errors import UnreachableError
from icefloe.faults import fault
from icefloe.steps.contract import AttemptKey, Done
from icefloe.store.runs import OwnedStep

if TYPE_CHECKING:
    from icefloe.engine.worker import Worker


def take_over(worker: Worker, orphans: list[tuple[OwnedStep, str, str]]) -> list[Applied]:
    """Release steps whose owner is gone (each with that owner and its host). Several workers may do so at once."""
    applied_all = []
    for step, owner, host in orphans:
        if worker.serves is None or step.root_id in worker.serves:
            with suppress(Refused):  # another worker was quicker
                applied = _release(worker, step, owner, host)
                if applied is not None:
                    applied_all.append(applied)
    return applied_all


def _release(worker: Worker, step: OwnedStep, owner: str, host: str) -> Applied | None:
    """None: its supervisor is still winding it down, or its result is being read; look again."""
    with worker.database.read() as connection:
        snapshot = worker.conductor.snapshots.get(connection, step.run_id)
    state = snapshot.state.steps[step.step_id]
    if state.owner != owner or state.generation != step.generation:
        return None
    key = AttemptKey(step.run_id, step.step_id, state.attempt, state.generation)
    folder = attempt_folder(worker.config.home, key)
    claimer = worker.queue.claimer()
    if (
        host == this_host()
        and folder.exists()
        and snapshot.graph.nodes[step.step_id].type not in (FOREACH, SUBWORKFLOW)
    ):
        if processes.supervisor_lives(folder):
            return None
        processes.end_leftovers(str(key))
        result = processes.read_result(folder)
        if result is not None and result.reason is None and result.exit_code is not None:
            with suppressed.errors("takeover.preparation", Exception, where=str(key)):  # then it is done again
                attempt = worker.preparation.attempt(Claimed(snapshot, state))
                worker.executor.judge(attempt, result, partial(_record, worker, attempt))
                return None
    fault("takeover.before_release")
    event = Lost(step.step_id, owner, reattach=state.handle is not None)
    return worker.conductor.apply(step.run_id, event, root_id=step.root_id, claimer=claimer)


def _record(worker: Worker, attempt: Attempt, done: Done) -> None:
    """The step had ended before its worker could say so: the same transaction that its worker would have made."""
    fault("takeover.before_result")
    outcome = attempt.without_secrets(done.outcome)
    event = Ended(attempt.key.step_id, attempt.key.generation, outcome, attempt.params)

    def also(connection: Connection) -> None:
        attempt.ship_log(connection)
        if done.in_transaction is not None:
            done.in_transaction(connection)

    with suppress(Refused):  # another worker was quicker
        try:
            worker.queue.record(attempt.snapshot, event, also=also)
            worker.executor.do_afterwards(attempt, done)
        except (Refused, UnreachableError):
            raise
        except Exception as error:
            failed = Ended(attempt.key.step_id, attempt.key.generation, failure_of(error), attempt.params)
            worker.queue.record(attempt.snapshot, failed, also=attempt.ship_log)
    attempt.clean_up()
