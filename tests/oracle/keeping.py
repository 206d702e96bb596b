"""Change tables that must outlive their source's compaction and expiry, and through which no harm may come to it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from random import Random
from typing import Any

from icefloe.capture.sources import Source
from icefloe.lake import ChangeTable, Lake
from icefloe.lake.history import checkpoint_at
from tests.histories.history import Column, History
from tests.histories.kinds import comparable
from tests.oracle.brute_force import BruteForce
from tests.oracle.comparison import Comparison
from tests.oracle.source_files import SourceFiles
from tests.oracle.tally import Tally


@dataclass(frozen=True)
class Kept:
    """A change table and what it must show."""

    table: ChangeTable
    columns: tuple[Column, ...]
    rows: Counter[tuple[Any, ...]]


@dataclass
class Keeper:
    history: History
    lake: Lake
    files: SourceFiles
    rng: Random
    tally: Tally
    kept: list[Kept] = field(default_factory=list)

    @property
    def compare(self) -> Comparison:
        return Comparison(self.history, self.tally)

    def keep(self, truth: BruteForce) -> None:
        """A pinned change table, to be read again when the source was compacted and expired."""
        h = self.history
        chain = h.chain(h.head)
        if len(chain) < 2:
            return
        since = self.rng.choice(chain[1:])
        commits = truth.between(since, chain[0]) or []
        changes = self.lake.changes(h.name, since=since)
        table = self.lake.create_change_table(changes)
        report = self.lake.pin(changes, owner="oracle", capture=f"{h.table}_{len(self.kept)}", mode="require")
        assert report.branch is not None
        h.observe()
        rows = [row for c in commits for row in c.appended.values()]
        self.kept.append(Kept(table, tuple(h.columns), h.spelled(rows)))
        self.compare.same_rows(
            "the source at the pin",
            self._read_source_at(chain[0], report.branch),
            h.spelled(h.commits[chain[0]].live.values()),
        )

    def _read_source_at(self, snapshot: int, branch: str) -> Counter[tuple[Any, ...]]:
        """As a capture publishes it: by the pin's branch, or by a table of its own where the schema is newer."""
        h = self.history
        metadata = self.lake.table(h.name).metadata
        source = Source(h.name, "main", None, checkpoint_at(metadata, snapshot)).under(metadata)
        if not source.behind_schema:
            return h.read(f"{h.name}.branch_{branch}")
        whole = self.lake.create_change_table(self.lake.changes(h.name, until=snapshot, details=False))
        self.tally.reads["the source at an older schema"] += 1
        try:
            return h.read(whole.name)
        finally:
            self.lake.drop_change_table(whole.name)

    def finish(self) -> None:
        """Compact and expire the source, try to do harm through the change tables, and read them again."""
        h = self.history
        if h.head is not None and self.kept:
            h.sql(f"CALL system.rewrite_data_files(table => '{h.name}', options => map('rewrite-all', 'true'))")
            h.sql(
                f"CALL system.expire_snapshots(table => '{h.name}', older_than => TIMESTAMP'2100-01-01 00:00:00', retain_last => 1)"
            )
            h.observe()
        before = self.files.inventory()
        for kept in self.kept:
            found = self._read_as(kept)
            self.compare.same_rows("a pinned change table after compaction and expiry", found, kept.rows)
            self.tally.reads["pinned, after compaction and expiry"] += 1
            self._try_to_harm(kept.table)
            self.compare.same("the source after attempts on its change table", self.files.inventory(), before)
        self.lake.clean_change_tables(older_than_seconds=0)
        self.compare.same("the source after cleaning up", self.files.inventory(), before)

    def _read_as(self, kept: Kept) -> Counter[tuple[Any, ...]]:
        columns = ", ".join(f"{c.kind.read.format(c.sql)} AS c{i}" for i, c in enumerate(kept.columns))
        rows = self.history.spark.sql(f"SELECT {columns} FROM {kept.table.name}").collect()
        return Counter(tuple(comparable(v) for v in row) for row in rows)

    def _try_to_harm(self, table: ChangeTable) -> None:
        spark = self.history.spark
        attempts = [
            f"CALL system.expire_snapshots(table => '{table.name}', older_than => TIMESTAMP'2100-01-01 00:00:00', retain_last => 1)",
            f"CALL system.remove_orphan_files(table => '{table.name}', older_than => TIMESTAMP'2020-01-01 00:00:00')",
            f"DROP TABLE {table.name} PURGE",
        ]
        for statement in attempts:
            try:
                spark.sql(statement).collect()
            except Exception as error:
                if "GC is disabled" not in str(error):
                    raise
                self.tally.reads["harm refused"] += 1
            else:
                self.tally.reads["harm tried in vain"] += 1
