"""Files of Arrow tables in groups: the row groups of Parquet, the record batches of Arrow IPC."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from copy import copy
from typing import TYPE_CHECKING

from headrace.columns.kind import Column
from headrace.core.types import LibraryObject
from headrace.errors import raise_if_passing
from headrace.formats.shared.files import arrow_file, local_path
from headrace.formats.tables.choice import Choice
from headrace.formats.tables.ipc import MAGIC, MessageBatch, footer_batches, read_message, stream_messages
from headrace.remote.redact import show_path
from headrace.remote.transport import ALONE, Transport

if TYPE_CHECKING:
    import pyarrow as pa

PARQUET_ROWS_PER_BATCH = 1 << 13
"""About how many rows of a Parquet file are decoded at a time."""
MAX_ROWS_PER_BYTE = 64
"""A group of more rows per byte than this is read before its row count is trusted: a wrong count could be endless."""


class Groups(ABC):
    """One such file with `count` groups, each of which can be read by itself."""

    path: str
    schema: pa.Schema
    names: list[str]
    """Those of the columns that are read."""
    count: int
    decodes: bool = False
    """Whether its batches are newly written by a decoder: no offset comes from the file."""
    _owner = True

    @abstractmethod
    def __init__(self, path: str, choice: Choice, kept: object, via: Transport = ALONE) -> None:
        """Opens the file: of its rows those that pass `kept`, of its columns those chosen."""

    def rows(self, group: int) -> int:
        """Return how many rows a group has, before filtering; 1 if the file does not say."""
        rows, nbytes = self.count_group(group)
        return rows if rows <= MAX_ROWS_PER_BYTE * max(1, nbytes) else self._counted(group)

    def _counted(self, group: int) -> int:
        """Return how many rows can be read from a group; if there should be more, 1 for all of them."""
        rows = 0
        try:
            for batch in self.batches(group):
                rows += batch.num_rows
        except Exception as error:  # reported when the group is read
            raise_if_passing(error, show_path(self.path))
            return rows + 1
        return rows

    def damaged_column(self, group: int) -> str | None:
        """Return the first column of a group that cannot be read while others can; None if there is none, or far to
        look.
        """
        damaged, others = None, False
        for name in self.names if local_path(self.path) is not None and len(self.names) > 1 else ():
            try:
                alone = type(self)(self.path, Choice((name,)), None)
            except Exception:  # the file has changed since it was opened: no column is at fault
                return None
            try:
                for _ in alone.batches(group):
                    pass
                others = True
            except Exception:  # the reason why the group cannot be read
                damaged = damaged or name
            finally:
                alone.close()
            if damaged is not None and others:
                return damaged
        return None

    @abstractmethod
    def count_group(self, group: int) -> tuple[int, int]:
        """Return how many rows and bytes a group has, according to the file."""

    @abstractmethod
    def batches(self, group: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a group, some at a time, neither checked nor converted."""

    @abstractmethod
    def again(self) -> Groups:
        """Return the same open file for another thread. It is not closed by itself: this one must live longer."""

    @abstractmethod
    def close(self) -> None:
        """Close the file."""


