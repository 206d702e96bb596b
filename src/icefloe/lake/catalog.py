"""The catalog, as the lake uses it: load a table's raw metadata, register and drop change tables, move references, add a snapshot.

PyIceberg does the talking. Two things it does not do are done here, both without a JVM: a table is loaded as raw JSON
(PyIceberg 0.12 cannot parse every v3 table), and references are moved on v3 tables too (it cannot write those): on a SQL
catalog by writing the edited metadata and swapping the pointer by compare-and-set, as the catalog's own commit does, and on
a REST catalog by asking the server. On Hive and Glue references of v1 and v2 tables go through PyIceberg's own commit, and
v3 tables are refused with that reason.
"""

from __future__ import annotations

import functools
import json
import re
import time
import uuid
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import requests
import sqlalchemy
from pydantic import TypeAdapter, ValidationError
from pyiceberg.catalog import Catalog as PyIcebergCatalog
from pyiceberg.catalog import load_catalog
from pyiceberg.catalog.rest import Endpoints, RestCatalog
from pyiceberg.catalog.sql import IcebergTables, SqlCatalog
from pyiceberg.exceptions import (
    CommitFailedException,
    CommitStateUnknownException,
    ForbiddenError,
    NamespaceAlreadyExistsError,
    NoSuchNamespaceError,
    NoSuchTableError,
    RESTError,
    ServerError,
    TableAlreadyExistsError,
    UnauthorizedError,
)
from pyiceberg.io import FileIO
from pyiceberg.table.update import TableRequirement, TableUpdate

from icefloe import config as configuration
from icefloe.errors import ConfigError, UnreachableError
from icefloe.lake import storage
from icefloe.lake.errors import (
    CatalogRefusedError,
    CommitConflictError,
    MetadataMissingError,
    NameTakenError,
    TableNotFoundError,
    UnsupportedTableError,
)
from icefloe.lake.metadata import TableMetadata
from icefloe.table_names import Identifier, format_identifier

_CACHE_BYTES = 64 * 1024 * 1024
_ATTEMPTS = 5
_PARSED = 8
"""Metadata files that are kept as they were read."""
_REST_SECONDS = (10, 60)
"""How long a REST catalog may take to accept a connection and to answer. PyIceberg 0.12 would wait for ever."""


class _PatientRestCatalog(RestCatalog):
    """PyIceberg's REST catalog, whose patience ends."""

    def _create_session(self) -> requests.Session:
        session = super()._create_session()
        session.request = functools.partial(session.request, timeout=_REST_SECONDS)  # type: ignore[method-assign]
        return session


class LoadedTable:
    """A table at one moment: its metadata, and a way to read the files that metadata names.

    Small files read once are kept (up to 64 MB), since a capture reads its manifests for ranges and again to copy them.
    """

    def __init__(self, identifier: Identifier, metadata: TableMetadata, io: FileIO, etag: str | None = None) -> None:
        self.identifier = identifier
        self.metadata = metadata
        self.io = io
        self.etag = etag
        self._cache: OrderedDict[str, bytes] = OrderedDict()
        self._cached = 0

    @property
    def name(self) -> str:
        return format_identifier(self.identifier)

    def read(self, location: str) -> bytes:
        content = self._cache.get(location)
        if content is None:
            content = storage.read(self.io, location)
            self._cache[location] = content
            self._cached += len(content)
            while self._cached > _CACHE_BYTES and len(self._cache) > 1:
                self._cached -= len(self._cache.popitem(last=False)[1])
        return content


@dataclass(frozen=True)
class RefChange:
    """Set (or with ``snapshot_id=None`` remove) one branch or tag."""

    name: str
    snapshot_id: int | None
    type: str = "tag"
    max_ref_age_ms: int | None = None
    goes_on: bool = False
    """A branch that moves to a later snapshot: what it keeps otherwise stays as it is."""

    def to_json(self) -> dict[str, Any]:
        out: dict[str, Any] = {"snapshot-id": self.snapshot_id, "type": self.type}
        if self.goes_on:
            return out
        if self.max_ref_age_ms is not None:
            out["max-ref-age-ms"] = self.max_ref_age_ms
        if self.type == "branch":
            # A branch keeps ancestors too unless told not to; this one is there for its head alone.
            out |= {"min-snapshots-to-keep": 1, "max-snapshot-age-ms": 1}
        return out


