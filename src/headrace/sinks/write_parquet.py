"""Write the elements to Parquet files."""

from __future__ import annotations

import os
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from headrace.block import Block
from headrace.cluster.members import Cluster
from headrace.columns import Column, in_plain_kinds, values
from headrace.plan.spec import DatasetSpec, Spec, TensorSpec
from headrace.ragged import Ragged
from headrace.records.arrow import is_list
from headrace.sinks.writing import Encoding, FileWriter, named_columns, write

if TYPE_CHECKING:
    import pyarrow as pa

    from headrace.dataset import Dataset


def write_parquet(
    self: Dataset,
    path: str | os.PathLike[str],
    shards: int | None = None,
    compression: str = "zstd",
    *,
    num_parallel_writes: int | None = None,
    overwrite: bool = False,
    progress: bool | None = None,
    cluster: Cluster | None = None,
) -> list[str]:
    """Write all elements, which are dicts, to files `PATH-00000-of-00010.parquet` and so on; returns their names.

    Rows are dealt out to files as by `write_tfrecord`, and files appear as there: all of them, or none. An array
    becomes a list, of a fixed size where `element_spec` knows it; columns of nested dicts are named `outer/inner`. Only
    the conversion runs on `num_parallel_writes` threads; one thread compresses, with any codec that pyarrow knows.
    With a `cluster` its workers make the elements and write the files, which are the same to the byte.

    >>> import pyarrow.parquet as pq
    >>> ds = hr.Dataset.range(5).map(lambda x: {"x": x, "name": str(x)})
    >>> files = ds.write_parquet(folder / "data", shards=2)
    >>> pq.read_table(files[1]).to_pylist()
    [{'name': '2', 'x': 2}, {'name': '3', 'x': 3}, {'name': '4', 'x': 4}]
    """
    encoding = ParquetEncoding(self._node.spec, compression)
    return write(
        self,
        path,
        encoding,
        shards=shards,
        threads=num_parallel_writes,
        overwrite=overwrite,
        progress=progress,
        cluster=cluster,
    )


class ParquetEncoding(Encoding):
    """A run of rows is a row group."""

    suffix = ".parquet"
    run_bytes = 32 << 20

    def __init__(self, spec: Spec, compression: str) -> None:
        import pyarrow as pa

        if compression not in ("none", None) and not pa.Codec.is_available(compression):
            raise ValueError(
                f"pyarrow has no codec {compression!r}; there are zstd, snappy, gzip, brotli, lz4 and none"
            )
        self._spec = spec
        self._compression = compression or "none"
        self._schema: pa.Schema | None = None

    def encode(self, blocks: list[Block]) -> pa.Table:
        import pyarrow as pa

        tables = [self._table(block) for block in blocks]
        if self._schema is None:  # the first rows are encoded before there are threads
            self._schema = _common_schema(tables)
        return pa.concat_tables([self._cast(table) for table in tables]).combine_chunks()

    def _table(self, block: Block) -> pa.Table:
        import pyarrow as pa

        columns = named_columns(block, "a row of a Parquet file is made of a dict")
        known = self._spec.leaves if self._spec.structure == block.structure else [None] * len(columns)
        return pa.table({n: _arrow(n, c, leaf) for (n, c), leaf in zip(columns.items(), known, strict=True)})

    def _cast(self, table: pa.Table) -> pa.Table:
        import pyarrow as pa

        if self._schema is None or table.schema == self._schema:
            return table
        for name, kind in zip(self._schema.names, self._schema.types, strict=True):
            if pa.types.is_null(_innermost(kind)) and table.schema.field(name).type != kind:
                raise TypeError(
                    f"column {name!r} had no values in the first rows, and nothing said of which kind they are: "
                    "say it, as with map(..., output_signature=)"
                )
        try:
            return table.cast(self._schema)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError) as error:
            raise TypeError(f"rows of a Parquet file are of one kind, but {error}: map them to one dtype") from None

    def size(self, encoded: pa.Table) -> int:
        return int(encoded.nbytes)

    def part(self, file: IO[bytes]) -> FileWriter:
        import pyarrow as pa

        schema = pa.schema([]) if self._schema is None else self._schema  # there are no rows to tell of columns
        return ParquetPart(file, schema, self._compression)


