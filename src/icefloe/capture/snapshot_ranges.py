"""Which range of each source a capture takes: from the checkpoint to the head of the ref, or less where it is bounded."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from icefloe.capture.completeness import stated_watermark
from icefloe.capture.errors import StartError
from icefloe.capture.sources import Source
from icefloe.lake import Checkpoint, Lake, history
from icefloe.lake.catalog import LoadedTable
from icefloe.lake.errors import HistoryLostError
from icefloe.lake.metadata import Snapshot
from icefloe.store.captures import CheckpointRecord


@dataclass(frozen=True, slots=True)
class Bounds:
    """A soft bound on what one capture takes. Whole snapshots only, and always at least one."""

    snapshots: int | None = None
    files: int | None = None
    rows: int | None = None
    bytes: int | None = None

    @property
    def any(self) -> bool:
        return any(bound is not None for bound in (self.snapshots, self.files, self.rows, self.bytes))


def plan(
    lake: Lake,
    table: str,
    *,
    ref: str,
    checkpoint: CheckpointRecord | None,
    start: str | int | None,
    bounds: Bounds,
    watermark: float | None = None,
) -> Source:
    """The range of one source. Nothing is read but the table's metadata file.

    ``watermark``: how far the source was said to be complete, before this looks at its head.
    """
    loaded = lake.table(table)
    head = history.head(loaded.metadata, ref, table=loaded.name)
    if checkpoint is not None:
        since: Checkpoint | None = Checkpoint(
            checkpoint.table_uuid, checkpoint.snapshot_id, checkpoint.sequence_number, checkpoint.schema_id
        )
    else:
        since = starting_point(loaded, head, start)
    end = history.checkpoint_at(loaded.metadata, head) if head is not None else None
    if since is not None and end is not None and bounds.any:
        end = _bounded(loaded, since, end, ref, bounds)
    at_head = head == (end.snapshot_id if end is not None else None) and ref == "main"
    through = stated_watermark(watermark, loaded.metadata.properties) if at_head else None
    return Source(loaded.name, ref, since, end, through=through).under(loaded.metadata)


def starting_point(
    table: LoadedTable, head: int | None, start: str | int | None, *, word: str = "start"
) -> Checkpoint | None:
    """Where a consumer without a checkpoint begins. ``None`` is the beginning: the table as it is.

    ``word`` is what the setting is called where the user wrote it.
    """
    metadata = table.metadata
    if start is None or start == "earliest":
        return None
    if start == "latest":
        return history.checkpoint_at(metadata, head) if head is not None else None
    chain = list(history.ancestors(metadata, head)) if head is not None else []
    if isinstance(start, int) or start.lstrip("-").isdigit():
        wanted = int(start)
        if all(snapshot.id != wanted for snapshot in chain):
            raise StartError(f"{word}: snapshot {wanted} is not in the table's history", where=table.name)
        return history.checkpoint_at(metadata, wanted)
    moment = _moment(start, table.name, word)
    # The user names a time; the chain decides what came before what, and the first ancestor not younger is taken.
    for snapshot in chain:
        if snapshot.timestamp_ms <= moment.timestamp() * 1000:
            return history.checkpoint_at(metadata, snapshot.id)
    if chain and chain[-1].parent_id is not None:
        raise StartError(
            f"{word}: the history before {datetime.fromtimestamp(chain[-1].timestamp_ms / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC is expired",
            where=table.name,
            hint=f"{word}: earliest takes the table as it is",
        )
    return None


def _moment(text: str, table: str, word: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise StartError(
            f"{word}: {text!r} is not known",
            where=table,
            hint="use earliest, latest, a snapshot id or a time such as 2026-03-01T00:00:00Z",
        ) from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _bounded(table: LoadedTable, since: Checkpoint, end: Checkpoint, ref: str, bounds: Bounds) -> Checkpoint:
    """The last snapshot up to which the bounds hold; a lost history is left to the build, which knows what to do."""
    try:
        chain = history.between(table.metadata, since, end.snapshot_id, ref=ref, table=table.name)
    except HistoryLostError:
        return end
    amounts = {"snapshots": 0, "files": 0, "rows": 0, "bytes": 0}
    last = None
    for snapshot in chain:
        for name, amount in _amounts(snapshot).items():
            amounts[name] += amount
        over = any((bound := getattr(bounds, name)) is not None and amounts[name] > bound for name in amounts)
        if over and last is not None:
            break
        last = snapshot
    return history.checkpoint_at(table.metadata, last.id) if last is not None else end


def _amounts(snapshot: Snapshot) -> dict[str, int]:
    """By the summary, which is good enough for a soft bound."""

    def number(key: str) -> int:
        text = snapshot.summary.get(key, "0")
        return int(text) if text.isdigit() else 0

    return {
        "snapshots": 1,
        "files": number("added-data-files"),
        "rows": number("added-records"),
        "bytes": number("added-files-size"),
    }
