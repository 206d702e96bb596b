"""The scheduler's hand: makes runs for occasions. And what people ask about triggers: why, and when next."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy.engine import Connection

from icefloe.config import Config
from icefloe.credentials import refuse
from icefloe.lake import Lake
from icefloe.service.runs import NotClaimedError, Runs
from icefloe.store.database import Database
from icefloe.store.definitions import WorkflowRecord
from icefloe.triggers.clocks import Clock
from icefloe.triggers.run_start import TriggerEvent
from icefloe.triggers.scheduler import Scheduler


@dataclass(frozen=True, slots=True)
class RunStarter:
    """See :class:`icefloe.triggers.run_start.Starter`."""

    runs: Runs

    def __call__(
        self,
        workflow_id: str,
        occasion: TriggerEvent,
        trigger: str,
        claim: Callable[[Connection, WorkflowRecord, str], bool],
    ) -> str | None:
        initiator: dict[str, Any] = {"kind": "trigger", "by": trigger, "reason": occasion.reason}
        if occasion.lineage:
            initiator["lineage"] = dict(occasion.lineage)
        values: Mapping[str, Any] = {**occasion.values, **{param.name: param for param in occasion.params}}
        try:
            return self.runs.start(
                workflow_id,
                occasion=occasion.name,
                initiator=initiator,
                trigger_params=values,
                signals=occasion.signals,
                claim=claim,
            ).run_id
        except NotClaimedError:
            return None


def make_scheduler(config: Config, database: Database, runs: Runs, *, clock: Clock | None = None) -> Scheduler:
    return Scheduler(
        database,
        lambda: Lake.open(config),
        RunStarter(runs),
        config.scheduler,
        catalog=config.catalog.name,
        alerts=config.alerts,
        server_url=lambda: config.server_url,
        clock=clock,
        check_secrets=lambda names, where: refuse(config, names, where=where),
    )
