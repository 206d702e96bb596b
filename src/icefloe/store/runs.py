"""Runs, steps, attempts and events: the rows, and the few statements that touch them.

Who changes a run holds the lock of its *root* run (:func:`lock`), so a whole tree of runs changes in one order. Each
transaction that changes a run raises its ``revision`` and writes it onto the steps it changed: whoever keeps an image of the
run in memory catches up by reading only the steps with a higher revision.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Row

from icefloe.store.tables import attempts, events, past_occasions, runs, steps, workers

_RUN_JSON = ("params", "initiator", "cause")
_STEP_JSON = ("tries", "params", "outputs", "handle", "loop", "cause")
ACTIVE = ("CREATED", "IN_PROGRESS", "PAUSED")
# Literally the predicates of the partial indexes: SQLite does not see through bound values (3.40).
# Nothing sets WAITING_FOR_PERMITS, but the index names it.
_IS_ACTIVE = sa.text("runs.status IN ('CREATED', 'IN_PROGRESS', 'PAUSED')")
_IS_LISTED = sa.text("runs.iteration IS NULL")
_IS_READY = sa.text("steps.status IN ('INITIALIZED', 'WAITING_FOR_PERMITS')")


@dataclass(frozen=True, slots=True)
class RunRecord:
    """A row of ``runs``. ``path`` is the foreach step whose body this run executes, or empty."""

    id: str
    workflow_id: str
    version: int
    root_id: str
    status: str
    created_at: float
    number: int | None = None
    parent_id: str | None = None
    parent_step: str | None = None
    iteration: int | None = None
    path: str = ""
    occasion: str | None = None
    request: str | None = None
    params: dict[str, Any] = field(default_factory=dict)
    initiator: dict[str, Any] = field(default_factory=dict)
    cause: dict[str, Any] | None = None
    restarts: int = 0
    revision: int = 0
    started_at: float | None = None
    ended_at: float | None = None
    seq: int | None = None


@dataclass(frozen=True, slots=True)
class StepRecord:
    """A row of ``steps``."""

    run_id: str
    step_id: str
    root_id: str
    position: int
    type: str
    status: str
    attempt: int = 0
    generation: int = 0
    owner: str | None = None
    request: str | None = None
    delay: float = 0.0
    available_at: float | None = None
    tries: dict[str, int] = field(default_factory=dict)
    params: dict[str, Any] | None = None
    outputs: dict[str, Any] | None = None
    handle: Any = None
    loop: dict[str, Any] | None = None
    resumes: bool = False
    cause: dict[str, Any] | None = None
    started_at: float | None = None
    ended_at: float | None = None
    revision: int = 0
    era: int = 0


@dataclass(frozen=True, slots=True)
class AttemptRecord:
    run_id: str
    step_id: str
    attempt: int
    status: str
    cause: dict[str, Any] | None
    worker: str | None
    started_at: float | None
    ended_at: float | None


@dataclass(frozen=True, slots=True)
class EventRecord:
    run_id: str
    step_id: str | None
    attempt: int | None
    at: float
    previous: str | None
    status: str
    cause: str | None


@dataclass(frozen=True, slots=True)
class ReadyStep:
    """A step that a worker may claim; ``delay`` counts from when somebody first saw it."""

    run_id: str
    step_id: str
    root_id: str
    generation: int
    type: str
    delay: float
    available_at: float


@dataclass(frozen=True, slots=True)
class OwnedStep:
    run_id: str
    step_id: str
    root_id: str
    generation: int
    request: str | None
    type: str


# -- locks and images --------------------------------------------------------------------------------------------------------

_LOCK = sa.select(runs.c.id).where(runs.c.id == sa.bindparam("root")).with_for_update()
_LOAD_RUN = sa.select(runs).where(runs.c.id == sa.bindparam("run"))
_REVISION = sa.select(runs.c.revision).where(runs.c.id == sa.bindparam("run"))
_LOAD_STEPS = (
    sa.select(steps)
    .where(steps.c.run_id == sa.bindparam("run"), steps.c.revision > sa.bindparam("since"))
    .order_by(steps.c.position)
)


def lock(connection: Connection, root_id: str) -> None:
    """Hold the tree of runs below ``root_id`` until the transaction ends. SQLite: the write transaction is the lock."""
    if connection.dialect.name != "sqlite":
        connection.execute(_LOCK, {"root": root_id})


def load(connection: Connection, run_id: str) -> RunRecord | None:
    row = connection.execute(_LOAD_RUN, {"run": run_id}).first()
    return None if row is None else _run(row)


def revision(connection: Connection, run_id: str) -> int | None:
    return connection.execute(_REVISION, {"run": run_id}).scalar()


def load_steps(connection: Connection, run_id: str, since: int = -1) -> list[StepRecord]:
    """The run's steps, in the definition's order; with ``since`` only those changed after that revision."""
    return [_step(row) for row in connection.execute(_LOAD_STEPS, {"run": run_id, "since": since})]


# -- writing -----------------------------------------------------------------------------------------------------------------

_UPDATE_RUN = (
    sa.update(runs)
    .where(runs.c.id == sa.bindparam("_id"))
    .values({name: sa.bindparam(name) for name in ("status", "request", "cause", "restarts", "revision", "started_at", "ended_at")})
)  # fmt: skip
_STEP_CHANGES = tuple(c.name for c in steps.c if c.name not in ("run_id", "step_id", "root_id", "position", "type"))
_STEP_STATE = tuple(name for name in _STEP_CHANGES if name not in ("params", "outputs"))


def _update_step(names: Iterable[str]) -> sa.Update:
    return (
        sa.update(steps)
        .where(steps.c.run_id == sa.bindparam("_run"), steps.c.step_id == sa.bindparam("_step"))
        .values({name: sa.bindparam(name) for name in names})
    )


_UPDATE_STEP, _UPDATE_STEP_STATE = _update_step(_STEP_CHANGES), _update_step(_STEP_STATE)


def insert(connection: Connection, record: RunRecord, its_steps: Sequence[StepRecord]) -> None:
    values = _encoded(_fields(record), _RUN_JSON)
    del values["seq"]
    connection.execute(sa.insert(runs), values)
    if its_steps:
        connection.execute(sa.insert(steps), [_step_values(step) for step in its_steps])


def update(connection: Connection, record: RunRecord) -> None:
    """Write what changes during a run's life."""
    values = _encoded(_fields(record), _RUN_JSON)
    connection.execute(_UPDATE_RUN, {"_id": record.id, **{name: values[name] for name in (
        "status", "request", "cause", "restarts", "revision", "started_at", "ended_at")}})  # fmt: skip


