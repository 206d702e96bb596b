"""From a claimed step to an attempt that can be started: parameters, settings, secrets and a folder."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Collection, Mapping
from functools import partial
from typing import Any

from icefloe.config import Config
from icefloe.credentials import credentials, forms, refuse
from icefloe.engine import signals
from icefloe.engine.attempts import Attempt, InlineLog, attempt_folder
from icefloe.engine.conductor import Conductor
from icefloe.engine.evaluation import Evaluation
from icefloe.engine.run_snapshot import RunSnapshot
from icefloe.engine.transaction import Claimed
from icefloe.steps.contract import AttemptKey, StepContext
from icefloe.steps.registry import Registry
from icefloe.store import definitions as stored
from icefloe.store import runs
from icefloe.store.database import Database
from icefloe.workflow.interpolation import reveal
from icefloe.workflow.model import SignalDependency, TypedStep
from icefloe.workflow.scope import Scope
from icefloe.workflow.values import TypedValue


class Preparation:
    """Here, and only here, secrets are filled in: in memory, for the attempt's own process."""

    def __init__(self, config: Config, database: Database, conductor: Conductor, registry: Registry) -> None:
        self._config = config
        self._database = database
        self._conductor = conductor
        self._registry = registry

    def attempt(self, claimed: Claimed) -> Attempt:
        snapshot, state = claimed.snapshot, claimed.step
        record, definition = snapshot.record, snapshot.definition
        step = definition.steps[state.id]
        key = AttemptKey(record.id, state.id, state.attempt, state.generation)
        runtime = self._registry.find(step.type if isinstance(step, TypedStep) else "noop")
        evaluated = self.evaluation(snapshot).step(step)
        folder = attempt_folder(self._config.home, key)
        if not runtime.instant:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        refuse(self._config, definition.secrets, where=f"run {record.id}, step {state.id}")
        secrets = self._secrets(definition.secrets)
        engine = self._config.engine
        cancelled = threading.Event()
        deadline = None if evaluated.timeout is None else time.monotonic() + evaluated.timeout
        context = StepContext(
            key=key,
            root_run_id=record.root_id,
            workflow_id=record.workflow_id,
            version=record.version,
            step_path=definition.paths[state.id],
            iteration=record.iteration,
            era=state.era,
            settings=reveal(evaluated.settings, os.environ, definition.secrets),
            params=_revealed(evaluated.visible, definition.secrets),
            secrets=secrets,
            folder=folder,
            config=self._config,
            database=self._database,
            read_file=partial(self._read_file, definition.files),
            log=InlineLog(folder, secrets, engine.log_head_kib * 1024, engine.log_tail_kib * 1024),
            steps=partial(self._statuses, record.id),
            deadline=deadline,
            cancelled=cancelled.is_set,
        )
        return Attempt(key, snapshot, runtime, context, evaluated.params, evaluated.timeout, cancelled, deadline)

    def _secrets(self, named: Collection[str]) -> tuple[str, ...]:
        """What no log may show: the project's own credentials, and what the definition names; in every form."""
        own = credentials(self._config).texts
        return forms((*own, *(os.environ[name] for name in named if os.environ.get(name))))

    def evaluation(self, snapshot: RunSnapshot) -> Evaluation:
        """Asks the database only for what the run itself does not know: the runs around it, and files."""

        def around(run_id: str) -> RunSnapshot:
            with self._database.read() as connection:
                return self._conductor.snapshots.get(connection, run_id)

        def file(digest: str) -> bytes | None:
            with self._database.read() as connection:
                return stored.file(connection, digest)

        def iterations(run_id: str, step_id: str) -> list[str]:
            with self._database.read() as connection:
                return [child.id for child in runs.children(connection, run_id, step_id)]

        def signal(dependency: SignalDependency, scope: Scope) -> Mapping[str, Any] | None:
            with self._database.read() as connection:
                return signals.satisfying(connection, dependency, scope)

        return Evaluation(around, snapshot, file, iterations, signal)

    def _read_file(self, files: Mapping[str, str], name: str) -> bytes:
        with self._database.read() as connection:
            content = stored.file(connection, files.get(name, name))
        if content is None:
            raise FileNotFoundError(f"{name} is not part of this version of the workflow")
        return content

    def _statuses(self, run_id: str) -> dict[str, str]:
        with self._database.read() as connection:
            return {row.step_id: row.status for row in runs.load_steps(connection, run_id)}


def _revealed(values: Mapping[str, TypedValue], allowed: Collection[str]) -> dict[str, TypedValue]:
    """With secrets filled in: for the step's process only, never for the store."""
    if not allowed:
        return dict(values)
    return {
        name: TypedValue.from_dict({"type": item.type.value, "value": reveal(item.value, os.environ, allowed)})
        for name, item in values.items()
    }
