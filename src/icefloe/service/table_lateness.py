"""One table's lateness: its newest appends read from metadata, and what they say about late rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from icefloe.errors import IcefloeError
from icefloe.lake.arrivals import Arrivals
from icefloe.service.client import Client
from icefloe.service.lateness import ArrivalMap, LatenessProfile, Unit, arrival_map, dated, label, profile
from icefloe.service.tables import canonical_name


@dataclass(frozen=True, slots=True)
class TableLateness:
    """``profile`` and ``map`` are None where no partition is in time; ``problem`` says so, or why it cannot be told. ``cut``: how far it
    was looked back. ``others``: snapshots of other operations, which do not count."""

    table: str
    profile: LatenessProfile | None
    map: ArrivalMap | None
    appends: int
    others: dict[str, int]
    cut: str | None = None
    problem: str | None = None

    def to_dict(self) -> dict[str, Any]:
        cells = [
            {"arrived": label(day, Unit.DAY), "event": label(event, self.map.unit), "rows": rows}
            for (day, event), rows in sorted(self.map.cells.items())
        ] if self.map else []  # fmt: skip
        return {
            "table": self.table,
            "profile": self.profile.to_dict() if self.profile else None,
            "arrivals": cells,
            "appends": self.appends,
            "others": self.others,
            "cut": self.cut,
            "problem": self.problem,
        }


def lateness(client: Client, name: str) -> TableLateness:
    """Opens manifests of the newest appends that have not been looked at before. Raises when the table cannot be read."""
    table = canonical_name(client, name)
    loaded = client.table_metadata.load([table])[table]
    if isinstance(loaded, IcefloeError):
        raise loaded
    try:
        found = client.arrivals.arrivals(loaded)
    except IcefloeError as error:
        return TableLateness(table, None, None, 0, {}, problem=f"{error.code}: {error.message}")
    return lateness_of(table, found)


def lateness_of(table: str, found: Arrivals) -> TableLateness:
    arrivals = [dated(one) for one in found.arrivals]
    told = profile(arrivals)
    problem = None
    if told is None:
        problem = (
            "no partition field is a time, so metadata does not tell when rows happened: partition it by days(column)"
            if any(one.untimed_rows for one in arrivals)
            else "there is no append to look at yet"
        )
    return TableLateness(table, told, arrival_map(arrivals), len(arrivals), dict(found.others), found.cut, problem)
