"""The metadata of many tables at once, as pages need it: bounded in number and in time, and kept for some seconds.

What a table's metadata is called now is asked of the catalog, on a SQL catalog in one query for all of them; a metadata file is read only
when it is another one than last time. A table that cannot be read has its error in its place, and one that does not answer in time says so
while it is still being read: the next who asks gets it.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

from icefloe.errors import IcefloeError, UnreachableError
from icefloe.lake import Lake
from icefloe.lake.catalog import LoadedTable
from icefloe.lake.errors import MetadataUnreadableError
from icefloe.lake.metadata_poll import MetadataPoll
from icefloe.table_names import Identifier, parse_identifier

MOST_KEPT = 500
"""Tables whose metadata is kept."""
THREADS = 8


@dataclass(frozen=True, slots=True)
class _Entry:
    """``location`` None: there is none, or it is not known."""

    answer: LoadedTable | IcefloeError
    location: str | None
    at: float


class TableMetadataCache:
    """Reads only. Safe to ask from several threads; a table is never read twice at the same time."""

    def __init__(
        self,
        open_lake: Callable[[], Lake],
        *,
        fresh_seconds: float = 3.0,
        patience_seconds: float = 4.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._open_lake = open_lake
        self._fresh_seconds = fresh_seconds
        self._patience_seconds = patience_seconds
        self._clock = clock
        self._opened: tuple[Lake, MetadataPoll] | None = None
        self._opening = threading.Lock()
        self._changed = threading.Condition()
        self._entries: OrderedDict[str, _Entry] = OrderedDict()
        self._busy: set[str] = set()

    @property
    def lake(self) -> Lake:
        """Opens the catalog when it is first asked for."""
        return self._open()[0]

    def load(self, names: Iterable[str]) -> dict[str, LoadedTable | IcefloeError]:
        """Each name with its table, or with why it cannot be read. ``names`` are canonical."""
        wanted = dict.fromkeys(names)
        oldest = self._clock() - self._fresh_seconds
        with self._changed:
            stale = [
                name
                for name in wanted
                if name not in self._busy and ((entry := self._entries.get(name)) is None or entry.at < oldest)
            ]
            self._busy.update(stale)
        if stale:
            # Daemons: a catalog that hangs keeps neither the page nor the process.
            threading.Thread(target=self._refresh, args=(stale,), name="icefloe-metadata", daemon=True).start()
        with self._changed:
            self._changed.wait_for(lambda: self._busy.isdisjoint(wanted), self._patience_seconds)
            return {name: self._answer(name) for name in wanted}

    def forget(self) -> None:
        """What is asked for next is read anew: something has just been changed."""
        with self._changed:
            self._entries.clear()

    def _answer(self, name: str) -> LoadedTable | IcefloeError:
        entry = self._entries.get(name)
        if entry is None:
            return UnreachableError(
                f"the catalog has not answered within {self._patience_seconds:g} s",
                where=name,
                hint="look again in a moment, or check it with: icefloe doctor",
            )
        self._entries.move_to_end(name)
        kept = entry.answer
        # Anew, so that manifests that are read through it are not kept with it.
        return LoadedTable(kept.identifier, kept.metadata, kept.io) if isinstance(kept, LoadedTable) else kept

    # -- threads -----------------------------------------------------------------------------------------------------------

    def _refresh(self, names: list[str]) -> None:
        try:
            lake, polling = self._open()
            identifiers = self._identifiers(lake, names)
            if polling.at_once:
                known = {identifier: self._location(name) for name, identifier in identifiers.items()}
                looks = polling.look(list(identifiers.values()), known)
                identifiers = {
                    name: identifier
                    for name, identifier in identifiers.items()
                    if not self._is_same(name, looks[identifier].location)
                }
            self._each(identifiers, partial(self._read, lake, polling))
        except IcefloeError as error:
            self._put({name: _Entry(error, None, self._clock()) for name in names if name in self._busy})
        finally:
            self._put({}, done=names)

    def _open(self) -> tuple[Lake, MetadataPoll]:
        with self._opening:
            if self._opened is None:
                lake = self._open_lake()
                self._opened = lake, MetadataPoll(lake.tables)
            return self._opened

    def _identifiers(self, lake: Lake, names: list[str]) -> dict[str, Identifier]:
        found: dict[str, Identifier] = {}
        for name in names:
            try:
                found[name] = parse_identifier(name, catalog=lake.tables.name)
            except IcefloeError as error:
                self._put({name: _Entry(error, None, self._clock())})
        return found

    def _location(self, name: str) -> str | None:
        entry = self._entries.get(name)
        return entry.location if entry is not None else None

    def _is_same(self, name: str, location: str | None) -> bool:
        """The metadata is as it was: it need not be read."""
        entry = self._entries.get(name)
        if entry is None or location is None or entry.location != location:
            return False
        self._put({name: _Entry(entry.answer, location, self._clock())})
        return True

    def _each(self, identifiers: dict[str, Identifier], read: Callable[[str, Identifier], None]) -> None:
        left = deque(identifiers.items())

        def work() -> None:
            while True:
                try:
                    name, identifier = left.popleft()
                except IndexError:
                    return
                read(name, identifier)

        threads = [threading.Thread(target=work, daemon=True) for _ in range(min(THREADS, len(identifiers)) - 1)]
        for thread in threads:
            thread.start()
        work()
        for thread in threads:
            thread.join()

    def _read(self, lake: Lake, polling: MetadataPoll, name: str, identifier: Identifier) -> None:
        answer: LoadedTable | IcefloeError
        try:
            if polling.at_once:
                answer = lake.tables.load(identifier)
            else:
                look = polling.look([identifier], {identifier: self._location(name)})[identifier]
                if look.table is None and look.problem is None and self._is_same(name, look.location):
                    return
                answer = look.table or look.problem or lake.tables.load(identifier)
        except IcefloeError as error:
            answer = error
        except Exception as error:  # a page is not lost over one table's metadata
            answer = MetadataUnreadableError(f"its metadata cannot be read: {error!r}"[:500], where=name)
        location = answer.metadata.metadata_location if isinstance(answer, LoadedTable) else None
        self._put({name: _Entry(answer, location, self._clock())})

    def _put(self, entries: dict[str, _Entry], done: Iterable[str] = ()) -> None:
        with self._changed:
            for name, entry in entries.items():
                self._entries[name] = entry
                self._entries.move_to_end(name)
            self._busy.difference_update((*entries, *done))
            while len(self._entries) > MOST_KEPT:
                self._entries.popitem(last=False)
            self._changed.notify_all()