_Commit = tuple[Sequence[RefChange], Mapping[str, Any] | None]
"""References to change, and a snapshot to add, if any."""


class Tables:
    """The tables of one catalog."""

    def __init__(self, catalog: PyIcebergCatalog) -> None:
        self.catalog = catalog
        self._parsed: OrderedDict[str, TableMetadata] = OrderedDict()

    @classmethod
    def open(cls, config: configuration.Catalog) -> Tables:
        if config.type == "sql" and (config.uri or "").startswith("sqlite"):
            path = Path((config.uri or "").partition(":///")[2])
            if not path.is_file():
                raise ConfigError(f"the catalog {path} does not exist", hint="make it with: icefloe init")
        with _reaching(_shown(config.uri or config.type)):
            try:
                properties = config.pyiceberg_properties()
                if config.type == "rest":
                    return cls(_PatientRestCatalog(config.name, **properties))
                return cls(load_catalog(config.name, **properties))
            except (ModuleNotFoundError, ImportError) as error:
                raise ConfigError(
                    f"a {config.type} catalog needs a package that is not installed: {error}",
                    hint=f"pip install 'icefloe[{'postgres' if config.type == 'sql' else config.type}]'",
                ) from error
            except (sqlalchemy.exc.ArgumentError, ValidationError) as error:
                raise ConfigError(
                    f"{_shown(config.uri or '')} is not the address of a {config.type} catalog",
                    hint="check uri in [catalog]",
                ) from error

    @property
    def name(self) -> str:
        return self.catalog.name

    def reaching(self, table: str | None = None) -> AbstractContextManager[None]:
        """Talk to the catalog within this, and its ways to fail come out as ours."""
        return _reaching(self.name, table=table)

    def load(self, identifier: Identifier) -> LoadedTable:
        """The table as it is now. Metadata that is swapped away between two reads is read again."""
        name = format_identifier(identifier)
        for attempt in range(_ATTEMPTS):
            with _reaching(self.name, table=name):
                loaded = self._load(identifier)
            try:
                return loaded if isinstance(loaded, LoadedTable) else self._read(identifier, *loaded)
            except MetadataMissingError:
                if attempt == _ATTEMPTS - 1:
                    raise
        raise AssertionError("unreachable")

    def exists(self, identifier: Identifier) -> bool:
        with _reaching(self.name):
            try:
                return bool(self.catalog.table_exists(identifier))
            except NoSuchNamespaceError:
                return False

    def names_in(self, namespace: Identifier) -> list[Identifier]:
        with _reaching(self.name):
            try:
                return [tuple(name) for name in self.catalog.list_tables(namespace)]
            except NoSuchNamespaceError:
                return []

    def register(self, identifier: Identifier, metadata_location: str) -> None:
        with _reaching(self.name, table=format_identifier(identifier)):
            try:
                self._ensure_namespace(identifier[:-1])
                if isinstance(self.catalog, RestCatalog):
                    self._register_rest(self.catalog, identifier, metadata_location)
                else:
                    self._register_unparsed(identifier, metadata_location)
            except TableAlreadyExistsError as error:
                raise NameTakenError(
                    "a table of that name exists", where=format_identifier(identifier), hint="choose another name"
                ) from error

    def drop(self, identifier: Identifier) -> None:
        """Take the table out of the catalog. Its files stay: nothing here ever purges."""
        with _reaching(self.name, table=format_identifier(identifier)):
            self.catalog.drop_table(identifier)

    def file_io(self, location: str) -> FileIO:
        with _reaching(self.name):
            return self.catalog._load_file_io(location=location)

    def forward(self, identifier: Identifier, ref: str, branch: str, *, base: int | None, tip: int) -> bool:
        """Move a ref from ``base`` to the tip of a branch that stands on it, and take the branch away: one commit, or none when either
        is elsewhere by then. ``False``: a catalog that takes no such commit from here."""
        if not isinstance(self.catalog, SqlCatalog | RestCatalog):
            return False
        changes = [RefChange(ref, tip, "branch", goes_on=True), RefChange(branch, None)]
        self.set_refs(identifier, changes, expected={ref: base, branch: tip})
        return True

    def set_refs(
        self,
        identifier: Identifier,
        changes: Sequence[RefChange],
        *,
        expected: Mapping[str, int | None] = MappingProxyType({}),
    ) -> TableMetadata:
        """Set and remove references in one commit; repeated when somebody else commits at the same moment. ``expected``: where
        references must be for it."""

        def todo(table: LoadedTable) -> Sequence[RefChange]:
            _refuse_moved(table, expected)
            missing = [
                c.snapshot_id for c in changes if c.snapshot_id and c.snapshot_id not in table.metadata.snapshots
            ]
            if missing:
                raise MetadataMissingError(f"snapshot {missing[0]} is not in the table any more", where=table.name)
            return [c for c in changes if c.snapshot_id is not None or c.name in table.metadata.refs]

        return self._commit(identifier, lambda table: (todo(table), None))

    @property
    def takes_snapshots(self) -> bool:
        """Whether :meth:`add_snapshot` can be asked."""
        return isinstance(self.catalog, SqlCatalog | RestCatalog)

    def add_snapshot(
        self, identifier: Identifier, branch: str, make: Callable[[LoadedTable], Mapping[str, Any]]
    ) -> TableMetadata:
        """Let a branch go on to a new snapshot, whose files ``make`` has written for the table as it is; asked again when somebody else
        commits at the same moment."""

        def update(table: LoadedTable) -> tuple[Sequence[RefChange], Mapping[str, Any]]:
            snapshot = make(table)
            return [RefChange(branch, snapshot["snapshot-id"], "branch", goes_on=True)], snapshot

        return self._commit(identifier, update)

    def _commit(self, identifier: Identifier, wanted: Callable[[LoadedTable], _Commit]) -> TableMetadata:
        for attempt in range(_ATTEMPTS):
            table = self.load(identifier)
            changes, snapshot = wanted(table)
            if not changes:
                return table.metadata
            try:
                with _reaching(self.name, table=table.name):
                    self._commit_once(table, changes, snapshot)
                return self.load(identifier).metadata
            except (CommitFailedException, CommitConflictError) as error:
                if attempt == _ATTEMPTS - 1:
                    raise CommitConflictError(
                        f"other writers were faster {_ATTEMPTS} times in a row", where=table.name
                    ) from error
                time.sleep(0.05 * 2**attempt)
        raise AssertionError("unreachable")

    # -- loading ---------------------------------------------------------------------------------------------------------

    def _load(self, identifier: Identifier) -> LoadedTable | tuple[str, FileIO]:
        """Either the table, or where its metadata is and how to read it."""
        if isinstance(self.catalog, SqlCatalog):
            location = self._sql_location(self.catalog, identifier)
            return location, self.catalog._load_file_io(location=location)
        if isinstance(self.catalog, RestCatalog):
            return self._load_rest(self.catalog, identifier)
        table = self.catalog.load_table(identifier)
        return table.metadata_location, table.io

    def _read(self, identifier: Identifier, location: str, io: FileIO) -> LoadedTable:
        """A metadata file is never written twice, so that what was read of it stays true: a batch looks at its tables some ten times
        each, and reading thousands of snapshots takes longer than asking the catalog which file it is."""
        metadata = self._parsed.get(location)
        if metadata is None:
            metadata = TableMetadata.parse(storage.read(io, location), location=location)
            self._parsed[location] = metadata
            while len(self._parsed) > _PARSED:
                self._parsed.popitem(last=False)
        return LoadedTable(identifier, metadata, io)

    def _sql_location(self, catalog: SqlCatalog, identifier: Identifier) -> str:
        statement = sqlalchemy.select(IcebergTables.metadata_location).where(
            IcebergTables.catalog_name == catalog.name,
            IcebergTables.table_namespace == ".".join(identifier[:-1]),
            IcebergTables.table_name == identifier[-1],
        )
        with catalog.engine.connect() as connection:
            location = connection.execute(statement).scalar()
        if location is None:
            raise NoSuchTableError(f"no table {format_identifier(identifier)}")
        return str(location)

    def _load_rest(self, catalog: RestCatalog, identifier: Identifier) -> LoadedTable:
        response = self._rest(
            catalog, "GET", catalog.url(Endpoints.load_table, **catalog._split_identifier_for_path(identifier))
        )
        body = response.json()
        if not isinstance(body, dict) or "metadata" not in body:
            raise ServerError(f"{response.url} does not answer as an Iceberg REST catalog does")
        location = body.get("metadata-location") or ""
        metadata = TableMetadata.of(body["metadata"], location=location)
        credentials: dict[str, str] = {}
        for credential in body.get("storage-credentials") or []:
            if metadata.location.startswith(credential["prefix"]):
                credentials |= credential["config"]
        io = catalog._load_file_io(
            {**metadata.properties, **(body.get("config") or {}), **credentials}, metadata.location
        )
        return LoadedTable(identifier, metadata, io, response.headers.get("ETag"))

    # -- writing ---------------------------------------------------------------------------------------------------------

    def _ensure_namespace(self, namespace: Identifier) -> None:
        for depth in range(1, len(namespace) + 1):
            if not self.catalog.namespace_exists(namespace[:depth]):
                try:
                    self.catalog.create_namespace(namespace[:depth])
                except (NamespaceAlreadyExistsError, sqlalchemy.exc.IntegrityError):
                    # Somebody else made it between the two calls.
                    continue

    def _register_unparsed(self, identifier: Identifier, metadata_location: str) -> None:
        """Registering only stores the pointer; PyIceberg loads the table afterwards and may not know all its types."""
        if isinstance(self.catalog, SqlCatalog):
            values = self.catalog._create_table_row(".".join(identifier[:-1]), identifier[-1], metadata_location)
            try:
                with self.catalog.engine.begin() as connection:
                    connection.execute(sqlalchemy.insert(IcebergTables).values(**values))
            except sqlalchemy.exc.IntegrityError as error:
                raise TableAlreadyExistsError(f"{format_identifier(identifier)} exists") from error
            return
        self.catalog.register_table(identifier, metadata_location)

    def _register_rest(self, catalog: RestCatalog, identifier: Identifier, metadata_location: str) -> None:
        parts = catalog._split_identifier_for_path(identifier)
        url = catalog.url(Endpoints.register_table, namespace=parts["namespace"])
        response = self._rest(
            catalog, "POST", url, {"name": identifier[-1], "metadata-location": metadata_location}, accept=(409,)
        )
        if response.status_code == 409:
            raise TableAlreadyExistsError(format_identifier(identifier))

    def _commit_once(
        self, table: LoadedTable, changes: Sequence[RefChange], snapshot: Mapping[str, Any] | None
    ) -> None:
        if isinstance(self.catalog, SqlCatalog):
            self._commit_sql(self.catalog, table, _changed(table.metadata, changes, snapshot))
        elif isinstance(self.catalog, RestCatalog):
            self._commit_rest(self.catalog, table, changes, snapshot)
        else:
            assert snapshot is None, "see takes_snapshots"
            self._commit_refs_pyiceberg(table, changes)

    def _commit_sql(self, catalog: SqlCatalog, table: LoadedTable, changed: Mapping[str, Any]) -> None:
        metadata = table.metadata
        location = _next_metadata_location(metadata)
        storage.write(table.io, location, json.dumps(changed).encode())
        swap = (
            sqlalchemy.update(IcebergTables)
            .where(
                IcebergTables.catalog_name == catalog.name,
                IcebergTables.table_namespace == ".".join(table.identifier[:-1]),
                IcebergTables.table_name == table.identifier[-1],
                IcebergTables.metadata_location == metadata.metadata_location,
            )
            .values(metadata_location=location, previous_metadata_location=metadata.metadata_location)
        )
        with catalog.engine.begin() as connection:
            swapped = connection.execute(swap).rowcount
        if swapped != 1:
            storage.delete(table.io, [location])
            raise CommitConflictError("the table was changed by somebody else", where=table.name)

    def _commit_rest(
        self,
        catalog: RestCatalog,
        table: LoadedTable,
        changes: Sequence[RefChange],
        snapshot: Mapping[str, Any] | None,
    ) -> None:
        requirements, updates = _ref_commit(table.metadata, changes)
        if snapshot is not None:
            updates.insert(0, {"action": "add-snapshot", "snapshot": snapshot})
        parts = catalog._split_identifier_for_path(table.identifier)
        body = {
            "identifier": {"namespace": list(table.identifier[:-1]), "name": table.identifier[-1]},
            "requirements": requirements,
            "updates": updates,
        }
        response = self._rest(catalog, "POST", catalog.url(Endpoints.update_table, **parts), body, accept=(409,))
        if response.status_code == 409:
            raise CommitConflictError("the table was changed by somebody else", where=table.name)

    def _commit_refs_pyiceberg(self, table: LoadedTable, changes: Sequence[RefChange]) -> None:
        if table.metadata.format_version >= 3:
            raise UnsupportedTableError(
                f"PyIceberg cannot commit to a v3 table on {type(self.catalog).__name__}",
                where=table.name,
                hint="use pin: off, or a SQL or REST catalog",
            )
        requirements, updates = _ref_commit(table.metadata, changes)
        self.catalog.commit_table(
            self.catalog.load_table(table.identifier),
            tuple(TypeAdapter(TableRequirement).validate_python(requirement) for requirement in requirements),
            tuple(TypeAdapter(TableUpdate).validate_python(update) for update in updates),
        )

    def _rest(
        self,
        catalog: RestCatalog,
        method: str,
        url: str,
        body: Mapping[str, Any] | None = None,
        accept: tuple[int, ...] = (),
    ) -> requests.Response:
        response = catalog._session.request(method, url, json=body)
        if response.status_code in (401, 419):
            # A token that has run out, as it does in a worker that runs for days.
            catalog._refresh_token()
            response = catalog._session.request(method, url, json=body)
        if response.status_code == 404:
            raise NoSuchTableError(response.text[:500])
        if response.status_code in (401, 403, 419):
            raise ForbiddenError(response.text[:500])
        if response.status_code >= 500:
            raise ServerError(f"{response.status_code}: {response.text[:500]}")
        if response.status_code >= 400 and response.status_code not in accept:
            raise RESTError(f"{response.status_code}: {response.text[:500]}")
        return response


