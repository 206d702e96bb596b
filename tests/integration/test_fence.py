"""The fence around writes, on real Spark and Iceberg, attempt against attempt.

Each of these fails when the fence is weakened: without the check that main still stands at the base, without the mark, without
the branch, each of which was tried.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import grpc  # type: ignore[import-untyped]
import pytest
from google.rpc import status_pb2
from pyspark.sql.connect.proto import base_pb2

from icefloe.lake import Lake, history
from icefloe.spark import batch, predecessors, session
from icefloe.spark.fence import Fence, Fencing, TargetMovedError
from icefloe.spark.marks import Mark
from icefloe.spark.statements import Statement
from icefloe.spark.targets import Effect, Write, parse
from icefloe.spark.write_interceptor import WriteInterceptor
from tests.spark_server import Project, fresh_namespace

if TYPE_CHECKING:
    from pyspark.sql.connect.session import SparkSession


class _Chain(grpc.UnaryStreamClientInterceptor):  # type: ignore[misc]
    """Several interceptors in place of one: the client's side first."""

    def __init__(self, interceptors: Sequence[Any]) -> None:
        self._interceptors = interceptors

    def intercept_unary_stream(self, continuation: Callable[[Any, Any], Any], details: Any, request: Any) -> Any:
        for one in reversed(self._interceptors):
            continuation = functools.partial(one.intercept_unary_stream, continuation)
        return continuation(details, request)


