"""Statements that a Connect client sends more than once, under ``publish: direct``: real requests, a real table, no Spark.

In place of the server stands what it does with an INSERT: a commit with the snapshot properties of the session.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField
from pyspark.sql.connect.proto import base_pb2

from icefloe import config as configuration
from icefloe.lake import Lake
from icefloe.service import project as projects
from icefloe.spark.fence import Fence, Fencing
from icefloe.spark.marks import PROPERTY, STATEMENT, Mark
from icefloe.spark.write_interceptor import WriteInterceptor

TABLE = "db.t"


@dataclass
class Settings:
    values: dict[str, str] = field(default_factory=dict)

    def set(self, key: str, value: str) -> None:
        self.values[key] = value

    def unset(self, key: str) -> None:
        self.values.pop(key, None)


class Attempt:
    """One attempt's session, with the interceptor that every request passes."""

    def __init__(self, lake: Lake) -> None:
        self._table = lake.tables.catalog.load_table(TABLE)
        self.settings = Settings()
        self.session: Any = SimpleNamespace(conf=self.settings)
        self.wire = WriteInterceptor()
        fence = Fence(
            self.session, lake, Fencing(Mark("step", "run"), "b", direct=True), lambda line: None, at_home=True
        )
        fence.open()
        self.wire.fence = fence
        self.numbers: list[str] = []

    def send(self, request: base_pb2.ExecutePlanRequest, *, arrives: bool = True) -> None:
        """As the client does, the first time and again. ``arrives``: the server gets it."""

        def server(details: Any, sent: base_pb2.ExecutePlanRequest) -> Iterator[Any]:
            text = sent.plan.command.sql_command.input.sql.query
            same = sent.operation_id == request.operation_id
            assert same == text.startswith("INSERT"), (
                "or the client could not reattach, or the server refuses what stands in for it"
            )
            if arrives and text.startswith("INSERT"):
                prefix = PROPERTY
                properties = {
                    key.removeprefix(prefix): value
                    for key, value in self.settings.values.items()
                    if key.startswith(prefix)
                }
                self.numbers.append(properties[STATEMENT])
                row = int(text.partition("VALUES (")[2].rstrip(")"))
                self._table.append(pa.table({"id": pa.array([row], pa.int64())}), snapshot_properties=properties)
            return iter(())

        self.wire.intercept_unary_stream(server, SimpleNamespace(method="/spark.connect/ExecutePlan"), request)


def insert(row: int, *, operation: bool = True) -> base_pb2.ExecutePlanRequest:
    request = base_pb2.ExecutePlanRequest(operation_id=str(uuid4()) if operation else None)
    request.plan.command.sql_command.input.sql.query = f"INSERT INTO {TABLE} VALUES ({row})"
    return request


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    projects.init(tmp_path)
    made = Lake.open(configuration.load(tmp_path / "icefloe.toml"))
    made.tables.catalog.create_namespace("db")
    made.tables.catalog.create_table(TABLE, schema=Schema(NestedField(1, "id", LongType())))
    return made


def rows(lake: Lake) -> list[int]:
    return sorted(lake.tables.catalog.load_table(TABLE).scan().to_arrow().column("id").to_pylist())


@pytest.mark.parametrize("reattaches", [True, False], ids=["with an id of the client's", "without one"])
def test_a_statement_that_is_sent_again_after_it_was_committed_is_not_run_again(lake: Lake, reattaches: bool) -> None:
    attempt, first = Attempt(lake), insert(1, operation=reattaches)
    attempt.send(first)
    attempt.send(first)
    attempt.send(insert(2, operation=reattaches))
    assert rows(lake) == [1, 2]
    assert attempt.numbers == ["1", "2"]


@pytest.mark.parametrize("reattaches", [True, False], ids=["with an id of the client's", "without one"])
def test_a_statement_that_never_arrived_is_sent_again_under_its_number(lake: Lake, reattaches: bool) -> None:
    attempt, first = Attempt(lake), insert(1, operation=reattaches)
    attempt.send(first, arrives=False)
    attempt.send(first)
    attempt.send(insert(2, operation=reattaches))
    assert rows(lake) == [1, 2]
    assert attempt.numbers == ["1", "2"]


def test_the_next_attempt_counts_as_the_first_did_however_often_that_sent_its_statements(lake: Lake) -> None:
    first, second = Attempt(lake), Attempt(lake)
    lost, done = insert(1), insert(2)
    for request in (lost, lost, done, done):
        first.send(request)
    for row in (1, 2, 3):
        second.send(insert(row))
    assert rows(lake) == [1, 2, 3]
    assert second.numbers == ["3"]


def test_a_late_second_sending_keeps_its_number_when_others_came_in_between(lake: Lake) -> None:
    attempt = Attempt(lake)
    lost = insert(1)
    attempt.send(lost, arrives=False)
    attempt.send(insert(2))
    attempt.send(lost)
    attempt.send(insert(3))
    assert rows(lake) == [1, 2, 3]
    assert attempt.numbers == ["2", "1", "3"]


def test_two_statements_with_the_same_text_are_two(lake: Lake) -> None:
    attempt = Attempt(lake)
    attempt.send(insert(1))
    attempt.send(insert(1))
    assert rows(lake) == [1, 1]
