"""Shadow mode, carried out: after a plan has written to the attempt's branch and before that is published."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from icefloe import suppressed
from icefloe.errors import ConflictError, IcefloeError, UsageError
from icefloe.lake import Lake
from icefloe.lake.partition_sizes import sizes_by_value
from icefloe.planner import shadow
from icefloe.planner.comparison import ComparedColumn, Comparison, holds_float
from icefloe.planner.errors import ShadowMismatchError
from icefloe.planner.plan import Plan
from icefloe.planner.shadow import ShadowFacts
from icefloe.spark.marks import Mark
from icefloe.steps.write import differences
from icefloe.steps.write.facts import Facts
from icefloe.steps.write.write_job import WriteJob

Log = Callable[[str], None]


class UncapturedMovedError(ConflictError):
    """A table that is read as it is changed between writing and comparing."""

    code = "planner.shadow-source-moved"


@dataclass(frozen=True)
class ShadowCheck:
    """Made before the plan is carried out. ``uncaptured``: where tables that are read as they are were at that time."""

    session: Any
    lake: Lake
    work: WriteJob
    mark: Mark
    log: Log
    facts: Facts
    plan: Plan
    uncaptured: Mapping[str, int | None]

    @classmethod
    def over(
        cls, session: Any, lake: Lake, work: WriteJob, mark: Mark, log: Log, facts: Facts, plan: Plan
    ) -> ShadowCheck:
        shadow.refuse_unrepeatable(facts.analysis.query, work.request.where)
        return cls(session, lake, work, mark, log, facts, plan, _heads(lake, plan))

    def compare(self, branch: str) -> int:
        """Returns how many rows were compared. Raises :class:`ShadowMismatchError`."""
        mode, began = self.work.shadow, time.monotonic()
        columns = self._columns()
        known = self._known(branch, columns)
        subsets = shadow.parts(self.plan, mode, known)
        if not subsets:
            description = shadow.describe(self.plan, mode) or ""
            self.log(description)
            return 0
        seed = f", seed {known.seed}" if mode == "sample" else ""
        total = 0
        for part in subsets:
            comparison = Comparison(self._select(), self.facts.target.branch_name, columns, part)
            total += self._compared(comparison)
        seconds = time.monotonic() - began
        self.log(f"shadow {mode}: {total:,} rows compared and equal, {seconds:.1f} s{seed}")
        return total

    def _compared(self, comparison: Comparison) -> int:
        counts = self.session.sql(comparison.counts()).collect()[0]
        missing, extra = counts["missing"], counts["extra"]
        close = ""
        if (missing or extra) and comparison.has_floats:
            again = self.session.sql(comparison.tolerant_counts()).collect()[0]
            if not again["missing"] and not again["extra"]:
                close = f" ({missing:,} of them in floats that differ by rounding only)"
            missing, extra = again["missing"], again["extra"]
        if missing or extra:
            self._refuse_if_moved()
            raise self._mismatch(comparison, counts["rows"], missing, extra)
        self.log(f"  shadow, {comparison.part.what}: {counts['rows']:,} rows equal{close}")
        return int(counts["rows"])

    def _mismatch(self, comparison: Comparison, rows: int, missing: int, extra: int) -> ShadowMismatchError:
        plan, target = self.plan, self.facts.target.name
        keys = plan.keys or (plan.changed_keys.columns if plan.changed_keys is not None else ())
        rows_shown = self.session.sql(comparison.rows(keys, differences.MOST_ROWS * 2 + 1)).collect()
        names = tuple(column.name for column in comparison.columns)
        lines = [f"shadow, {comparison.part.what}: {missing:,} rows missing, {extra:,} rows extra, of {rows:,}"]
        lines += differences.shown([tuple(row) for row in rows_shown], names, keys)
        if not rows_shown:
            lines.append("  at a second look there was no difference: the SELECT does not give the same at each run")
        choosing = shadow.suspects(self.facts.analysis.query)
        if choosing:
            lines.append(
                f"  in the SELECT, {', '.join(choosing)} may choose otherwise at each run; if that is all, make the choice unique "
                "(ORDER BY a whole key, array_sort)"
            )
        lines += [f"  {note}" for note in plan.notes]
        return ShadowMismatchError(
            f"the {plan.pattern} has not written what the SELECT gives: {missing:,} rows are missing and {extra:,} are extra "
            f"among {rows:,} that should be there ({comparison.part.what})",
            where=target,
            hint="nothing is published and the capture stays open. Set write.pattern to full (or range_overwrite), then: "
            f"icefloe push FILE && icefloe restart {self.mark.run} --version latest; "
            "please report the SELECT, the plan and the rows in the step's log",
            detail="\n".join(lines),
        )

    def _refuse_if_moved(self) -> None:
        for name, head in _heads(self.lake, self.plan).items():
            if head != self.uncaptured.get(name):
                raise UncapturedMovedError(
                    f"{name} is read as it is, and changed while the result was compared",
                    where=self.facts.target.name,
                    hint="the step is repeated",
                )

    def _select(self) -> str:
        analysis = self.facts.analysis
        relations = {state.name: state.at_to for state in analysis.sources.values() if state.captured}
        return analysis.query.bound(relations)

    def _columns(self) -> tuple[ComparedColumn, ...]:
        """As the branch has them, and what the SELECT's have to be converted to."""
        fields = self.session.sql(self._select()).schema.fields
        target_types = {
            field.name.lower(): field.dataType
            for field in self.session.sql(f"SELECT * FROM {self.facts.target.branch_name}").schema.fields
        }
        uuids = {column.name.lower() for column in self.facts.target.columns if column.type == "uuid"}
        columns = []
        for field in fields:
            kind = target_types[field.name.lower()]
            same = kind.simpleString() == field.dataType.simpleString()
            shown_type = "uuid" if field.name.lower() in uuids else kind.jsonValue()
            columns.append(ComparedColumn(field.name, shown_type, None if same else kind.simpleString()))
        return tuple(columns)

    def _known(self, branch: str, columns: tuple[ComparedColumn, ...]) -> ShadowFacts:
        seed = shadow.seed_of(self.mark.text)
        if self.work.shadow != "sample":
            return ShadowFacts(seed, self._partition_type())
        table = self.lake.table(self.facts.target.name)
        tip = table.metadata.refs[branch].snapshot_id
        rows = str(table.metadata.snapshots[tip].summary.get("total-records", ""))
        analysis = self.facts.analysis
        return ShadowFacts(
            seed=seed,
            kind=self._partition_type(),
            sizes=self._sizes(tip),
            rows=int(rows) if rows.isdigit() else 0,
            changed_rows=sum(analysis.state(occurrence).added.rows for occurrence in analysis.changed),
            hashable=tuple(column.name for column in columns if not holds_float(column.type)),
        )

    def _partition_type(self) -> str:
        if self.plan.partitions is None:
            return ""
        named = self.plan.partitions.column.lower()
        return next(column.type for column in self.facts.target.columns if column.name.lower() == named)

    def _sizes(self, tip: int) -> dict[Any, int] | None:
        """Rows in every partition of the branch; a partition that only the sources have should perhaps be there, and counts too."""
        touched, link = self.plan.partitions, self.facts.analysis.link(self.facts.target)
        if touched is None:
            return None
        sizes_there = sizes_by_value(self.lake.table(self.facts.target.name), tip, touched.column, None)
        if sizes_there is None:
            return None
        sizes = {value: counts.rows for value, counts in sizes_there.by_value.items()}
        if link is None or link.column != touched.column:
            return sizes
        ends = {source.table: source.end.snapshot_id for source in self.work.sources if source.end is not None}
        for occurrence in self.facts.analysis.changed:
            key, name = link.sources[occurrence.id], occurrence.table.name
            with suppressed.errors("shadow.sizes", IcefloeError, where=name):
                live = sizes_by_value(self.lake.table(name), ends.get(name), key.column, None, key.transform)
                for value, counts in (live.by_value if live is not None else {}).items():
                    sizes[value] = max(sizes.get(value, 0), counts.rows)
        return sizes


def _heads(lake: Lake, plan: Plan) -> dict[str, int | None]:
    """Where the tables are that are read as they are, as far as the lake knows them."""
    heads: dict[str, int | None] = {}
    for name in plan.uncaptured:
        with suppressed.errors("shadow.heads", IcefloeError, where=name), suppress(UsageError):
            head = lake.table(name).metadata.refs.get("main")
            heads[name] = head.snapshot_id if head is not None else None
    return heads
