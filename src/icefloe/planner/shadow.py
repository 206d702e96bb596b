"""Shadow mode: which part of the result is computed again the slow way, and compared with what a plan wrote. Pure.

``full`` takes all of it. ``sample`` takes some of what the batch touched and some of what it should have left alone: by partitions
where the plan works by partitions, by a hash of the keys where it works by keys. Which, follows from a seed, so that every attempt
at a batch looks at the same rows and the next batch at others.

Where tables are read that are not captured (``lookup_tables``), rows that a batch does not compute again may rest on an earlier state of
them, by the user's own wish. There only what was computed again is compared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any, Literal

from sqlglot import exp

from icefloe.planner import functions
from icefloe.planner.comparison import RowSubset
from icefloe.planner.errors import NotRepeatableError
from icefloe.planner.plan import Plan
from icefloe.planner.query import Query

Mode = Literal["off", "sample", "full"]

SAMPLE_PARTITIONS = 3
"""Of each kind: new, late, overwritten, and not touched."""
SAMPLE_ROWS = 100_000
"""Where a part of the sample has more rows than this it is thinned out by a hash."""
_CHOOSING_WORDS = """
    any_value array_agg collect_list collect_set first first_value lag last last_value lead listagg max_by min_by mode nth_value
    ntile row_number string_agg