class Attempts:
    """Attempts at pieces of work, each with a session of its own."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self.lake = Lake.open(project.config)
        self.log: list[str] = []
        self._sessions: list[SparkSession] = []

    def session(self, interceptors: Sequence[Any] = ()) -> SparkSession:
        opened = session.connect(self.project.config, interceptor=_Chain(interceptors) if interceptors else None)
        self._sessions.append(opened)
        return opened

    def fencing(self, number: int, work: str, **more: Any) -> Fencing:
        return Fencing(Mark("step", work), f"icefloe_attempt__{number}", **more)

    def fence(self, number: int, work: str = "w", **more: Any) -> tuple[SparkSession, Fence]:
        opened = self.session()
        fence = Fence(opened, self.lake, self.fencing(number, work, **more), self.log.append)
        fence.open()
        return opened, fence

    def whole(self, number: int, script: str, work: str = "w", **more: Any) -> dict[str, int]:
        """An attempt from beginning to end."""
        script = script.replace("DB.", f"{self.project.namespace}.")
        return batch.run(
            self.session(),
            self.lake,
            batch.Batch(
                parse(script), lambda number_of_round: self.fencing(number * 10 + number_of_round, work, **more)
            ),
            self.log.append,
        )

    def close(self) -> None:
        for opened in self._sessions:
            opened.stop()


@pytest.fixture
def attempts(project: Project) -> Iterator[Attempts]:
    made = Attempts(project)
    yield made
    made.close()


@pytest.fixture
def sql(project: Project, spark: SparkSession) -> Callable[[str], list[tuple[Any, ...]]]:
    def run(text: str) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in spark.sql(text.replace("DB.", f"{project.namespace}.")).collect()]

    return run


Sql = Callable[[str], list[tuple[Any, ...]]]


def execute(opened: SparkSession, fence: Fence, text: str) -> None:
    (write,) = parse(text)
    if fence.admit(write):
        opened.sql(text).collect()
        fence.ended(write)


@pytest.mark.parametrize("rows_before", [0, 1], ids=["an empty table", "a table with rows"])
def test_of_two_attempts_at_one_time_one_is_published(
    attempts: Attempts, project: Project, sql: Sql, rows_before: int
) -> None:
    sql("CREATE TABLE DB.t (id BIGINT)")
    if rows_before:
        sql("INSERT INTO DB.t VALUES (0)")
    insert = f"INSERT INTO {project.name('t')} VALUES (1)"
    (old, old_fence), (new, new_fence) = attempts.fence(1), attempts.fence(2)
    execute(old, old_fence, insert)
    execute(new, new_fence, insert)
    assert sql("SELECT count(*) FROM DB.t") == [(rows_before,)], "nothing is visible before it is published"
    published = new_fence.publish()
    assert old_fence.publish() == published, "the other attempt's result counts as its own"
    assert sql("SELECT count(*) FROM DB.t") == [(rows_before + 1,)]


def test_publishing_leaves_what_sparks_own_procedure_leaves(attempts: Attempts, project: Project, sql: Sql) -> None:
    """But for the branch, which is gone with the same commit."""
    left = {}
    for name in ("ours", "sparks"):
        sql(f"CREATE TABLE DB.{name} (id BIGINT)")
        sql(f"INSERT INTO DB.{name} VALUES (0)")
        sql(f"ALTER TABLE DB.{name} CREATE BRANCH other")
        if name == "ours":
            opened, fence = attempts.fence(1)
            execute(opened, fence, f"INSERT INTO {project.name(name)} VALUES (1)")
            before = attempts.lake.table(project.name(name)).metadata
            fence.publish()
        else:
            sql(f"ALTER TABLE DB.{name} CREATE BRANCH icefloe_attempt__1")
            sql(f"INSERT INTO DB.{name}.branch_icefloe_attempt__1 VALUES (1)")
            before = attempts.lake.table(project.name(name)).metadata
            sql(f"CALL {attempts.lake.tables.name}.system.fast_forward('DB.{name}', 'main', 'icefloe_attempt__1')")
        after = attempts.lake.table(project.name(name)).metadata
        assert after.raw["metadata-log"][:-1] == before.raw["metadata-log"], "one commit"
        order = {one["snapshot-id"]: number for number, one in enumerate(after.raw["snapshots"])}
        changed = {key for key in after.raw if after.raw[key] != before.raw.get(key)}
        refs = {key: {**ref, "snapshot-id": order[ref["snapshot-id"]]} for key, ref in after.raw["refs"].items()}
        assert ("icefloe_attempt__1" in refs) is (name == "sparks")
        refs.pop("icefloe_attempt__1", None)
        history = sql(f"SELECT snapshot_id, is_current_ancestor FROM DB.{name}.history ORDER BY made_current_at")
        log = [order[entry["snapshot-id"]] for entry in after.raw["snapshot-log"]]
        left[name] = changed, refs, log, order[after.raw["current-snapshot-id"]], [(order[a], b) for a, b in history]
        assert sql(f"SELECT id FROM DB.{name} TIMESTAMP AS OF now() ORDER BY id") == [(0,), (1,)]
    assert left["ours"] == left["sparks"]


class Slow:
    """A session whose statements begin only when they may."""

    def __init__(self, opened: SparkSession) -> None:
        self.conf = opened.conf
        self.may = threading.Event()
        self._opened = opened

    def sql(self, text: str) -> Any:
        assert self.may.wait(60)
        return self._opened.sql(text)


@pytest.mark.parametrize("rows_before", [0, 1], ids=["an empty table", "a table with rows"])
def test_a_branch_that_is_made_beside_is_waited_for_and_none_is_left_behind(
    attempts: Attempts, project: Project, sql: Sql, rows_before: int
) -> None:
    """Where statements name their branch themselves: the base is known at once, and giving up waits for the branch to take it away."""
    sql("CREATE TABLE DB.t (id BIGINT)")
    if rows_before:
        sql("INSERT INTO DB.t VALUES (0)")
    head = history.head(attempts.lake.table(project.name("t")).metadata, "main", table="t")

    def branches() -> set[str]:
        return {name for name in attempts.lake.table(project.name("t")).metadata.refs if "attempt" in name}

    for way in (Fence.discard, Fence.publish):
        slow = Slow(attempts.session())
        fence = Fence(slow, attempts.lake, attempts.fencing(1, "w"), attempts.log.append, named=True, at_home=True)
        assert fence.base(project.name("t")) == head
        assert branches() == set()
        timer = threading.Timer(0.2, slow.may.set)
        timer.start()
        if way is Fence.publish:
            fence.branched(project.name("t"))
            assert branches() == {"icefloe_attempt__1"}
        way(fence)
        assert slow.may.is_set(), "it was waited for"
        assert branches() == set()


def test_a_branch_that_cannot_be_made_is_the_attempts_failure(attempts: Attempts, project: Project, sql: Sql) -> None:
    sql("CREATE TABLE DB.t (id BIGINT)")
    gone = attempts.session()
    fence = Fence(gone, attempts.lake, attempts.fencing(1, "w"), attempts.log.append, named=True, at_home=True)
    fence.open()
    gone.stop()
    assert not fence.is_published(project.name("t"))
    with pytest.raises(Exception, match=r"(?i)session|channel|closed|stopped"):
        fence.branched(project.name("t"))
    fence.discard()


@pytest.mark.parametrize("rows_before", [0, 1], ids=["an empty table", "a table with rows"])
def test_an_attempt_that_wakes_up_after_its_branch_was_cleaned_up_publishes_nothing(
    attempts: Attempts, project: Project, sql: Sql, rows_before: int
) -> None:
    """Spark makes a branch that is gone anew, off today's head: a fast-forward to it alone would succeed."""
    sql("CREATE TABLE DB.t (id BIGINT)")
    if rows_before:
        sql("INSERT INTO DB.t VALUES (0)")
    insert = f"INSERT INTO {project.name('t')} VALUES (1)"
    old, old_fence = attempts.fence(1)
    (write,) = parse(insert)
    assert old_fence.admit(write)
    attempts.whole(2, insert, stale_branches=("icefloe_attempt__1",))
    opened_branches = attempts.lake.table(project.name("t")).metadata.refs
    assert not any(name.startswith("icefloe_attempt") for name in opened_branches), "the dead attempt's branch is gone"
    old.sql(insert).collect()
    old_fence.publish()
    assert sql("SELECT count(*) FROM DB.t") == [(rows_before + 1,)]