def _common_schema(tables: list[pa.Table]) -> pa.Schema:
    """The schema of the first table; a column without values there is of the kind that the next rows tell."""
    import pyarrow as pa

    schema = tables[0].schema
    for i, name in enumerate(schema.names):
        kinds = [t.schema.field(name).type for t in tables if name in t.schema.names]
        typed = (kind for kind in kinds if not pa.types.is_null(_innermost(kind)))
        schema = schema.set(i, pa.field(name, next(typed, kinds[0])))
    return schema


class ParquetPart(FileWriter):
    """Row groups, and what tells where they are."""

    def __init__(self, file: IO[bytes], schema: pa.Schema, compression: str) -> None:
        import pyarrow.parquet as pq

        self._writer = pq.ParquetWriter(file, schema, compression=compression)

    def write(self, encoded: pa.Table) -> None:
        self._writer.write_table(encoded, row_group_size=max(1, encoded.num_rows))

    def close(self) -> None:
        self._writer.close()

    def discard(self) -> None:
        self._writer.is_open = False  # or the collector would write to a closed file


def _arrow(name: str, column: Column, spec: TensorSpec | DatasetSpec | None) -> pa.Array:
    """A column as Arrow has it; axes of unknown length become lists of any."""
    import pyarrow as pa

    column = in_plain_kinds(column)
    try:
        if isinstance(column, np.ndarray):
            sizes = (
                spec.shape if isinstance(spec, TensorSpec) and spec.shape is not None else (None,) * (column.ndim - 1)
            )
            return _dense(column, tuple(sizes), _value_kind(spec))
        if isinstance(column, Ragged):
            inner = spec.with_shape(spec.shape[1:]) if isinstance(spec, TensorSpec) and spec.shape else None
            return pa.LargeListArray.from_arrays(pa.array(column.offsets), _arrow(name, column.values, inner))
        if isinstance(column, list):
            return pa.array([_plain(value) for value in values(column)], _list_kind(spec))
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
        raise TypeError(f"column {name!r} does not fit into a Parquet file: {error}") from None
    return column


def _innermost(kind: pa.DataType) -> pa.DataType:
    return _innermost(kind.value_type) if is_list(kind) else kind


def _value_kind(spec: TensorSpec | DatasetSpec | None) -> pa.DataType | None:
    """What the spec says of single values, where they alone may not tell: an array of objects may be empty."""
    import pyarrow as pa

    kind = None if spec is None or spec.dtype is None else spec.dtype.kind
    return {"U": pa.large_string(), "S": pa.large_binary()}.get(kind or "")


def _list_kind(spec: TensorSpec | DatasetSpec | None) -> pa.DataType | None:
    """What the spec says of rows that are objects: text, in lists as deep as they have axes."""
    import pyarrow as pa

    kind = _value_kind(spec)
    if kind is None or spec is None or spec.shape is None:
        return None
    for _ in spec.shape:
        kind = pa.large_list(kind)
    return kind


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray | np.generic | Ragged) else value


def _dense(array: np.ndarray[Any, Any], sizes: tuple[int | None, ...], kind: pa.DataType | None) -> pa.Array:
    """Lists around the innermost axis, from the inside out."""
    import pyarrow as pa

    inner = pa.array(array.ravel(), kind)
    for axis in range(array.ndim - 1, 0, -1):
        size, rows = array.shape[axis], int(np.prod(array.shape[:axis]))
        if size and axis <= len(sizes) and sizes[axis - 1] == size:
            inner = pa.FixedSizeListArray.from_arrays(inner, size)
        else:
            inner = pa.LargeListArray.from_arrays(pa.array(np.arange(rows + 1) * size), inner)
    return inner