"""
_CHOOSING = frozenset(_CHOOSING_WORDS.split())


@dataclass(frozen=True, slots=True)
class ShadowFacts:
    """What metadata tells about the branch, for a sample to be drawn."""

    seed: int = 0
    kind: str = ""
    """The type of the partition column."""
    sizes: Mapping[Any, int] | None = None
    """Rows by partition, of every partition that the branch or the sources have; ``None``: not known."""
    rows: int = 0
    """In the whole branch."""
    changed_rows: int = 0
    hashable: tuple[str, ...] = ()
    """Columns that are the same to the last bit on both sides."""


def seed_of(mark: str) -> int:
    """The same for every attempt at a batch."""
    return int.from_bytes(sha256(mark.encode()).digest()[:4])


def refuse_unrepeatable(query: Query, where: str) -> None:
    """A SELECT that gives something else at each run cannot be compared with itself."""
    reason = next((str(doubt) for doubt in functions.doubts(query.tree) if doubt.known_volatile), None)
    if reason is None and query.tree.find(exp.TableSample) is not None:
        reason = "TABLESAMPLE takes other rows at each run"
    if reason is not None:
        raise NotRepeatableError(
            f"shadow mode compares the SELECT with itself, and {reason}",
            where=where,
            hint="take it out of the SELECT (a load time can be a parameter: '${RUN_TS}'), or say shadow: off",
        )


def suspects(query: Query) -> list[str]:
    """What may choose otherwise among equally good rows, or is not known: told beside a mismatch, which may come of it."""
    names = [name for name in functions.called(query.tree) if name in _CHOOSING]
    names += [doubt.name for doubt in functions.doubts(query.tree) if not doubt.known_volatile]
    if query.tree.find(exp.Limit) is not None:
        names.append("limit")
    return list(dict.fromkeys(names))


def parts(plan: Plan, mode: Mode, known: ShadowFacts) -> tuple[RowSubset, ...]:
    """What is compared, each part by itself. Empty: nothing can be."""
    if mode == "off":
        return ()
    if plan.uncaptured and plan.pattern != "full":
        return (*_recomputed(plan, mode, known), *_written_anew(plan, mode, known))
    if mode == "full":
        return (RowSubset("everything"),)
    return (*_sample(plan, known), *_written_anew(plan, mode, known))


def describe(plan: Plan, mode: Mode) -> str | None:
    """For ``icefloe explain``."""
    if mode == "off":
        return None
    tables = ", ".join(plan.uncaptured)
    only = f"only what it computed again, since {tables} is not captured" if tables and plan.pattern != "full" else ""
    if only and plan.pattern in ("append", "none") and plan.span is None:
        return f"shadow: {mode}: compares nothing: {plan.pattern} computes nothing again, and {tables} is not captured"
    if mode == "full":
        return f"shadow: full: before it is published, the SELECT is run over everything and compared with {only or 'all rows'}"
    if only and plan.pattern in ("append", "range"):
        units = f"the range {plan.span}"
    elif plan.partitions is not None:
        units = f"up to {SAMPLE_PARTITIONS} new, late and overwritten partitions of {plan.partitions.column} each"
        units += ", in large ones the changed keys too" if plan.changed_keys else ""
        units += "" if only else f", and {SAMPLE_PARTITIONS} that it did not touch"
    elif plan.changed_keys is not None:
        named = ", ".join(plan.changed_keys.columns)
        units = f"changed {named}" + ("" if only else ", and others by a hash of them")
    else:
        units = f"rows by a hash of {', '.join(plan.keys) or 'their columns'}"
    if plan.span is not None and str(plan.span) not in units:
        units += f", and the range {plan.span}"
    more = f"; {only}" if only else ""
    return f"shadow: sample: before it is published, it is compared in {units}, at most about {SAMPLE_ROWS:,} rows of each{more}"


def _sample(plan: Plan, known: ShadowFacts) -> list[RowSubset]:
    by = _hashed_by(plan, known)
    if plan.partitions is None:
        everywhere = _thinned(RowSubset("rows"), by, known.rows, known.seed)
        if plan.changed_keys is None or everywhere.every == 1:
            return [everywhere]
        return [_changed(plan, known, None), everywhere]
    touched = plan.partitions
    kinds = {"new": touched.new, "late": touched.late, "overwritten": touched.overwritten}
    chosen = {kind: _chosen(values, known.seed) for kind, values in kinds.items() if values}
    sample = [_partitions(plan, known, chosen, kinds, by)] if chosen else []
    # An append adds changed keys to every partition that it touches, other patterns look for them in late ones alone.
    by_key = chosen.get("late", ()) + (chosen.get("new", ()) if plan.pattern == "append" else ())
    if by_key and plan.changed_keys is not None and sample[0].every > 1:
        # Of large partitions, few rows may have changed: the hash alone would hardly meet them.
        sample.append(_changed(plan, known, by_key))
    if known.sizes is None:
        return [*sample, _thinned(RowSubset("rows of any partition"), by, known.rows, known.seed)]
    others = [value for value in known.sizes if not any(value in values for values in kinds.values())]
    if others:
        untouched = {"untouched": tuple(others)}
        sample.append(_partitions(plan, known, {"untouched": _chosen(others, known.seed)}, untouched, by))
    return sample


def _recomputed(plan: Plan, mode: Mode, known: ShadowFacts) -> list[RowSubset]:
    """Only what the plan deleted and wrote anew."""
    if plan.pattern in ("append", "none", "range"):
        return []
    touched = plan.partitions
    if touched is None:
        return [_changed(plan, known, None, whole=mode == "full")]
    kinds = {"new": touched.new, "overwritten": touched.overwritten}
    kinds = {kind: values for kind, values in kinds.items() if values}
    chosen = kinds if mode == "full" else {kind: _chosen(values, known.seed) for kind, values in kinds.items()}
    by = () if mode == "full" else _hashed_by(plan, known)
    recomputed = [_partitions(plan, known, chosen, kinds, by)] if chosen else []
    if touched.late:
        late = touched.late if mode == "full" else _chosen(touched.late, known.seed)
        recomputed.append(_changed(plan, known, late, whole=mode == "full"))
    return recomputed


def _written_anew(plan: Plan, mode: Mode, known: ShadowFacts) -> list[RowSubset]:
    """The range, if one was written. The whole branch is the most that can lie in it."""
    if plan.span is None:
        return []
    part = RowSubset(f"the range {plan.span}", span=plan.span)
    return [part if mode == "full" else _thinned(part, _hashed_by(plan, known), known.rows, known.seed)]


def _partitions(
    plan: Plan,
    known: ShadowFacts,
    chosen: Mapping[str, tuple[Any, ...]],
    all_of: Mapping[str, tuple[Any, ...]],
    by: tuple[str, ...],
) -> RowSubset:
    assert plan.partitions is not None
    values = tuple(value for some in chosen.values() for value in some)
    description = "; ".join(
        f"{len(some)} of {len(all_of[kind])} {kind}: {', '.join('NULL' if value is None else str(value) for value in some[:10])}"
        for kind, some in chosen.items()
    )
    part = RowSubset(
        f"partitions of {plan.partitions.column} ({description})", plan.partitions.column, known.kind, values
    )
    rows = sum((known.sizes or {}).get(value, 0) for value in values)
    return _thinned(part, by, rows, known.seed)


def _changed(plan: Plan, known: ShadowFacts, values: tuple[Any, ...] | None, *, whole: bool = False) -> RowSubset:
    assert plan.changed_keys is not None
    title = f"changed {', '.join(plan.changed_keys.columns)}"
    if values is None or plan.partitions is None:
        part = RowSubset(title, keys=plan.changed_keys)
    else:
        where = f"in {len(values)} partition{'s' if len(values) != 1 else ''}"
        part = RowSubset(f"{title} {where}", plan.partitions.column, known.kind, values, plan.changed_keys)
    return part if whole else _thinned(part, _hashed_by(plan, known), known.changed_rows, known.seed)


def _hashed_by(plan: Plan, known: ShadowFacts) -> tuple[str, ...]:
    keys = plan.changed_keys.columns if plan.changed_keys is not None else plan.keys
    return tuple(name for name in keys if name in known.hashable) or known.hashable


def _thinned(part: RowSubset, by: tuple[str, ...], rows: int, seed: int) -> RowSubset:
    every = -(-rows // SAMPLE_ROWS)
    if every <= 1 or not by:
        return part
    title = f"{part.what}, one in {every} by a hash of {', '.join(by)}"
    return replace(part, what=title, by=by, every=every, remainder=seed % every)


def _chosen(values: Sequence[Any], seed: int) -> tuple[Any, ...]:
    """Some of them: the same for the same seed, whatever their order."""
    return tuple(sorted(values, key=lambda value: sha256(f"{seed} {value!r}".encode()).digest())[:SAMPLE_PARTITIONS])
