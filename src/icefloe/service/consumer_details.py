"""One consumer as its page shows it: positions, captures, the references that it holds on its sources, and what was done by hand."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from icefloe.errors import IcefloeError, NotFoundError
from icefloe.lake import pins
from icefloe.service.client import Client
from icefloe.service.consumer_positions import ConsumerPosition
from icefloe.service.consumers import CaptureView, capture_view
from icefloe.service.tables import positions
from icefloe.store import audits, captures
from icefloe.store.audits import AuditRecord

MOST_CAPTURES = 20


@dataclass(frozen=True, slots=True)
class HeldRef:
    """A pin or the checkpoint's tag on a source."""

    table: str
    name: str
    kind: str
    snapshot_id: int
    capture: str | None = None
    expires_at: float | None = None


@dataclass(frozen=True, slots=True)
class ConsumerDetails:
    consumer: str
    workflow_id: str
    version: int
    created_at: float
    sources: tuple[ConsumerPosition, ...]
    targets: tuple[str, ...]
    captures: tuple[CaptureView, ...]
    held: tuple[HeldRef, ...]
    by_hand: tuple[AuditRecord, ...]

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def show(client: Client, name: str) -> ConsumerDetails:
    with client.database.read() as connection:
        record = captures.consumer(connection, name)
        if record is None:
            raise NotFoundError(f"there is no consumer {name!r}", hint="icefloe consumers")
        recent = captures.recent_captures(connection, consumer_name=name, most=MOST_CAPTURES)
        targets = captures.targets_of(connection, name)
        by_hand = audits.listing(connection, subject=name, most=20)
    found = positions(client, consumer=name)
    return ConsumerDetails(
        name,
        record.workflow_id,
        record.version,
        record.created_at,
        tuple(found),
        tuple(targets),
        tuple(capture_view(one) for one in recent),
        tuple(_held(client, name, [one.table for one in found])),
        tuple(by_hand),
    )


def _held(client: Client, name: str, tables: list[str]) -> list[HeldRef]:
    tag, owner = pins.checkpoint_tag(name), pins.slug(name)
    found = []
    for table, loaded in client.table_metadata.load(tables).items():
        if isinstance(loaded, IcefloeError):
            continue  # its position says why
        ref = loaded.metadata.refs.get(tag)
        if ref is not None:
            found.append(HeldRef(table, tag, "checkpoint", ref.snapshot_id))
        for pin in pins.pins_of(loaded.metadata):
            if pin.owner == owner:
                expires = pin.expires_ms / 1000 if pin.expires_ms else None
                found.append(HeldRef(table, pin.name, "pin", pin.snapshot_id, pin.capture, expires))
    return found
