"""One attempt of a SQL step: write to a branch of its own, publish by fast-forward, exactly once.

A dead attempt's statement may still be running on the server when the next attempt starts, so looking for a mark before
writing is no fence. The fence is Iceberg's own compare-and-set: every attempt writes to its own branch off the target's head,
and of two branches off one head only one can be fast-forwarded to. What a dead attempt still writes lands on a branch that
nobody publishes. The published snapshots carry a mark; it is looked for before writing, and after a refused fast-forward.

What this does not protect: CREATE, DROP and ALTER statements, tables that are not Iceberg's, and what user code does outside
its tables.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from icefloe.errors import ConflictError, IcefloeError
from icefloe.lake import Lake, history
from icefloe.lake.catalog import format_identifier
from icefloe.lake.errors import TableNotFoundError
from icefloe.spark.targets import Write

if TYPE_CHECKING:
    from pyspark.sql.connect.session import SparkSession

MARK = "icefloe.mark"
_PROPERTY = "spark.sql.iceberg.snapshot-property."


class TargetMovedError(ConflictError):
    """Somebody else committed to the target meanwhile; the whole attempt is repeated on the new head."""

    code = "spark.target-moved"


@dataclass(frozen=True, slots=True)
class Batch:
    """``mark`` is the same for every attempt at the same work; ``branch`` is this attempt's own."""

    writes: Sequence[Write]
    mark: str
    labels: Mapping[str, str]
    branch: str
    conf: Mapping[str, str]
    direct: bool = False
    """``publish: direct``: no branch, and so no fence."""


def run(session: SparkSession, lake: Lake, batch: Batch, log: Callable[[str], None]) -> dict[str, int]:
    """Run the statements and publish. Returns the published snapshot of each target."""
    targets = _targets(lake, batch)
    published = {name: found for name in targets if (found := published_snapshot(lake, name, batch.mark)) is not None}
    for name in published:
        log(f"{name}: this batch is published already, its statements are not run again")
    pending = [name for name in targets if name not in published]
    for key, value in {**batch.conf, **_marks(batch)}.items():
        session.conf.set(key, value)
    if not batch.direct:
        for name in pending:
            _prepare(session, lake, name, batch.branch, log)
        session.conf.set("spark.wap.branch", batch.branch)
    for number, write in enumerate(batch.writes, 1):
        if write.target is not None and _canonical(lake, write.target) in published:
            continue
        log(f"statement {number} of {len(batch.writes)} (line {write.statement.line})")
        rows = session.sql(write.statement.text).collect()
        if rows and write.target is None and not write.is_definition:
            for row in rows[:20]:
                log("  " + "  ".join(str(value) for value in row))
    if not batch.direct:
        session.conf.unset("spark.wap.branch")
        for name in pending:
            found = _publish(session, lake, name, batch, log)
            if found is not None:
                published[name] = found
    return published


def published_snapshot(lake: Lake, table: str, mark: str) -> int | None:
    """The newest snapshot on main that carries the mark."""
    metadata = lake.table(table).metadata
    head = history.head(metadata, "main", table=table)
    for snapshot in history.ancestors(metadata, head) if head is not None else ():
        if snapshot.summary.get(MARK) == mark:
            return snapshot.id
    return None


def _targets(lake: Lake, batch: Batch) -> list[str]:
    """The Iceberg tables that exist and are written to, in order. Others cannot be protected by a branch."""
    names: dict[str, None] = {}
    for write in batch.writes:
        if write.target is None or write.is_definition:
            continue
        name = _canonical(lake, write.target)
        try:
            lake.table(name)
        except TableNotFoundError:
            continue
        names[name] = None
    return list(names)


def _canonical(lake: Lake, name: str) -> str:
    try:
        return lake.canonical_name(name)
    except IcefloeError:
        return name


def _prepare(session: SparkSession, lake: Lake, name: str, branch: str, log: Callable[[str], None]) -> None:
    table = lake.table(name)
    full = f"{lake.tables.name}.{format_identifier(table.identifier)}"
    if table.metadata.properties.get("write.wap.enabled") != "true":
        # Without it Spark ignores spark.wap.branch without a word and writes to main (Iceberg 1.12).
        session.sql(f"ALTER TABLE {full} SET TBLPROPERTIES ('write.wap.enabled'='true')")
        log(f"{name}: set write.wap.enabled=true, so that batches are written to a branch and published whole")
    if history.head(table.metadata, "main", table=name) is not None:
        session.sql(f"ALTER TABLE {full} CREATE BRANCH `{branch}`")


def _publish(session: SparkSession, lake: Lake, name: str, batch: Batch, log: Callable[[str], None]) -> int | None:
    table = lake.table(name)
    refs = table.metadata.refs
    branch = refs.get(batch.branch)
    if branch is None:
        log(f"{name}: nothing was written")
        return None
    catalog = lake.tables.name
    full = format_identifier(table.identifier)
    main = refs.get("main")
    if main is not None and main.snapshot_id == branch.snapshot_id:
        log(f"{name}: nothing was written")
        result = None
    else:
        try:
            session.sql(f"CALL {catalog}.system.fast_forward('{full}', 'main', '{batch.branch}')").collect()
        except Exception as error:
            found = published_snapshot(lake, name, batch.mark)
            if found is None:
                raise TargetMovedError(
                    f"another writer committed while this batch was computed: {str(error).splitlines()[0]}",
                    where=name,
                    hint="the step is repeated on the new head",
                ) from error
            log(f"{name}: another attempt has published this batch")
            return found
        result = branch.snapshot_id
        log(f"{name}: published as snapshot {result}")
    session.sql(f"ALTER TABLE {catalog}.{full} DROP BRANCH IF EXISTS `{batch.branch}`")
    return result


def _marks(batch: Batch) -> dict[str, str]:
    return {f"{_PROPERTY}{key}": value for key, value in {MARK: batch.mark, **batch.labels}.items()}
