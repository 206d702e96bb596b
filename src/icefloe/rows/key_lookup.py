"""Rows with certain keys, in the data files of some partitions.

Each file is read row group by row group, the keys first; whatever else is wanted is only decoded where a row group has a hit. Files are
read by as many threads as were asked for: Arrow does not hold on to Python while it works.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.io import FileIO
from pyroaring import BitMap64

from icefloe.lake.catalog import LoadedTable
from icefloe.lake.schema import Field
from icefloe.rows import NotPlainError, vectors
from icefloe.rows.files import LiveFile
from icefloe.rows.reads import Reads
from icefloe.rows.types import arrow_type, is_alike, is_plain

_Result = TypeVar("_Result")


class Keys:
    """Distinct keys by partition value, NULLs included: a NULL is a value like any other here."""

    def __init__(self, by_value: Mapping[Any, pa.Table]) -> None:
        self._ladders = {value: _ladder(table) for value, table in by_value.items()}

    def __contains__(self, value: object) -> bool:
        return value in self._ladders

    def hits(self, value: Any, columns: Sequence[pa.ChunkedArray]) -> np.ndarray[Any, Any]:
        """The numbers of the rows that have one of the keys of a partition, in order."""
        (values, _), *further = self._ladders[value]
        rows, codes = _known(columns[0], values)
        for column, (values, together) in zip(columns[1:], further, strict=True):
            kept, own = _known(column.take(pa.array(rows)), values)
            rows, codes = rows[kept], codes[kept] * len(values) + own
            kept, codes = _known(pa.array(codes), together)
            rows = rows[kept]
        return rows


def _ladder(keys: pa.Table) -> list[tuple[pa.Array, pa.Array]]:
    """For each column its values, and which of them occur together with those of the columns before it, as numbers. A row climbs it by the
    places of its values: so keys of several columns are compared as one number, whatever they are of."""
    out: list[tuple[pa.Array, pa.Array]] = []
    codes = np.zeros(keys.num_rows, np.int64)
    for column in keys.columns:
        values = column.combine_chunks().unique()
        codes = codes * len(values) + _known(column, values)[1]
        together = pa.array(np.unique(codes))
        out.append((values, together))
        codes = _known(pa.array(codes), together)[1]
    return out


def _known(column: pa.ChunkedArray | pa.Array, values: pa.Array) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """The numbers of the rows whose value is one of these, and the places of those values among them."""
    indices = pc.index_in(column, value_set=values)
    rows = np.flatnonzero(np.asarray(indices.is_valid()))
    return rows, np.asarray(indices.take(pa.array(rows))).astype(np.int64)


class KeyLookup:
    """Looks through the files of one table."""

    def __init__(self, table: LoadedTable, columns: Sequence[str], *, most: int, reads: Reads | None = None) -> None:
        """``columns``: the keys. ``most``: rows that may be found. ``reads`` counts what is decoded."""
        self._io: FileIO = table.io
        self._name = table.name
        self._table = table
        self._keys = [self._field(name) for name in columns]
        self._most = most
        self._reads = reads or Reads()
        self._rows_matched = 0

    @property
    def key_types(self) -> list[str]:
        """By Iceberg's words. Keys of one table are found in another that has the same."""
        return [field.type for field in self._keys]

    def keys(self, files: Sequence[LiveFile], threads: int) -> Keys:
        """The keys of all rows of the files."""
        by_value: dict[Any, list[pa.Table]] = {}
        schema = pa.schema([(str(number), arrow_type(field.type)) for number, field in enumerate(self._keys)])

        def read(file: LiveFile) -> tuple[Any, pa.Table]:
            if file.vector is not None:
                raise NotPlainError(f"{self._name} has rows deleted")
            with _OpenFile(self._io, file, self._reads) as opened:
                groups = [opened.keys(group, self._keys) for group in range(opened.groups)]
            return file.value, pa.concat_tables(
                [schema.empty_table(), *(pa.table(table, schema=schema) for table in groups)]
            )

        for value, table in _in_threads(read, files, threads):
            by_value.setdefault(value, []).append(table)
        return Keys({value: _distinct(pa.concat_tables(tables)) for value, tables in by_value.items()})

    def positions(self, files: Sequence[LiveFile], keys: Keys, threads: int) -> dict[str, BitMap64]:
        """All that is to be deleted of each file, by its path, where that is more than before."""

        def look(file: LiveFile) -> tuple[str, BitMap64 | None]:
            with _OpenFile(self._io, file, self._reads) as opened:
                positions = BitMap64()
                for group, first in opened.starts():
                    hits = keys.hits(file.value, opened.keys(group, self._keys))
                    if len(hits):
                        positions.update((hits + first).tolist())
                if not positions:
                    return file.path, None
                before = opened.deleted()
            return file.path, None if positions.issubset(before) else positions | before

        return {
            path: positions
            for path, positions in _in_threads(look, self._with_keys(files, keys), threads)
            if positions is not None
        }

    def rows(
        self, files: Sequence[LiveFile], keys: Keys, columns: Sequence[str], threads: int, *, partition: str
    ) -> pa.Table:
        """``columns`` of the rows that have one of the keys and are not deleted. ``partition``: the one whose value the files have."""
        fields = [self._field(name) for name in columns]
        same = self._field(partition)
        schema = pa.schema([(name, arrow_type(field.type)) for name, field in zip(columns, fields, strict=True)])

        def look(file: LiveFile) -> list[pa.Table]:
            out = []
            with _OpenFile(self._io, file, self._reads) as opened:
                deleted = opened.deleted()
                for group, first in opened.starts():
                    hits = keys.hits(file.value, opened.keys(group, self._keys))
                    if deleted and len(hits):
                        already = deleted & BitMap64((hits + first).tolist())
                        hits = hits[~np.isin(hits + first, already.to_array())]
                    if len(hits):
                        self._count(len(hits))
                        indices = pa.array(hits)
                        stored = iter(opened.columns(group, [field for field in fields if field.id != same.id]))
                        arrays = [
                            pa.repeat(pa.scalar(file.value, arrow_type(field.type)), len(hits))
                            if field.id == same.id
                            else next(stored).take(indices)
                            for field in fields
                        ]
                        out.append(pa.table(arrays, names=list(columns)).cast(schema))
            return out

        hits = [table for tables in _in_threads(look, self._with_keys(files, keys), threads) for table in tables]
        return pa.concat_tables([schema.empty_table(), *hits])

    def _with_keys(self, files: Sequence[LiveFile], keys: Keys) -> list[LiveFile]:
        """Large files first, so that no thread is left with one at the end."""
        return sorted((file for file in files if file.value in keys), key=lambda file: -file.rows)

    def _count(self, rows: int) -> None:
        self._rows_matched += rows  # by several threads: a little too low is as good
        if self._rows_matched > self._most:
            raise NotPlainError(f"more than {self._most:,} rows of {self._name} have a changed key")

    def _field(self, name: str) -> Field:
        field = self._table.metadata.schema.find(name, table=self._name)
        if not is_plain(field.type):
            raise NotPlainError(f"{name} of {self._name} is {field.type}")
        return field


