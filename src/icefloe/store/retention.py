"""What may be deleted of each kind of row, and deleting it in small transactions.

A kind says what is due (:meth:`Kind.due`, which only counts) and deletes a bounded part of it (:meth:`Kind.delete`). What anybody could
still need is never due, however old it is:

- a run that has not ended, or that holds an open capture; the last runs of every workflow, which triggers and STRICT_SEQUENTIAL look at;
  the runs inside a run, as long as that is there, and runs that it started by themselves;
- captures whose run is there, that have pins or change tables, or are a consumer's newest, newest committed or the newest published to
  a target; with them what they have published;
- signals that a trigger has not passed yet, and the newest of each name;
- of audits the newest of a consumer, and its newest rename.

Checkpoints, watermarks, triggers' cursors, workflows with all their versions and logic versions are not kinds: they stay. What a deleted
run was started for stays longer than the run (``past_occasions``), so that nothing is started for it again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from icefloe.faults import fault
from icefloe.store.database import insert_if_absent
from icefloe.store.tables import (
    attempts,
    audits,
    captures,
    events,
    incidents,
    logs,
    past_occasions,
    prunings,
    publications,
    runs,
    savings,
    signals,
    spark_sessions,
    steps,
    triggers,
    workers,
)

SIGNALS_KEPT = 1000
"""Of each name: as many as a step that waits for a signal looks at."""
MEMBERS_AT_ONCE = 200
_ACTIVE = ("CREATED", "IN_PROGRESS", "PAUSED")
_OPEN = ("planned", "pinned", "built")


@dataclass(frozen=True, slots=True)
class Amount:
    """``bytes``: of texts and blobs, about; what a database adds of its own is not counted."""

    items: int = 0
    bytes: int = 0

    def __add__(self, other: Amount) -> Amount:
        return Amount(self.items + other.items, self.bytes + other.bytes)


class Kind(Protocol):
    @property
    def name(self) -> str: ...

    def due(self, connection: Connection, before: float) -> Amount: ...

    def delete(self, connection: Connection, before: float) -> Amount:
        """Delete a part; nothing, when nothing is due."""
        ...


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of one table, by a condition on them."""

    name: str
    table: sa.Table
    condition: Callable[[Connection, float], sa.ColumnElement[bool]]
    at_once: int = 500

    def due(self, connection: Connection, before: float) -> Amount:
        return _measured(connection, self.table, self.condition(connection, before))

    def delete(self, connection: Connection, before: float) -> Amount:
        key = tuple(self.table.primary_key.columns)
        query = sa.select(*key).where(self.condition(connection, before)).limit(self.at_once)
        keys = [tuple(row) for row in connection.execute(query)]
        return _delete(connection, self.table, sa.tuple_(*key).in_(keys)) if keys else Amount()


@dataclass(frozen=True, slots=True)
class Captures:
    """Captures, with what they have published."""

    name: str = "captures"
    at_once: int = 200

    def due(self, connection: Connection, before: float) -> Amount:
        condition = _past_captures(before)
        ids = sa.select(captures.c.id).where(condition)
        return _measured(connection, captures, condition) + _measured(
            connection, publications, publications.c.capture_id.in_(ids)
        )

    def delete(self, connection: Connection, before: float) -> Amount:
        query = sa.select(captures.c.id).where(_past_captures(before)).limit(self.at_once)
        ids = list(connection.execute(query).scalars())
        if not ids:
            return Amount()
        gone = _delete(connection, publications, publications.c.capture_id.in_(ids))
        fault("janitor.in_transaction")
        return gone + _delete(connection, captures, captures.c.id.in_(ids))