@contextmanager
def _reaching(catalog_name: str, *, table: str | None = None) -> Iterator[None]:
    """The catalog's ways to fail, as ours."""
    try:
        yield
    except (NoSuchTableError, NoSuchNamespaceError) as error:
        raise TableNotFoundError(
            "there is no such table in the catalog",
            where=table,
            hint='see what there is with: icefloe sql "SHOW TABLES IN db"',
        ) from error
    except (UnauthorizedError, ForbiddenError, sqlalchemy.exc.ProgrammingError) as error:
        raise CatalogRefusedError(
            f"the catalog refused: {_first_line(error)}", where=table, hint="check the token, credential or rights"
        ) from error
    except (requests.RequestException, sqlalchemy.exc.DBAPIError, ServerError, CommitStateUnknownException) as error:
        if "readonly database" in str(error):
            raise CatalogRefusedError(f"the catalog {catalog_name} is read-only", where=table) from error
        raise UnreachableError(
            f"the catalog {catalog_name} does not answer: {_first_line(error)}",
            where=table,
            hint="check it with: icefloe doctor",
        ) from error
    except RESTError as error:
        raise UnsupportedTableError(f"the catalog refused: {_first_line(error)}", where=table) from error


def _shown(uri: str) -> str:
    """An address without the user and password in it."""
    return re.sub(r"(?<=://)[^/@]*@", "", uri)


