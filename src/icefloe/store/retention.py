"""What may be deleted of each kind of row, and deleting it in small transactions.

A kind says what is due (:meth:`RetentionRule.due`, which only counts) and deletes a bounded part of it (:meth:`RetentionRule.delete`). What anybody could
still need is never due, however old it is:

- a run that has not ended, or that holds an open capture; the last runs of every workflow, which triggers and STRICT_SEQUENTIAL look at;
  the runs inside a run, as long as that is there, and runs that it started by themselves;
- captures whose run is there, that have pins or change tables, that a checkpoint names, or that are a consumer's newest, newest
  committed or the newest published to a target; with them what they have published;
- signals that a trigger has not passed yet, and the newest of each name;
- of audits the newest of a consumer, and its newest rename;
- logins that are still valid. Answers kept by ``Idempotency-Key`` go after a day, finished or not.

Checkpoints, watermarks, triggers' cursors, how far lineage was sent, workflows with all their versions and logic versions are not kinds: they stay. What a deleted
run was started for stays longer than the run (``past_occasions``), so that nothing is started for it again, and what deleted lines of
the savings ledger come to stays for ever (:mod:`icefloe.store.savings`).

Counting looks ahead: what becomes due in the course of a round, because a run it belongs to goes first, is counted too.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from icefloe.faults import fault
from icefloe.store import savings as ledger
from icefloe.store.audits import CONSUMER_VERBS
from icefloe.store.database import insert_if_absent
from icefloe.store.tables import (
    attempts,
    audits,
    captures,
    checkpoints,
    events,
    idempotency_keys,
    incidents,
    login_links,
    logs,
    past_occasions,
    prunings,
    publications,
    runs,
    savings,
    sessions,
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


@dataclass(frozen=True, slots=True)
class Limits:
    """``before``: by kind, the moment before which it must have ended; a kind that is kept for ever is not in it.
    ``last_runs``: so many ended runs of each workflow stay. ``now``: pins and change tables that are due by then will be gone.
    """

    now: float
    before: Mapping[str, float]
    last_runs: int


class RetentionRule(Protocol):
    @property
    def name(self) -> str: ...

    def due(self, connection: Connection, limits: Limits) -> Amount:
        """What a round will delete."""
        ...

    def delete(self, connection: Connection, limits: Limits) -> Amount:
        """Delete a part; nothing, when nothing is due."""
        ...


Condition = Callable[[Connection, Limits, bool], sa.ColumnElement[bool]]
"""Which rows are due; with True those that will be when the round has come to them."""


@dataclass(frozen=True, slots=True)
class RowRetention:
    """Rows of one table, by a condition on them."""

    name: str
    table: sa.Table
    condition: Condition
    at_once: int = 500

    def due(self, connection: Connection, limits: Limits) -> Amount:
        return _measured(connection, self.table, self.condition(connection, limits, True))

    def delete(self, connection: Connection, limits: Limits) -> Amount:
        key = tuple(self.table.primary_key.columns)
        query = sa.select(*key).where(self.condition(connection, limits, False)).limit(self.at_once)
        keys = [tuple(row) for row in connection.execute(query)]
        return _delete(connection, self.table, sa.tuple_(*key).in_(keys)) if keys else Amount()


@dataclass(frozen=True, slots=True)
class CaptureRetention:
    """Captures, with what they have published."""

    name: str = "captures"
    at_once: int = 200

    def due(self, connection: Connection, limits: Limits) -> Amount:
        condition = _past_captures(limits, True)
        ids = sa.select(captures.c.id).where(condition)
        return _measured(connection, captures, condition) + _measured(
            connection, publications, publications.c.capture_id.in_(ids)
        )

    def delete(self, connection: Connection, limits: Limits) -> Amount:
        query = sa.select(captures.c.id).where(_past_captures(limits, False)).limit(self.at_once)
        ids = list(connection.execute(query).scalars())
        if not ids:
            return Amount()
        deleted = _delete(connection, publications, publications.c.capture_id.in_(ids))
        fault("janitor.in_transaction")
        return deleted + _delete(connection, captures, captures.c.id.in_(ids))


@dataclass(slots=True)
class RunRetention:
    """Whole trees of runs with their steps, attempts, events and logs.

    The run itself goes first: from then on it is not there, and cannot be restarted. Of a large tree the rest follows in further
    transactions, and when this is interrupted, whenever somebody cleans up next: one object is for one round.
    """

    name: str = "runs"
    at_once: int = 25
    _look_for_leftovers: bool = True

    def due(self, connection: Connection, limits: Limits) -> Amount:
        going = _going(limits)
        members = sa.select(runs.c.id).where(sa.or_(runs.c.root_id.in_(sa.select(going.c.id)), _leftover()))
        total = _measured(connection, runs, runs.c.id.in_(members))
        for table in (steps, attempts):
            total += _measured(connection, table, table.c.run_id.in_(members))
        for name, table in (("logs", logs), ("events", events)):  # what their own keep times leave
            condition: sa.ColumnElement[bool] = table.c.run_id.in_(members)
            if name in limits.before:
                condition = sa.and_(condition, table.c.run_id.not_in(_ended_runs(limits.before[name])))
            total += _measured(connection, table, condition)
        return total

    def delete(self, connection: Connection, limits: Limits) -> Amount:
        if self._look_for_leftovers:  # looks at all runs: not for each part
            query = sa.select(runs.c.id).where(_leftover()).limit(MEMBERS_AT_ONCE)
            left = list(connection.execute(query).scalars())
            if left:
                return self._delete_members(connection, left)
            self._look_for_leftovers = False
        parent = runs.alias()
        due = sa.select(runs.c.id).where(
            _past_tree(runs, limits, False), ~sa.exists().where(parent.c.id == runs.c.parent_id)
        )
        # Held, so that nobody restarts one meanwhile; one that somebody holds is passed over.
        query = due.order_by(runs.c.ended_at).limit(self.at_once).with_for_update(skip_locked=True)
        deleted, count = Amount(), 0
        for root in list(connection.execute(query).scalars()):
            inside = sa.select(runs.c.id).where(runs.c.root_id == root, runs.c.id != root).limit(MEMBERS_AT_ONCE)
            members = list(connection.execute(inside).scalars())
            self._look_for_leftovers |= len(members) == MEMBERS_AT_ONCE
            deleted += self._delete_members(connection, [root, *members])
            count += 1 + len(members)
            if count >= MEMBERS_AT_ONCE:
                break
        return deleted

    def _delete_members(self, connection: Connection, ids: Sequence[str]) -> Amount:
        query = sa.select(runs.c.workflow_id, runs.c.occasion, runs.c.id, runs.c.ended_at, runs.c.created_at)
        for row in connection.execute(query.where(runs.c.id.in_(ids), runs.c.occasion.is_not(None))).all():
            ended = row.created_at if row.ended_at is None else row.ended_at
            values = {"workflow_id": row.workflow_id, "occasion": row.occasion, "run_id": row.id, "run_ended_at": ended}
            insert_if_absent(connection, past_occasions, values)
        deleted = Amount()
        for table in (logs, events, attempts, steps):
            deleted += _delete(connection, table, table.c.run_id.in_(ids))
            fault("janitor.in_transaction")
        return deleted + _delete(connection, runs, runs.c.id.in_(ids))


@dataclass(frozen=True, slots=True)
class OccasionRetention:
    """What deleted runs were started for."""

    name: str = "occasions"
    at_once: int = 500

    def due(self, connection: Connection, limits: Limits) -> Amount:
        before = limits.before[self.name]
        total = _measured(connection, past_occasions, past_occasions.c.run_ended_at < before)
        if "runs" not in limits.before:
            return total
        going = _going(limits)  # leaves its occasion, which may be over as well
        condition = sa.and_(
            runs.c.root_id.in_(sa.select(going.c.id)), runs.c.occasion.is_not(None), runs.c.ended_at < before
        )
        size = sum((_size(connection, runs.c[name]) for name in ("workflow_id", "occasion", "id")), sa.literal(8))
        return total + _summed(connection, runs, condition, size)

    def delete(self, connection: Connection, limits: Limits) -> Amount:
        rows = RowRetention(
            self.name, past_occasions, lambda _, known, __: past_occasions.c.run_ended_at < known.before["occasions"]
        )
        return rows.delete(connection, limits)


@dataclass(frozen=True, slots=True)
class SavingsRetention:
    """Lines of the savings ledger, whose sums stay."""

    name: str = "savings"
    at_once: int = 500

    def due(self, connection: Connection, limits: Limits) -> Amount:
        return _measured(connection, savings, _past_savings(limits, True))

    def delete(self, connection: Connection, limits: Limits) -> Amount:
        keys = ledger.roll_up(connection, _past_savings(limits, False), self.at_once)
        if not keys:
            return Amount()
        fault("janitor.in_transaction")
        return _delete(connection, savings, sa.tuple_(*savings.primary_key.columns).in_(keys))


def kinds() -> tuple[RetentionRule, ...]:
    """For one round, in the order in which they are deleted: what runs need goes after them."""
    return (
        RowRetention("logs", logs, lambda _, limits, __: logs.c.run_id.in_(_ended_runs(limits.before["logs"])), at_once=100),
        RowRetention("events", events, lambda _, limits, __: events.c.run_id.in_(_ended_runs(limits.before["events"])), at_once=2000),
        RunRetention(),
        CaptureRetention(),
        OccasionRetention(),
        SavingsRetention(),
        RowRetention("signals", signals, _past_signals),
        RowRetention("incidents", incidents, _past_incidents),
        RowRetention("audits", audits, _past_audits),
        RowRetention("workers", workers, _past_workers),
        RowRetention("spark_sessions", spark_sessions, _past_sessions),
        RowRetention("prunings", prunings, lambda _, limits, __: prunings.c.at < limits.before["prunings"]),
        RowRetention("idempotency_keys", idempotency_keys, lambda _, limits, __: idempotency_keys.c.made_at < limits.before["idempotency_keys"]),
        RowRetention("sessions", sessions, lambda _, limits, __: sessions.c.expires_at < limits.before["sessions"]),
        RowRetention("login_links", login_links, lambda _, limits, __: login_links.c.expires_at < limits.before["login_links"]),
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


def _leftover() -> sa.ColumnElement[bool]:
    """Inside a run that is deleted."""
    root = runs.alias()
    return sa.and_(runs.c.root_id != runs.c.id, ~sa.exists().where(root.c.id == runs.c.root_id))


def _no_run(run_id: sa.ColumnElement[Any], limits: Limits, ahead: bool) -> sa.ColumnElement[bool]:
    """Whether a run is deleted; ``ahead``: or will be in this round."""
    run, root = runs.alias(), runs.alias()
    run_query = sa.select(run.c.id).where(run.c.id == run_id)
    if ahead and "runs" in limits.before:
        going = _going(limits)
        run_query = run_query.join(root, root.c.id == run.c.root_id).where(root.c.id.not_in(sa.select(going.c.id)))
    return ~run_query.exists()


def _going(limits: Limits) -> sa.CTE:
    """The roots of all trees that a round will delete: those that nobody needs, and then runs that these have started."""
    first, child = runs.alias(), runs.alias()
    parent, root = runs.alias(), runs.alias()
    kept = sa.select(parent.c.id).join(root, root.c.id == parent.c.root_id).where(parent.c.id == first.c.parent_id)
    going = sa.select(first.c.id).where(_past_tree(first, limits, True), ~kept.exists()).cte("going", recursive=True)
    starter = runs.alias()
    return going.union(
        sa.select(child.c.id)
        .join(starter, starter.c.id == child.c.parent_id)
        .join(going, going.c.id == starter.c.root_id)
        .where(_past_tree(child, limits, True))
    )


def _past_tree(run: sa.FromClause, limits: Limits, ahead: bool) -> sa.ColumnElement[bool]:
    """Whether a run is the root of a tree that nobody needs any more, but for the run that may have started it."""
    member, child, newer, owner = runs.alias(), runs.alias(), runs.alias(), runs.alias()
    kept_from = (
        sa.select(newer.c.seq)
        .where(newer.c.workflow_id == member.c.workflow_id, newer.c.path == "", newer.c.status.not_in(_ACTIVE))
        .order_by(newer.c.seq.desc())
        .limit(1)
        .offset(max(limits.last_runs, 1) - 1)
        .scalar_subquery()
    )
    pinned = captures.c.released == 0
    if ahead:
        pinned = sa.and_(pinned, sa.or_(captures.c.release_at.is_(None), captures.c.release_at > limits.now))
    return sa.and_(
        run.c.id == run.c.root_id,
        run.c.ended_at < limits.before["runs"],
        run.c.status.not_in(_ACTIVE),
        ~sa.exists().where(
            member.c.root_id == run.c.id,
            sa.or_(
                member.c.status.in_(_ACTIVE),
                sa.and_(member.c.path == "", member.c.seq >= sa.func.coalesce(kept_from, 0)),
            ),
        ),
        ~sa.exists().where(owner.c.root_id == run.c.id, child.c.parent_id == owner.c.id, child.c.status.in_(_ACTIVE)),
        ~sa.exists().where(steps.c.root_id == run.c.id, steps.c.owner.is_not(None)),
        ~sa.exists().where(captures.c.run_id == run.c.id, sa.or_(captures.c.state.in_(_OPEN), pinned)),
    )


def _past_captures(limits: Limits, ahead: bool) -> sa.ColumnElement[bool]:
    newer, shown = captures.alias(), publications.alias()
    later, later_of = publications.alias(), captures.alias()
    same = newer.c.consumer == captures.c.consumer
    newest = ~sa.exists().where(same, newer.c.created_at > captures.c.created_at)
    # By version, which is what counts, and by time, which is what is asked for (captures.last_committed): clocks may go back.
    committed = sa.and_(same, newer.c.state == "committed")
    newest_committed = sa.and_(
        captures.c.state == "committed",
        sa.or_(
            ~sa.exists().where(committed, newer.c.base_version > captures.c.base_version),
            ~sa.exists().where(committed, newer.c.ended_at > captures.c.ended_at),
        ),
    )
    # Two levels down nothing is correlated by itself: captures would be another row of the table.
    published_later = (
        sa.select(later.c.capture_id)
        .join(later_of, later_of.c.id == later.c.capture_id)
        .where(
            later.c.target == shown.c.target,
            later_of.c.consumer == captures.c.consumer,
            later_of.c.created_at > captures.c.created_at,
        )
        .correlate(shown, captures)
        .exists()
    )
    newest_in_target = sa.exists().where(shown.c.capture_id == captures.c.id, ~published_later)
    named = sa.exists().where(checkpoints.c.consumer == captures.c.consumer, checkpoints.c.capture_id == captures.c.id)
    released = sa.and_(captures.c.released == 1, captures.c.settled == 1)
    if ahead:
        released = sa.or_(released, captures.c.release_at <= limits.now)
    return sa.and_(
        captures.c.ended_at < limits.before["captures"],
        captures.c.state.not_in(_OPEN),
        released,
        _no_run(captures.c.run_id, limits, ahead),
        ~newest,
        ~newest_committed,
        ~newest_in_target,
        ~named,
    )


def _past_savings(limits: Limits, ahead: bool) -> sa.ColumnElement[bool]:
    """As long as its run is there, a batch may be told again, and must count once."""
    return sa.and_(savings.c.recorded_at < limits.before["savings"], _no_run(savings.c.root_id, limits, ahead))


def _past_signals(connection: Connection, limits: Limits, _: bool) -> sa.ColumnElement[bool]:
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
        signals.c.published_at < limits.before["signals"],
        signals.c.seq < sa.func.coalesce(kept_from, 0),
        signals.c.seq <= _passed_by_all(connection),
    )


def _passed_by_all(connection: Connection) -> int:
    """The number of the last signal that every trigger has passed."""
    states = connection.execute(sa.select(triggers.c.state)).scalars()
    cursors = [number for state in states for number in json.loads(state).get("after") or ()]
    return min(cursors, default=2**62)


def _past_incidents(_: Connection, limits: Limits, __: bool) -> sa.ColumnElement[bool]:
    return sa.and_(incidents.c.closed_at < limits.before["incidents"], incidents.c.told == "over")


def _past_audits(_: Connection, limits: Limits, __: bool) -> sa.ColumnElement[bool]:
    newer = audits.alias()
    later = sa.and_(newer.c.subject == audits.c.subject, newer.c.seq > audits.c.seq)
    renamed_later = sa.exists().where(later, newer.c.verb == "rename")
    passed = sa.and_(sa.exists().where(later), sa.or_(audits.c.verb != "rename", renamed_later))
    return sa.and_(
        audits.c.at < limits.before["audits"],
        sa.or_(audits.c.verb.not_in(CONSUMER_VERBS), passed),
    )


def _past_workers(_: Connection, limits: Limits, __: bool) -> sa.ColumnElement[bool]:
    return sa.and_(
        workers.c.status == "GONE",
        workers.c.seen_at < limits.before["workers"],
        ~sa.exists().where(steps.c.owner == workers.c.id),
    )


def _past_sessions(_: Connection, limits: Limits, ahead: bool) -> sa.ColumnElement[bool]:
    """Gone, or of a run that is: the branch of such a session goes by its own age, after seven days."""
    before = limits.before["spark_sessions"]
    lost = sa.and_(
        spark_sessions.c.gone_at.is_(None),
        spark_sessions.c.opened_at < before,
        _no_run(spark_sessions.c.run_id, limits, ahead),
    )
    return sa.or_(spark_sessions.c.gone_at < before, lost)


# -- counting and deleting -----------------------------------------------------------------------------------------------------


def _size(connection: Connection, column: sa.ColumnElement[Any]) -> sa.ColumnElement[Any]:
    """In characters on SQLite, where blobs have bytes."""
    length = sa.func.length(column) if connection.dialect.name == "sqlite" else sa.func.octet_length(column)
    return sa.func.coalesce(length, 0)


def _measured(connection: Connection, table: sa.Table, condition: sa.ColumnElement[bool]) -> Amount:
    texts = [column for column in table.c if isinstance(column.type, sa.Text | sa.LargeBinary)]
    numbers: sa.ColumnElement[Any] = sa.literal(8 * (len(table.c) - len(texts)))
    return _summed(connection, table, condition, sum((_size(connection, column) for column in texts), numbers))


def _summed(
    connection: Connection, table: sa.Table, condition: sa.ColumnElement[bool], size: sa.ColumnElement[Any]
) -> Amount:
    query = sa.select(sa.func.count(), sa.func.coalesce(sa.func.sum(size), 0)).select_from(table).where(condition)
    row = connection.execute(query).one()
    return Amount(int(row[0]), int(row[1]))


def _delete(connection: Connection, table: sa.Table, condition: sa.ColumnElement[bool]) -> Amount:
    amount = _measured(connection, table, condition)
    if amount.items:
        connection.execute(sa.delete(table).where(condition))
    return amount
