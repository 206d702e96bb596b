"""Whether the step itself looks up a batch's changed keys, in place of Spark: see :mod:`icefloe.rows` for how.

It pays on a local server, where the cores are the same and a row costs a quarter of what it costs through Spark; on a cluster Spark has more
of them. What is found is handed to Spark with the statement, so it must be little.
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from icefloe.planner.analysis import Analysis, PartitionLink, bare
from icefloe.planner.influence import Occurrence
from icefloe.planner.inputs import PartitionContents, SourceState, TargetState
from icefloe.planner.plan import KeySearch, Partitions
from icefloe.planner.statements import KeyColumn, StatementWriter
from icefloe.rows.types import is_key, is_plain

FEW_FOUND = 30_000
"""Rows, as far as can be told before, that are handed to Spark whatever else there is: see ``docs/benchmarks.md``."""
MOST_FOUND = 300_000
"""More are not, however many are looked through for them,"""
LOOKED_THROUGH = 200
"""and in between only where so many are looked through for each that it is worth the handing over."""
_FORMAT_VERSION = 3
_METADATA_COLUMNS = frozenset(
    {"_file", "_pos", "_deleted", "_spec_id", "_partition", "_row_id", "_last_updated_sequence_number"}
)


def search(
    analysis: Analysis,
    target: TargetState,
    contents: PartitionContents,
    link: PartitionLink,
    touched: Partitions,
    writer: StatementWriter,
    *,
    new_from_changes: bool,
) -> KeySearch | None:
    """How, or ``None``: Spark does it."""
    occurrence = analysis.single
    if occurrence is None or not touched.late:
        return None
    state, partition = analysis.state(occurrence), link.sources[occurrence.id]
    plain = state.append_only and state.change_table is not None and partition.transform == "identity"
    if not plain or len(analysis.query.tables) != 1 or writer.gathered_by is None:
        return None
    if target.format_version != _FORMAT_VERSION or not target.merge_on_read:
        return None
    keys = _keys(analysis, target, state, occurrence, writer.keys)
    columns = _columns(analysis.query.tree, state)
    if not keys or columns is None or not _few(analysis, contents, link, touched, writer, occurrence):
        return None
    assert state.change_table is not None
    statements = replace(writer, searched=True).restricted(touched, new_from_changes=new_from_changes)
    return KeySearch(
        state.name,
        state.change_table,
        partition.column,
        keys,
        columns,
        tuple(statement for statement in statements if not statement.beside),
    )


def _keys(
    analysis: Analysis, target: TargetState, state: SourceState, occurrence: Occurrence, keys: tuple[KeyColumn, ...]
) -> tuple[tuple[str, str], ...]:
    """Columns of both that are the same as they are. Empty: there is one that is not."""
    types = {column.name.lower(): column.type for column in target.columns}
    pairs = []
    for key in keys:
        text = analysis.key_maps[key.name.lower()][occurrence.id]
        column = next((column for column in state.columns if bare(column.name) == text), None)
        if column is None or not is_key(column.type) or types.get(key.name.lower()) != column.type:
            return ()
        if not key.few:
            pairs.append((column.name, key.name))
    return tuple(pairs)


def _columns(tree: exp.Query, state: SourceState) -> tuple[str, ...] | None:
    """Every column of the source whose name the SELECT has anywhere, or all; ``None``: some cannot be handed over."""
    named = {part.name.lower() for column in tree.find_all(exp.Column) for part in column.parts}
    if named & _METADATA_COLUMNS:
        return None
    every = any(not isinstance(star.parent, exp.Count) for star in tree.find_all(exp.Star))
    wanted = [column for column in state.columns if every or column.name.lower() in named]
    if not wanted or not all(is_plain(column.type) for column in wanted):
        return None
    return tuple(column.name for column in wanted)


def _few(
    analysis: Analysis,
    contents: PartitionContents,
    link: PartitionLink,
    touched: Partitions,
    writer: StatementWriter,
    occurrence: Occurrence,
) -> bool:
    """Each changed row brings its group along."""
    influence = analysis.influence
    assert influence is not None
    rows = sum(link.added.get(value, 0) for value in touched.late)
    rows_per_key = 1.0 if occurrence.id in influence.relation.linear else writer.rows_a_group
    if rows_per_key is None:
        return False
    live = contents.source or {}
    most = sum(live[value].rows for value in touched.late if value in live)
    in_target = contents.target or {}
    looked_through = most + sum(in_target[value].rows for value in touched.late if value in in_target)
    expected = min(rows * max(rows_per_key, 1), most or rows * rows_per_key)
    return expected <= min(max(FEW_FOUND, looked_through / LOOKED_THROUGH), MOST_FOUND)
