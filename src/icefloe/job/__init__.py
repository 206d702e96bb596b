"""What a PySpark step's own code imports: the session, the changes it works on, its parameters, its outputs, its writes.

    from icefloe import job

    fresh = job.changes().read()                        # the rows that are new since the last commit
    daily = fresh.groupBy("account_id", "day").count()
    job.write(daily, "db.daily", mode="merge", keys=["account_id", "day"])
    job.output(accounts=daily.count())

Everything here works inside a step of ``type: Spark`` whose ``script`` is a ``.py`` file or a ``module:function``. Outside of
one, each call raises :class:`NotInAJobError`; a test of the user's own code may install a stand-in with :func:`running`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NoReturn

from icefloe.errors import UsageError
from icefloe.job.batch import Changes, Job, Range
from icefloe.job.parameters import Parameters
from icefloe.job.writing import WriteMode

__all__ = [
    "Changes",
    "Job",
    "NotInAJobError",
    "Parameters",
    "Range",
    "WriteMode",
    "all_changes",
    "changes",
    "current",
    "output",
    "param",
    "params",
    "running",
    "session",
    "write",
]

_current: Job | None = None


class NotInAJobError(UsageError):
    """``icefloe.job`` was called outside of a step."""

    code = "job.none"


def current() -> Job:
    """The job that this process runs."""
    if _current is None:
        _refuse()
    return _current


def session() -> Any:
    """The step's Spark session. ``SparkSession.builder.getOrCreate()`` gives the same one."""
    return current().session


def params() -> Parameters:
    """All parameters the step sees, typed: numbers are numbers, lists are lists."""
    return current().params


def param(name: str, kind: type | None = None) -> Any:
    """One parameter; with ``kind`` (``int``, ``date``, ``datetime``, ``Decimal`` …) as that type."""
    return current().params.get_as(name, kind)


def changes(source: str | None = None) -> Changes:
    """What changed in a source of the run's capture; without a name: of its only source."""
    return current().changes(source)


def all_changes() -> tuple[Changes, ...]:
    """What changed, for every source of every capture that the run holds."""
    return current().all_changes


def write(
    data: Any,
    table: str,
    *,
    mode: WriteMode = "append",
    keys: list[str] | tuple[str, ...] = (),
    where: str | None = None,
    partition_by: list[str] | tuple[str, ...] = (),
) -> bool:
    """Write a DataFrame to a table, on this attempt's branch; it is published with the step. See :meth:`Job.write`."""
    return current().write(data, table, mode=mode, keys=keys, where=where, partition_by=partition_by)


def output(values: Mapping[str, Any] | None = None, /, **more: Any) -> None:
    """Publish output parameters, for other steps to read as ``${this_step__name}``."""
    current().output({**(values or {}), **more})


@contextmanager
def running(job: Job) -> Iterator[Job]:
    """Make ``job`` the current one. For the program that runs steps, and for tests of scripts."""
    global _current
    before, _current = _current, job
    try:
        yield job
    finally:
        _current = before


def _refuse() -> NoReturn:
    raise NotInAJobError(
        "this code does not run as a step of a workflow",
        hint="name it in a definition: type: Spark, spark: {script: my_job.py}; then: icefloe run WORKFLOW --wait",
    )
