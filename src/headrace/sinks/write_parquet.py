"""Write the elements to Parquet files."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import IO, TYPE_CHECKING, Literal

from headrace.cluster.members import Cluster
from headrace.columns.block import Block
from headrace.plan.spec import Spec
from headrace.sinks.arrow_arrays import arrow_array, common_schema, innermost
from headrace.sinks.deal import Sharding
from headrace.sinks.writing import Encoding, FileWriter, named_columns, write

if TYPE_CHECKING:
    import pyarrow as pa

    from headrace.dataset import Dataset


def write_parquet(
    self: Dataset,
    path: str | os.PathLike[str],
    shards: int | Literal["auto"] | None = None,
    compression: str = "zstd",
    *,
    num_parallel_writes: int | None = None,
    overwrite: bool = False,
    progress: bool | None = None,
    cluster: Cluster | None = None,
    servers: int | None = None,
    shard_bytes: int | None = None,
    storage_options: Mapping[str, object] | None = None,
) -> list[str]:
    """Write all elements, which are dicts, to files `PATH-00000-of-00010.parquet` and so on; returns their names.

    Rows are dealt out to files as by `write_tfrecord`, and files appear as there: all of them, or none. An array
    becomes a list, of a fixed size if `element_spec` has it; columns of nested dicts are named `outer/inner`. Only the
    conversion runs on `num_parallel_writes` threads; one thread compresses, with any codec that pyarrow knows. With a
    `cluster` its workers make the elements and write the files, which are the same to the byte.

    Args:
        path: Beginning of the names of the files.
        shards: Number of files, or "auto" (None is the same): as many as `hr.io.plan_shards` proposes.
        compression: Compression of the files; None writes them uncompressed.
        num_parallel_writes: Number of threads that convert rows to columns. Default: one per CPU.
        overwrite: Whether to replace existing files.
        progress: Whether to show a progress bar. Default: if standard error is a terminal.
        cluster: Workers that do the work; default: this process.
        servers: Number of machines that read the files at the same time; 1 by default.
        shard_bytes: About how many bytes each file has.
        storage_options: Options of the store's file system, such as credentials, if `path` is a URL. Those of
            `with_options(hr.Options(storage_options=...))` count too.

    Returns:
        The names of the files.

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
        sharding=Sharding.of(shards, servers, shard_bytes),
        threads=num_parallel_writes,
        overwrite=overwrite,
        progress=progress,
        cluster=cluster,
        storage_options=storage_options,
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
            self._schema = common_schema(tables)
        return pa.concat_tables([self._cast(table) for table in tables]).combine_chunks()

    def _table(self, block: Block) -> pa.Table:
        import pyarrow as pa

        columns = named_columns(block, "a row of a Parquet file is made of a dict")
        known = self._spec.leaves if self._spec.structure == block.structure else [None] * len(columns)
        return pa.table({n: arrow_array(n, c, leaf) for (n, c), leaf in zip(columns.items(), known, strict=True)})

    def _cast(self, table: pa.Table) -> pa.Table:
        import pyarrow as pa

        if self._schema is None or table.schema == self._schema:
            return table
        for name, kind in zip(self._schema.names, self._schema.types, strict=True):
            if pa.types.is_null(innermost(kind)) and table.schema.field(name).type != kind:
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

        schema = pa.schema([]) if self._schema is None else self._schema  # there are no rows to infer columns from
        return ParquetPart(file, schema, self._compression)


class ParquetPart(FileWriter):
    """Row groups, and their positions."""

    def __init__(self, file: IO[bytes], schema: pa.Schema, compression: str) -> None:
        import pyarrow.parquet as pq

        self._writer = pq.ParquetWriter(file, schema, compression=compression)

    def write(self, encoded: pa.Table) -> None:
        self._writer.write_table(encoded, row_group_size=max(1, encoded.num_rows))

    def close(self) -> None:
        self._writer.close()

    def discard(self) -> None:
        self._writer.is_open = False  # or the collector would write to a closed file