class ParquetGroups(Groups):
    """Row groups; those that cannot hold a row that passes the filter are not read."""

    decodes = True

    def __init__(self, path: str, choice: Choice, kept: object, via: Transport = ALONE) -> None:
        import pyarrow.parquet as pq

        self.path = path
        self._source, self._kept = arrow_file(path, via), kept
        self._counts: dict[int, tuple[int, int]] = {}
        self._idle: list[LibraryObject] = []  # readers of the same file that other threads have done with
        try:
            self._how = {"pre_buffer": local_path(path) is None, "page_checksum_verification": True}
            self._file = pq.ParquetFile(self._source, **self._how)
            self.schema: pa.Schema = self._file.schema_arrow
            self.count: int = self._file.num_row_groups
            self.names: list[str] = [self.schema.names[i] for i in choice.numbers(self.schema)]
        except BaseException:
            self.close()
            raise

    def count_group(self, group: int) -> tuple[int, int]:
        known = self._counts.get(group)
        if known is None:
            found = self._file.metadata.row_group(group)  # not its columns: reading damaged ones crashes
            known = max(0, int(found.num_rows)), min(int(found.total_byte_size), 8 * self._source.size())
            self._counts[group] = known
        return known

    def batches(self, group: int) -> Iterator[pa.RecordBatch]:
        if self._kept is not None:
            yield from self._filtered(group)
            return
        some = None if len(self.names) == len(self.schema) else self.names
        for batch in self._file.iter_batches(
            self._batch_rows(group), row_groups=[group], columns=some, use_threads=False
        ):
            # Of two columns a.b and a, the name of the second stands for both.
            yield batch if some is None or batch.schema.names == some else batch.select(some)

    def _batch_rows(self, group: int) -> int:
        """Return how many rows to decode at a time. Parts are equal, because a short one costs as much Python."""
        rows = max(1, self.count_group(group)[0])
        return -(-rows // max(1, round(rows / PARQUET_ROWS_PER_BATCH)))

    def again(self) -> ParquetGroups:
        import pyarrow.parquet as pq

        other = copy(self)
        other._owner = False
        try:
            other._file = self._idle.pop()
        except IndexError:
            other._file = pq.ParquetFile(self._source, metadata=self._file.metadata, **self._how)
        return other

    def _filtered(self, group: int) -> Iterator[pa.RecordBatch]:
        import pyarrow.dataset as ds

        how = ds.ParquetFragmentScanOptions(page_checksum_verification=True)
        form = ds.ParquetFileFormat(default_fragment_scan_options=how)
        part = form.make_fragment(self._source, row_groups=[group])
        scanner = part.scanner(
            columns=self.names,
            filter=self._kept,
            batch_size=PARQUET_ROWS_PER_BATCH,
            batch_readahead=2,
            use_threads=False,
        )
        yield from scanner.to_batches()

    def close(self) -> None:
        if self._owner:
            self._source.close()
            self._idle.clear()
        elif self._file is not None:
            self._idle.append(self._file)
            self._file = None


class ArrowGroups(Groups):
    """Record batches of an IPC file, or of a stream that was written to a file.

    A file whose footer is damaged is read as a stream, which has the same layout without the footer.
    """

    def __init__(self, path: str, choice: Choice, kept: object, via: Transport = ALONE) -> None:
        del kept
        self.path = path
        self._file = arrow_file(path, via)
        self._preface: list[tuple[int, int]] = []
        self._batches: list[MessageBatch | None] = []
        self._starts: list[int] = []
        self._reader: LibraryObject = None
        self._serial: LibraryObject = None
        self._next = 0
        try:
            self.schema: pa.Schema = self._open()
            self.count: int = len(self._batches)
            self._choose(choice.numbers(self.schema))
        except BaseException:
            self._file.close()
            raise

    def _open(self) -> pa.Schema:
        import pyarrow as pa

        is_file = self._file.read_at(len(MAGIC), 0) == MAGIC if self._file.size() >= len(MAGIC) else False
        if is_file:
            try:
                self._reader = pa.ipc.open_file(self._file)
                self._starts = footer_batches(self._file)
                if len(self._starts) != self._reader.num_record_batches:
                    raise ValueError("the footer is damaged")
                self._batches = [None] * len(self._starts)
                return self._reader.schema
            except (pa.ArrowException, ValueError, OSError) as error:
                raise_if_passing(error, show_path(self.path))
                self._reader = None
        found = stream_messages(self._file, 8 if is_file else 0)
        self._preface = found.preface
        self._batches = [*found.batches]
        if is_file:
            self._batches.append(MessageBatch(0, 0, 1, "the file has no footer: it ends early, or is damaged"))
        return pa.ipc.open_stream(self._assembled()).schema

    def _choose(self, numbers: list[int]) -> None:
        """Decode only these columns."""
        import pyarrow as pa

        self.names: list[str] = [self.schema.names[i] for i in numbers]
        fields = numbers if len(numbers) < len(self.schema) else []
        aligned = {"ensure_alignment": pa.ipc.Alignment.DataTypeSpecific} if hasattr(pa.ipc, "Alignment") else {}
        self._options = pa.ipc.IpcReadOptions(included_fields=fields, **aligned)
        if self._reader is not None:
            self._reader = pa.ipc.open_file(self._file, options=self._options)
        elif self._preface:
            self._file.seek(self._preface[0][0])
            self._serial = pa.ipc.open_stream(self._file, options=self._options)

    def count_group(self, group: int) -> tuple[int, int]:
        batch = self._batch(group)
        return batch.rows, min(batch.stop, self._file.size()) - batch.start

    def _batch(self, group: int) -> MessageBatch:
        batch = self._batches[group]
        if batch is None:
            batch = self._batches[group] = self._found(self._starts[group])
        return batch

    def _found(self, start: int) -> MessageBatch:
        try:
            message = read_message(self._file, start, self._file.size())
            if message is not None:
                return MessageBatch(start, message.stop, message.rows)
        except ValueError:
            pass
        return MessageBatch(start, start, 1, "the description of a record batch is damaged")

    def batches(self, group: int) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        if self._reader is not None:
            made, start = self._reader.get_batch(group), self._starts[group]
            batch = self._batches[group] = MessageBatch(start, start + made.get_total_buffer_size(), made.num_rows)
        else:
            batch = self._batch(group)
            if batch.flaw is not None:
                raise ValueError(batch.flaw)
            serial, self._serial = (self._serial if group == self._next else None), None
            made = None if serial is None else self._read_next(serial)
            if made is None:
                serial = None
                made = pa.ipc.open_stream(self._assembled(batch), options=self._options).read_next_batch()
            self._serial, self._next = serial, group + 1  # in order, dictionaries are read but once
        if made.num_rows != batch.rows:
            raise ValueError(f"a record batch has {made.num_rows} rows, but its description says {batch.rows}")
        yield made if self.names else made.select([])

    def _read_next(self, serial: LibraryObject) -> pa.RecordBatch | None:
        """Return the next batch of a stream, or None if something before it is damaged."""
        import pyarrow as pa

        try:
            return serial.read_next_batch()
        except (pa.ArrowException, OSError, StopIteration) as error:
            raise_if_passing(error, show_path(self.path))
            return None

    def _assembled(self, batch: MessageBatch | None = None) -> Column:
        """Return a stream of this batch alone, with all that comes before it."""
        import pyarrow as pa

        parts = [p for p in self._preface if batch is None or p[0] < batch.start]
        parts = parts[:1] if batch is None else [*parts, (batch.start, batch.stop)]
        return pa.BufferReader(b"".join(self._file.read_at(stop - start, start) for start, stop in parts))

    def again(self) -> ArrowGroups:
        import pyarrow as pa

        other = copy(self)
        other._owner = False
        other._serial = None
        if self._reader is not None:
            other._reader = pa.ipc.open_file(self._file, options=self._options)
        return other

    def close(self) -> None:
        if self._owner:
            self._file.close()
