"""Verbs on consumers and captures: list, show, rename, rewind, fast-forward, remove, abandon, audit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

from icefloe.acting import who
from icefloe.engine.conductor import Conductor
from icefloe.errors import IcefloeError, NotFoundError, UsageError
from icefloe.lake import Lake
from icefloe.lake.catalog import LoadedTable
from icefloe.service.consumer_positions import ConsumerPosition, with_lag
from icefloe.service.interventions import ConsumerMovedError, Deed, InterventionRefusedError, Interventions, Preview
from icefloe.store import audits, captures
from icefloe.store.audits import AuditRecord
from icefloe.store.captures import CaptureRecord, CheckpointRecord, ConsumerRecord
from icefloe.store.database import Database


@dataclass(frozen=True, slots=True)
class ConsumerView:
    """One consumer: where it stands in each source, where its batches went, its newest captures."""

    consumer: str
    workflow_id: str
    version: int
    sources: tuple[ConsumerPosition, ...]
    targets: tuple[str, ...]
    captures: tuple[CaptureView, ...]

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class CaptureView:
    """``sources`` have, each, ``table``, ``start``, ``end``, ``change_table`` and ``found``."""

    id: str
    consumer: str
    state: str
    run_id: str
    step_path: str
    base_version: int
    rows: int
    created_at: float
    built_at: float | None
    ended_at: float | None
    released: bool
    sources: tuple[dict[str, Any], ...]
    published: tuple[dict[str, Any], ...] = ()

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


class Consumers:
    """Looks are free. A verb that changes something only shows what it would do unless ``yes`` is said, with a reason. ``agreed`` is the
    digest of a preview: with it the verb does what that preview showed, or nothing.

    with Client() as icefloe:
        icefloe.consumers.rewind("playback.agg/capture_change", to="2026-03-01T00:00:00Z")
        icefloe.consumers.rewind("playback.agg/capture_change", to="2026-03-01T00:00:00Z", yes=True, why="bad load")
    """

    def __init__(self, database: Database, lake: Lake, conductor: Conductor) -> None:
        self._database = database
        self._lake = lake
        self._interventions = Interventions(database, lake, conductor)

    # -- looking -----------------------------------------------------------------------------------------------------------

    def names(self, after: str | None = None, most: int | None = None) -> list[str]:
        with self._database.read() as connection:
            return [one.name for one in captures.all_consumers(connection, after=after, most=most)]

    def listing(self, after: str | None = None, most: int | None = None) -> list[ConsumerPosition]:
        """Every consumer and source. Each source's metadata is loaded once, however many consumers it has. ``after`` and ``most``: a page
        of consumers, by name."""
        with self._database.read() as connection:
            found = [
                (one, captures.checkpoints_of(connection, one.name), captures.open_capture(connection, one.name))
                for one in captures.all_consumers(connection, after=after, most=most)
            ]
        tables = self._tables(
            source for _, checkpoints, held in found for source in _sources(checkpoints.values(), held)
        )
        return [
            standing
            for consumer, checkpoints, held in found
            for standing in _standings(consumer, checkpoints, held, tables)
        ]

    def show(self, name: str) -> ConsumerView:
        with self._database.read() as connection:
            consumer = captures.consumer(connection, name)
            if consumer is None:
                raise NotFoundError(f"there is no consumer {name!r}", hint="icefloe consumers")
            checkpoints = captures.checkpoints_of(connection, name)
            held = captures.open_capture(connection, name)
            targets = captures.targets_of(connection, name)
            recent = captures.recent_captures(connection, consumer_name=name, most=10)
        tables = self._tables(_sources(checkpoints.values(), held))
        return ConsumerView(
            name,
            consumer.workflow_id,
            consumer.version,
            tuple(_standings(consumer, checkpoints, held, tables)),
            tuple(targets),
            tuple(capture_view(one) for one in recent),
        )

    def captures(
        self,
        consumer: str | None = None,
        most: int = 50,
        *,
        before: tuple[float, str] | None = None,
        state: str | None = None,
    ) -> list[CaptureView]:
        """The newest captures first; ``before``: older than the one that was taken then and has this id."""
        with self._database.read() as connection:
            found = captures.recent_captures(connection, consumer_name=consumer, most=most, before=before, state=state)
        return [capture_view(one) for one in found]

    def capture(self, capture_id: str) -> CaptureView:
        """One capture, with the snapshots of targets that its batch was published as."""
        with self._database.read() as connection:
            found = captures.capture(connection, capture_id)
            published = captures.publications_of(connection, [capture_id])
        if found is None:
            raise NotFoundError(f"there is no capture {capture_id!r}", hint="icefloe captures")
        return capture_view(found, published)

    def audit(self, consumer: str | None = None, most: int = 50, before: int | None = None) -> list[AuditRecord]:
        """Who did what by hand, when and why; the newest first. ``before``: older than the one with this ``seq``."""
        with self._database.read() as connection:
            return audits.listing(connection, subject=consumer, most=most, before=before)

    # -- changing ----------------------------------------------------------------------------------------------------------

    def rewind(
        self,
        consumer: str,
        to: str | int,
        *,
        table: str | None = None,
        yes: bool = False,
        why: str = "",
        by: str | None = None,
        agreed: str | None = None,
    ) -> Preview:
        """Move a checkpoint back: ``earliest``, a snapshot or a time. What lies between is captured again."""
        deed = _deed(yes, why, by, agreed)
        with _agreement(deed):
            return self._interventions.rewind(consumer, to, table, deed)

    def fast_forward(
        self,
        consumer: str,
        to: str | int = "latest",
        *,
        table: str | None = None,
        yes: bool = False,
        why: str = "",
        by: str | None = None,
        agreed: str | None = None,
    ) -> Preview:
        """Move a checkpoint on without capturing what lies between."""
        deed = _deed(yes, why, by, agreed)
        with _agreement(deed):
            return self._interventions.fast_forward(consumer, to, table, deed)

    def rename(
        self,
        consumer: str,
        new: str,
        *,
        yes: bool = False,
        why: str = "",
        by: str | None = None,
        agreed: str | None = None,
    ) -> Preview:
        """Let a checkpoint go on under another name."""
        deed = _deed(yes, why, by, agreed)
        with _agreement(deed):
            return self._interventions.rename(consumer, new, deed)

    def remove(
        self, consumer: str, *, yes: bool = False, why: str = "", by: str | None = None, agreed: str | None = None
    ) -> Preview:
        """Forget how far a consumer has read."""
        deed = _deed(yes, why, by, agreed)
        with _agreement(deed):
            return self._interventions.remove(consumer, deed)

    def abandon(
        self, capture_id: str, *, yes: bool = False, why: str = "", by: str | None = None, agreed: str | None = None
    ) -> Preview:
        """Give up an open capture; the checkpoint stays."""
        deed = _deed(yes, why, by, agreed)
        with _agreement(deed):
            return self._interventions.abandon(capture_id, deed)

    def _tables(self, names: Iterable[str]) -> dict[str, LoadedTable | IcefloeError]:
        tables: dict[str, LoadedTable | IcefloeError] = {}
        for name in names:
            if name not in tables:
                try:
                    tables[name] = self._lake.table(name)
                except IcefloeError as error:
                    tables[name] = error
        return tables


@contextmanager
def _agreement(deed: Deed | None) -> Iterator[None]:
    """A verb that was agreed to by its preview was possible then: that it is not any more means that the consumer has moved."""
    try:
        yield
    except (NotFoundError, UsageError, InterventionRefusedError) as error:
        if deed is None or deed.agreed is None or not deed.why.strip():
            raise
        raise ConsumerMovedError(
            f"it is not any more as the preview showed it: {error.message}",
            where=error.where,
            hint="nothing was done: look at a new preview, and decide again",
        ) from error


def _deed(yes: bool, why: str, by: str | None, agreed: str | None) -> Deed | None:
    return Deed(who(by), why, agreed) if yes else None


def _sources(checkpoints: Iterable[CheckpointRecord], held: CaptureRecord | None) -> dict[str, str]:
    """Every source, with the ref that is read."""
    found = {source["table"]: source["ref"] for source in held.sources} if held else {}
    found |= {one.source: one.ref for one in checkpoints}
    return dict(sorted(found.items()))


def _standings(
    consumer: ConsumerRecord,
    checkpoints: dict[str, CheckpointRecord],
    held: CaptureRecord | None,
    tables: dict[str, LoadedTable | IcefloeError],
) -> list[ConsumerPosition]:
    found = []
    for source, ref in _sources(checkpoints.values(), held).items():
        checkpoint = checkpoints.get(source)
        at = checkpoint.snapshot_id if checkpoint else None
        standing = ConsumerPosition(
            consumer.name, source, at, consumer.version, None, None, None, held.id if held else None
        )
        found.append(with_lag(standing, checkpoint, ref, tables[source]))
    return found


def capture_view(record: CaptureRecord, published: Iterable[dict[str, Any]] = ()) -> CaptureView:
    return CaptureView(
        record.id,
        record.consumer,
        record.state,
        record.run_id,
        record.step_path,
        record.base_version,
        sum(source["found"].get("added_rows") or 0 for source in record.sources),
        record.created_at,
        record.built_at,
        record.ended_at,
        record.released,
        tuple(record.sources),
        tuple(published),
    )