@pytest.mark.parametrize("rows_before", [0, 1], ids=["an empty table", "a table with rows"])
def test_an_attempt_whose_branch_was_dropped_between_two_statements_publishes_no_half(
    attempts: Attempts, project: Project, sql: Sql, rows_before: int
) -> None:
    sql("CREATE TABLE DB.t (id BIGINT)")
    if rows_before:
        sql("INSERT INTO DB.t VALUES (0)")
    opened, fence = attempts.fence(1)
    execute(opened, fence, f"INSERT INTO {project.name('t')} VALUES (1)")
    sql("ALTER TABLE DB.t DROP BRANCH icefloe_attempt__1")
    execute(opened, fence, f"INSERT INTO {project.name('t')} VALUES (2)")
    with pytest.raises(TargetMovedError, match="taken away"):
        fence.publish()
    assert sql("SELECT count(*) FROM DB.t") == [(rows_before,)]


STATEMENTS = {
    "INSERT INTO DB.t VALUES (9, 'a')": [(1, "a"), (2, "b"), (9, "a")],
    "INSERT OVERWRITE DB.t VALUES (9, 'a')": [(2, "b"), (9, "a")],
    "MERGE INTO DB.t t USING (SELECT 1 AS id) s ON t.id = s.id WHEN MATCHED THEN DELETE": [(2, "b")],
    "UPDATE DB.t SET id = 7 WHERE part = 'a'": [(2, "b"), (7, "a")],
    "DELETE FROM DB.t WHERE part = 'a'": [(2, "b")],
    "DELETE FROM DB.t WHERE id = 1": [(2, "b")],
    "TRUNCATE TABLE DB.t": [],
}


def test_every_statement_is_done_on_the_branch_and_repeated_by_nobody(attempts: Attempts, sql: Sql) -> None:
    for number, (statement, after) in enumerate(STATEMENTS.items()):
        table, text = f"DB.t{number}", statement.replace("DB.t", f"DB.t{number}")
        sql(f"CREATE TABLE {table} (id INT, part STRING) PARTITIONED BY (part)")
        sql(f"INSERT INTO {table} VALUES (1, 'a'), (2, 'b')")
        (snapshot,) = attempts.whole(number, text, work=f"w{number}").values()
        assert sorted(sql(f"SELECT * FROM {table}")) == after, statement
        sql(f"INSERT INTO {table} VALUES (1, 'a')")  # another writer, whose row a repeated DELETE would take away
        assert list(attempts.whole(100 + number, text, work=f"w{number}").values()) == [snapshot], statement
        assert sorted(sql(f"SELECT * FROM {table}")) == sorted([*after, (1, "a")]), statement


