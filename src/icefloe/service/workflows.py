"""Verbs on workflows: push, list, pause, unblock."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from shlex import quote

from sqlalchemy.engine import Connection

from icefloe.acting import who
from icefloe.config import Config
from icefloe.credentials import refuse
from icefloe.engine.definitions import Definition, Definitions
from icefloe.errors import NotFoundError, UsageError
from icefloe.service.auditing import audit
from icefloe.service.preconditions import refuse_if_changed
from icefloe.service.views import Pushed, WorkflowView, state_of_workflow
from icefloe.store import captures, definitions, runs, triggers
from icefloe.store.database import Database
from icefloe.store.definitions import VersionRecord, WorkflowRecord
from icefloe.workflow.consumers import consumers_of
from icefloe.workflow.model import IncrementalTrigger, Workflow
from icefloe.workflow.serialization import canonical
from icefloe.workflow.versions import Packed


class ConsumerDroppedError(UsageError):
    """A version names a consumer no more that has a checkpoint: pushed, it would begin again from the start, or never end."""

    code = "push.consumer-dropped"


class Workflows:
    def __init__(
        self,
        database: Database,
        cache: Definitions,
        clock: Callable[[], float] = time.time,
        *,
        catalog: str = "lake",
        config: Config | None = None,
    ) -> None:
        self._database = database
        self._cache = cache
        self._catalog = catalog
        self._config = config
        self._clock = clock

    def push(
        self,
        packed: Packed,
        *,
        source: str,
        source_name: str,
        by: str | None = None,
        warnings: tuple[str, ...] = (),
        seen: str | None = None,
    ) -> Pushed:
        """Store a definition as the workflow's next version, unless it says what the latest says already."""
        now = self._clock()
        workflow, fingerprint = packed.version.workflow, packed.version.digest()
        if self._config is not None:
            refuse(self._config, packed.version.secrets(packed.contents.__getitem__), where=source_name)
        with self._database.write() as connection:
            definitions.create_if_absent(connection, workflow.id, now)
            record = definitions.lock(connection, workflow.id)
            assert record is not None
            _refuse_if_changed(record, seen)
            latest = definitions.version(connection, workflow.id, record.latest_version)
            if latest is not None and latest.digest == fingerprint:
                return Pushed(workflow.id, latest.version, False, warnings)
            _refuse_dropped_consumers(connection, workflow)
            self._refuse_circles(connection, packed)
            version = record.latest_version + 1
            definitions.add_files(connection, packed.contents)
            text = canonical(packed.version.to_dict())
            definitions.add_version(
                connection,
                VersionRecord(workflow.id, version, fingerprint, text, source, source_name, now, who(by)),
            )
            definitions.forgive(connection, workflow.id)  # what failed may have been mended
            audit(connection, now, "push", workflow.id, {"version": version, "source": source_name}, by)
            self._database.announce(connection, "push")
            return Pushed(workflow.id, version, True, warnings)

    def _refuse_circles(self, connection: Connection, packed: Packed) -> None:
        """A workflow must not start itself through the tables it writes."""
        pushed = packed.version.workflow
        if not any(isinstance(trigger, IncrementalTrigger) for trigger in pushed.triggers):
            return
        from icefloe.triggers import cycles  # PyIceberg takes a second to import

        def reader(files: Mapping[str, str], read: Callable[[str], bytes | None]) -> Callable[[str], str | None]:
            def text(key: str) -> str | None:
                content = read(files[key]) if key in files else None
                return None if content is None else content.decode("utf-8", "replace")

            return text

        def others() -> Iterator[cycles.ParsedDefinition]:
            for record in definitions.listing(connection):
                if record.latest_version and record.id != pushed.id:
                    one = self._cache.latest(connection, record.id)
                    yield cycles.ParsedDefinition(
                        one.workflow, reader(one.files, partial(definitions.file, connection))
                    )

        mine = {file.key: file.digest for file in packed.version.files}
        definition = cycles.ParsedDefinition(pushed, reader(mine, packed.contents.get))
        cycles.refuse_cycles(definition, others(), catalog=self._catalog)

    def listing(self, after: str | None = None, most: int | None = None) -> list[WorkflowView]:
        """By id; ``after`` and ``most``: a page of them."""
        with self._database.read() as connection:
            records = definitions.listing(connection, after=after, most=most)
            return [self._view(connection, record.id) for record in records if record.latest_version]

    def exists(self, workflow_id: str) -> bool:
        with self._database.read() as connection:
            return definitions.load(connection, workflow_id) is not None

    def show(self, workflow_id: str) -> WorkflowView:
        with self._database.read() as connection:
            return self._view(connection, workflow_id)

    def latest(self, workflow_id: str) -> Definition:
        with self._database.read() as connection:
            return self._cache.latest(connection, workflow_id)

    def version(self, workflow_id: str, number: int) -> VersionRecord:
        with self._database.read() as connection:
            found = definitions.version(connection, workflow_id, number)
        if found is None:
            raise NotFoundError(f"workflow {workflow_id} has no version {number}", hint="icefloe workflows")
        return found

    def set_paused(self, workflow_id: str, paused: bool, *, by: str | None = None, seen: str | None = None) -> None:
        """Whether triggers may start it. Runs that exist are not touched. Going on forgives failures that held it back. ``seen``, here
        and below: only while its :attr:`WorkflowView.state` is this one."""
        with self._database.write() as connection:
            self._cache.latest(connection, workflow_id)
            _refuse_if_changed(definitions.lock(connection, workflow_id), seen)
            definitions.set_paused(connection, workflow_id, paused)
            if not paused:
                definitions.forgive(connection, workflow_id)
            audit(connection, self._clock(), "pause" if paused else "resume", workflow_id, {}, by)
            self._database.announce(connection, "workflow")

    def set_active(self, workflow_id: str, active: bool, *, by: str | None = None, seen: str | None = None) -> None:
        """Whether anything may start it, triggers or people. Its triggers begin anew when it is activated again."""
        with self._database.write() as connection:
            self._cache.latest(connection, workflow_id)
            record = definitions.lock(connection, workflow_id)
            _refuse_if_changed(record, seen)
            if record is None or record.active == active:
                return
            definitions.set_active(connection, workflow_id, active)
            triggers.remove(connection, workflow_id)
            if active:
                definitions.forgive(connection, workflow_id)
                definitions.touch(connection, workflow_id, self._clock())
            audit(connection, self._clock(), "activate" if active else "deactivate", workflow_id, {}, by)
            self._database.announce(connection, "workflow")

    def _view(self, connection: Connection, workflow_id: str) -> WorkflowView:
        record = definitions.load(connection, workflow_id)
        definition = self._cache.latest(connection, workflow_id)
        assert record is not None
        last = runs.latest(connection, workflow_id)
        workflow = definition.workflow
        return WorkflowView(
            id=workflow_id,
            version=definition.version,
            owner=workflow.owner,
            description=workflow.description,
            steps=len(definition.steps),
            run_strategy=workflow.run_strategy.rule.value,
            triggers=tuple(type(trigger).__name__.removesuffix("Trigger").lower() for trigger in workflow.triggers),
            paused=record.paused,
            active=record.active,
            last_run=last.id if last else None,
            last_status=last.status if last else None,
            pushed_at=record.updated_at,
        )


def _refuse_if_changed(record: WorkflowRecord | None, seen: str | None) -> None:
    if record is not None:
        now = state_of_workflow(record.latest_version, record.paused, record.active)
        refuse_if_changed(f"workflow {record.id}", now, seen)


def _refuse_dropped_consumers(connection: Connection, workflow: Workflow) -> None:
    """A checkpoint is never left behind by a push: it is carried over or given up by a word of its own."""
    named = consumers_of(workflow)
    kept = captures.consumers_of_workflow(connection, workflow.id)
    dropped = [one.name for one in kept if not any(name.covers(one.name) for name in named)]
    if not dropped:
        return
    fresh = [one.name for one in named if not one.is_pattern and captures.consumer(connection, one.name) is None]
    why = '--yes --why "…"'
    give_up = f"give it up: icefloe consumers remove {quote(dropped[0])} {why}"
    carry = [f"carry it over: icefloe consumers rename {quote(dropped[0])} {quote(new)} {why}" for new in fresh[:1]]
    raise ConsumerDroppedError(
        f"this version names the consumer {dropped[0]} no more, which has read part of its sources",
        where=workflow.id,
        hint="; or ".join((*carry, give_up)),
    )