def _first_line(error: Exception) -> str:
    text = str(getattr(error, "orig", None) or error).strip()
    return text.splitlines()[0] if text else type(error).__name__


def _ref_commit(
    metadata: TableMetadata, changes: Sequence[RefChange]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Requirements and updates in the words of the REST specification."""
    requirements: list[dict[str, Any]] = [{"type": "assert-table-uuid", "uuid": metadata.uuid}]
    updates: list[dict[str, Any]] = []
    for change in changes:
        ref = metadata.refs.get(change.name)
        requirements.append(
            {"type": "assert-ref-snapshot-id", "ref": change.name, "snapshot-id": ref.snapshot_id if ref else None}
        )
        if change.snapshot_id is None:
            updates.append({"action": "remove-snapshot-ref", "ref-name": change.name})
        else:
            updates.append({"action": "set-snapshot-ref", "ref-name": change.name, **_ref(metadata, change)})
    return requirements, updates


def _ref(metadata: TableMetadata, change: RefChange) -> dict[str, Any]:
    """A reference as it will be."""
    ref = (metadata.raw.get("refs") or {}).get(change.name) or {}
    return {**(ref if change.goes_on else {}), **change.to_json()}


def _next_metadata_location(metadata: TableMetadata) -> str:
    base = metadata.metadata_location.rsplit("/", 1)[-1]
    match = re.match(r"v?(\d+)", base)
    number = int(match[1]) + 1 if match else 1
    folder = metadata.properties.get("write.metadata.path") or f"{metadata.location}/metadata"
    return f"{folder.rstrip('/')}/{number:05d}-{uuid.uuid4()}.metadata.json"


def _refuse_moved(table: LoadedTable, expected: Mapping[str, int | None]) -> None:
    for name, snapshot_id in expected.items():
        ref = table.metadata.refs.get(name)
        if (ref.snapshot_id if ref else None) != snapshot_id:
            raise CommitConflictError(f"{name} was moved by somebody else", where=table.name)


def _changed(
    metadata: TableMetadata, changes: Sequence[RefChange], snapshot: Mapping[str, Any] | None
) -> dict[str, Any]:
    """The metadata with references changed and a snapshot more, and its own log extended as any commit does."""
    raw = metadata.raw
    # Metadata from before there were refs keeps "main" as its current snapshot only.
    refs = dict(raw.get("refs") or {})
    if "main" not in refs and "main" in metadata.refs:
        refs["main"] = {"snapshot-id": metadata.refs["main"].snapshot_id, "type": "branch"}
    for change in changes:
        if change.snapshot_id is None:
            refs.pop(change.name, None)
        else:
            refs[change.name] = _ref(metadata, change)
    log = list(raw.get("metadata-log") or [])
    log.append({"metadata-file": metadata.metadata_location, "timestamp-ms": raw.get("last-updated-ms", 0)})
    keep = max(int(metadata.properties.get("write.metadata.previous-versions-max", 100)), 1)
    now = max(int(time.time() * 1000), raw.get("last-updated-ms", 0))
    changed = {**raw, "refs": refs, "metadata-log": log[-keep:], "last-updated-ms": now}
    if snapshot is not None:
        changed["snapshots"] = [*(raw.get("snapshots") or []), snapshot]
        changed["last-sequence-number"] = snapshot["sequence-number"]
        if "next-row-id" in raw:
            changed["next-row-id"] = raw["next-row-id"] + snapshot.get("added-rows", 0)
    main = next((change.snapshot_id for change in changes if change.name == "main"), None)
    if main is not None:
        changed["current-snapshot-id"] = main
        changed["snapshot-log"] = [*(raw.get("snapshot-log") or []), {"snapshot-id": main, "timestamp-ms": now}]
    return changed