def test_a_target_is_known_by_every_name_that_spark_takes(
    attempts: Attempts, project: Project, sql: Sql, spark: SparkSession
) -> None:
    other = fresh_namespace(spark)
    sql("CREATE TABLE DB.t (id BIGINT)")
    sql(f"CREATE TABLE {other}.t (id BIGINT)")
    script = [
        f"INSERT INTO lake.{project.namespace}.t VALUES (1); INSERT INTO lake.`{project.namespace}`.`t` VALUES (2);"
        f"USE {project.namespace}; INSERT INTO t VALUES (3); INSERT INTO `t` VALUES (4);"
        f"USE {other}; INSERT INTO t VALUES (5); SELECT missing",
    ]
    with pytest.raises(Exception, match="missing"):
        attempts.whole(1, "".join(script))
    assert sql("SELECT * FROM DB.t") == [] and sql(f"SELECT * FROM {other}.t") == []
    published = attempts.whole(2, "".join(script).removesuffix("SELECT missing"))
    assert list(published) == [project.name("t"), f"{other}.t"], "two tables, each published once"
    assert sql("SELECT * FROM DB.t ORDER BY 1") == [(1,), (2,), (3,), (4,)]
    assert sql(f"SELECT * FROM {other}.t") == [(5,)]


def test_a_table_made_by_the_script_is_fenced_from_its_first_row_and_a_filled_one_is_not_made_twice(
    attempts: Attempts, sql: Sql
) -> None:
    made = "CREATE TABLE IF NOT EXISTS DB.made (id BIGINT); INSERT INTO DB.made VALUES (1);"
    filled = "CREATE TABLE DB.filled AS SELECT 1L AS id; INSERT INTO DB.filled VALUES (2);"
    broken = "SELECT missing FROM DB.made"
    with pytest.raises(Exception, match="missing"):
        attempts.whole(1, made + filled + broken)
    assert sql("SELECT * FROM DB.made") == []
    assert sql("SELECT * FROM DB.filled") == [(1,)], "CREATE TABLE AS takes effect at once"
    for number in (2, 3):
        attempts.whole(number, made + filled)
        assert sql("SELECT * FROM DB.made") == [(1,)]
        assert sorted(sql("SELECT * FROM DB.filled")) == [(1,), (2,)]


def test_a_batch_whose_target_moved_is_computed_again_and_in_the_end_given_up(
    attempts: Attempts, project: Project, sql: Sql, monkeypatch: pytest.MonkeyPatch
) -> None:
    sql("CREATE TABLE DB.t (id BIGINT)")
    sql("INSERT INTO DB.t VALUES (1)")
    sql("INSERT INTO DB.t VALUES (2)")
    others = iter([f"INSERT INTO {project.name('t')} VALUES (3)", "compact"])

    def interfere(name: str) -> None:
        if name == "spark.before_first_publish" and (statement := next(others, None)):
            if statement == "compact":
                statement = (
                    f"CALL lake.system.rewrite_data_files(table => '{project.name('t')}', "
                    "options => map('rewrite-all', 'true'))"
                )
            sql(statement)

    monkeypatch.setattr("icefloe.spark.fence.fault", interfere)
    attempts.whole(1, "INSERT INTO DB.t SELECT sum(id) * 10 FROM DB.t")
    assert sql("SELECT * FROM DB.t ORDER BY 1") == [(1,), (2,), (3,), (60,)], "computed on what was there in the end"
    metadata = attempts.lake.table(project.name("t")).metadata
    assert [one.operation for one in history.ancestors(metadata, metadata.refs["main"].snapshot_id)][1] == "replace"
    others = iter(["INSERT INTO DB.t VALUES (0)"] * 99)
    with pytest.raises(TargetMovedError):
        attempts.whole(2, "INSERT INTO DB.t VALUES (99)", work="another")
    assert sql("SELECT count(*) FROM DB.t WHERE id = 99") == [(0,)]
    assert not any(name.startswith("icefloe_attempt") for name in attempts.lake.table(project.name("t")).metadata.refs)


