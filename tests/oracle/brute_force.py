"""What happened to a table, found out the slow way: by Spark's metadata tables and by the shadow's rows.

Nothing here imports Icefloe. Files come from Iceberg's own ``all_entries`` and ``files``, rows from reads of old snapshots
with ``_file``, values from the shadow.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tests.histories.history import Commit, History, Row, quoted
from tests.histories.kinds import comparable

ADDED, DELETED = 1, 2


@dataclass(frozen=True)
class File:
    """One file of the table, as a metadata table tells it."""

    key: str
    """The path; with the offset, where one Puffin file holds the deletion vectors of several data files."""
    path: str
    content: int
    rows: int
    bytes: int
    spec_id: int
    partition: frozenset[tuple[str, Any]]
    """Partition field name to value, without the NULLs: metadata tables show one struct for all specs."""


@dataclass(frozen=True)
class Totals:
    files: int
    rows: int
    bytes: int


def totals(files: Iterable[File]) -> Totals:
    found = list(files)
    return Totals(len(found), sum(f.rows for f in found), sum(f.bytes for f in found))


class BruteForce:
    """Brute force over one table at one moment."""

    def __init__(self, history: History) -> None:
        self.history = history

    @cached_property
    def _entries(self) -> dict[tuple[int, int], dict[str, File]]:
        found: dict[tuple[int, int], dict[str, File]] = {}
        rows = self.history.spark.sql(
            f"SELECT status, snapshot_id, {self._columns('data_file.')} FROM {self.history.name}.all_entries"
            f" WHERE status IN ({ADDED}, {DELETED})"
        ).collect()
        for row in rows:
            file = _file(row)
            found.setdefault((row.snapshot_id, row.status), {})[file.key] = file
        return found

    def added(self, snapshot: int, *, content: int | None = 0) -> dict[str, File]:
        """Files a snapshot added: data files, or delete files (``content=None``)."""
        files = self._entries.get((snapshot, ADDED), {})
        return {p: f for p, f in files.items() if (f.content == 0) == (content == 0)}

    def removed(self, snapshot: int) -> dict[str, File]:
        return {p: f for p, f in self._entries.get((snapshot, DELETED), {}).items() if f.content == 0}

    def touched(self, snapshot: int) -> bool:
        """Whether it may have changed rows. Any commit may sweep out delete files that apply to nothing any more."""
        return (snapshot, ADDED) in self._entries or bool(self.removed(snapshot))

    def live(self, snapshot: int) -> dict[str, File]:
        """All live files of a snapshot, data and delete files."""
        rows = self.history.spark.sql(
            f"SELECT {self._columns('')} FROM {self.history.name}.files VERSION AS OF {snapshot}"
        ).collect()
        return {file.key: file for file in map(_file, rows)}

    def rows_in(self, snapshot: int, paths: Iterable[str]) -> dict[int, Row]:
        """The rows alive at a snapshot that lie in these files."""
        commit, wanted = self.history.commits[snapshot], set(paths)
        found = self.history.spark.sql(
            f"SELECT {quoted(commit.rid_name)} AS rid, _file AS path FROM {self.history.name} VERSION AS OF {snapshot}"
        ).collect()
        return {row.rid: commit.live[row.rid] for row in found if plain(row.path) in wanted}

    def _columns(self, prefix: str) -> str:
        # A table that was never partitioned has no such column in its metadata tables.
        partitioned = self.history.fields or self.history.past_fields
        names = (
            "content",
            "file_path",
            "record_count",
            "file_size_in_bytes",
            "spec_id",
            "content_offset",
            *(["partition"] if partitioned else []),
        )
        return ", ".join([prefix + name for name in names] + ([] if partitioned else ["NULL AS partition"]))

    # -- ranges of history -----------------------------------------------------------------------------------------------

    def full_past(self, snapshot: int | None) -> list[int]:
        """All ancestors that ever were, expired ones too."""
        out = []
        while snapshot is not None:
            out.append(snapshot)
            snapshot = self.history.commits[snapshot].parent
        return out

    def between(self, since: int, until: int) -> list[Commit] | None:
        """The commits in (since, until], oldest first; ``None`` if the metadata cannot show that chain any more."""
        chain = self.history.chain(until)
        if since not in chain:
            # An expired start is still named by its child, and then nothing after it is lost.
            named = bool(chain) and self.history.commits[chain[-1]].parent == since
            return [self.history.commits[s] for s in reversed(chain)] if named else None
        return [self.history.commits[s] for s in reversed(chain[: chain.index(since)])]


def _file(row: Any) -> File:
    partition = row.partition.asDict() if row.partition is not None else {}
    values = frozenset((name, comparable(value)) for name, value in partition.items() if value is not None)
    path = plain(row.file_path)
    key = path if row.content_offset is None else f"{path}#{row.content_offset}"
    return File(key, path, row.content, row.record_count, row.file_size_in_bytes, row.spec_id, values)


def plain(path: str) -> str:
    """Spark writes ``file:/x`` where PyIceberg writes ``file:///x``."""
    return "/" + path.removeprefix("file:").lstrip("/")
