"""A planned write, carried out: look, plan, write to the attempt's branch, check, publish.

The plan says which partitions the target does not have. That must still be true when its rows are published: it is made of the very
snapshot that the attempt's branch stands on, and the fence moves the target only while it is still there.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType
from typing import Any

from icefloe import suppressed
from icefloe.faults import fault
from icefloe.lake import Lake
from icefloe.lake.errors import TableNotFoundError
from icefloe.planner.analysis import Analysis
from icefloe.planner.errors import KeysNotUniqueError, TargetMismatchError
from icefloe.planner.inputs import Column
from icefloe.planner.plan import Plan, PlannedStatement
from icefloe.planner.spans import Span
from icefloe.rows import NotPlainError
from icefloe.rows.reads import Reads
from icefloe.spark import fence as fences
from icefloe.spark.fence import Fence, Fencing, TargetMovedError
from icefloe.spark.launch import CORES
from icefloe.spark.marks import PROPERTY, Mark
from icefloe.spark.program_order import ProgramOrder
from icefloe.spark.session import select
from icefloe.steps.write import columns, ranges, write_report
from icefloe.steps.write.columns import ResultColumn
from icefloe.steps.write.facts import UTC, Facts, versions
from icefloe.steps.write.key_search import KeySearchRun
from icefloe.steps.write.savings_ledger import SavingsLedger
from icefloe.steps.write.shadow_check import ShadowCheck
from icefloe.steps.write.versions import LogicVersions
from icefloe.steps.write.write_job import WriteJob
from icefloe.steps.write.write_plan import PreparedWrite, WritePreparation
from icefloe.steps.write.write_report import SearchReport, WriteReport
from icefloe.workflow import lookbacks

NOT_YET = "attempt"
"""Stands for the branch in a plan that is made before there is a target to have one."""
ROWS_AHEAD = "icefloe_rows_ahead"
"""A temporary view; a plan has at most one statement whose rows are computed ahead."""
Log = Callable[[str], None]


def perform(session: Any, lake: Lake, order: ProgramOrder, published: dict[str, int], log: Log) -> None:
    """What :data:`icefloe.steps.write.write_job.CARRIER` names."""
    run(session, lake, WriteJob.from_json(order.work), order.fencing, log, published, write_report.write)


def run(
    session: Any,
    lake: Lake,
    work: WriteJob,
    fencing: Callable[[int], Fencing],
    log: Log,
    published: dict[str, int] | None = None,
    tell: Callable[[WriteReport], None] = lambda report: None,
) -> dict[str, int]:
    """Publish the batch, unless it is published. Returns the target's published snapshot; ``tell`` hears the rest."""
    lookback = lookbacks.parse(work.lookback) if work.lookback is not None else None
    ledger = SavingsLedger(session, lake, work.sources, lookback, log)
    logic = LogicVersions(session, work.logic, log)
    attempt = _Attempt(session, lake, work, fencing(1).mark, log, ledger, logic)
    results = fences.in_rounds(
        lambda number: Fence(session, lake, fencing(number), log, published=published, named=True, at_home=True),
        attempt.write,
        log,
    )
    target, snapshot_id = next(iter(results.items()), (lake.canonical_name(work.request.target), None))
    version = logic.published(lake.table(target).metadata.snapshots.get(snapshot_id)) if snapshot_id else None
    compared = attempt.compared_rows if work.shadow != "off" else None
    entry = ledger.entry(target, fencing(1).mark.run, snapshot_id)
    plan = attempt.plan.to_dict() if attempt.plan is not None else None
    tell(WriteReport(entry, version, compared, attempt.searched, plan))
    if attempt.plan is not None and fencing(1).ref == "main" and _compact(session, attempt.plan, log):
        tell(WriteReport(ledger.joined(entry), version, compared, attempt.searched, plan))
    return results


