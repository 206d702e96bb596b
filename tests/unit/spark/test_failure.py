"""Long Java traces into short errors. The texts are what Spark 4.1 said, cut where they repeat themselves."""

from __future__ import annotations

import pytest

from icefloe.spark.failure import (
    AnalysisError,
    CatalogUnavailableError,
    OutOfMemoryError,
    SparkError,
    SparkUnreachableError,
    SqlSyntaxError,
    explain,
    short_errors,
)

TRACE = "\n".join(f"\tat org.apache.spark.sql.Thing{n}.run(Thing{n}.scala:{n})" for n in range(200))


class PySparkException(Exception):  # noqa: N818  (the name is what is looked for)
    """As PySpark's: told by its name, so that these tests need no Spark."""

    def __init__(self, message: str, trace: str = "", condition: str | None = None) -> None:
        super().__init__(message)
        self._trace, self._condition = trace, condition

    def getStackTrace(self) -> str:
        return self._trace

    def getCondition(self) -> str | None:
        return self._condition


class ParseException(PySparkException): ...


class AnalysisException(PySparkException): ...


class RetriesExceeded(PySparkException): ...


def test_a_syntax_error_has_its_line_and_column_and_no_plan() -> None:
    found = explain(
        ParseException(
            "\n[PARSE_SYNTAX_ERROR] Syntax error at or near 'FORM'. SQLSTATE: 42601 (line 2, pos 4)\n\n== SQL ==\nSELECT…"
        )
    )
    assert isinstance(found, SqlSyntaxError)
    assert str(found) == "[PARSE_SYNTAX_ERROR] Syntax error at or near 'FORM'."
    assert (found.line, found.column, found.condition) == (2, 5, "PARSE_SYNTAX_ERROR")


def test_an_unknown_name_is_told_without_the_plan() -> None:
    message = (
        "[TABLE_OR_VIEW_NOT_FOUND] The table or view `db`.`nope` cannot be found. SQLSTATE: 42P01; line 1 pos 14;\n"
        "'Project [*]\n+- 'UnresolvedRelation [db, nope]"
    )
    found = explain(AnalysisException(message, TRACE, "TABLE_OR_VIEW_NOT_FOUND"), where="daily.sql")
    assert isinstance(found, AnalysisError)
    assert str(found) == "daily.sql: [TABLE_OR_VIEW_NOT_FOUND] The table or view `db`.`nope` cannot be found."
    assert (found.line, found.column) == (1, 15)


def test_the_innermost_cause_of_an_aborted_job_comes_first() -> None:
    message = (
        "Job aborted due to stage failure: Task 0 in stage 7.0 failed 1 times, most recent failure: "
        "Lost task 0.0 in stage 7.0 (TID 9) (host executor driver): org.apache.spark.SparkException: Task failed\n"
        f"{TRACE}\nCaused by: java.io.IOException: wrapping\n{TRACE}\n"
        f"Caused by: java.nio.file.NoSuchFileException: /data/part-1.parquet\n{TRACE}"
    )
    found = explain(PySparkException(message, TRACE))
    assert found is not None
    assert str(found) == "/data/part-1.parquet (NoSuchFileException)"
    assert TRACE in found.detail


def test_a_lost_task_without_a_cause_is_told_by_its_exception() -> None:
    message = (
        "Job aborted due to stage failure: Task 0 in stage 0.0 failed 1 times, most recent failure: Lost task 0.0 in "
        f"stage 0.0 (TID 0) (192.0.2.2 executor driver): java.lang.IllegalStateException: no more floes\n{TRACE}"
    )
    assert str(explain(PySparkException(message))) == "no more floes (IllegalStateException)"


def test_a_cause_that_says_more_than_the_message_is_added() -> None:
    found = explain(PySparkException("Failed to open table", f"x\n{TRACE}\nCaused by: a.b.UncheckedSQL: disk is full"))
    assert str(found) == "Failed to open table (disk is full (UncheckedSQL))"


def test_running_out_of_memory_says_what_to_set() -> None:
    found = explain(PySparkException(f"Job aborted\n{TRACE}\nCaused by: java.lang.OutOfMemoryError: Java heap space"))
    assert isinstance(found, OutOfMemoryError)
    assert "driver_memory" in (found.hint or "")


def test_a_server_that_is_gone_is_unreachable_and_may_be_tried_again() -> None:
    found = explain(RetriesExceeded("[RETRIES_EXCEEDED] The maximum number of retries has been exceeded."))
    assert isinstance(found, SparkUnreachableError)
    assert found.retryable


def test_a_headline_that_ends_in_a_colon_brings_what_follows() -> None:
    found = explain(
        AnalysisException("[ARITY] Cannot write to `t`, the reason is:\nTable columns: `a`.\nData columns: 1.")
    )
    assert str(found) == "[ARITY] Cannot write to `t`, the reason is: Table columns: `a`. Data columns: 1."


def test_other_errors_pass_unchanged() -> None:
    assert explain(ValueError("mine")) is None
    with pytest.raises(ValueError, match="mine"), short_errors():
        raise ValueError("mine")
    with pytest.raises(SparkError, match="boom"), short_errors():
        raise PySparkException("boom")


@pytest.mark.parametrize("message", ["", "\n\n", "x" * 100_000])
def test_every_message_becomes_a_short_one(message: str) -> None:
    assert 0 < len(str(explain(PySparkException(message)))) < 700


@pytest.mark.parametrize(
    ("message", "trace", "short"),
    [
        (
            "(org.apache.iceberg.exceptions.CommitFailedException) Cannot commit lake.d.t: stale",
            TRACE,
            "Cannot commit lake.d.t: stale (CommitFailedException)",
        ),
        (
            "Writing job aborted",
            f"org.apache.spark.SparkException: Writing job aborted\n{TRACE}\n"
            f"Caused by: org.apache.iceberg.jdbc.UncheckedSQLException: Unknown failure\n{TRACE}\n"
            "Caused by: org.sqlite.SQLiteException: [SQLITE_BUSY] The database file is locked",
            "Unknown failure (UncheckedSQLException)",
        ),
        (
            "Job aborted due to stage failure",
            f"{TRACE}\nCaused by: java.net.ConnectException: Connection refused\n{TRACE}",
            "Connection refused (ConnectException)",
        ),
    ],
)
def test_a_catalog_that_cannot_be_reached_is_nobodys_fault_and_tried_again(
    message: str, trace: str, short: str
) -> None:
    error = explain(PySparkException(message, trace))
    assert isinstance(error, CatalogUnavailableError)
    assert (str(error), error.retryable) == (short, True)


def test_a_statement_that_only_speaks_of_such_an_error_is_at_fault_itself() -> None:
    error = explain(PySparkException("[USER_RAISED] no CommitFailedException: here", f"x.UserError: y\n{TRACE}"))
    assert type(error) is SparkError
