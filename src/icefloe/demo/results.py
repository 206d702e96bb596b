"""What the demonstration measures, and the arithmetic of it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import Any, Literal

LOOKBACK_DAYS = 14
Way = Literal["lookback", "incremental"]
WAYS: tuple[Way, Way] = ("lookback", "incremental")


@dataclass(frozen=True, slots=True)
class Cost:
    """What runs took from start to end, what Spark's tasks read, and what the step's own search for changed keys did besides."""

    seconds: float = 0.0
    spark_rows: int = 0
    searched_rows: int = 0

    @property
    def rows(self) -> int:
        return self.spark_rows + self.searched_rows

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.seconds + other.seconds,
            self.spark_rows + other.spark_rows,
            self.searched_rows + other.searched_rows,
        )

    def to_dict(self) -> dict[str, Any]:
        return {
            "rows": self.rows,
            "seconds": round(self.seconds, 3),
            "rows_read_by_spark": self.spark_rows,
            "rows_read_by_steps": self.searched_rows,
        }


@dataclass(frozen=True, slots=True)
class Round:
    """One day's load, and what each way made of it."""

    day: date
    late_rows: int
    lookback: Cost
    incremental: Cost


@dataclass(frozen=True, slots=True)
class Proof:
    """A table of one way against the other's: rows, and the sum of the hashes of all columns."""

    table: str
    lookback: tuple[int, int]
    incremental: tuple[int, int]

    @property
    def equal(self) -> bool:
        return self.lookback == self.incremental

    def to_dict(self) -> dict[str, Any]:
        return {"table": self.table, "rows": self.incremental[0], "equal": self.equal}


@dataclass(frozen=True, slots=True)
class SizeResult:
    """The measured loads of one size of day."""

    events_per_day: int
    bytes_per_event: float
    rounds: tuple[Round, ...]
    proofs: tuple[Proof, ...]

    @property
    def equal(self) -> bool:
        return all(proof.equal for proof in self.proofs)

    def total(self, way: Way) -> Cost:
        return sum((load.lookback if way == "lookback" else load.incremental for load in self.rounds), Cost())

    def ratio(self, what: Literal["seconds", "rows"]) -> float:
        """Of what the lookback took, how much the incremental way did."""
        whole: float = getattr(self.total("lookback"), what)
        part: float = getattr(self.total("incremental"), what)
        return part / whole if whole else 0.0

    def mean(self, way: Way) -> Cost:
        """Of one load."""
        total, loads = self.total(way), len(self.rounds)
        return Cost(
            total.seconds / loads,
            total.spark_rows // loads,
            total.searched_rows // loads,
        )

    def to_dict(self) -> dict[str, Any]:
        return {
            "events_per_day": self.events_per_day,
            "bytes_per_event": round(self.bytes_per_event, 1),
            "lookback": self.total("lookback").to_dict(),
            "incremental": self.total("incremental").to_dict(),
            "ratio": {
                "rows": round(self.ratio("rows"), 4),
                "seconds": round(self.ratio("seconds"), 4),
            },
            "days": [
                {
                    "day": str(load.day),
                    "late_rows": load.late_rows,
                    "lookback": load.lookback.to_dict(),
                    "incremental": load.incremental.to_dict(),
                }
                for load in self.rounds
            ],
            "tables": [proof.to_dict() for proof in self.proofs],
            "equal": self.equal,
        }


@dataclass(frozen=True, slots=True)
class DemoResult:
    """By size, in the order in which they were measured."""

    sizes: tuple[SizeResult, ...]
    seed: int
    seconds: float
    """Of all of it, from the start."""

    @property
    def equal(self) -> bool:
        return all(size.equal for size in self.sizes)

    def growth(self, way: Way) -> float:
        """How many times the seconds of the first size a load of the last size takes."""
        return self.sizes[-1].mean(way).seconds / self.sizes[0].mean(way).seconds

    def to_dict(self) -> dict[str, Any]:
        """The first size's figures stand at the top, too."""
        first = self.sizes[0].to_dict()
        return {
            **first,
            "equal": self.equal,
            "seed": self.seed,
            "took_seconds": round(self.seconds, 1),
            "sizes": [size.to_dict() for size in self.sizes],
        }
