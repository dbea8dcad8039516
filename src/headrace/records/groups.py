"""Files of Arrow tables, which come in groups: the row groups of Parquet, the record batches of Arrow's own format."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from headrace.records.files import arrow_file
from headrace.records.transport import ALONE, Transport

if TYPE_CHECKING:
    import pyarrow as pa

ROWS = 1 << 13
"""How many rows of a Parquet file are decoded at a time."""


class Groups(ABC):
    """One such file; `count` groups, of which each can be read by itself."""

    schema: pa.Schema
    count: int

    @abstractmethod
    def __init__(self, path: str, columns: tuple[str, ...] | None, kept: Any, via: Transport = ALONE) -> None:
        """Opens the file: of its rows those that pass `kept`, of its columns these, or all."""

    @abstractmethod
    def batches(self, group: int) -> Iterator[pa.RecordBatch]:
        """The rows of a group, some at a time."""

    @abstractmethod
    def close(self) -> None:
        """Let go of the file."""


class ParquetGroups(Groups):
    """Row groups; those that cannot hold a row that passes the filter are not read."""

    def __init__(self, path: str, columns: tuple[str, ...] | None, kept: Any, via: Transport = ALONE) -> None:
        import pyarrow.dataset as ds

        self._file = arrow_file(path, via)
        self._fragment = ds.ParquetFileFormat().make_fragment(self._file)
        self._columns = None if columns is None else list(columns)
        self._kept = kept
        self.schema = self._fragment.physical_schema
        self.count = self._fragment.num_row_groups

    def batches(self, group: int) -> Iterator[pa.RecordBatch]:
        part = self._fragment.subset(row_group_ids=[group])
        scanner = part.scanner(
            columns=self._columns, filter=self._kept, batch_size=ROWS, batch_readahead=2, use_threads=False
        )
        return iter(scanner.to_batches())

    def close(self) -> None:
        self._file.close()


class ArrowGroups(Groups):
    """Record batches, of a file or of a stream that was written to one."""

    def __init__(self, path: str, columns: tuple[str, ...] | None, kept: Any, via: Transport = ALONE) -> None:
        del kept
        self._columns = columns
        self._file = arrow_file(path, via)
        try:
            self._reader, self.count = self._opened()
        except BaseException:
            self._file.close()
            raise
        self.schema = self._reader.schema

    def _opened(self) -> tuple[Any, int]:
        import pyarrow as pa

        try:
            reader = pa.ipc.open_file(self._file)
            return reader, reader.num_record_batches
        except pa.ArrowInvalid:  # a stream has no table of contents
            self._file.seek(0)
            count = sum(1 for _ in pa.ipc.open_stream(self._file))
            self._file.seek(0)
            self._next = 0
            return pa.ipc.open_stream(self._file), count

    def batches(self, group: int) -> Iterator[pa.RecordBatch]:
        batch = self._reader.get_batch(group) if hasattr(self._reader, "get_batch") else self._streamed(group)
        yield batch if self._columns is None else batch.select(list(self._columns))

    def _streamed(self, group: int) -> pa.RecordBatch:
        while self._next < group:
            self._reader.read_next_batch()
            self._next += 1
        self._next += 1
        return self._reader.read_next_batch()

    def close(self) -> None:
        self._file.close()
