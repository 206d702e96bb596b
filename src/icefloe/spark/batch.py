"""One attempt of a SQL step: its statements in order, fenced, and repeated on the new head when another writer was faster.

What the fence is and what it does not protect stands in :mod:`icefloe.spark.fence`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from icefloe.faults import fault
from icefloe.lake import Lake
from icefloe.spark.failure import SparkError, explain
from icefloe.spark.fence import Fence, Fencing, Session, in_rounds
from icefloe.spark.targets import Effect, Write

_LEAVES = re.compile(r"(?:/\*.*?\*/|--[^\n]*\n|\s)*(?:USE|SET\s+CATALOG|BEGIN|EXECUTE)\b", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Batch:
    """``fencing`` gives the fence of each round: the same mark, another branch."""

    writes: Sequence[Write]
    fencing: Callable[[int], Fencing]
    where: str = "script"
    alone: Callable[[], None] = lambda: None
    """Proves that no earlier attempt is still writing; asked before the first write that cannot be fenced."""
    published: dict[str, int] = field(default_factory=dict)
    """Filled as targets are published, also when the batch fails later."""


def run(session: Session, lake: Lake, batch: Batch, log: Callable[[str], None]) -> dict[str, int]:
    """Run the statements and publish. Returns the published snapshot of each target."""
    done: set[int] = set()
    at_home = not any(_LEAVES.match(write.statement.text) for write in batch.writes)

    def fence(number: int) -> Fence:
        fencing = batch.fencing(number)
        return Fence(session, lake, fencing, log, alone=batch.alone, published=batch.published, at_home=at_home)

    return in_rounds(fence, lambda round_fence: _statements(session, round_fence, batch, done, log), log)


def _statements(session: Session, fence: Fence, batch: Batch, done: set[int], log: Callable[[str], None]) -> None:
    """``done``: definitions that an earlier round has carried out. They are not taken back, so they are not repeated."""
    for number, write in enumerate(batch.writes, 1):
        if number in done:
            continue
        fault("spark.before_statement")
        if not fence.admit(write):
            continue
        log(f"statement {number} of {len(batch.writes)} (line {write.statement.line})")
        try:
            rows = session.sql(write.statement.text).collect()
        except Exception as error:
            raise placed(error, write, batch.where) from error
        finally:
            fence.ended(write)
        if write.is_definition:
            done.add(number)
        if rows and write.effect is Effect.NONE:
            for row in rows[:20]:
                log("  " + "  ".join(str(value) for value in row))
            if len(rows) > 20:
                log(f"  … {len(rows) - 20} more rows")


def placed(error: Exception, write: Write, where: str) -> Exception:
    """Spark's error with the line and column in the user's own text."""
    short = error if isinstance(error, SparkError) else explain(error)
    if short is None:
        return error
    line, column = write.statement.line, write.statement.column
    if short.line is not None:
        line, column = write.statement.place(short.line, short.column or 1)
    short.where = f"{where}, line {line}, column {column}"
    return short
