"""The folders of ``examples/``, run as their README says: a load, then the workflows in the order of their files' numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from icefloe.service.client import Client
from icefloe.service.pushing import push_files
from icefloe.spark.statements import split

if TYPE_CHECKING:
    from pyspark.sql.connect.session import SparkSession

FOLDER = Path(__file__).resolve().parent.parent / "examples"


@dataclass(frozen=True)
class Example:
    folder: Path

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def expectations(self) -> dict[str, str]:
        """Target -> the SELECT that computes it from nothing but the sources."""
        return {file.stem: file.read_text(encoding="utf-8") for file in sorted(self.folder.glob("expected/*.sql"))}

    def load(self, spark: SparkSession, number: int) -> None:
        text = (self.folder / "load.sql").read_text(encoding="utf-8").replace("{n}", str(number))
        for statement in split(text):
            spark.sql(statement.text).collect()

    def push(self, client: Client) -> list[str]:
        files = sorted(self.folder.glob("[0-9]-*.yaml"))
        return [pushed.workflow_id for pushed in push_files(client, files)]


def all_examples() -> Iterator[Example]:
    for file in sorted(FOLDER.glob("*/load.sql")):
        yield Example(file.parent)


def difference(spark: SparkSession, target: str, expected: str) -> list[str]:
    """Rows that only one side has, as texts; empty when both hold the same rows, each equally often."""
    return difference_by(lambda statement: spark.sql(statement).collect(), target, expected)


def difference_by(sql: Callable[[str], list[Any]], target: str, expected: str) -> list[str]:
    found = []
    have = f"SELECT * FROM {target}"
    for word, left, right in (("extra", have, expected), ("missing", expected, have)):
        rows = sql(f"({left}) EXCEPT ALL ({right}) LIMIT 5")
        found += [f"{word} in {target}: {tuple(row)}" for row in rows]
    return found
