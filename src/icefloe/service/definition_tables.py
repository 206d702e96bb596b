"""Which tables the pushed definitions read and write, as far as their text tells; and what has been read and written in fact.

Sources are what capture steps and triggers name and what SQL reads; targets are ``write:`` and what SQL writes. A program in another
language tells nothing; of it are known the captures it works on, and the batches that it has published.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial

import sqlglot
from sqlalchemy.engine import Connection
from sqlglot import exp
from sqlglot.errors import SqlglotError

from icefloe.engine.definitions import Definitions
from icefloe.errors import IcefloeError, UsageError
from icefloe.spark.statements import split
from icefloe.store import captures, definitions, signals
from icefloe.store.captures import CheckpointRecord, PublicationSummary
from icefloe.store.database import Database
from icefloe.store.definitions import WorkflowRecord
from icefloe.triggers import cycles
from icefloe.triggers.plans import TriggerPlan, plan
from icefloe.triggers.sources import WatchedTable, canonical, watched_tables, workflow_values
from icefloe.workflow.model import IncrementalTrigger, TypedStep, Workflow

MOST_WORKFLOWS = 1000
"""Definitions that are looked into, by name."""
PUBLICATIONS_SECONDS = 600.0
"""Between two looks at all publications on record."""
CLOCKS_APART_SECONDS = 300.0
"""Workers' clocks may differ by so much: a publication may be on record later than one that seems newer."""
_METADATA_TABLES = frozenset(
    [
        "snapshots",
        "history",
        "metadata_log_entries",
        "files",
        "data_files",
        "delete_files",
        "manifests",
        "partitions",
        "entries",
        "refs",
        "position_deletes",
        "all_files",
        "all_data_files",
        "all_delete_files",
        "all_manifests",
        "all_entries",
    ]
)


@dataclass(frozen=True, slots=True)
class WorkflowTables:
    """One workflow's latest version. ``captured``: its captures' sources, each with its consumer. ``unclear``: it has a step whose tables
    its text does not tell."""

    workflow_id: str
    version: int
    reads: frozenset[str]
    writes: frozenset[str]
    captured: tuple[WatchedTable, ...]
    plan: TriggerPlan
    unclear: bool = False

    @property
    def freshness(self) -> float | None:
        """The goal, in seconds: ``freshness:``, or without it the time in ``alerting: {max_lag: …}`` of a workflow that captures."""
        workflow = self.plan.workflow
        if workflow.freshness is not None:
            return workflow.freshness
        most = workflow.alerting.max_lag if workflow.alerting is not None else None
        return most.seconds if most is not None and self.plan.reading is not None else None


@dataclass(frozen=True)
class KnownTables:
    """Everything that names tables, at one moment. ``cut``: there are more workflows than were looked into."""

    workflows: Mapping[str, WorkflowTables]
    records: Mapping[str, WorkflowRecord]
    checkpoints: tuple[tuple[str, str], ...] = ()
    """Consumer and source: of checkpoints, and of open captures."""
    positions: Mapping[tuple[str, str], CheckpointRecord] = field(default_factory=dict)
    """By consumer and source."""
    consumers: Mapping[str, str] = field(default_factory=dict)
    """Consumer to workflow."""
    published: Mapping[str, float] = field(default_factory=dict)
    """Target to when a batch was last published there."""
    published_by: tuple[tuple[str, str], ...] = ()
    """Consumer and target."""
    watermarks: Mapping[str, float] = field(default_factory=dict)
    cut: bool = False

    @cached_property
    def sources(self) -> frozenset[str]:
        return frozenset(self._readers)

    @cached_property
    def targets(self) -> frozenset[str]:
        return frozenset(self._writers) | frozenset(self.published)

    @cached_property
    def tables(self) -> tuple[str, ...]:
        return tuple(sorted(self.sources | self.targets | set(self.watermarks)))

    def readers(self, table: str) -> list[str]:
        """Workflows that read a table, by their definitions or in fact."""
        return sorted(self._readers.get(table, ()))

    def writers(self, table: str) -> list[str]:
        return sorted(self._writers.get(table, ()))

    @cached_property
    def _readers(self) -> Mapping[str, set[str]]:
        by_text = [(table, name) for name, one in self.workflows.items() for table in one.reads]
        return _grouped([*by_text, *((source, self.consumers[name]) for name, source in self.checkpoints)])

    @cached_property
    def _writers(self) -> Mapping[str, set[str]]:
        by_text = [(table, name) for name, one in self.workflows.items() for table in one.writes]
        return _grouped([*by_text, *((target, self.consumers[name]) for name, target in self.published_by)])


