"""Small files that batches leave behind, and when they are joined.

Each batch adds a small file to each late partition, and one that says which old rows are gone. Whoever reads the partition later
pays for each of them, the next batch first of all, which looks there for its keys. Joining them costs, too, so files are joined in
tiers: one is written again only into a file that is several times as large, so that a row is written again a few times in its life,
however many batches there are, and a day's own large files are left alone. And a joining has its price however little there is to
join, so that a partition waits for others: where days roll on, each day one more has its pile.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from icefloe.lake.predicates import string_literal
from icefloe.planner.inputs import PartitionContents, TargetState
from icefloe.planner.plan import Compaction, Partitions
from icefloe.planner.statements import among, quote

SMALL_FILES = 8
"""So many in one partition are joined: see ``docs/benchmarks.md``."""
SMALL_BYTES = 8 * 2**20
"""Reading a larger one costs far more than opening it."""
SHARE = 3
"""One in so many of a batch's late partitions must have a pile, or one of them two piles' worth: see ``docs/benchmarks.md``."""
WEIGHT = 6
"""How much larger the new file is than the largest of the old ones, at least."""


def due(
    target: TargetState, kind: str, contents: PartitionContents, touched: Partitions, *, deletes: bool
) -> Compaction | None:
    """What this batch makes due: it adds one more file to each late partition. ``kind``: the partition column's type."""
    small = min(SMALL_BYTES, target.file_bytes // 2)
    cuts: dict[Any, int] = {}
    most = 0
    for value in touched.late:
        for sizes in contents.files.get(value, ()):
            joined = [size for size in sizes if size <= small]
            cut = cutoff(joined, SMALL_FILES - 1)
            if cut is not None:
                cuts[value] = max(cut, cuts.get(value, 0))
                most = max(most, sum(size <= cut for size in joined) + 1)
    if not cuts or (len(cuts) * SHARE < len(touched.late) and most < 2 * SMALL_FILES):
        return None
    below = max(cuts.values()) + 1
    where = among(quote(touched.column), kind, tuple(cuts))
    procedures = [("rewrite_data_files", {"min-input-files": "2", "min-file-size-bytes": str(below)})]
    if deletes and target.merge_on_read and target.format_version == 2:
        procedures.append(("rewrite_position_delete_files", {"min-input-files": "2"}))
    return Compaction(
        touched.column, tuple(cuts), below, tuple(_call(target, name, where, options) for name, options in procedures)
    )


def cutoff(sizes: Sequence[int], least: int) -> int | None:
    """The size up to which files are joined; ``None``: there are fewer than ``least``, or nothing is gained."""
    total, cut = 0, None
    for number, size in enumerate(sorted(sizes), start=1):
        total += size
        if number >= least and WEIGHT * size <= total:
            cut = size
    return cut


def _call(target: TargetState, name: str, where: str, options: dict[str, str]) -> str:
    catalog = target.sql_name.partition(".")[0]
    listed = ", ".join(f"'{key}', '{value}'" for key, value in options.items())
    return (
        f"CALL {catalog}.system.{name}(table => {string_literal(target.sql_name)}, "
        f"where => {string_literal(where)}, options => map({listed}))"
    )