def redefine(connection: Connection, run_id: str, *, version: int, params: dict[str, Any]) -> None:
    """A restart may take another version and other parameters."""
    connection.execute(sa.update(runs).where(runs.c.id == run_id).values(version=version, params=json.dumps(params)))


def replace_steps(connection: Connection, run_id: str, records: Sequence[StepRecord]) -> None:
    """The steps of another version of the definition."""
    connection.execute(sa.delete(steps).where(steps.c.run_id == run_id))
    connection.execute(sa.insert(steps), [_step_values(record) for record in records])


def update_steps(connection: Connection, records: Iterable[StepRecord], *, with_values: bool = True) -> None:
    """Write what changes during a step's life; parameters and outputs only ``with_values``."""
    names = _STEP_CHANGES if with_values else _STEP_STATE
    values = []
    for record in records:
        row = _step_values(record)
        values.append({"_run": record.run_id, "_step": record.step_id, **{name: row[name] for name in names}})
    if values:
        connection.execute(_UPDATE_STEP if with_values else _UPDATE_STEP_STATE, values)


def add_events(connection: Connection, records: Sequence[EventRecord]) -> None:
    if records:
        connection.execute(sa.insert(events), [_fields(record) for record in records])


def add_attempts(connection: Connection, records: Sequence[AttemptRecord]) -> None:
    if records:
        connection.execute(sa.insert(attempts), [_encoded(_fields(record), ("cause",)) for record in records])


# -- asking ------------------------------------------------------------------------------------------------------------------

_READY = (
    sa.select(
        steps.c.run_id, steps.c.step_id, steps.c.root_id, steps.c.generation, steps.c.type, steps.c.delay,
        steps.c.available_at,
    )
    .where(_IS_READY)
    .order_by(steps.c.available_at)
)  # fmt: skip