class _OpenFile:
    """A data file, its columns by their field ids."""

    def __init__(self, io: FileIO, file: LiveFile, reads: Reads) -> None:
        self._io = io
        self._file = file
        self._reads = reads
        with _plain(file.path):
            self._stream = io.new_input(file.path).open()
            self._parquet = pq.ParquetFile(self._stream)
            repeated = _repeated_texts(self._parquet)
            if repeated:
                self._parquet = pq.ParquetFile(self._stream, metadata=self._parquet.metadata, read_dictionary=repeated)
        self._names: dict[int, str] = {}
        for field in self._parquet.schema_arrow:
            field_id = (field.metadata or {}).get(b"PARQUET:field_id")
            if field_id is not None:
                self._names[int(field_id)] = field.name
        self._group = -1
        self._decoded: dict[int, pa.ChunkedArray] = {}
        reads.add(0, self._parquet.metadata.serialized_size)

    def __enter__(self) -> _OpenFile:
        return self

    def __exit__(self, *_: object) -> None:
        self._parquet.close()
        self._stream.close()

    @property
    def groups(self) -> int:
        return int(self._parquet.num_row_groups)

    def starts(self) -> Iterable[tuple[int, int]]:
        """Each row group, with the position of its first row."""
        first = 0
        for group in range(self.groups):
            yield group, first
            first += self._parquet.metadata.row_group(group).num_rows

    def keys(self, group: int, fields: Sequence[Field]) -> list[pa.ChunkedArray]:
        """Columns with nothing but their values."""
        arrays = self.columns(group, fields)
        return [array.cast(arrow_type(field.type)) for array, field in zip(arrays, fields, strict=True)]

    def columns(self, group: int, fields: Sequence[Field]) -> list[pa.ChunkedArray]:
        """Columns whose values may stand in a dictionary of the row group."""
        if group != self._group:
            self._group, self._decoded = group, {}
            self._reads.add(self._parquet.metadata.row_group(group).num_rows, 0)
        todo = {field.id: field for field in fields if field.id not in self._decoded}
        stored = {field_id: field for field_id, field in todo.items() if field_id in self._names}
        for field in todo.values():
            if field.id not in stored:
                self._decoded[field.id] = self._younger(field, self._parquet.metadata.row_group(group).num_rows)
        if stored:
            names = [self._names[field_id] for field_id in stored]
            with _plain(self._file.path):
                table = self._parquet.read_row_group(group, columns=names, use_threads=False)
                self._reads.add(0, _stored_bytes(self._parquet.metadata.row_group(group), names))
                self._decoded |= {
                    field_id: self._typed(table[self._names[field_id]], field) for field_id, field in stored.items()
                }
        return [self._decoded[field.id] for field in fields]

    def _younger(self, field: Field, rows: int) -> pa.ChunkedArray:
        """A column that the table has had since after the file was written."""
        if not self._names or field.id in self._file.identity or field.initial_default is not None:
            raise NotPlainError(f"{self._file.path} has no column {field.name}")
        return pa.chunked_array([pa.nulls(rows, arrow_type(field.type))])

    def _typed(self, column: pa.ChunkedArray, field: Field) -> pa.ChunkedArray:
        wanted = arrow_type(field.type)
        if column.type in (wanted, pa.dictionary(pa.int32(), wanted)):
            return column
        if is_alike(column.type, wanted):
            return column.cast(wanted)
        raise NotPlainError(f"{field.name} is {column.type} in {self._file.path}")

    def deleted(self) -> BitMap64:
        vector = self._file.vector
        if vector is None:
            return BitMap64()
        with _plain(vector.path), self._io.new_input(vector.path).open() as stream:
            stream.seek(vector.offset)
            self._reads.add(0, vector.size)
            return vectors.parse(stream.read(vector.size))