@dataclass(frozen=True, slots=True)
class Runs:
    """Whole trees of runs with their steps, attempts, events and logs. ``last``: so many ended runs of a workflow stay.

    The run itself goes first: from then on it is not there, and cannot be restarted. Of a large tree the rest follows in further
    transactions, and when this is interrupted, whenever somebody cleans up next.
    """

    last: int
    name: str = "runs"
    at_once: int = 25

    def due(self, connection: Connection, before: float) -> Amount:
        roots = sa.select(runs.c.id).where(_past_trees(before, self.last))
        members = sa.select(runs.c.id).where(sa.or_(runs.c.root_id.in_(roots), _leftover()))
        total = _measured(connection, runs, runs.c.id.in_(members))
        for table in (steps, attempts):  # events and logs are counted by themselves
            total += _measured(connection, table, table.c.run_id.in_(members))
        return total

    def delete(self, connection: Connection, before: float) -> Amount:
        query = sa.select(runs.c.id).where(_leftover()).limit(MEMBERS_AT_ONCE)
        left = list(connection.execute(query).scalars())
        if left:
            return self._delete_members(connection, left)
        # Held, so that nobody restarts one meanwhile; one that somebody holds is passed over.
        due = sa.select(runs.c.id).where(_past_trees(before, self.last)).order_by(runs.c.ended_at).limit(self.at_once)
        roots = list(connection.execute(due.with_for_update(skip_locked=True)).scalars())
        gone, count = Amount(), 0
        for root in roots:
            query = sa.select(runs.c.id).where(runs.c.root_id == root, runs.c.id != root).limit(MEMBERS_AT_ONCE)
            members = list(connection.execute(query).scalars())
            gone += self._delete_members(connection, [root, *members])
            count += 1 + len(members)
            if count >= MEMBERS_AT_ONCE:
                break
        return gone

    def _delete_members(self, connection: Connection, ids: Sequence[str]) -> Amount:
        query = sa.select(runs.c.workflow_id, runs.c.occasion, runs.c.id, runs.c.ended_at, runs.c.created_at)
        for row in connection.execute(query.where(runs.c.id.in_(ids), runs.c.occasion.is_not(None))).all():
            ended = row.created_at if row.ended_at is None else row.ended_at
            values = {"workflow_id": row.workflow_id, "occasion": row.occasion, "run_id": row.id, "run_ended_at": ended}
            insert_if_absent(connection, past_occasions, values)
        gone = Amount()
        for table in (logs, events, attempts, steps):
            gone += _delete(connection, table, table.c.run_id.in_(ids))
            fault("janitor.in_transaction")
        return gone + _delete(connection, runs, runs.c.id.in_(ids))


def kinds(last_runs: int) -> tuple[Kind, ...]:
    """In the order in which they are deleted: what runs need goes after them."""
    return (
        Rows("logs", logs, lambda _, before: logs.c.run_id.in_(_ended_runs(before)), at_once=100),
        Rows("events", events, lambda _, before: events.c.run_id.in_(_ended_runs(before)), at_once=2000),
        Runs(last_runs),
        Captures(),
        Rows("occasions", past_occasions, lambda _, before: past_occasions.c.run_ended_at < before),
        Rows("savings", savings, lambda _, before: sa.and_(savings.c.recorded_at < before, _no_run(savings.c.root_id))),
        Rows("signals", signals, _past_signals),
        Rows("incidents", incidents, lambda _, before: sa.and_(incidents.c.closed_at < before, incidents.c.told == "over")),
        Rows("audits", audits, lambda _, before: _past_audits(before)),
        Rows("workers", workers, lambda _, before: _past_workers(before)),
        Rows("spark_sessions", spark_sessions, lambda _, before: _past_sessions(before)),
        Rows("prunings", prunings, lambda _, before: prunings.c.at < before),
    )  # fmt: skip


# -- conditions --------------------------------------------------------------------------------------------------------------


def _ended_runs(before: float) -> sa.Select[Any]:
    """Runs in trees that ended before a moment."""
    root, member = runs.alias(), runs.alias()
    return (
        sa.select(member.c.id)
        .join(root, root.c.id == member.c.root_id)
        .where(root.c.ended_at < before, root.c.status.not_in(_ACTIVE), member.c.status.not_in(_ACTIVE))
    )


def _no_run(run_id: sa.ColumnElement[Any]) -> sa.ColumnElement[bool]:
    run = runs.alias()
    return ~sa.exists().where(run.c.id == run_id)


def _leftover() -> sa.ColumnElement[bool]:
    """Inside a run that is deleted."""
    return sa.and_(runs.c.root_id != runs.c.id, _no_run(runs.c.root_id))


def _past_trees(before: float, last: int) -> sa.ColumnElement[bool]:
    """Whether a run is the root of a tree that nobody needs any more."""
    member, child, parent = runs.alias(), runs.alias(), runs.alias()
    newer, owner = runs.alias(), runs.alias()
    kept_from = (
        sa.select(newer.c.seq)
        .where(newer.c.workflow_id == member.c.workflow_id, newer.c.path == "", newer.c.status.not_in(_ACTIVE))
        .order_by(newer.c.seq.desc())
        .limit(1)
        .offset(max(last, 1) - 1)
        .scalar_subquery()
    )
    return sa.and_(
        runs.c.id == runs.c.root_id,
        runs.c.ended_at < before,
        runs.c.status.not_in(_ACTIVE),
        ~sa.exists().where(
            member.c.root_id == runs.c.id,
            sa.or_(
                member.c.status.in_(_ACTIVE),
                sa.and_(member.c.path == "", member.c.seq >= sa.func.coalesce(kept_from, 0)),
            ),
        ),
        ~sa.exists().where(parent.c.id == runs.c.parent_id),
        ~sa.exists().where(owner.c.root_id == runs.c.id, child.c.parent_id == owner.c.id, child.c.status.in_(_ACTIVE)),
        ~sa.exists().where(steps.c.root_id == runs.c.id, steps.c.owner.is_not(None)),
        ~sa.exists().where(
            captures.c.run_id == runs.c.id, sa.or_(captures.c.state.in_(_OPEN), captures.c.released == 0)
        ),
    )


