"""Write the elements to TFRecord files."""

from __future__ import annotations

import os
import zlib
from collections.abc import Mapping, Sequence
from typing import IO, TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from headrace import _native
from headrace.cluster.members import Cluster
from headrace.columns import values
from headrace.columns.arrow_text import parts
from headrace.columns.block import Block, concat
from headrace.columns.kind import Column
from headrace.formats.shared.format import Format
from headrace.formats.tfrecord.format import TFRecords
from headrace.io.binary import bytes_column
from headrace.io.examples import encode_examples
from headrace.sinks.deal import Sharding
from headrace.sinks.writing import Encoding, FileWriter, named_columns, write

if TYPE_CHECKING:
    import pyarrow as pa

    from headrace.dataset import Dataset

COMPRESSIONS = (None, "", "GZIP", "ZLIB", "ZSTD")


def write_tfrecord(
    self: Dataset,
    path: str | os.PathLike[str],
    shards: int | Literal["auto"] | None = None,
    compression: str | None = None,
    *,
    index: bool = True,
    num_parallel_writes: int | None = None,
    processes: int | None = None,
    overwrite: bool = False,
    progress: bool | None = None,
    cluster: Cluster | None = None,
    servers: int | None = None,
    shard_bytes: int | None = None,
    storage_options: Mapping[str, object] | None = None,
) -> list[str]:
    """Write all elements to TFRecord files `PATH-00000-of-00010.tfrecord` and so on; returns their names.

    Elements are dicts, which become tf.Examples (those in them with `outer/inner` as names), or bytes, which are the
    records. Each file gets a run of consecutive rows, so that reading them one after another gives the rows in order;
    but if `shards` is given and the length of the dataset is not known, row i goes into file `i % shards`, and
    `hr.TFRecordDataset(files, num_parallel_reads=shards)` reads them in order. Without `shards` there are as many files
    as `hr.io.plan_shards` proposes, or, if the length is not known, one for about every 128 MB.

    The files get their names when all are complete; after an error or Ctrl-C there are none, and what a killed run
    leaves is removed by the next. With `overwrite=True` they replace those that begin alike, all or none, whenever the
    run is stopped: headrace's readers see the old files or the new. In stores, which cannot do that, it raises.

    `compression` is "GZIP", "ZLIB" or "ZSTD" (which TensorFlow does not read). `index` makes an index of each file that
    is on this machine and not compressed (`hr.io.build_index`). Encoding, checksums and compression run on
    `num_parallel_writes` threads (None: one for each CPU); because these release the GIL, processes would gain nothing,
    and `processes` is another name for the same number. A bar is shown if standard error is a terminal, or as
    `progress` says. With a `cluster` its workers make the elements and write the files, which are the same to the byte:
    `path` must be where they can write, too.

    Args:
        path: Beginning of the names of the files.
        shards: Number of files, or "auto" (None is the same): as many as `hr.io.plan_shards` proposes.
        servers: Number of machines that read the files at the same time; 1 by default.
        shard_bytes: About how many bytes each file has.
        compression: Compression of the files; None writes them uncompressed.
        index: Whether to write an index of each file beside it, by which readers find elements by number. Compressed
            files and files in stores get none.
        num_parallel_writes: Number of threads that encode, compress and write. Default: one per CPU.
        processes: Another name for `num_parallel_writes`.
        overwrite: Whether to replace existing files.
        progress: Whether to show a progress bar. Default: if standard error is a terminal.
        cluster: Workers that do the work; default: this process.
        storage_options: Options of the store's file system, such as credentials, if `path` is a URL. Those of
            `with_options(hr.Options(storage_options=...))` count too.

    Returns:
        The names of the files.

    >>> ds = hr.Dataset.range(5).map(lambda x: {"x": x, "name": str(x)})
    >>> [file.split("/")[-1] for file in ds.write_tfrecord(folder / "train", shards=2)]
    ['train-00000-of-00002.tfrecord', 'train-00001-of-00002.tfrecord']
    >>> hr.Dataset.from_tfrecord(folder / "train-*.tfrecord")[4]
    {'name': b'4', 'x': np.int64(4)}
    """
    if compression not in COMPRESSIONS:
        raise ValueError(f'compression is None, "GZIP", "ZLIB" or "ZSTD", not {compression!r}')
    threads = processes if num_parallel_writes is None else num_parallel_writes
    encoding = TFRecordEncoding(compression or "", index)
    return write(
        self,
        path,
        encoding,
        sharding=Sharding.of(shards, servers, shard_bytes),
        threads=threads,
        overwrite=overwrite,
        progress=progress,
        cluster=cluster,
        storage_options=storage_options,
    )