def _stored_bytes(group: Any, names: Sequence[str]) -> int:
    columns = (group.column(at) for at in range(group.num_columns))
    return sum(column.total_compressed_size for column in columns if column.path_in_schema in names)


def _repeated_texts(parquet: pq.ParquetFile) -> list[str]:
    """Texts that are stored as numbers into a dictionary throughout: most of them are never looked at, so they stay numbers."""
    if not parquet.num_row_groups:
        return []
    group = parquet.metadata.row_group(0)
    texts = {column.name for column in parquet.schema_arrow if column.type == pa.string()}
    return [
        column.path_in_schema
        for column in (group.column(at) for at in range(group.num_columns))
        if column.path_in_schema in texts and column.has_dictionary_page and "PLAIN" not in column.encodings
    ]


@contextmanager
def _plain(path: str) -> Iterator[None]:
    """What Arrow cannot read is left to Spark, and so is what is not there: it has the better words for it."""
    try:
        yield
    except (pa.ArrowException, OSError, ValueError, KeyError) as error:
        raise NotPlainError(f"{path} cannot be read here: {error}") from error


def _distinct(table: pa.Table) -> pa.Table:
    return table.group_by(table.column_names).aggregate([])


def _in_threads(work: Callable[[LiveFile], _Result], files: Sequence[LiveFile], threads: int) -> list[_Result]:
    """In the order of the files. What comes after a failure is not begun."""
    pool = ThreadPoolExecutor(max(threads, 1), thread_name_prefix="rows")
    try:
        return [future.result() for future in [pool.submit(work, file) for file in files]]
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
