"""What each statement writes to, read off its text."""

from __future__ import annotations

import pytest

from icefloe.spark.targets import Effect, UnknownTargetError, parse

ROWS = {
    "INSERT INTO db.t SELECT 1": "db.t",
    "INSERT INTO t BY NAME SELECT 1 AS a": "t",
    "INSERT INTO db.t (a, b) VALUES (1, 2)": "db.t",
    "INSERT INTO db.t REPLACE WHERE a = 1 SELECT 1": "db.t",
    "INSERT OVERWRITE lake.db.`t x` PARTITION (d = '1') SELECT 1": "lake.db.`t x`",
    "INSERT OVERWRITE TABLE db.t TABLE other": "db.t",
    "WITH x AS (SELECT 1) INSERT INTO db.t SELECT * FROM x": "db.t",
    "MERGE INTO db.t AS t USING s ON t.a = s.a WHEN NOT MATCHED BY SOURCE THEN DELETE": "db.t",
    "MERGE WITH SCHEMA EVOLUTION INTO db.t USING s ON t.a = s.a WHEN MATCHED THEN DELETE": "db.t",
    "UPDATE db.t SET a = 1": "db.t",
    "DELETE FROM db.t WHERE a = 1": "db.t",
    "TRUNCATE TABLE db.t": "db.t",
    "INSERT INTO db.t.branch_x SELECT 1": "db.t.branch_x",
    "BEGIN INSERT INTO db.t SELECT 1; UPDATE db.t SET a = 2; END": "db.t",
}
NOTHING = [
    "SELECT 1",
    "SELECT 'INSERT INTO x SELECT 1'",
    "FROM a |> WHERE x = 1",
    "CREATE OR REPLACE TEMPORARY VIEW v AS SELECT 1",
    "USE db",
    "SET x = 1",
    "CACHE TABLE x AS SELECT 1",
    "EXPLAIN INSERT INTO t SELECT 1",
    "CALL lake.system.expire_snapshots('db.t')",
    "REFRESH TABLE db.t",
]
DEFINITIONS = [
    "CREATE TABLE a.b (x INT) PARTITIONED BY (x)",
    "CREATE VIEW a.v AS SELECT 1",
    "ALTER TABLE a.b CREATE BRANCH x",
    "ALTER TABLE a.b SET TBLPROPERTIES ('insert' = 'into')",
    "DROP TABLE a.b",
]
FILLED = [
    "CREATE TABLE a.b USING iceberg AS SELECT 1",
    "CREATE OR REPLACE TABLE a.b AS SELECT 1",
    "REPLACE TABLE a.b AS SELECT 1",
]


@pytest.mark.parametrize(("text", "target"), ROWS.items())
def test_the_target_of_a_write(text: str, target: str) -> None:
    (write,) = parse(text)
    assert (write.target, write.effect) == (target, Effect.ROWS)


@pytest.mark.parametrize("text", NOTHING)
def test_what_writes_nothing(text: str) -> None:
    (write,) = parse(text)
    assert (write.target, write.effect) == (None, Effect.NONE)


@pytest.mark.parametrize("text", DEFINITIONS)
def test_definitions_take_effect_at_once(text: str) -> None:
    (write,) = parse(text)
    assert (write.target, write.effect) == (None, Effect.DEFINITION)


@pytest.mark.parametrize("text", FILLED)
def test_a_table_that_is_made_and_filled(text: str) -> None:
    (write,) = parse(text)
    assert (write.target, write.effect) == ("a.b", Effect.TABLE)


@pytest.mark.parametrize(
    "text", ["INSERT INTO IDENTIFIER('db.t') SELECT 1", "FROM src INSERT INTO a SELECT * INSERT INTO b SELECT *"]
)
def test_a_write_whose_target_cannot_be_told_is_refused_with_its_place(text: str) -> None:
    with pytest.raises(UnknownTargetError) as caught:
        parse(f"SELECT 1;\n  {text}", where="load.sql")
    assert caught.value.where == "load.sql, line 2, column 3"


def test_what_sqlglot_cannot_read_is_left_to_spark() -> None:
    (write,) = parse("SELEC 1 FORM")
    assert write.effect is Effect.NONE