def ready_steps(connection: Connection, most: int, roots: Collection[str] | None = None) -> list[ReadyStep]:
    """What may be claimed, oldest first, everywhere or below certain roots."""
    query = _READY if roots is None else _READY.where(steps.c.root_id.in_(sorted(roots)))
    return [ReadyStep(*row) for row in connection.execute(query.limit(most))]


def owned_by(connection: Connection, worker: str) -> list[OwnedStep]:
    columns = (steps.c.run_id, steps.c.step_id, steps.c.root_id, steps.c.generation, steps.c.request, steps.c.type)
    return [OwnedStep(*row) for row in connection.execute(sa.select(*columns).where(steps.c.owner == worker))]


def orphaned(connection: Connection) -> list[tuple[OwnedStep, str, str]]:
    """Steps whose owner is no longer among the living workers, with the owner and its host."""
    columns = (steps.c.run_id, steps.c.step_id, steps.c.root_id, steps.c.generation, steps.c.request, steps.c.type)
    query = (
        sa.select(*columns, steps.c.owner, workers.c.host)
        .outerjoin(workers, workers.c.id == steps.c.owner)
        .where(steps.c.owner.is_not(None), sa.or_(workers.c.id.is_(None), workers.c.status == "GONE"))
    )
    return [(OwnedStep(*row[:6]), str(row[6]), str(row[7] or "")) for row in connection.execute(query)]


def in_progress(connection: Connection) -> list[tuple[str, str, int, float]]:
    """Id, workflow, version and start of every run that has begun and not ended, iterations left out."""
    query = sa.select(runs.c.id, runs.c.workflow_id, runs.c.version, runs.c.started_at).where(
        _IS_ACTIVE, runs.c.status == "IN_PROGRESS", runs.c.path == "", runs.c.request.is_(None)
    )
    return [(str(row[0]), str(row[1]), int(row[2]), float(row[3] or 0)) for row in connection.execute(query)]


def running_of_type(connection: Connection, step_type: str) -> int:
    query = sa.select(sa.func.count()).where(
        steps.c.owner.is_not(None), sa.func.lower(steps.c.type) == step_type.lower()
    )
    return int(connection.execute(query).scalar_one())


def running_of_root(connection: Connection, root_id: str) -> int:
    query = sa.select(sa.func.count()).where(steps.c.owner.is_not(None), steps.c.root_id == root_id)
    return int(connection.execute(query).scalar_one())


def children(connection: Connection, run_id: str, step_id: str, *, active_only: bool = False) -> list[RunRecord]:
    """The runs that a step started, in order."""
    query = sa.select(runs).where(runs.c.parent_id == run_id, runs.c.parent_step == step_id)
    if active_only:
        query = query.where(_IS_ACTIVE)
    return [_run(row) for row in connection.execute(query.order_by(runs.c.iteration))]


def members(connection: Connection, root_id: str) -> list[RunRecord]:
    """A run with everything it started inside itself."""
    query = sa.select(runs).where(runs.c.root_id == root_id)
    return [_run(row) for row in connection.execute(query.order_by(runs.c.seq))]


def failed_iterations(connection: Connection, run_id: str, step_id: str, after: int, most: int) -> list[int]:
    query = (
        sa.select(runs.c.iteration)
        .where(runs.c.parent_id == run_id, runs.c.parent_step == step_id, runs.c.iteration > after)
        .where(runs.c.status.not_in((*ACTIVE, "SUCCEEDED")))
        .order_by(runs.c.iteration)
        .limit(most)
    )
    return [int(row.iteration) for row in connection.execute(query)]


def waiting_workflows(connection: Connection) -> list[str]:
    """Workflows with runs that wait for their turn."""
    query = sa.select(runs.c.workflow_id).where(_IS_ACTIVE, runs.c.status == "CREATED").distinct()
    return [row.workflow_id for row in connection.execute(query)]


def active_of_workflow(connection: Connection, workflow_id: str) -> list[RunRecord]:
    """Runs of a workflow that have not ended, oldest first; iterations of a foreach are part of their run."""
    query = sa.select(runs).where(runs.c.workflow_id == workflow_id, _IS_ACTIVE, runs.c.path == "")
    return [_run(row) for row in connection.execute(query.order_by(runs.c.seq))]


def latest(connection: Connection, workflow_id: str, *, ended: bool = False) -> RunRecord | None:
    query = sa.select(runs).where(runs.c.workflow_id == workflow_id, _IS_LISTED)
    if ended:
        query = query.where(runs.c.status.not_in(ACTIVE))
    row = connection.execute(query.order_by(runs.c.seq.desc()).limit(1)).first()
    return None if row is None else _run(row)