@dataclass
class _Attempt:
    session: Any
    lake: Lake
    work: WriteJob
    mark: Mark
    log: Log
    ledger: SavingsLedger
    logic: LogicVersions
    compared_rows: int = 0
    plan: Plan | None = None
    """Of what was written last."""
    reads: Reads = field(default_factory=Reads)
    """What searches of this process have read."""
    carried: Mapping[str, str] = field(default_factory=dict)
    """What its snapshots say of the whole target."""
    failure: BaseException | None = None
    """What went wrong first."""

    @property
    def searched(self) -> SearchReport | None:
        return SearchReport(self.reads.rows, self.reads.bytes) if self.reads.rows else None

    def write(self, fence: Fence) -> None:
        """Write the batch to the fence's branch."""
        name = self.lake.canonical_name(self.work.request.target)
        full = f"{self.lake.tables.name}.{name}"
        exists = self._exists(name)
        if exists and fence.is_published(full):
            self._refuse_forgotten_range(name, fence.published_as(full))
            self.log(f"{name}: this batch is published already, nothing is run again")
            return
        prepared = self._prepare(fence, name, exists=exists)
        self.plan = plan = self._planned(prepared)
        shadow = None
        if self.work.shadow != "off":
            shadow = ShadowCheck.over(self.session, self.lake, self.work, self.mark, self.log, prepared.facts, plan)
        self.ledger.forget()
        self.carried = self.logic.complete(self.work.request.text, complete=prepared.complete_after(plan))
        with _settings(self.session, plan.settings), self._carried_range():
            self._run(
                plan,
                self._key_search(fence, prepared, plan),
                partial(self.ledger.planned, prepared.analysis, prepared.facts),
            )
        self._refuse_duplicates(plan, prepared.facts)
        self._refuse_if_altered(prepared.facts)
        if shadow is not None:
            self.compared_rows = shadow.compare(fence.branch)
            self._refuse_if_altered(prepared.facts)

    def _prepare(self, fence: Fence, name: str, *, exists: bool) -> PreparedWrite:
        """At the SELECT, at what it reads and at the target, which is made first if it is missing."""
        full = f"{self.lake.tables.name}.{name}"
        utc = self.session.conf.get("spark.sql.session.timeZone") in UTC
        cores = self.session.conf.get(CORES, "")
        preparation = WritePreparation(self.lake, self.work, utc=utc, cores=int(cores) if cores.isdigit() else None)

        def facts_now() -> Facts:
            return preparation.facts(branch=fence.branch, base=fence.base(full))

        with ThreadPoolExecutor(1) as beside:  # Spark looks at the SELECT while the manifests are read here
            coming = beside.submit(self._result_columns, preparation.analysis)
            facts = facts_now() if exists else None
            result = coming.result()
        span = preparation.span(
            [Column(column.name, column.iceberg) for column in result],
            facts,
            consumers=[range_.consumer for range_ in self.mark.ranges],
            place=self.mark.place,
        )
        if facts is None:
            self._create(preparation, result, span)
            facts = facts_now()
        # From here on the target may be altered, which does not go with another commit at that moment.
        fence.branched(full)
        change = self.logic.change_since(preparation.past(facts) if exists else None, result)
        if self.logic.rebuilds(change) and self.logic.evolve(facts.target, result):
            facts = facts_now()
        try:
            columns.check(facts.target, result)
        except TargetMismatchError as error:
            raise self.logic.also(change, error) from None
        return preparation.prepared(facts, tuple(column.name for column in result), span, change)

    def _planned(self, prepared: PreparedWrite) -> Plan:
        """The plan, which the log and the logic's history hear of."""
        plan = prepared.plan()
        _tell(plan, self.log)
        self.logic.decide(prepared.change, plan, prepared.facts.target.name)
        return plan

    def _refuse_forgotten_range(self, name: str, published: int | None) -> None:
        """Where it cannot be known, or is asked for in every run anyway, it is only said."""
        write_range = self.work.range
        if write_range is None:
            return
        snapshot = self.lake.table(name).metadata.snapshots.get(published) if published is not None else None
        writer = self.work.logic.writer if self.work.logic is not None else "WORKFLOW"
        ranges.refuse_published(snapshot, write_range, name, writer.removesuffix(f"/{self.mark.place}"))
        if snapshot is None or snapshot.summary.get(ranges.RANGE) != write_range.text:
            self.log(f"{name}: the range {write_range.text} is not written with a batch that is published already")

    @contextmanager
    def _carried_range(self) -> Iterator[None]:
        """Have the snapshots say which range was written with them: a later attempt at the batch looks for it."""
        if self.work.range is not None:
            self.session.conf.set(f"{PROPERTY}{ranges.RANGE}", self.work.range.text)
        yield
        if self.work.range is not None:
            self.session.conf.unset(f"{PROPERTY}{ranges.RANGE}")

    def _key_search(self, fence: Fence, prepared: PreparedWrite, plan: Plan) -> KeySearchRun | None:
        search, base = plan.search, prepared.facts.base
        if search is None or base is None or plan.partitions is None:
            return None
        end = next(source.end for source in self.work.sources if source.table == search.source)
        assert end is not None
        return KeySearchRun(
            self.session,
            self.lake,
            search,
            plan.partitions,
            target=prepared.facts.target.name,
            base=base,
            end=end.snapshot_id,
            branch=fence.branch,
            properties={**self.mark.properties(), **self.carried},
            # What runs beside has a core to itself.
            threads=max((prepared.cores or 1) - any(statement.beside for statement in plan.statements), 1),
            log=self.log,
            reads=self.reads,
        )

    def _run(self, plan: Plan, key_search: KeySearchRun | None, count: Callable[[Plan], None]) -> None:
        """What the plan says, with what may be done at the same time. ``count`` what is read before the last statement begins, which is
        to carry it."""
        self.failure = None
        ordered = [statement for statement in plan.statements if not statement.beside]
        beside = [statement for statement in plan.statements if statement.beside]
        # Spark gives cores to what was asked for first: let that be what something else waits for.
        self._together(
            partial(self._search_or_run, plan, key_search, ordered, count),
            *([partial(self._run_in_order, beside)] if beside else []),
        )

    def _search_or_run(
        self,
        plan: Plan,
        key_search: KeySearchRun | None,
        ordered: list[PlannedStatement],
        count: Callable[[Plan], None],
    ) -> None:
        if key_search is None:
            self._run_ordered(ordered, partial(count, plan))
            return
        with ThreadPoolExecutor(1) as pool:
            counted = pool.submit(count, plan)
            try:
                rows = key_search.find()
            except NotPlainError as reason:
                self.log(f"search: by Spark, since {reason}")
                counted.result()
                self._run_ordered(ordered, partial(count, replace(plan, search=None)))
                return
            if self.failure is not None:
                return  # something beside has failed meanwhile
            key_search.hand_over(rows)
            # In either order: what is deleted lies in files that were there before, by its positions.
            self._together(
                partial(key_search.delete, rows),
                partial(self._run_in_order, key_search.search.statements, counted=counted),
            )

    def _run_ordered(self, statements: list[PlannedStatement], count: Callable[[], None]) -> None:
        """One after the other. Rows of later ones may be computed ahead, and what is read is counted meanwhile."""
        early = [statement for statement in statements[1:] if statement.rows]
        if len(statements) < 2:
            count()
            self._run_in_order(statements)
            return
        with ThreadPoolExecutor(1 + len(early)) as pool:
            ahead = {statement.sql: pool.submit(self._compute, statement) for statement in early}
            counted = pool.submit(count)
            self._together(
                partial(self._run_in_order, statements, ahead, counted), *[future.result for future in ahead.values()]
            )

    def _together(self, *works: Callable[[], object]) -> None:
        """All at the same time, until one fails."""
        if len(works) == 1:
            works[0]()
            return
        with ThreadPoolExecutor(len(works)) as pool:
            under_way = [pool.submit(work) for work in works]
            try:
                for future in wait(under_way, return_when=FIRST_EXCEPTION).done:
                    future.result()
            except BaseException as error:
                # A failure, or the step is cancelled: what still runs is of no use any more, and is not waited for to its end. It fails
                # by that, too, and is not to be heard of.
                self.failure = self.failure or error
                with suppressed.errors("spark.interrupt", Exception):
                    self.session.interruptAll()
                raise self.failure from None

    def _run_in_order(
        self,
        statements: Sequence[PlannedStatement],
        ahead: Mapping[str, Future[str]] = MappingProxyType({}),
        counted: Future[None] | None = None,
    ) -> None:
        for statement in statements:
            fault("spark.before_statement")
            began = time.monotonic()
            sql = statement.sql
            if sql in ahead:
                sql = f"{sql.removesuffix(statement.rows)}SELECT * FROM {ahead[sql].result()}"
            if counted is not None and statement is statements[-1]:
                counted.result()
            self.session.sql(sql)  # a command: run at once, and there is no result to fetch
            self.log(f"{statement.role}: {time.monotonic() - began:.1f} s")

    def _compute(self, statement: PlannedStatement) -> str:
        """The name of a view of the rows. The session keeps them until it ends, or has others under that name."""
        began = time.monotonic()
        select(self.session, statement.rows).localCheckpoint().createOrReplaceTempView(ROWS_AHEAD)
        self.log(f"rows to {statement.role}: {time.monotonic() - began:.1f} s")
        return ROWS_AHEAD

    def _exists(self, name: str) -> bool:
        try:
            self.lake.table(name)
        except TableNotFoundError:
            return False
        return True

    def _result_columns(self, analysis: Analysis) -> list[ResultColumn]:
        """As Spark sees them. Analysed on the server, nothing is run."""
        relations = {state.name: state.at_to for state in analysis.sources.values() if state.captured}
        schema = select(self.session, analysis.query.bound(relations)).schema
        return [ResultColumn(field.name, field.dataType.simpleString()) for field in schema.fields]

    def _create(self, preparation: WritePreparation, result: list[ResultColumn], span: Span | None) -> None:
        facts = preparation.facts(branch=NOT_YET, base=None)
        columns.check(facts.target, result)
        plan = preparation.first_plan(facts, tuple(column.name for column in result), span)
        properties = {**plan.properties, **self._catalog_defaults(plan.properties), **self.work.properties}
        self.session.sql(columns.create_table(facts.target, result, plan.partition_by, properties))
        self.log(f"{facts.target.name}: made, partitioned by {', '.join(plan.partition_by) or 'nothing'}")

    def _catalog_defaults(self, names: Iterable[str]) -> dict[str, str]:
        """What the project says of all new tables (``table-default.…`` of the catalog) goes before the planner's own taste."""
        prefix = f"spark.sql.catalog.{self.lake.tables.name}.table-default."
        settings = {name: self.session.conf.get(f"{prefix}{name}", "") for name in names}
        return {name: value for name, value in settings.items() if value}

    def _refuse_duplicates(self, plan: Plan, facts: Facts) -> None:
        if plan.duplicates is None or not plan.statements:
            return
        duplicates = self.session.sql(plan.duplicates).collect()
        if duplicates:
            first = ", ".join(f"{key} = {duplicates[0][key]}" for key in plan.keys)
            hint = "name all columns that make a row unique in write.keys, or group by the keys in the SELECT"
            if plan.span is not None and plan.span.column not in plan.keys:
                hint += (
                    f"; or choose a range over one of the keys: rows that had another {plan.span.column} have stayed"
                )
            raise KeysNotUniqueError(
                f"the keys {', '.join(plan.keys)} are not unique in the result: {duplicates[0]['rows']} rows have {first}",
                where=facts.target.name,
                hint=hint,
            )

    def _refuse_if_altered(self, facts: Facts) -> None:
        """The fence sees that rows were committed meanwhile, not that columns or partitioning are others."""
        if versions(self.lake.table(facts.target.name).metadata) != (facts.schema_id, facts.spec_id):
            raise TargetMovedError(
                "its schema or partitioning was changed while this batch was computed", where=facts.target.name
            )