def test_after_a_death_between_two_targets_only_the_second_is_written(
    attempts: Attempts, project: Project, sql: Sql, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b"):
        sql(f"CREATE TABLE DB.{name} (id BIGINT)")
        sql(f"INSERT INTO DB.{name} VALUES (0)")
    script = "INSERT INTO DB.a VALUES (1); INSERT INTO DB.b SELECT count(*) FROM DB.a"

    class Killed(BaseException): ...

    def die(name: str) -> None:
        if name == "spark.after_publish":
            raise Killed

    with monkeypatch.context() as patched:
        patched.setattr("icefloe.spark.fence.fault", die)
        with pytest.raises(Killed):
            attempts.whole(1, script)
    assert sql("SELECT * FROM DB.a ORDER BY 1") == [(0,), (1,)]
    assert sql("SELECT * FROM DB.b") == [(0,)]
    published = attempts.whole(2, script)
    assert set(published) == {project.name("a"), project.name("b")}
    assert sql("SELECT * FROM DB.a ORDER BY 1") == [(0,), (1,)]
    assert sql("SELECT * FROM DB.b ORDER BY 1") == [(0,), (2,)]


def test_what_the_state_database_knows_to_be_published_counts_when_the_mark_has_expired(
    attempts: Attempts, project: Project, sql: Sql
) -> None:
    sql("CREATE TABLE DB.t (id BIGINT)")
    published = attempts.whole(1, "INSERT INTO DB.t VALUES (1)")
    sql("INSERT INTO DB.t VALUES (2)")
    sql(
        f"CALL lake.system.expire_snapshots(table => '{project.name('t')}', "
        "older_than => TIMESTAMP '2100-01-01', retain_last => 1)"
    )
    assert attempts.whole(2, "INSERT INTO DB.t VALUES (1)", known=published) == published
    assert sql("SELECT * FROM DB.t ORDER BY 1") == [(1,), (2,)]


def test_under_publish_direct_each_statement_is_done_once(attempts: Attempts, sql: Sql) -> None:
    sql("CREATE TABLE DB.t (id BIGINT)")
    script = "INSERT INTO DB.t VALUES (1); INSERT INTO DB.t VALUES (2);"
    with pytest.raises(Exception, match="missing"):
        attempts.whole(1, script + "SELECT missing FROM DB.t", direct=True)
    assert sql("SELECT * FROM DB.t ORDER BY 1") == [(1,), (2,)], (
        "visible statement by statement: that is what direct means"
    )
    attempts.whole(2, script + "INSERT INTO DB.t VALUES (3)", direct=True)
    assert sql("SELECT * FROM DB.t ORDER BY 1") == [(1,), (2,), (3,)]


class _NotFound(grpc.RpcError, grpc.Call):  # type: ignore[misc]
    """What a server says that knows nothing of an operation (any more)."""

    def code(self) -> grpc.StatusCode:
        return grpc.StatusCode.INTERNAL

    def details(self) -> str:
        return "[INVALID_HANDLE.OPERATION_NOT_FOUND] The handle is invalid. Operation not found."

    def trailing_metadata(self) -> tuple[tuple[str, bytes], ...]:
        status = status_pb2.Status(code=grpc.StatusCode.INTERNAL.value[0], message=self.details())
        return (("grpc-status-details-bin", status.SerializeToString()),)


class _Losing(grpc.UnaryStreamClientInterceptor):  # type: ignore[misc]
    """Lets the server carry out each INSERT, and then has the client believe that it never arrived: once for each operation."""

    def __init__(self) -> None:
        self.opened: SparkSession | None = None
        self.sent: list[str] = []

    def intercept_unary_stream(self, continuation: Callable[[Any, Any], Any], details: Any, request: Any) -> Any:
        text = request.plan.command.sql_command.input.sql.query if details.method.endswith("/ExecutePlan") else ""
        if not text.startswith("INSERT"):
            return continuation(details, request)
        again = request.operation_id in self.sent
        self.sent.append(request.operation_id)
        call = continuation(details, request)
        return call if again else self._lost(call, request)

    def _lost(self, call: Any, request: Any) -> Iterator[Any]:
        for _ in call:
            pass
        assert self.opened is not None
        done = base_pb2.ReleaseExecuteRequest(
            session_id=request.session_id, user_context=request.user_context, operation_id=request.operation_id
        )
        done.release_all.SetInParent()
        self.opened.client._stub.ReleaseExecute(done)
        raise _NotFound
        yield


def test_under_publish_direct_a_statement_that_the_client_sends_again_is_done_once(
    attempts: Attempts, project: Project, sql: Sql
) -> None:
    sql("CREATE TABLE DB.t (id BIGINT)")
    wire, losing = WriteInterceptor(), _Losing()
    opened = attempts.session(interceptors=(losing, wire))
    losing.opened = opened
    fence = Fence(opened, attempts.lake, attempts.fencing(1, "w", direct=True), attempts.log.append)
    fence.open()
    wire.fence = fence
    for row in (1, 2):
        opened.sql(f"INSERT INTO {project.name('t')} VALUES ({row})")
    assert len(losing.sent) == 4 and len(set(losing.sent)) == 2, "each was sent twice"
    assert sql("SELECT * FROM DB.t ORDER BY 1") == [(1,), (2,)]
    fence.publish()
    attempts.whole(
        2, "INSERT INTO DB.t VALUES (1); INSERT INTO DB.t VALUES (2); INSERT INTO DB.t VALUES (3)", direct=True
    )
    assert sql("SELECT * FROM DB.t ORDER BY 1") == [(1,), (2,), (3,)], "and the next attempt counts alike"


def test_a_dead_clients_statement_is_ended_and_its_session_refuses_whoever_still_holds_it(
    attempts: Attempts, project: Project, sql: Sql
) -> None:
    import threading

    sql("CREATE TABLE DB.t (id BIGINT)")
    identity = str(uuid4())
    dead = session.connect(project.config, session_id=identity)
    slow = f"INSERT INTO {project.name('t')} SELECT id FROM range(0, 400000000, 1, 2) WHERE sha2(string(id), 512) LIKE '0000%'"
    caught: list[BaseException] = []

    def run() -> None:
        try:
            dead.sql(slow).collect()
        except BaseException as error:
            caught.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    said: list[str] = []
    deadline = 60
    while not said and deadline:
        # Nothing runs yet, or it was ended: only what was found running and has ended is told.
        predecessors.end(session.address(dead), [identity], said.append) if _running(dead) else thread.join(0.2)
        deadline -= 1
    assert said == ["ended 1 statement(s) that an earlier attempt had left running"]
    predecessors.end(session.address(dead), [identity], said.append)
    assert len(said) == 1, "a session that is gone already is proven gone"
    thread.join(30)
    assert not thread.is_alive() and caught
    assert sql("SELECT count(*) FROM DB.t") == [(0,)]
    with pytest.raises(Exception, match=r"(?i)session"):
        dead.sql(f"INSERT INTO {project.name('t')} VALUES (1)").collect()
    assert sql("SELECT count(*) FROM DB.t") == [(0,)]


def _running(opened: SparkSession) -> bool:
    """Whether the server runs tasks: seen by the progress it reports to this client."""
    seen = getattr(opened, "_seen_tasks", None)
    if seen is None:
        seen = []
        opened._seen_tasks = seen  # type: ignore[attr-defined]
        opened.registerProgressHandler(lambda stages, inflight_tasks, operation_id, done: seen.append(inflight_tasks))
    return any(seen)


def test_a_server_that_cannot_be_asked_makes_the_outcome_unknown() -> None:
    with pytest.raises(predecessors.OutcomeUnknownError, match="outcome is unknown") as caught:
        predecessors.end("sc://localhost:1", [str(uuid4())], print, within=1)
    assert "icefloe skip" in (caught.value.hint or "")


def test_a_single_name_without_a_current_namespace_is_no_table_of_ours(
    attempts: Attempts, project: Project, sql: Sql
) -> None:
    said: list[str] = []
    somewhere = session.connect(project.config)
    try:
        somewhere.sql(f"USE {project.config.catalog.name}").collect()
        fence = Fence(somewhere, attempts.lake, Fencing(Mark("files", "run"), "files"), said.append)
        assert somewhere.catalog.currentDatabase() == "", "the case that is meant"
        assert fence.admit(Write(Statement("write to a folder", 1, 1), "/data/files", Effect.ROWS))
        assert "is no Iceberg table of this catalog" in said[0]
    finally:
        somewhere.stop()