def _grouped(pairs: Iterable[tuple[str, str]]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for key, value in pairs:
        found.setdefault(key, set()).add(value)
    return found


class DefinitionTables:
    """Parses each version once. What the state database says is kept for ``fresh_seconds``."""

    def __init__(
        self,
        database: Database,
        cache: Definitions,
        *,
        catalog: str,
        fresh_seconds: float = 3.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database = database
        self._cache = cache
        self._catalog = catalog
        self._fresh_seconds = fresh_seconds
        self._clock = clock
        self._versions: OrderedDict[tuple[str, int], WorkflowTables] = OrderedDict()
        self._known: tuple[float, KnownTables] | None = None
        self._published: tuple[float, list[PublicationSummary]] | None = None
        self._lock = threading.Lock()

    def known(self) -> KnownTables:
        with self._lock:
            if self._known is not None and self._clock() - self._known[0] < self._fresh_seconds:
                return self._known[1]
            with self._database.read() as connection:
                found = self._read(connection)
            self._known = self._clock(), found
            return found

    def forget(self) -> None:
        """Something has just been changed: look anew."""
        with self._lock:
            self._known = self._published = None

    def _read(self, connection: Connection) -> KnownTables:
        records = {one.id: one for one in definitions.listing(connection) if one.latest_version}
        names = sorted(records)[:MOST_WORKFLOWS]
        by_consumer = {one.name: one.workflow_id for one in captures.all_consumers(connection)}
        publications = self._publications(connection)
        checkpoints = {(one.consumer, one.source): one for one in captures.all_checkpoints(connection)}
        opened = captures.open_captures(connection).values()
        held = {(one.consumer, str(source["table"])) for one in opened for source in one.sources}
        newest: dict[str, float] = {}
        for one in publications:
            newest[one.target] = max(newest.get(one.target, 0.0), one.published_at)
        return KnownTables(
            {name: self._workflow(connection, records[name]) for name in names},
            records,
            tuple(sorted(pair for pair in {*checkpoints, *held} if pair[0] in by_consumer)),
            checkpoints,
            by_consumer,
            newest,
            tuple((one.consumer, one.target) for one in publications if one.consumer in by_consumer),
            {one.source: one.valid_through for one in signals.all_watermarks(connection)},
            len(names) < len(records),
        )

    def _publications(self, connection: Connection) -> list[PublicationSummary]:
        """All of them are looked at now and then only: in between, those that are new."""
        now = self._clock()
        if self._published is None or now - self._published[0] > PUBLICATIONS_SECONDS:
            self._published = now, captures.publications_by_target(connection)
            return self._published[1]
        at, known = self._published
        newest = max((one.published_at for one in known), default=0.0)
        fresh = captures.publications_by_target(connection, newest - CLOCKS_APART_SECONDS)
        merged = {(one.consumer, one.target): one for one in known}
        for one in fresh:
            merged[one.consumer, one.target] = one
        self._published = at, list(merged.values())
        return self._published[1]

    def _workflow(self, connection: Connection, record: WorkflowRecord) -> WorkflowTables:
        key = record.id, record.latest_version
        found = self._versions.get(key)
        if found is None:
            definition = self._cache.get(connection, *key)
            read = partial(_text, connection, definition.files)
            found = tables_of(cycles.ParsedDefinition(definition.workflow, read), record.latest_version, self._catalog)
            self._versions[key] = found
            while len(self._versions) > 2 * MOST_WORKFLOWS:
                self._versions.popitem(last=False)
        return found


def tables_of(definition: cycles.ParsedDefinition, version: int, catalog: str) -> WorkflowTables:
    """Never raises: what a definition does not tell is left out."""
    workflow = definition.workflow
    planned = plan(workflow, version, catalog=catalog)
    captured = _captured(workflow, catalog)
    writes = cycles.targets_of(definition, catalog)
    named = {one.table for one in captured} | set(planned.completeness)
    named |= {one.table for armed in planned.triggers for one in armed.watches}
    read, unclear = _read_by_sql(definition, catalog)
    return WorkflowTables(
        workflow.id, version, frozenset(named | (read - writes)), frozenset(writes), captured, planned, unclear
    )


def _text(connection: Connection, files: Mapping[str, str], key: str) -> str | None:
    content = definitions.file(connection, files[key]) if key in files else None
    return None if content is None else content.decode("utf-8", "replace")


def _captured(workflow: Workflow, catalog: str) -> tuple[WatchedTable, ...]:
    try:
        return watched_tables(workflow, IncrementalTrigger(), catalog=catalog)
    except IcefloeError:
        return ()  # only a run knows them


def _read_by_sql(definition: cycles.ParsedDefinition, catalog: str) -> tuple[set[str], bool]:
    values = {name: value for name, value in workflow_values(definition.workflow).items() if isinstance(value, str)}
    found: set[str] = set()
    unclear = False
    for _, step in definition.workflow.all_steps():
        if not isinstance(step, TypedStep) or step.type.lower() != "spark":
            unclear |= isinstance(step, TypedStep) and step.type.lower() in ("python", "shell")
            continue
        text = cycles.sql_of(definition, str(step.settings.get("script", "")), values)
        unclear |= not text
        found |= read_by(text, catalog)
    return found, unclear


def read_by(script: str, catalog: str) -> set[str]:
    """The tables that a script's statements read, by their canonical names. Statements that sqlglot does not know tell nothing."""
    found: set[str] = set()
    try:
        statements = [statement.text for statement in split(script)]
    except (IcefloeError, SqlglotError):
        return found
    for text in statements:
        try:
            tree = sqlglot.parse_one(text, dialect="spark")
        except SqlglotError:
            continue
        found |= set(_named(_sources(tree), catalog))
    return found


def _sources(tree: exp.Expr) -> Iterator[tuple[str, ...]]:
    written = tree.this if isinstance(tree, exp.Insert | exp.Merge | exp.Update | exp.Delete | exp.Create) else None
    if isinstance(written, exp.Schema):
        written = written.this
    for table in tree.find_all(exp.Table):
        if table is not written and table.db and isinstance(table.this, exp.Identifier):
            yield tuple(part.name for part in table.parts)


def _named(names: Iterable[tuple[str, ...]], catalog: str) -> Iterator[str]:
    for parts in names:
        if parts[0] == catalog and len(parts) > 2:
            parts = parts[1:]
        if len(parts) > 2 and (parts[-1] in _METADATA_TABLES or parts[-1].startswith(("branch_", "tag_"))):
            parts = parts[:-1]
        if cycles.KNOWN_TO_THE_RUN in parts:
            continue
        try:
            yield canonical(".".join("`" + part.replace("`", "``") + "`" for part in parts), catalog)
        except UsageError:
            continue