def _past_captures(before: float) -> sa.ColumnElement[bool]:
    newer, shown = captures.alias(), publications.alias()
    later, later_of = publications.alias(), captures.alias()
    same = newer.c.consumer == captures.c.consumer
    newest = ~sa.exists().where(same, newer.c.created_at > captures.c.created_at)
    newest_committed = sa.and_(
        captures.c.state == "committed",
        ~sa.exists().where(same, newer.c.state == "committed", newer.c.base_version > captures.c.base_version),
    )
    published_later = sa.exists().where(
        later.c.target == shown.c.target,
        later_of.c.id == later.c.capture_id,
        later_of.c.consumer == captures.c.consumer,
        later_of.c.created_at > captures.c.created_at,
    )
    newest_in_target = sa.exists().where(shown.c.capture_id == captures.c.id, ~published_later)
    return sa.and_(
        captures.c.ended_at < before,
        captures.c.state.not_in(_OPEN),
        captures.c.released == 1,
        captures.c.settled == 1,
        _no_run(captures.c.run_id),
        ~newest,
        ~newest_committed,
        ~newest_in_target,
    )


def _past_signals(connection: Connection, before: float) -> sa.ColumnElement[bool]:
    newer = signals.alias()
    kept_from = (
        sa.select(newer.c.seq)
        .where(newer.c.name == signals.c.name)
        .order_by(newer.c.seq.desc())
        .limit(1)
        .offset(SIGNALS_KEPT - 1)
        .scalar_subquery()
    )
    return sa.and_(
        signals.c.published_at < before,
        signals.c.seq < sa.func.coalesce(kept_from, 0),
        signals.c.seq <= _passed_by_all(connection),
    )


def _passed_by_all(connection: Connection) -> int:
    """The number of the last signal that every trigger has passed."""
    states = connection.execute(sa.select(triggers.c.state)).scalars()
    cursors = [number for state in states for number in json.loads(state).get("after") or ()]
    return min(cursors, default=2**62)


def _past_audits(before: float) -> sa.ColumnElement[bool]:
    newer = audits.alias()
    later = sa.and_(newer.c.subject == audits.c.subject, newer.c.seq > audits.c.seq)
    renamed_later = sa.exists().where(later, newer.c.verb == "rename")
    return sa.and_(audits.c.at < before, sa.exists().where(later), sa.or_(audits.c.verb != "rename", renamed_later))


def _past_workers(before: float) -> sa.ColumnElement[bool]:
    return sa.and_(
        workers.c.status == "GONE", workers.c.seen_at < before, ~sa.exists().where(steps.c.owner == workers.c.id)
    )


def _past_sessions(before: float) -> sa.ColumnElement[bool]:
    """Gone, or of a run that is: the branch of such a session goes by its own age, after seven days."""
    lost = sa.and_(
        spark_sessions.c.gone_at.is_(None), spark_sessions.c.opened_at < before, _no_run(spark_sessions.c.run_id)
    )
    return sa.or_(spark_sessions.c.gone_at < before, lost)


# -- counting and deleting -----------------------------------------------------------------------------------------------------


def _measured(connection: Connection, table: sa.Table, condition: sa.ColumnElement[bool]) -> Amount:
    texts = [column for column in table.c if isinstance(column.type, sa.Text | sa.LargeBinary)]
    length: sa.ColumnElement[Any] = sa.literal(8 * (len(table.c) - len(texts)))
    for column in texts:
        size = sa.func.length(column) if connection.dialect.name == "sqlite" else sa.func.octet_length(column)
        length = length + sa.func.coalesce(size, 0)
    query = sa.select(sa.func.count(), sa.func.coalesce(sa.func.sum(length), 0)).select_from(table).where(condition)
    row = connection.execute(query).one()
    return Amount(int(row[0]), int(row[1]))


def _delete(connection: Connection, table: sa.Table, condition: sa.ColumnElement[bool]) -> Amount:
    amount = _measured(connection, table, condition)
    if amount.items:
        connection.execute(sa.delete(table).where(condition))
    return amount
