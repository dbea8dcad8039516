"""Rows of Parquet files and of Arrow's own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headrace.block import Block, Failure, Item, Mark
from headrace.errors import ElementError, SpecError, StateError, what_there_is
from headrace.execute.context import Context
from headrace.execute.stream import Stream
from headrace.plan.spec import Spec
from headrace.records.files import identity
from headrace.records.groups import ArrowGroups, Groups, ParquetGroups
from headrace.records.tables import rows_of, spec_of
from headrace.sources.files import read_files
from headrace.sources.list_files import matching
from headrace.sources.one_file import NO_FILE, FileStream, OneFile, said

if TYPE_CHECKING:
    import pyarrow as pa

    from headrace.dataset import Dataset


def ParquetDataset(  # noqa: N802 - as tf.data's readers are named
    file_pattern: Any,
    columns: Sequence[str] | None = None,
    filter: Any = None,
    *,
    nulls: Mapping[str, Any] | None = None,
    num_parallel_reads: int | None = None,
    on_error: Any = "raise",
    name: str | None = None,
) -> Dataset:
    """The rows of the Parquet files that match a pattern, or one of several, as dicts.

    `filter` is an expression of pyarrow's (`pc.field("age") > 30`) or a list of conditions (`[("age", ">", 30)]`). A
    missing number with a fraction is NaN; what else may be missing needs a value in `nulls`. Columns of lists become
    arrays, structs nested dicts.

    >>> import pyarrow as pa, pyarrow.parquet as pq
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     pq.write_table(pa.table({"x": [1, 2, 3], "s": ["a", "b", "c"]}), f"{folder}/t.parquet")
    ...     list(hr.ParquetDataset(f"{folder}/*.parquet", filter=[("x", ">", 1)]))
    [{'x': np.int64(2), 's': 'b'}, {'x': np.int64(3), 's': 'c'}]
    """
    import pyarrow.parquet as pq

    kept = pq.filters_to_expression(filter) if isinstance(filter, list) else filter
    form = _form(ParquetGroups, matching(file_pattern)[0], columns, kept, nulls)
    return _read("ParquetDataset", file_pattern, form, num_parallel_reads, on_error, name)


def ArrowDataset(  # noqa: N802 - as tf.data's readers are named
    file_pattern: Any,
    columns: Sequence[str] | None = None,
    *,
    nulls: Mapping[str, Any] | None = None,
    num_parallel_reads: int | None = None,
    on_error: Any = "raise",
    name: str | None = None,
) -> Dataset:
    """The rows of files in Arrow's IPC format (Feather) as dicts; the arguments are those of `ParquetDataset`.

    >>> import pyarrow as pa, pyarrow.feather as feather
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     feather.write_feather(pa.table({"x": [1.5, None]}), f"{folder}/t.arrow")
    ...     list(hr.ArrowDataset(f"{folder}/t.arrow"))
    [{'x': np.float64(1.5)}, {'x': np.float64(nan)}]
    """
    form = _form(ArrowGroups, matching(file_pattern)[0], columns, None, nulls)
    return _read("ArrowDataset", file_pattern, form, num_parallel_reads, on_error, name)


@dataclass(frozen=True)
class Tables:
    """How files of tables are read: which columns, which rows, and what stands for what is missing."""

    groups: type[Groups]
    spec: Spec
    columns: tuple[str, ...] | None = None
    kept: Any = None
    nulls: tuple[tuple[str, Any], ...] = ()

    def __str__(self) -> str:
        return f"{self.spec}, columns={self.columns}, filter={self.kept}, nulls={dict(self.nulls)}"

    def brief(self) -> str:
        """Which rows are read: the columns show in the elements."""
        return "" if self.kept is None else f"filter={self.kept}"

    def chosen(self, schema: pa.Schema) -> pa.Schema:
        """The schema of the columns that are read; raises where one is not there."""
        import pyarrow as pa

        missing = [c for c in self.columns or () if c not in schema.names]
        if missing:
            raise SpecError(f"there are no columns {', '.join(missing)}: {what_there_is(missing[0], schema.names)}")
        return schema if self.columns is None else pa.schema([schema.field(c) for c in self.columns])


def _form(groups: type[Groups], path: str, columns: Sequence[str] | None, kept: Any, nulls: Any) -> Tables:
    chosen = None if columns is None else tuple(columns)
    first = groups(path, None, None)
    try:
        schema = Tables(groups, Spec.UNKNOWN, chosen).chosen(first.schema)
    finally:
        first.close()
    return Tables(groups, spec_of(schema), chosen, kept, tuple(sorted((nulls or {}).items())))


def _read(reader: str, pattern: Any, form: Tables, reads: Any, on_error: Any, name: str | None) -> Dataset:
    return read_files(
        reader,
        matching(pattern),
        form,
        buffer_size=None,
        num_parallel_reads=reads,
        on_error=on_error,
        name=name,
        child=TableRows,
    )


@dataclass(frozen=True, eq=False)
class TableRows(OneFile):
    """Rows of one file of tables."""

    format: Tables

    def open(self, ctx: Context, mark: Mark) -> Stream:
        ctx.note_origin(self.path)
        return TableStream(self, ctx, mark)

    def bad(self, reason: str | Exception, group: int, number: int) -> ElementError:
        """What stands in the place of a row that cannot be read."""
        return self.bad_row(reason, number, f"row {number}, group {group}")


class TableStream(FileStream):
    """Groups in turn. The mark: which file it is, the group, rows given of it, and rows given of the file."""

    def __init__(self, node: TableRows, ctx: Context, mark: Mark) -> None:
        super().__init__()
        self._node = node
        self._ctx = ctx
        self._groups: Groups | None = None
        self._batches: Iterator[pa.RecordBatch] | None = None
        self._passed_before = 0
        place: tuple[int, int, int, int] = mark or (NO_FILE, 0, 0, 0)
        self._token, self._group, self._row, self._number = place
        if mark is not None:
            self._resume()

    def _resume(self) -> None:
        token, self._token = self._token, NO_FILE
        with suppress(OSError):
            self._token = identity(self._node.path).token
        if token != self._token:
            raise self._node.changed(self._token)
        self._passed_before, self._number, self._row = self._row, self._number - self._row, 0

    def close(self) -> None:
        groups, self._groups, self._batches = self._groups, None, None
        if groups is not None:
            groups.close()

    def _open(self) -> Groups:
        node = self._node
        self._token = identity(node.path).token
        self._groups = groups = node.format.groups(node.path, node.format.columns, node.format.kept)
        found = spec_of(node.format.chosen(groups.schema))
        if found != node.format.spec:
            raise SpecError(f"its rows are {found}, those of the first file {node.format.spec}")
        return groups

    def _read(self, want: int) -> list[Item]:  # noqa: ARG002 - groups come as they lie in the file
        try:
            groups = self._groups or self._open()
            if self._group == groups.count:
                self._over = True
                self.close()
                return []
            self._batches = self._batches or groups.batches(self._group)
            batch = next(self._batches, None)
        except Exception as error:  # Arrow raises what its file systems, codecs and types raise
            self._over = True
            self.close()
            return self._bad(error, b"")
        if batch is None:
            if self._passed_before:
                raise StateError(f"{self._node.path} has fewer rows than when the state was taken")
            self._batches, self._group, self._row = None, self._group + 1, 0
            return []
        passed = min(self._passed_before, batch.num_rows)  # bad rows are passed over too, though they do not count
        self._passed_before -= passed
        self._passed(passed)
        return self._made(batch.slice(passed)) if passed < batch.num_rows else []

    def _made(self, batch: pa.RecordBatch) -> list[Item]:
        node = self._node
        structure = node.spec.structure
        assert structure is not None
        try:
            columns = rows_of(batch, structure, dict(node.format.nulls))
        except SpecError as error:
            if batch.num_rows > 1:
                half = batch.num_rows // 2
                return [*self._made(batch.slice(0, half)), *self._made(batch.slice(half))]
            return self._bad(str(error), repr(batch.to_pylist()).encode())
        start = self._number
        mark = self._passed(batch.num_rows)
        if node.on_error is not None:
            node.on_error.fine(batch.num_rows)
        return [Block(structure, columns, batch.num_rows, mark, self._ctx.ids_between(start, self._number))]

    def _passed(self, rows: int) -> Mark:
        mark = (self._token, self._group, self._row, self._number)
        self._row += rows
        self._number += rows
        return mark

    def _bad(self, reason: str | Exception, shown: bytes) -> list[Item]:
        node, number = self._node, self._number
        mark = self._passed(1)
        if node.on_error is None:
            return [Failure(node.bad(reason, self._group, number), mark)]
        node.on_error.keep(node.path, number, number, said(reason), [shown])
        return []
