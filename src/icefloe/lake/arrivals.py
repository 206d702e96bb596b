"""What each append of a table brought to which partition: the newest appends of a ref, from their own manifests.

Only appends count: a compaction brings nothing, and what an overwrite or a delete writes may be rows that it carries over.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice

from icefloe.lake import history
from icefloe.lake.catalog import LoadedTable
from icefloe.lake.content import operation_of, own_manifests
from icefloe.lake.manifests import DATA, EntryStatus, Manifest, readable
from icefloe.lake.metadata import Snapshot
from icefloe.lake.partitions import FILE_FIELDS, PartitionChange, PartitionsBuilder

MOST_SNAPSHOTS = 300
MOST_MANIFESTS = 1000
SECONDS = 4.0
THREADS = 8


@dataclass(frozen=True)
class Arrival:
    """One append. ``first``: the table's history begins with it."""

    snapshot_id: int
    at_ms: int
    first: bool
    partitions: tuple[PartitionChange, ...]


@dataclass(frozen=True)
class Arrivals:
    """Newest first. ``others``: by operation, the snapshots between them that do not count. ``cut``: why older ones are not in it."""

    arrivals: tuple[Arrival, ...]
    others: Mapping[str, int] = field(default_factory=dict)
    cut: str | None = None


class ArrivalReader:
    """Remembers what it has read by snapshot, which never changes. Safe to ask from several threads."""

    def __init__(self, most_partitions: int = 200_000, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._most_partitions = most_partitions
        self._clock = clock
        self._read: OrderedDict[tuple[str, int], Arrival] = OrderedDict()
        self._partitions = 0
        self._lock = threading.Lock()

    def arrivals(
        self,
        table: LoadedTable,
        ref: str = "main",
        *,
        most_snapshots: int = MOST_SNAPSHOTS,
        most_manifests: int = MOST_MANIFESTS,
        seconds: float = SECONDS,
    ) -> Arrivals:
        """At most so many snapshots are looked at, and so many manifests opened; what is not read in time is read the next time."""
        metadata = table.metadata
        head = history.head(metadata, ref, table=table.name)
        walk = history.ancestors(metadata, head) if head is not None else iter(())
        snapshots = list(islice(walk, most_snapshots + 1))
        cut = f"the newest {most_snapshots} snapshots are looked at" if len(snapshots) > most_snapshots else None
        snapshots = snapshots[:most_snapshots]
        appends = [one for one in snapshots if one.operation in ("append", None)]
        others = Counter(one.operation or "unknown" for one in snapshots if one.operation not in ("append", None))
        budget = _Budget(most_manifests, self._clock() + seconds, self._clock)
        with ThreadPoolExecutor(THREADS, thread_name_prefix="icefloe-arrivals") as threads:
            found = list(threads.map(lambda one: self._one(table, one, budget), appends))
        told = found.index(None) if None in found else len(found)
        if told < len(found):
            cut = f"the newest {told} of {len(found)} appends are looked at: {budget.reason}"
        return Arrivals(tuple(one for one in found[:told] if one is not None), dict(others), cut)

    def _one(self, table: LoadedTable, snapshot: Snapshot, budget: _Budget) -> Arrival | None:
        """None: there is no time left for it."""
        key = table.metadata.uuid, snapshot.id
        with self._lock:
            found = self._read.get(key)
            if found is not None:
                self._read.move_to_end(key)
                return found
        if not budget.take(1):
            return None
        manifests = [one for one in own_manifests(table, snapshot) if one.content == DATA and one.may_have_added]
        if snapshot.operation is None and operation_of(table, snapshot) != "append":
            manifests = []  # the first writers of v1 did not say what they did
        if not budget.take(len(manifests)):
            return None
        builder = PartitionsBuilder(table.metadata.specs, table.metadata.schema)
        for one in manifests:
            manifest = Manifest.open(table.read, one)
            with readable(one.path):
                for entry in manifest.scan(FILE_FIELDS):
                    if entry["status"] == EntryStatus.ADDED:
                        builder.add(one.spec_id, entry["data_file"], side="added")
        found = Arrival(snapshot.id, snapshot.timestamp_ms, snapshot.is_first, builder.result())
        self._keep(key, found)
        return found

    def _keep(self, key: tuple[str, int], found: Arrival) -> None:
        with self._lock:
            self._read[key] = found
            self._partitions += len(found.partitions)
            while self._partitions > self._most_partitions and len(self._read) > 1:
                _, oldest = self._read.popitem(last=False)
                self._partitions -= len(oldest.partitions)


class _Budget:
    """Files that may still be opened, and the time until when."""

    def __init__(self, files: int, deadline: float, clock: Callable[[], float]) -> None:
        self._files = files
        self._deadline = deadline
        self._clock = clock
        self._lock = threading.Lock()
        self.reason = ""

    def take(self, files: int) -> bool:
        with self._lock:
            if self._clock() > self._deadline:
                self.reason = "the storage is slow; the rest is read when the page is loaded again"
            elif self._files < files:
                self.reason = "more manifests are not opened at once; the rest is read when the page is loaded again"
            else:
                self._files -= files
                return True
            self._files = 0
            return False
