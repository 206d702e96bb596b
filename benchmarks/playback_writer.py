"""A writer of playback events that knows nothing of Icefloe: PyIceberg, in a process of its own.

It answers one request at a time. The rows are made before the clock starts; a commit's time is read right after it returned.
"""

from __future__ import annotations

import binascii
import multiprocessing
import signal
import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.playback import FIRST_DAY, LATE_DAYS, LATE_PERCENT, PLAYBACK

SOURCE = "bench.playback"
COUNTRIES, SHARES = ("de", "fr", "us", "br", "jp"), (0.2, 0.15, 0.35, 0.2, 0.1)
DEVICES = [f"{kind}-{number}" for kind in ("tv", "phone", "tablet", "web", "console") for number in range(40)]


@dataclass(frozen=True)
class Load:
    """What was committed, ``day`` being its newest day; ``began`` and ``at`` are the clock before writing and after the commit."""

    began: float
    at: float
    day: date
    rows: int
    late: int


def events(count: int, day: int, accounts: int, seed: int) -> pa.Table:
    """Events as a player sends them: random ids, times and positions, popular titles, and a few percent of them late."""
    random = np.random.default_rng(seed)
    back = min(day, LATE_DAYS)
    late = (random.random(count) * 100 < LATE_PERCENT) & (back > 0)
    days = np.where(late, day - 1 - random.integers(0, max(back, 1), count), day)
    days = (np.datetime64(FIRST_DAY) + days).astype("datetime64[D]")
    times = days.astype("datetime64[us]") + random.integers(0, 86_400_000, count) * np.timedelta64(1000, "us")
    ids = pa.StringArray.from_buffers(
        count,
        pa.py_buffer((np.arange(count + 1, dtype=np.int32) * 32).tobytes()),
        pa.py_buffer(binascii.hexlify(random.bytes(16 * count))),
    )
    return pa.table(
        {
            "event_id": ids,
            "event_time": pa.array(times, pa.timestamp("us")).cast(pa.timestamp("us", tz="UTC")),
            "account_id": pa.array(random.integers(0, accounts, count), pa.int64()),
            "device": pa.array(DEVICES).take(pa.array(random.integers(0, len(DEVICES), count))),
            "country": pa.array(COUNTRIES).take(pa.array(random.choice(len(COUNTRIES), count, p=SHARES))),
            "title_id": pa.array((2000 * random.random(count) ** 2).astype(np.int32)),
            "position_ms": pa.array(random.integers(0, 7_200_000, count), pa.int64()),
            "view_min": pa.array(random.integers(0, 120, count), pa.int32()),
            "event_day": pa.array(days, pa.date32()),
        }
    )


class Writer:
    """The process, as the benchmark talks to it."""

    def __init__(self, name: str, properties: dict[str, str], events_per_day: int) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, name, properties, events_per_day), daemon=True)
        self._process.start()
        theirs.close()

    def create_source(self) -> None:
        self._ask("create", None)

    def load(self, count: int, *, new_day: bool) -> Load:
        answer = self._ask("load", (count, new_day))
        assert isinstance(answer, Load)
        return answer

    def close(self) -> None:
        self._pipe.close()  # it ends when nobody can ask any more
        self._process.join(20)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()

    def _ask(self, verb: str, argument: Any) -> Any:
        self._pipe.send((verb, argument))
        try:
            answer = self._pipe.recv()
        except EOFError:
            raise RuntimeError("the writer's process has ended") from None
        if isinstance(answer, Exception):
            raise answer
        return answer


def _serve(pipe: Any, name: str, properties: dict[str, str], events_per_day: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the benchmark, which ends this process
    from pyiceberg.catalog import load_catalog

    catalog = load_catalog(name, **properties)
    day, loads = -1, 0
    with suppress(EOFError, BrokenPipeError):
        while True:
            verb, argument = pipe.recv()
            try:
                if verb == "create":
                    pipe.send(_create_source(catalog))
                    continue
                count, new_day = argument
                day, loads = day + (1 if new_day else 0), loads + 1
                rows = events(count, day, max(int(events_per_day * 0.56), 1), seed=loads)
                today = FIRST_DAY + timedelta(days=day)
                late = count - int((rows["event_day"].to_numpy() == np.datetime64(today)).sum())
                table = catalog.load_table(SOURCE)
                began = time.time()
                table.append(rows)
                pipe.send(Load(began, time.time(), today, count, late))
            except Exception as error:
                pipe.send(RuntimeError(f"the writer failed: {type(error).__name__}: {error}"))


def _create_source(catalog: Any) -> None:
    from pyiceberg.partitioning import PartitionField, PartitionSpec
    from pyiceberg.schema import Schema
    from pyiceberg.transforms import IdentityTransform
    from pyiceberg.types import DateType, IntegerType, LongType, NestedField, StringType, TimestamptzType

    types = {
        "STRING": StringType(), "TIMESTAMP": TimestamptzType(), "BIGINT": LongType(), "INT": IntegerType(), "DATE": DateType(),
    }  # fmt: skip
    columns = [NestedField(at, name, types[kind]) for at, (name, kind) in enumerate(PLAYBACK.columns.items(), 1)]
    day = next(column.field_id for column in columns if column.name == "event_day")
    catalog.create_namespace_if_not_exists(SOURCE.rpartition(".")[0])
    catalog.create_table(
        SOURCE,
        schema=Schema(*columns),
        partition_spec=PartitionSpec(PartitionField(day, 1000, IdentityTransform(), "event_day")),
    )
