"""The source's own files, which nothing that Icefloe does may touch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from icefloe.lake import Lake


@dataclass(frozen=True)
class SourceFiles:
    lake: Lake
    table: str
    folder: Path

    @contextmanager
    def data_away(self) -> Iterator[None]:
        data, away = self.folder / "data", self.folder.with_name(self.folder.name + ".away")
        data.rename(away)
        try:
            yield
        finally:
            away.rename(data)

    def inventory(self) -> dict[str, tuple[int, int]]:
        """Every file of the source with size and time, and where the catalog says its metadata is."""
        found = {
            str(p.relative_to(self.folder)): (p.stat().st_size, p.stat().st_mtime_ns)
            for p in self.folder.rglob("*")
            if p.is_file()
        }
        return {**found, self.lake.table(self.table).metadata.metadata_location: (0, 0)}
