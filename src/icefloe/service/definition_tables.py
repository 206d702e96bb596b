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
from functools import partial

import sqlglot
from sqlalchemy.engine import Connection
from sqlglot import exp
from sqlglot.errors import SqlglotError

from icefloe.engine.definitions import Definitions
from icefloe.errors import IcefloeError, UsageError
from icefloe.spark.statements import split
from icefloe.store import captures, definitions, signals
from icefloe.store.captures import PublicationSummary
from icefloe.store.database import Database
from icefloe.store.definitions import WorkflowRecord
from icefloe.triggers import cycles
from icefloe.triggers.plans import TriggerPlan, plan
from icefloe.triggers.sources import WatchedTable, canonical, watched_tables, workflow_values
from icefloe.workflow.model import IncrementalTrigger, TypedStep, Workflow

MOST_WORKFLOWS = 1000
"""Definitions that are looked into, by name."""
PUBLICATIONS_SECONDS = 20.0
"""For so long a target that nothing but a first batch names may be unknown."""
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
        """The goal, in seconds."""
        return self.plan.workflow.freshness


@dataclass(frozen=True, slots=True)
class KnownTables:
    """Everything that names tables, at one moment. ``cut``: there are more workflows than were looked into."""

    workflows: Mapping[str, WorkflowTables]
    records: Mapping[str, WorkflowRecord]
    checkpoints: tuple[tuple[str, str], ...] = ()
    """Consumer and source."""
    consumers: Mapping[str, str] = field(default_factory=dict)
    """Consumer to workflow."""
    published: Mapping[str, float] = field(default_factory=dict)
    """Target to when a batch was last published there."""
    published_by: tuple[tuple[str, str], ...] = ()
    """Consumer and target."""
    watermarks: Mapping[str, float] = field(default_factory=dict)
    cut: bool = False

    @property
    def sources(self) -> set[str]:
        named = {table for one in self.workflows.values() for table in one.reads}
        return named | {source for _, source in self.checkpoints}

    @property
    def targets(self) -> set[str]:
        return {table for one in self.workflows.values() for table in one.writes} | set(self.published)

    @property
    def tables(self) -> list[str]:
        return sorted(self.sources | self.targets | set(self.watermarks))

    def readers(self, table: str) -> list[str]:
        """Workflows that read a table, by their definitions or in fact."""
        by_text = {name for name, one in self.workflows.items() if table in one.reads}
        in_fact = {self.consumers[name] for name, source in self.checkpoints if source == table}
        return sorted(by_text | in_fact)

    def writers(self, table: str) -> list[str]:
        by_text = {name for name, one in self.workflows.items() if table in one.writes}
        in_fact = {self.consumers[name] for name, target in self.published_by if target == table}
        return sorted(by_text | in_fact)


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
        newest: dict[str, float] = {}
        for one in publications:
            newest[one.target] = max(newest.get(one.target, 0.0), one.published_at)
        return KnownTables(
            {name: self._workflow(connection, records[name]) for name in names},
            records,
            tuple(pair for pair in captures.sources_by_consumer(connection) if pair[0] in by_consumer),
            by_consumer,
            newest,
            tuple((one.consumer, one.target) for one in publications if one.consumer in by_consumer),
            {one.source: one.valid_through for one in signals.all_watermarks(connection)},
            len(names) < len(records),
        )

    def _publications(self, connection: Connection) -> list[PublicationSummary]:
        """Looks at every publication on record, so it is not asked at each look."""
        if self._published is None or self._clock() - self._published[0] > PUBLICATIONS_SECONDS:
            self._published = self._clock(), captures.publications_by_target(connection)
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
