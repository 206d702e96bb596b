"""Which table a command of the Connect protocol writes to."""

from __future__ import annotations

import pytest
from pyspark.sql.connect.proto import base_pb2
from pyspark.sql.connect.proto import commands_pb2 as commands

from icefloe.spark.targets import Effect
from icefloe.spark.write_interceptor import StreamingError, written_by

V1, V2 = commands.WriteOperation, commands.WriteOperationV2


def command(**fields: object) -> base_pb2.Plan:
    return base_pb2.Plan(command=commands.Command(**fields))  # type: ignore[arg-type]


def effect(plan: base_pb2.Plan) -> tuple[str | None, Effect] | None:
    write = written_by(plan)
    return None if write is None else (write.target, write.effect)


def test_sql_is_read_wherever_the_client_puts_it() -> None:
    plain = base_pb2.Plan()
    plain.command.sql_command.input.sql.query = "INSERT INTO db.t SELECT 1"
    nested = base_pb2.Plan()
    nested.command.sql_command.input.with_relations.root.sql.query = "DELETE FROM db.t"
    assert effect(plain) == effect(nested) == ("db.t", Effect.ROWS)
    assert effect(command(sql_command=commands.SqlCommand(sql="UPDATE db.t SET a = 1"))) == ("db.t", Effect.ROWS)


@pytest.mark.parametrize(
    ("mode", "found"),
    [
        (V2.MODE_APPEND, Effect.ROWS),
        (V2.MODE_OVERWRITE, Effect.ROWS),
        (V2.MODE_OVERWRITE_PARTITIONS, Effect.ROWS),
        (V2.MODE_CREATE, Effect.TABLE),
        (V2.MODE_REPLACE, Effect.TABLE),
        (V2.MODE_CREATE_OR_REPLACE, Effect.TABLE),
    ],
)
def test_write_to(mode: V2.Mode, found: Effect) -> None:
    assert effect(command(write_operation_v2=V2(table_name="db.t", mode=mode))) == ("db.t", found)


def test_insert_into_and_save_as_table() -> None:
    def table(method: int, mode: int) -> base_pb2.Plan:
        save = V1.SaveTable(table_name="db.t", save_method=method)  # type: ignore[arg-type]
        return command(write_operation=V1(table=save, mode=mode))  # type: ignore[arg-type]

    methods = V1.SaveTable
    into, save_as = methods.TABLE_SAVE_METHOD_INSERT_INTO, methods.TABLE_SAVE_METHOD_SAVE_AS_TABLE
    assert effect(table(into, V1.SAVE_MODE_OVERWRITE)) == ("db.t", Effect.ROWS)
    assert effect(table(save_as, V1.SAVE_MODE_APPEND)) == ("db.t", Effect.ROWS)
    assert effect(table(save_as, V1.SAVE_MODE_OVERWRITE)) == ("db.t", Effect.TABLE)


def test_files_are_written_too_and_merge_and_what_only_reads_is_left_alone() -> None:
    assert effect(command(write_operation=V1(source="parquet", path="/data/x"))) == ("/data/x", Effect.ROWS)
    assert effect(command(write_operation=V1(source="noop"))) is None
    merge = commands.MergeIntoTableCommand(target_table_name="db.t")
    assert effect(command(merge_into_table_command=merge)) == ("db.t", Effect.ROWS)
    assert effect(base_pb2.Plan()) is None


def test_a_streaming_query_is_refused() -> None:
    with pytest.raises(StreamingError):
        written_by(command(write_stream_operation_start=commands.WriteStreamOperationStart()))
