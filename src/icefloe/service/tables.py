"""Tables as pages and programs look at them: all that anything names, and one with its snapshots, references and readers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any

from icefloe.capture.completeness import stated_watermark
from icefloe.errors import IcefloeError, NotFoundError
from icefloe.lake import history, pins
from icefloe.lake.catalog import LoadedTable
from icefloe.lake.metadata import Ref, Snapshot, TableMetadata
from icefloe.service.client import Client
from icefloe.service.consumer_positions import ConsumerPosition, with_lag
from icefloe.service.definition_tables import KnownTables
from icefloe.service.freshness import TableFreshness, behind_goals, freshness_of, head_of, number
from icefloe.store import captures
from icefloe.store.captures import CaptureRecord, CheckpointRecord
from icefloe.table_names import format_identifier, parse_identifier

MOST_TABLES = 300
MOST_SNAPSHOTS = 100
MOST_REFS = 200
Loaded = Mapping[str, LoadedTable | IcefloeError]


@dataclass(frozen=True, slots=True)
class TableSummary:
    """``rows``, ``files``, ``bytes``: of the head of ``main``, as its writer counted. ``goal`` None: nothing in Icefloe writes it."""

    table: str
    is_source: bool
    is_target: bool
    problem: str | None
    newest_at: float | None
    rows: int | None
    files: int | None
    bytes: int | None
    complete_through: float | None
    goal: TableFreshness | None
    consumers: tuple[ConsumerPosition, ...]
    readers: tuple[str, ...]
    writers: tuple[str, ...]
    missing: bool = False
    """It cannot be read since the catalog does not have it."""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class TableListing:
    """``cut``: why there are more. ``elsewhere``: other tables of the namespace that was asked for."""

    tables: tuple[TableSummary, ...]
    cut: str | None = None
    elsewhere: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class SnapshotView:
    """``capture``, ``run`` and ``step``: the marks of the batch that it published; None: somebody else's commit."""

    id: int
    parent_id: int | None
    at: float
    operation: str
    added_rows: int | None
    removed_rows: int | None
    added_files: int | None
    removed_files: int | None
    total_rows: int | None
    refs: tuple[str, ...]
    run: str | None
    step: str | None
    captures: tuple[str, ...]
    consumer: str | None


@dataclass(frozen=True, slots=True)
class RefView:
    """``kind``: branch, tag, or what Icefloe has made it for: pin, checkpoint, attempt. ``owner``: the consumer, as far as it is known."""

    name: str
    kind: str
    snapshot_id: int
    at: float | None
    owner: str | None = None
    capture: str | None = None
    expires_at: float | None = None


@dataclass(frozen=True, slots=True)
class ColumnView:
    id: int
    name: str
    type: str
    required: bool
    comment: str


@dataclass(frozen=True, slots=True)
class TableView:
    """One table. ``partitioned_by``: the current spec's fields; ``snapshots``: those of ``main``, newest first, at most so many."""

    summary: TableSummary
    uuid: str
    format_version: int
    location: str
    columns: tuple[ColumnView, ...]
    partitioned_by: tuple[str, ...]
    earlier_specs: tuple[tuple[str, ...], ...]
    sorted_by: tuple[str, ...]
    snapshots: tuple[SnapshotView, ...]
    snapshot_count: int
    refs: tuple[RefView, ...]
    ref_count: int

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def listing(client: Client, *, search: str = "", namespace: str | None = None) -> TableListing:
    """Every table that definitions, consumers, captures, publications or watermarks name; ``namespace``: those that the catalog lists there
    are named, too."""
    known = client.definition_tables.known()
    wanted = search.strip().lower()
    names = [name for name in known.tables if wanted in name.lower()]
    cut = f"the first {MOST_TABLES} of {len(names)} are shown: search for a name" if len(names) > MOST_TABLES else None
    names = names[:MOST_TABLES]
    found = summaries(client, known, names)
    elsewhere: tuple[str, ...] = ()
    if namespace:
        elsewhere = tuple(name for name in names_in(client, namespace) if name not in set(known.tables))[:MOST_TABLES]
    return TableListing(tuple(found), cut, elsewhere)


def names_in(client: Client, namespace: str) -> list[str]:
    """What the catalog lists of a namespace. Raises when it does not answer."""
    tables = client.table_metadata.lake.tables
    parts = parse_identifier(f"{namespace}.x", catalog=tables.name)[:-1]
    return sorted(format_identifier(name) for name in tables.names_in(parts))


def canonical_name(client: Client, name: str) -> str:
    return format_identifier(parse_identifier(name, catalog=client.config.catalog.name))


