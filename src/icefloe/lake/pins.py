"""Pins: references on a source that keep what a capture reads until it is committed and its keep time is over.

``to`` is held by a *branch*, since a branch is read with the table's current schema and a tag with the one its snapshot had.
Captured files that a later commit of the range removed again are held by tags on snapshots that still have them. Every pin
has an age of its own (a table's ``history.expire.max-ref-age-ms`` removes references without one, Iceberg 1.12), and a name
that tells whose it is: ``icefloe_pin__<owner>__<capture>__to``. All pins of a capture are set in one commit.
"""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Literal

from icefloe.errors import IcefloeError, UsageError
from icefloe.lake.catalog import RefChange, Tables
from icefloe.lake.errors import PinRefusedError
from icefloe.lake.metadata import TableMetadata
from icefloe.table_names import Identifier

PinMode = Literal["auto", "require", "off"]

_PREFIX = "icefloe_pin__"
_CHECKPOINT_PREFIX = "icefloe_checkpoint__"
_FOREVER_MS = 100 * 365 * 86_400_000


@dataclass(frozen=True)
class Pin:
    """One reference of ours on a table."""

    name: str
    owner: str
    capture: str
    snapshot_id: int
    kind: str
    expires_ms: int | None

    def to_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "owner": self.owner,
            "capture": self.capture,
            "snapshot_id": self.snapshot_id,
            "kind": self.kind,
            "expires_ms": self.expires_ms,
        }


@dataclass(frozen=True)
class PinReport:
    """What pinning did. ``branch`` is where to read the source at ``to``; ``None`` when it could not be pinned."""

    branch: str | None
    refs: tuple[str, ...] = ()
    refused: str | None = None
    """Why the table is not pinned, under ``pin: auto``."""


def pin(
    tables: Tables,
    identifier: Identifier,
    *,
    to_snapshot: int,
    holds: Iterable[int],
    owner: str,
    capture: str,
    keep_seconds: float,
    mode: PinMode = "auto",
    now: float | None = None,
) -> PinReport:
    """Hold ``to`` and the snapshots in ``holds``. Doing it again for the same capture changes nothing."""
    if mode not in ("auto", "require", "off"):
        raise UsageError(f"pin: {mode!r} is not known", hint="choose from: auto, require, off")
    if mode == "off":
        return PinReport(None)
    metadata = tables.load(identifier).metadata

    def change(suffix: str, snapshot_id: int, kind: str) -> RefChange:
        name = f"{_PREFIX}{slug(owner)}__{slug(capture)}__{suffix}"
        return RefChange(name, snapshot_id, kind, _age(metadata, snapshot_id, keep_seconds, now))

    changes = [change("to", to_snapshot, "branch")]
    for number, snapshot_id in enumerate(sorted(set(holds) - {to_snapshot})):
        changes.append(change(f"hold{number}", snapshot_id, "tag"))
    names = tuple(change.name for change in changes)
    if all(_is_pinned(metadata, change) for change in changes):
        return PinReport(names[0], names)
    try:
        tables.set_refs(identifier, changes)
    except IcefloeError as error:
        if error.retryable:
            # Not a refusal: the catalog is away, others were faster, or the snapshot has gone meanwhile.
            raise
        if mode == "require":
            raise PinRefusedError(
                f"the table cannot be pinned: {error.message}",
                where=error.where,
                hint="use pin: auto to go on without, or let Icefloe write branches and tags on it",
            ) from error
        return PinReport(None, refused=str(error))
    return PinReport(names[0], names)


def extend(
    tables: Tables, identifier: Identifier, *, owner: str, capture: str, keep_seconds: float, now: float | None = None
) -> tuple[str, ...]:
    """Give a capture's pins their whole time again. Those that have more than half of it left stay as they are."""
    metadata = tables.load(identifier).metadata
    start = f"{_PREFIX}{slug(owner)}__{slug(capture)}__"
    changes = []
    for ref in metadata.refs.values():
        if not ref.name.startswith(start):
            continue
        enough = _age(metadata, ref.snapshot_id, keep_seconds / 2, now)
        if ref.max_ref_age_ms is not None and ref.max_ref_age_ms < enough:
            whole = _age(metadata, ref.snapshot_id, keep_seconds, now)
            changes.append(RefChange(ref.name, ref.snapshot_id, ref.type, whole))
    if changes:
        tables.set_refs(identifier, changes)
    return tuple(change.name for change in changes)