def by_occasion(connection: Connection, workflow_id: str, occasion: str) -> RunRecord | None:
    query = sa.select(runs).where(runs.c.workflow_id == workflow_id, runs.c.occasion == occasion)
    row = connection.execute(query).first()
    return None if row is None else _run(row)


def past_occasion(connection: Connection, workflow_id: str, occasion: str) -> str | None:
    """The run that was made for an occasion and is deleted since. Asked after :func:`by_occasion`, never before it."""
    query = sa.select(past_occasions.c.run_id).where(
        past_occasions.c.workflow_id == workflow_id, past_occasions.c.occasion == occasion
    )
    return connection.execute(query).scalar()


def listing(
    connection: Connection,
    *,
    workflow_id: str | None = None,
    status: str | None = None,
    most: int = 50,
    before: int | None = None,
    since: int | None = None,
    until: int | None = None,
) -> list[RunRecord]:
    """Newest first, without iterations of a foreach; ``before`` is the ``seq`` to go on from, ``since`` (with it) and ``until``
    (without it) bound the whole."""
    query = _listed(sa.select(runs), workflow_id, status)
    if before is not None:
        query = query.where(runs.c.seq < before)
    if since is not None:
        query = query.where(runs.c.seq >= since)
    if until is not None:
        query = query.where(runs.c.seq < until)
    return [_run(row) for row in connection.execute(query.order_by(runs.c.seq.desc()).limit(most))]


def count(connection: Connection, *, workflow_id: str | None, status: str | None, most: int) -> int:
    """At most ``most``: no more are looked at."""
    some = _listed(sa.select(runs.c.seq), workflow_id, status).limit(most).subquery()
    return int(connection.execute(sa.select(sa.func.count()).select_from(some)).scalar_one())


def _listed(query: sa.Select[Any], workflow_id: str | None, status: str | None) -> sa.Select[Any]:
    query = query.where(_IS_LISTED)
    if workflow_id is not None:
        query = query.where(runs.c.workflow_id == workflow_id)
    return query if status is None else query.where(runs.c.status == status)


def load_attempts(connection: Connection, run_id: str, step_id: str | None = None) -> list[AttemptRecord]:
    query = sa.select(attempts).where(attempts.c.run_id == run_id)
    if step_id is not None:
        query = query.where(attempts.c.step_id == step_id)
    rows = connection.execute(query.order_by(attempts.c.step_id, attempts.c.attempt))
    return [AttemptRecord(**_decoded(row, ("cause",))) for row in rows]


def load_events(connection: Connection, run_id: str, most: int = 1000) -> list[EventRecord]:
    columns = [column for column in events.c if column.name != "seq"]
    query = sa.select(*columns).where(events.c.run_id == run_id).order_by(events.c.seq.desc()).limit(most)
    return [EventRecord(*row) for row in connection.execute(query)][::-1]


# -- rows and values -----------------------------------------------------------------------------------------------------------


def _run(row: Row[Any]) -> RunRecord:
    return RunRecord(**_decoded(row, _RUN_JSON))


def _step(row: Row[Any]) -> StepRecord:
    values = _decoded(row, _STEP_JSON)
    values["resumes"] = bool(values["resumes"])
    return StepRecord(**values)


def _step_values(record: StepRecord) -> dict[str, Any]:
    values = _encoded(_fields(record), _STEP_JSON)
    values["resumes"] = int(record.resumes)
    return values


def _fields(record: RunRecord | StepRecord | AttemptRecord | EventRecord) -> dict[str, Any]:
    # dataclasses.asdict copies deeply, which was a fifth of the time of a step.
    return {name: getattr(record, name) for name in record.__slots__}


def _decoded(row: Row[Any], names: Iterable[str]) -> dict[str, Any]:
    values = dict(row._mapping)
    for name in names:
        if values[name] is not None:
            values[name] = json.loads(values[name])
    return values


def _encoded(values: dict[str, Any], names: Iterable[str]) -> dict[str, Any]:
    for name in names:
        if values[name] is not None:
            values[name] = json.dumps(values[name], separators=(",", ":"), ensure_ascii=False)
    return values
