"""Iceberg metadata, and nothing else: history, changes, ranges, change tables, pins. No JVM, no data file opened.

>>> lake = Lake.open(icefloe.config.load())
>>> changes = lake.changes("db.playback", since=4358109269898292847, columns=["event_day"])
>>> changes.added.rows, changes.ranges["event_day"].min
>>> lake.create_change_table(changes).name
'icdc.playback_20260301t120000_5f3a9c'
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from icefloe import config as configuration
from icefloe.lake import history, pins
from icefloe.lake.catalog import LoadedTable, Tables
from icefloe.lake.change_table import ChangeTable, ChangeTables, Content
from icefloe.lake.changes import ChangeSet, OnGap, find_changes
from icefloe.lake.history import Checkpoint
from icefloe.lake.partitions import PartitionChange
from icefloe.lake.pins import Pin, PinMode, PinReport
from icefloe.lake.ranges import Range
from icefloe.lake.survey import FileCounts
from icefloe.table_names import format_identifier, parse_identifier

__all__ = [
    "ChangeSet",
    "ChangeTable",
    "Checkpoint",
    "FileCounts",
    "Lake",
    "PartitionChange",
    "Pin",
    "PinReport",
    "Range",
]


class Lake:
    """The tables of one catalog, seen through their metadata.

    Each call loads the table's metadata once and answers from that one moment. Nothing is remembered between calls, and
    nothing is written but what :meth:`create_change_table`, :meth:`pin` and their opposites say.
    """

    def __init__(self, tables: Tables, *, namespace: str = "icdc", location: str | None = None) -> None:
        self.tables = tables
        self._change_tables = ChangeTables(tables, namespace=namespace, location=location)

    @classmethod
    def open(cls, config: configuration.Config) -> Lake:
        where = config.change_tables
        return cls(Tables.open(config.catalog), namespace=where.namespace, location=where.location)

    def table(self, name: str | Sequence[str]) -> LoadedTable:
        """A table's metadata as it is now."""
        return self.tables.load(self._identifier(name))

    def canonical_name(self, name: str | Sequence[str]) -> str:
        """One spelling per table, whether or not the catalog was named."""
        return format_identifier(self._identifier(name))

    def checkpoint(self, table: str | Sequence[str], *, ref: str = "main") -> Checkpoint | None:
        """The head of a ref as a checkpoint; ``None`` for a table without snapshots."""
        loaded = self.table(table)
        head = history.head(loaded.metadata, ref, table=loaded.name)
        return history.checkpoint_at(loaded.metadata, head) if head is not None else None

    def changes(
        self,
        table: str | Sequence[str],
        *,
        since: int | Checkpoint | None = None,
        until: int | None = None,
        ref: str = "main",
        operations: Sequence[str] = ("append",),
        columns: Sequence[str] = (),
        on_gap: OnGap = "fail",
        details: bool = True,
    ) -> ChangeSet:
        """What happened to ``table`` in (since, until] along ``ref``.

        Without ``since`` it is the table as it is. ``operations`` are those that count (``append``, ``overwrite``,
        ``delete``); others are reported as skipped. ``columns`` are those whose ranges are wanted. ``on_gap`` says what to
        do when the history between the two is lost: ``fail`` with the reason, take the table as it is (``full``), or compare
        live files (``diff``). Without ``details`` no manifest is opened, and partitions and bytes are not told.
        """
        return self.changes_of(
            self.table(table),
            since=since,
            until=until,
            ref=ref,
            operations=operations,
            columns=columns,
            on_gap=on_gap,
            details=details,
        )

    def changes_of(
        self,
        table: LoadedTable,
        *,
        since: int | Checkpoint | None = None,
        until: int | None = None,
        ref: str = "main",
        operations: Sequence[str] = ("append",),
        columns: Sequence[str] = (),
        on_gap: OnGap = "fail",
        details: bool = True,
    ) -> ChangeSet:
        """:meth:`changes` of a table that is loaded already."""
        checkpoint = Checkpoint("", since) if isinstance(since, int) else since
        return find_changes(
            table,
            since=checkpoint,
            until=until,
            ref=ref,
            operations=operations,
            columns=columns,
            on_gap=on_gap,
            details=details,
        )

    def create_change_table(
        self,
        changes: ChangeSet,
        *,
        name: str | None = None,
        content: Content = "added",
        table: LoadedTable | None = None,
    ) -> ChangeTable:
        """Register a change table of ``changes``. Its name is new each time unless one is given.

        ``content="removed"`` makes one of the removed files instead. ``table`` is the loaded table that the changes were
        found in; without it the table is loaded again, and the change table has the schema of that moment.
        """
        loaded = table or self.table(changes.table)
        return self._change_tables.create(loaded, changes, name=name, content=content)

    @property
    def change_table_namespace(self) -> tuple[str, ...]:
        return self._change_tables.namespace

    def change_tables(self) -> list[ChangeTable]:
        return self._change_tables.list()

    def drop_change_table(self, name: str) -> ChangeTable:
        """Drop one by its name, with or without the namespace."""
        full = name if "." in name else ".".join((*self._change_tables.namespace, name))
        return self._change_tables.drop(self._identifier(full))

    def point_change_table(self, alias: str, *, at: str) -> None:
        """Let a stable name lead to a change table."""
        self._change_tables.point(self._identifier(alias), self._identifier(at))

    def unpoint_change_table(self, alias: str, *, at: str) -> None:
        self._change_tables.unpoint(self._identifier(alias), self._identifier(at))

    def clean_change_tables(self, *, older_than_seconds: float = 3600) -> tuple[str, ...]:
        """Delete what captures that died left behind. Returns the names of the folders."""
        return self._change_tables.clean(older_than_seconds=older_than_seconds)

    def pin(
        self, changes: ChangeSet, *, owner: str, capture: str, keep_seconds: float = 7 * 86_400, mode: PinMode = "auto"
    ) -> PinReport:
        """Keep the files of ``changes`` from being expired. See :mod:`icefloe.lake.pins`."""
        if changes.to_snapshot is None:
            return PinReport(None)
        return pins.pin(
            self.tables,
            self._identifier(changes.table),
            to_snapshot=changes.to_snapshot,
            holds=changes.holds,
            owner=owner,
            capture=capture,
            keep_seconds=keep_seconds,
            mode=mode,
        )

    def extend_pins(self, table: str, *, owner: str, capture: str, keep_seconds: float) -> tuple[str, ...]:
        """Give a capture's pins their whole time again. Returns those that needed it."""
        identifier = self._identifier(table)
        return pins.extend(self.tables, identifier, owner=owner, capture=capture, keep_seconds=keep_seconds)

    def unpin(self, table: str, *, capture: str, owner: str | None = None) -> tuple[str, ...]:
        return pins.unpin(self.tables, self._identifier(table), captures=[capture], owner=owner)

    def unpin_all(self, table: str, *, captures: Collection[str]) -> tuple[str, ...]:
        """Remove the pins of several captures in one commit."""
        return pins.unpin(self.tables, self._identifier(table), captures=captures)

    def settle_pins(
        self, table: str, *, consumer: str, snapshot_id: int | None, tagged: int | None, captures: Collection[str]
    ) -> tuple[str, ...]:
        """Move a consumer's checkpoint tag and remove the pins of captures, in one commit. See :func:`icefloe.lake.pins.settle`."""
        identifier = self._identifier(table)
        return pins.settle(
            self.tables, identifier, consumer=consumer, snapshot_id=snapshot_id, tagged=tagged, captures=captures
        )

    def set_checkpoint_tag(self, table: str, *, consumer: str, snapshot_id: int) -> str:
        return pins.set_checkpoint_tag(self.tables, self._identifier(table), consumer=consumer, snapshot_id=snapshot_id)

    def remove_checkpoint_tag(self, table: str, *, consumer: str) -> None:
        pins.remove_checkpoint_tag(self.tables, self._identifier(table), consumer=consumer)

    def pins(self, table: str) -> list[Pin]:
        return pins.pins_of(self.table(table).metadata)

    def leaked_pins(self, table: str, *, open_captures: Iterable[str] = ()) -> list[Pin]:
        return pins.leaked(self.table(table).metadata, open_captures=open_captures)

    def _identifier(self, name: str | Sequence[str]) -> tuple[str, ...]:
        return parse_identifier(name, catalog=self.tables.name)