def unpin(
    tables: Tables, identifier: Identifier, *, captures: Collection[str], owner: str | None = None
) -> tuple[str, ...]:
    """Remove the pins of captures, in one commit. Those that are gone already are fine. An owner may have been renamed since: it
    can be left out."""
    names = _pins_of_captures(tables.load(identifier).metadata, captures, owner)
    if names:
        tables.set_refs(identifier, [RefChange(name, None) for name in names])
    return names


def settle(
    tables: Tables,
    identifier: Identifier,
    *,
    consumer: str,
    snapshot_id: int | None,
    tagged: int | None,
    captures: Collection[str],
) -> tuple[str, ...]:
    """What a commit leaves to do on a source, in one commit of the table: the consumer's checkpoint tag moves from ``tagged`` to
    ``snapshot_id`` (None: it stays), and the pins of ``captures`` go. Returns the references that were changed.

    A tag that is elsewhere by then is a :class:`CommitConflictError`: somebody who knows more has moved it.
    """
    changes = [RefChange(name, None) for name in _pins_of_captures(tables.load(identifier).metadata, captures, None)]
    tag = checkpoint_tag(consumer)
    if snapshot_id is not None and snapshot_id != tagged:
        changes.append(RefChange(tag, snapshot_id, "tag", _FOREVER_MS))
    if changes:
        tables.set_refs(identifier, changes, expected={tag: tagged} if snapshot_id is not None else {})
    return tuple(change.name for change in changes)


def _pins_of_captures(metadata: TableMetadata, captures: Collection[str], owner: str | None) -> tuple[str, ...]:
    wanted = {slug(capture) for capture in captures}
    whose = None if owner is None else slug(owner)
    pins = (pin for pin in pins_of(metadata) if pin.capture in wanted)
    return tuple(pin.name for pin in pins if whose is None or pin.owner == whose)


def set_checkpoint_tag(tables: Tables, identifier: Identifier, *, consumer: str, snapshot_id: int) -> str:
    """Move a consumer's checkpoint tag: it keeps the snapshot a consumer has read up to, however slow the consumer is."""
    name = checkpoint_tag(consumer)
    tables.set_refs(identifier, [RefChange(name, snapshot_id, "tag", _FOREVER_MS)])
    return name


def remove_checkpoint_tag(tables: Tables, identifier: Identifier, *, consumer: str) -> None:
    name = checkpoint_tag(consumer)
    if name in tables.load(identifier).metadata.refs:
        tables.set_refs(identifier, [RefChange(name, None)])


def checkpoint_tag(consumer: str) -> str:
    return f"{_CHECKPOINT_PREFIX}{slug(consumer)}"


def pins_of(metadata: TableMetadata) -> list[Pin]:
    """All pins on a table."""
    pins = []
    for ref in metadata.refs.values():
        match = re.fullmatch(rf"{_PREFIX}(\w+?)__(\w+?)__(to|hold\d+)", ref.name)
        if match is None:
            continue
        snapshot = metadata.snapshots.get(ref.snapshot_id)
        expires = snapshot.timestamp_ms + ref.max_ref_age_ms if snapshot and ref.max_ref_age_ms else None
        pins.append(Pin(ref.name, match[1], match[2], ref.snapshot_id, ref.type, expires))
    return pins


def leaked(metadata: TableMetadata, *, open_captures: Iterable[str]) -> list[Pin]:
    """Pins whose capture nobody knows to be open: left by a process that died between pinning and recording."""
    known = {slug(capture) for capture in open_captures}
    return [pin for pin in pins_of(metadata) if pin.capture not in known]


def slug(text: str) -> str:
    """Letters, digits and single underscores, so that a name can stand in SQL unquoted and be taken apart again.

    Two texts never share one: what had to be changed gets a part of its hash (``a.b`` and ``a-b`` are two consumers).
    """
    plain = re.sub(r"[^A-Za-z0-9]+", "_", text).strip("_")
    return plain if plain == text and plain else f"{plain or 'x'}_{sha256(text.encode()).hexdigest()[:8]}"


def _age(metadata: TableMetadata, snapshot_id: int, keep_seconds: float, now: float | None) -> int:
    """A reference's age is counted from its snapshot's time, not from when it was made."""
    now_ms = int((time.time() if now is None else now) * 1000)
    snapshot = metadata.snapshots.get(snapshot_id)
    return (max(now_ms - snapshot.timestamp_ms, 0) if snapshot else 0) + int(keep_seconds * 1000)


def _is_pinned(metadata: TableMetadata, change: RefChange) -> bool:
    ref = metadata.refs.get(change.name)
    return ref is not None and ref.snapshot_id == change.snapshot_id
