"""Watching many tables at little cost: what their metadata is called now, and the metadata only where that has changed.

On a SQL catalog one query answers for hundreds of tables. On a REST catalog each table is asked for by itself, with the ETag
of the last answer, so that a server that knows ETags answers "unchanged" without a body. Other catalogs load each table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

import sqlalchemy
from pyiceberg.catalog.rest import Endpoints, RestCatalog
from pyiceberg.catalog.sql import IcebergTables, SqlCatalog
from pyiceberg.exceptions import NoSuchTableError

from icefloe.errors import IcefloeError
from icefloe.lake.catalog import LoadedTable, Tables
from icefloe.lake.errors import TableNotFoundError
from icefloe.table_names import Identifier, format_identifier

_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class PolledTable:
    """One table at one moment. ``table`` is there when the catalog gave the metadata along with its location."""

    location: str | None
    table: LoadedTable | None = None
    problem: IcefloeError | None = None


class MetadataPoll:
    """Remembers ETags between looks, and nothing else."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._etags: dict[Identifier, tuple[str, str]] = {}

    @property
    def at_once(self) -> bool:
        """Whether all tables are answered for by one question."""
        return isinstance(self._tables.catalog, SqlCatalog)

    def look(
        self, identifiers: Sequence[Identifier], known: Mapping[Identifier, str | None]
    ) -> dict[Identifier, PolledTable]:
        """What each table's metadata is called. ``known`` is what the caller has seen last. Raises when the catalog is away."""
        catalog = self._tables.catalog
        if isinstance(catalog, SqlCatalog):
            return {name: PolledTable(location) for name, location in self._sql(catalog, identifiers).items()}
        looks = {}
        for name in identifiers:
            try:
                looks[name] = self._load(name, known.get(name))
            except TableNotFoundError as error:
                looks[name] = PolledTable(None, problem=error)
        return looks

    def _sql(self, catalog: SqlCatalog, identifiers: Sequence[Identifier]) -> dict[Identifier, str | None]:
        locations: dict[Identifier, str | None] = dict.fromkeys(identifiers)
        columns = IcebergTables.table_name, IcebergTables.metadata_location
        by_namespace: dict[str, dict[str, Identifier]] = {}
        for name in identifiers:
            by_namespace.setdefault(".".join(name[:-1]), {})[name[-1]] = name
        with self._tables.reaching(), catalog.engine.connect() as connection:
            for namespace, names in by_namespace.items():
                for part in _parts(names, _AT_ONCE):
                    statement = sqlalchemy.select(*columns).where(
                        IcebergTables.catalog_name == catalog.name,
                        IcebergTables.table_namespace == namespace,
                        IcebergTables.table_name.in_(part),
                    )
                    for table_name, location in connection.execute(statement):
                        locations[names[table_name]] = location
        return locations

    def _load(self, name: Identifier, known: str | None) -> PolledTable:
        catalog = self._tables.catalog
        if not isinstance(catalog, RestCatalog):
            table = self._tables.load(name)
            return PolledTable(table.metadata.metadata_location, table)
        etag = self._etags.get(name)
        if etag is not None and etag[0] == known:
            with self._tables.reaching(format_identifier(name)):
                url = catalog.url(Endpoints.load_table, **catalog._split_identifier_for_path(name))
                response = catalog._session.get(url, headers={"If-None-Match": etag[1]})
                if response.status_code == 304:
                    return PolledTable(known)
                if response.status_code == 404:
                    raise NoSuchTableError(format_identifier(name))
        table = self._tables.load(name)
        if table.etag is not None:
            self._etags[name] = table.metadata.metadata_location, table.etag
        return PolledTable(table.metadata.metadata_location, table)


def _parts(names: Mapping[str, Identifier], most: int) -> Iterator[list[str]]:
    rest = iter(names)
    while part := list(islice(rest, most)):
        yield part
