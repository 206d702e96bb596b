"""From a step's work to its plan, the same way for a run and for ``icefloe explain``.

A run asks Spark for the result's columns and makes a missing target before it plans; ``explain`` has neither, and puts in their place what
the SELECT, the target and the last run tell. Everything else is one code path.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from icefloe.lake import Lake, history
from icefloe.lake.metadata import Snapshot
from icefloe.planner import choice
from icefloe.planner.analysis import Analysis
from icefloe.planner.inputs import Column
from icefloe.planner.logic import LogicChange
from icefloe.planner.plan import Plan
from icefloe.planner.spans import Span
from icefloe.steps.write import ranges
from icefloe.steps.write.facts import Facts, Observer, with_new_target
from icefloe.steps.write.versions import rebuilding
from icefloe.steps.write.write_job import WriteJob


@dataclass(frozen=True)
class PreparedWrite:
    """What a plan is made of, and whether the logic is another one than the target's."""

    analysis: Analysis
    facts: Facts
    columns: tuple[str, ...] | None
    """Of the result; ``None``: not known without Spark."""
    span: Span | None
    change: LogicChange | None
    cores: int | None
    """Of the local server that will run the plan."""

    def plan(self) -> Plan:
        target, contents = self.facts.target, self.facts.contents
        return choice.plan(self.analysis, target, contents, columns=self.columns, span=self.span, cores=self.cores)

    def complete_after(self, plan: Plan) -> bool:
        """Whether the target will hold what the SELECT gives, and nothing else, once the plan is carried out."""
        if plan.pattern == "full":
            return True
        ignored = any(state.ignored for state in self.analysis.sources.values())
        return self.facts.target.recomputable and not ignored and not self.analysis.request.lookup_tables


class WritePreparation:
    """Of one step. ``utc``: the session that will run the plan counts days in UTC. ``cores`` are those of its local server, if it has one."""

    def __init__(self, lake: Lake, work: WriteJob, *, utc: bool, cores: int | None) -> None:
        self._lake = lake
        self._work = work
        self._cores = cores
        self._observer = Observer(lake, work.request, work.sources, utc=utc)
        self.analysis = self._observer.analysis()

    def head(self, ref: str) -> int | None:
        return self._observer.head(ref)

    def facts(self, *, branch: str, base: int | None) -> Facts:
        return self._observer.facts(self.analysis, branch=branch, base=base)

    def past(self, facts: Facts) -> Iterator[Snapshot]:
        """The target's history up to where the attempt's branch begins."""
        if facts.base is None:
            return iter(())
        return history.ancestors(self._lake.table(facts.target.name).metadata, facts.base)

    def span(
        self, columns: Sequence[Column], facts: Facts | None, *, consumers: Sequence[str], place: str
    ) -> Span | None:
        """The range with values of the target's types, or of the result's own; ``None``: no range, or everything. ``facts`` None: there is no
        target."""
        range_order = self._work.range
        if range_order is None:
            return None
        if facts is not None and not any(state.captured for state in self.analysis.sources.values()):
            past, target = self.past(facts), facts.target.name
            ranges.refuse_foreign(past, range_order, consumers=consumers, place=place, target=target)
        target_types = (
            {column.name.lower(): column.type for column in facts.target.columns} if facts is not None else {}
        )
        typed = [Column(column.name, target_types.get(column.name.lower(), column.type)) for column in columns]
        return ranges.span(self._lake, range_order.parsed, self.analysis, self._work.sources, typed)

    def first_plan(self, facts: Facts, columns: tuple[str, ...] | None, span: Span | None) -> Plan:
        """Of a target that does not exist yet: how it is to be made."""
        return choice.plan(self.analysis, facts.target, facts.contents, columns=columns, span=span, cores=self._cores)

    def as_made(self, facts: Facts, columns: Sequence[Column], span: Span | None, defaults: Mapping[str, str]) -> Facts:
        """A missing target as a run would make it. ``defaults`` are the catalog's own for new tables."""
        plan = self.first_plan(facts, tuple(column.name for column in columns) or None, span)
        return with_new_target(
            facts, columns, plan.partition_by, {**plan.properties, **defaults, **self._work.properties}
        )

    def prepared(
        self, facts: Facts, columns: tuple[str, ...] | None, span: Span | None, change: LogicChange | None
    ) -> PreparedWrite:
        analysis, logic = self.analysis, self._work.logic
        if change is not None and logic is not None and logic.on_change == "rebuild":
            analysis = rebuilding(analysis, change)
        if self._work.range is not None and span is None:
            analysis = ranges.everything(analysis, self._work.range)
        text = self._work.request.text
        recomputable = logic is not None and change is None and logic.completes(self.past(facts), text)
        facts = replace(facts, target=replace(facts.target, recomputable=recomputable))
        return PreparedWrite(analysis, facts, columns, span, change, self._cores)