def _compact(session: Any, plan: Plan, log: Log) -> bool:
    """After the batch is published, and of no consequence to it: readers see the same rows in fewer files. Whether it was done."""
    compaction = plan.compaction
    if compaction is None:
        return False
    began = time.monotonic()
    try:
        for statement in compaction.statements:
            session.sql(statement).collect()
    except Exception as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        log(f"compaction: not done, the next batch tries again: {reason}")
        return False
    log(f"compaction: {len(compaction.values)} partitions of {compaction.column}: {time.monotonic() - began:.1f} s")
    return True


@contextmanager
def _settings(session: Any, settings: Mapping[str, str]) -> Iterator[None]:
    """The session with these. After a failure it is of no use to anyone, and stays as it is."""
    before = {name: session.conf.get(name) for name in settings}
    for name, value in settings.items():
        session.conf.set(name, value)
    yield
    for name, value in before.items():
        session.conf.set(name, value)


def _tell(plan: Plan, log: Log) -> None:
    log(f"pattern {plan.pattern}: {plan.reason}")
    for refusal in plan.refusals:
        log(f"  not {refusal.pattern}: {refusal.reason}")
    for note in plan.notes:
        log(f"  {note}")
    if plan.partitions is not None:
        touched = plan.partitions
        for kind, values in (("new", touched.new), ("late", touched.late), ("overwritten", touched.overwritten)):
            if values:
                shown = ", ".join(str(value) for value in values[:20]) + (" …" if len(values) > 20 else "")
                log(f"  {kind} partitions of {touched.column}: {shown}")