def show(client: Client, name: str) -> TableView:
    """One table, whether or not anything names it. Raises when it cannot be read."""
    table = canonical_name(client, name)
    known = client.definition_tables.known()
    (summary,) = summaries(client, known, [table])
    loaded = client.table_metadata.load([table])[table]
    if isinstance(loaded, IcefloeError):
        raise loaded
    metadata = loaded.metadata
    refs = _refs(metadata, known)
    by_snapshot: dict[int, list[str]] = {}
    for ref in refs:
        by_snapshot.setdefault(ref.snapshot_id, []).append(ref.name)
    head = history.head(metadata, "main", table=table)
    walk = history.ancestors(metadata, head) if head is not None else iter(())
    return TableView(
        summary,
        metadata.uuid,
        metadata.format_version,
        metadata.location,
        tuple(_columns(metadata)),
        *_partitioning(metadata),
        tuple(_sorting(metadata)),
        tuple(_snapshot(one, by_snapshot.get(one.id, ())) for one in islice(walk, MOST_SNAPSHOTS)),
        len(metadata.snapshots),
        tuple(refs[:MOST_REFS]),
        len(refs),
    )


def summary_of(client: Client, name: str) -> TableSummary:
    """One table as the listing shows it; a table that cannot be read says why."""
    (found,) = summaries(client, client.definition_tables.known(), [canonical_name(client, name)])
    return found


def positions(client: Client, *, table: str | None = None, consumer: str | None = None) -> list[ConsumerPosition]:
    """Every consumer in every source, or in one; with metadata as it was some seconds ago."""
    with client.database.read() as connection:
        records = captures.all_consumers(connection)
        checkpoints = captures.all_checkpoints(connection)
        opened = captures.open_captures(connection)
    by_consumer: dict[str, dict[str, CheckpointRecord]] = {}
    for one in checkpoints:
        by_consumer.setdefault(one.consumer, {})[one.source] = one
    pairs: list[tuple[ConsumerPosition, CheckpointRecord | None, str]] = []
    for record in records:
        if consumer not in (None, record.name):
            continue
        held = opened.get(record.name)
        for source, ref in _sources(by_consumer.get(record.name, {}), held).items():
            if table in (None, source):
                at = by_consumer.get(record.name, {}).get(source)
                position = ConsumerPosition(
                    record.name, source, at.snapshot_id if at else None, record.version, None, None, None,
                    held.id if held else None,
                )  # fmt: skip
                pairs.append((position, at, ref))
    loaded = client.table_metadata.load({position.table for position, _, _ in pairs})
    return [with_lag(position, at, ref, loaded[position.table]) for position, at, ref in pairs]


def _sources(checkpoints: Mapping[str, CheckpointRecord], held: CaptureRecord | None) -> dict[str, str]:
    found = {source["table"]: source["ref"] for source in held.sources} if held else {}
    found |= {name: one.ref for name, one in checkpoints.items()}
    return dict(sorted(found.items()))


def summaries(client: Client, known: KnownTables, names: list[str]) -> list[TableSummary]:
    """Tables by their canonical names, in that order."""
    by_table: dict[str, list[ConsumerPosition]] = {}
    only = names[0] if len(names) == 1 else None
    for position in positions(client, table=only):
        by_table.setdefault(position.table, []).append(position)
    writers = {name: known.writers(name) for name in names}
    goals = [one for name, one in known.workflows.items() if one.freshness is not None and _writes(name, writers)]
    watched = {one.table for goal in goals if goal.plan.reading for one in goal.plan.reading.watches}
    loaded = client.table_metadata.load([*names, *watched])
    behind = behind_goals(client.database, known, goals, loaded)
    sources, targets = known.sources, known.targets
    found = []
    for name in names:
        table = loaded[name]
        is_read = isinstance(table, LoadedTable)
        head = head_of(table) if isinstance(table, LoadedTable) else None
        properties = table.metadata.properties if isinstance(table, LoadedTable) else {}
        found.append(
            TableSummary(
                name,
                name in sources,
                name in targets,
                None if is_read else _problem(table),
                head.timestamp_ms / 1000 if head else None,
                number(head, "total-records") if head else (0 if is_read else None),
                number(head, "total-data-files") if head else (0 if is_read else None),
                number(head, "total-files-size") if head else (0 if is_read else None),
                stated_watermark(known.watermarks.get(name), properties),
                freshness_of(name, known, behind, loaded) if name in targets else None,
                tuple(by_table.get(name, ())),
                tuple(known.readers(name)),
                tuple(writers[name]),
                isinstance(table, NotFoundError),
            )
        )
    return found


