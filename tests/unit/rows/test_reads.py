"""What a search says it has read, held to the files that it read: real ones, by PyIceberg."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from icefloe import config
from icefloe.demo.events import Events, day_number
from icefloe.demo.source import PlaybackTable
from icefloe.lake import Lake
from icefloe.rows.files import live_files
from icefloe.rows.key_lookup import KeyLookup, Keys
from icefloe.rows.reads import Reads
from icefloe.service import project

DAY = day_number(0)


def test_rows_are_counted_once_and_bytes_are_those_of_the_columns_that_were_decoded(tmp_path: Path) -> None:
    loaded = config.load(project.init(tmp_path), env={})
    events = PlaybackTable(loaded, "demo", Events(500, seed=1))
    events.create()
    events.load(DAY)
    lake = Lake.open(loaded)
    table = lake.table(events.name)
    head = table.metadata.refs["main"].snapshot_id
    (file,) = live_files(table, head, "event_day", [DAY])
    account = events.events.load(DAY, number=0)["account_id"][0]
    keys = Keys({DAY: pa.table({"0": pa.array([account.as_py()])})})
    nowhere = Keys({DAY: pa.table({"0": pa.array([-1])})})

    def read(wanted: Keys) -> tuple[int, int, int]:
        reads = Reads()
        finder = KeyLookup(table, ["account_id"], most=10**6, reads=reads)
        found = finder.rows([file], wanted, ["account_id", "title_id"], 1, partition="event_day")
        return found.num_rows, reads.rows, reads.bytes

    metadata = pq.read_metadata(file.path.removeprefix("file://"))
    stored = {
        column.path_in_schema: column.total_compressed_size
        for column in (metadata.row_group(0).column(at) for at in range(metadata.num_columns))
    }
    # What else is wanted is only decoded where a key was found.
    assert read(nowhere) == (0, 500, metadata.serialized_size + stored["account_id"])
    found, rows, size = read(keys)
    assert found > 0
    assert (rows, size) == (500, metadata.serialized_size + stored["account_id"] + stored["title_id"])