class Packed(NamedTuple):
    """Bytes of a file; if they are compressed, the plain ones too, because their checksums end the file."""

    data: Column
    plain: Column


class TFRecordEncoding(Encoding):
    """Rows as framed records. Deflated runs do not refer to each other, so that threads can make them."""

    suffix = ".tfrecord"
    run_bytes = 1 << 20

    def __init__(self, compression: str, index: bool) -> None:
        self._compression = compression
        self._index = index and not compression

    def encode(self, blocks: list[Block]) -> Sequence[Packed]:
        return [self._packed(_native.frame(*parts(records(block))).data) for block in _merge_blocks(blocks)]

    def _packed(self, framed: memoryview) -> Packed:
        if not self._compression:
            return Packed(framed, None)
        if self._compression == "ZSTD":
            import pyarrow as pa

            return Packed(pa.Codec("zstd").compress(np.frombuffer(framed, np.uint8), asbytes=True), None)
        deflate = zlib.compressobj(wbits=-15)
        return Packed(deflate.compress(framed) + deflate.flush(zlib.Z_FULL_FLUSH), framed)

    def size(self, encoded: Sequence[Packed]) -> int:
        return sum(len(packed.data) for packed in encoded)

    def part(self, file: IO[bytes]) -> FileWriter:
        if self._compression in ("GZIP", "ZLIB"):
            return Deflated(file, gzip=self._compression == "GZIP")
        return PlainFile(file)

    @property
    def index_format(self) -> Format | None:
        return TFRecords() if self._index else None


def _merge_blocks(blocks: list[Block]) -> list[Block]:
    """Merge blocks whose columns have the same kinds."""
    return [concat(blocks)] if all(b.structure == blocks[0].structure for b in blocks) else blocks


def records(block: Block) -> pa.LargeBinaryArray:
    """Return the rows of a block as serialized records."""
    structure = block.structure
    if structure.kind is not None:
        return encode_examples(named_columns(block, "an Example is made of a dict"))
    import pyarrow as pa

    column = block.columns[0]
    fine = isinstance(column, pa.Array) and pa.types.is_large_binary(column.type)
    if fine or (isinstance(column, list) and all(isinstance(value, bytes) for value in column)):
        return bytes_column(column)
    raise TypeError(
        f"a record is bytes, or a dict that becomes an Example, not {next(values(column))!r}: "
        "give it a name first, as with map(lambda x: {'x': x})"
    )


class PlainFile(FileWriter):
    """Bytes as they come."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def write(self, encoded: Sequence[Packed]) -> None:
        for packed in encoded:
            self._file.write(packed.data)

    def close(self) -> None:
        """Do nothing: the file is complete."""


class Deflated(FileWriter):
    """One stream of GZIP or ZLIB out of deflated runs."""

    def __init__(self, file: IO[bytes], *, gzip: bool) -> None:
        self._file = file
        self._gzip = gzip
        self._sum, self._size = (0, 0) if gzip else (1, 0)
        file.write(b"\x1f\x8b\x08\0\0\0\0\0\0\xff" if gzip else b"\x78\x9c")

    def write(self, encoded: Sequence[Packed]) -> None:
        for packed in encoded:
            self._file.write(packed.data)
            self._sum = (zlib.crc32 if self._gzip else zlib.adler32)(packed.plain, self._sum)
            self._size += len(packed.plain)

    def close(self) -> None:
        self._file.write(zlib.compressobj(wbits=-15).flush())
        if self._gzip:
            self._file.write(self._sum.to_bytes(4, "little") + (self._size % 2**32).to_bytes(4, "little"))
        else:
            self._file.write(self._sum.to_bytes(4, "big"))