def _writes(workflow_id: str, writers: Mapping[str, list[str]]) -> bool:
    return any(workflow_id in names for names in writers.values())


def _problem(answer: object) -> str:
    assert isinstance(answer, IcefloeError)
    if isinstance(answer, NotFoundError):
        return "it is not in the catalog: it was dropped, renamed, or is not made yet"
    return f"{answer.code}: {answer.message}"


def _snapshot(one: Snapshot, refs: Iterable[str]) -> SnapshotView:
    marks = one.summary
    return SnapshotView(
        one.id,
        one.parent_id,
        one.timestamp_ms / 1000,
        one.operation or "unknown",
        number(one, "added-records"),
        number(one, "deleted-records"),
        number(one, "added-data-files"),
        number(one, "deleted-data-files"),
        number(one, "total-records"),
        tuple(refs),
        marks.get("icefloe.run"),
        marks.get("icefloe.step"),
        tuple(name for name in marks.get("icefloe.capture", "").split(",") if name),
        marks.get("icefloe.consumer"),
    )


def _refs(metadata: TableMetadata, known: KnownTables) -> list[RefView]:
    """``main`` first, then the newest."""
    consumers = {pins.checkpoint_tag(name): name for name in known.consumers}
    owners = {pins.slug(name): name for name in known.consumers}
    ours = {pin.name: pin for pin in pins.pins_of(metadata)}
    found = []
    for ref in metadata.refs.values():
        snapshot = metadata.snapshots.get(ref.snapshot_id)
        at = snapshot.timestamp_ms / 1000 if snapshot else None
        pin = ours.get(ref.name)
        if pin is not None:
            expires = pin.expires_ms / 1000 if pin.expires_ms else None
            owner = owners.get(pin.owner, pin.owner)
            found.append(RefView(ref.name, "pin", ref.snapshot_id, at, owner, pin.capture, expires))
        else:
            found.append(RefView(ref.name, _kind(ref), ref.snapshot_id, at, consumers.get(ref.name)))
    return sorted(found, key=lambda one: (one.name != "main", -(one.at or 0), one.name))


def _kind(ref: Ref) -> str:
    if ref.name.startswith("icefloe_checkpoint__"):
        return "checkpoint"
    return "attempt" if ref.name.startswith("icefloe_attempt__") else ref.type


def _columns(metadata: TableMetadata) -> Iterable[ColumnView]:
    for raw in _schema(metadata)["fields"]:
        required = bool(raw.get("required"))
        yield ColumnView(raw["id"], raw["name"], type_text(raw["type"]), required, str(raw.get("doc") or ""))


def _schema(metadata: TableMetadata) -> Mapping[str, Any]:
    current = metadata.raw.get("current-schema-id")
    for raw in metadata.raw.get("schemas") or []:
        if raw.get("schema-id") == current:
            found: Mapping[str, Any] = raw
            return found
    whole: Mapping[str, Any] = metadata.raw["schema"]
    return whole


def type_text(raw: Any) -> str:
    """A type as Spark SQL writes it."""
    if isinstance(raw, str):
        return raw
    if raw["type"] == "struct":
        return "struct<" + ", ".join(f"{one['name']}: {type_text(one['type'])}" for one in raw["fields"]) + ">"
    if raw["type"] == "list":
        return f"array<{type_text(raw['element'])}>"
    if raw["type"] == "map":
        return f"map<{type_text(raw['key'])}, {type_text(raw['value'])}>"
    return str(raw["type"])


def _partitioning(metadata: TableMetadata) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    current = metadata.raw.get("default-spec-id", max(metadata.specs, default=0))
    texts = {
        spec.id: tuple(
            _transformed(metadata, field.transform, field.source_id)
            for field in spec.fields
            if field.transform != "void"
        )
        for spec in metadata.specs.values()
    }
    own = texts.pop(current, ())
    return own, tuple(texts[spec_id] for spec_id in sorted(texts, reverse=True))


def _sorting(metadata: TableMetadata) -> Iterable[str]:
    current = metadata.raw.get("default-sort-order-id")
    for order in metadata.raw.get("sort-orders") or []:
        if order.get("order-id") == current:
            for one in order.get("fields") or []:
                text = _transformed(metadata, one.get("transform", "identity"), one.get("source-id"))
                yield f"{text} {one.get('direction', '')}".strip()


def _transformed(metadata: TableMetadata, transform: str, source_id: int | None) -> str:
    source = metadata.schema.fields.get(source_id) if source_id is not None else None
    column = source.name if source is not None else f"column {source_id} (dropped)"
    return column if transform == "identity" else f"{transform}({column})"
