"""Writing TFRecord files."""

from __future__ import annotations

import os
import secrets
import sys
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple, Protocol, Self

import numpy as np

from headrace import _native
from headrace.columns import arrow_text
from headrace.core.paths import refuse_shortened_url
from headrace.core.types import TensorLike
from headrace.formats.shared.files import as_path, local_path, remote
from headrace.io.binary import bytes_column, record_bytes
from headrace.io.examples import encode_example
from headrace.remote.redact import show_path
from headrace.remote.transport import ALONE
from headrace.storage.files import TEMPORARY, Unfinished

if TYPE_CHECKING:
    import pyarrow as pa

    from headrace.formats.shared.sidecar import SavedIndex

MAX_PENDING_BYTES = 1 << 20
"""Single records are framed and written together once they have this many bytes."""


class TFRecordWriter:
    """Write records to a TFRecord file, which appears under its name only when it is complete.

    A record is bytes, or a dict that becomes a tf.Example. `compression` is "GZIP", "ZLIB" or "ZSTD"; `index` makes
    an index of the file (`hr.io.build_index`), with which it can be read in any order.

    Args:
        path: Path or URL of the file.
        compression: "GZIP", "ZLIB", "ZSTD", or None.
        index: Whether to write an index as well.

    >>> import tempfile
    >>> path = tempfile.mkdtemp() + "/numbers.tfrecord"
    >>> with hr.io.TFRecordWriter(path) as writer:
    ...     for i in range(3):
    ...         writer.write({"i": i})
    >>> [hr.io.Example.parse(r)["i"].tolist() for r in hr.TFRecordDataset(path)]
    [[0], [1], [2]]
    """

    def __init__(
        self, path: str | bytes | os.PathLike[str], compression: str | None = None, index: bool = False
    ) -> None:
        refuse_shortened_url(path, "TFRecordWriter")
        self._path = as_path(path)
        self._index = index
        if compression not in (None, "", "GZIP", "ZLIB", "ZSTD"):
            raise ValueError(f'compression is None, "GZIP", "ZLIB" or "ZSTD", not {compression!r}')
        if index and compression:
            raise ValueError(f"a file compressed as {compression} cannot be indexed; leave out one of the two")
        local = local_path(self._path)
        where: tuple[Any, str] = (None, local) if local is not None else remote(self._path)
        self._system, self._place = where
        self._whole = Unfinished(Path(self._place), self._path) if self._system is None else None
        self._temporary = f"{self._place}.{secrets.token_hex(8)}{TEMPORARY}"
        with ALONE.hiding(self._path):
            self._file: IO[bytes] | None = (
                self._system.open(self._temporary, "wb") if self._whole is None else self._whole.file
            )
        self._packer = _packer(compression)
        self._waiting: list[bytes] = []
        self._waiting_bytes = 0

    def write(self, record: bytes | bytearray | memoryview | Mapping[str, Any]) -> None:
        """Write one record."""
        data = encode_example(record) if isinstance(record, Mapping) else record_bytes(record)
        self._open()
        self._waiting.append(data)
        self._waiting_bytes += len(data)
        if self._waiting_bytes >= MAX_PENDING_BYTES:
            self.flush()

    def write_all(self, records: Iterable[bytes] | pa.Array) -> None:
        """Write many records at once: a list, or an Arrow array of bytes, without creating objects."""
        self.flush()
        self._write(records_of(records))

    def flush(self) -> None:
        """Hand what was written so far to the operating system."""
        file = self._open()
        waiting, self._waiting, self._waiting_bytes = self._waiting, [], 0
        if waiting:
            self._write(bytes_column(waiting))
        with self._naming():
            file.flush()

    def close(self) -> None:
        """Finish the file and give it its name."""
        if self._file is None:
            return
        index: SavedIndex | None = None
        try:
            self.flush()
            with self._naming():
                self._file.write(self._packer.flush())
            if self._whole is not None:
                index = self._scan()  # before the file has its name: it gets none if it cannot be read back
                self._whole.publish()
            else:
                with self._naming(), ALONE.hiding(self._path):
                    self._file.close()
                    self._system.mv(self._temporary, self._place)
        except BaseException:
            with suppress(Exception) if self._whole is None else nullcontext():  # a store has failed already
                self.discard()
            raise
        self._file = None
        if self._index:
            from headrace.formats.shared.index import index_file
            from headrace.formats.shared.sidecar import kept_sidecar
            from headrace.formats.tfrecord.format import TFRecords

            if index is not None:
                kept_sidecar(self._path, TFRecords(), index, ALONE, beside=True)
            else:
                index_file(self._path, TFRecords(), beside=True)

    def _scan(self) -> SavedIndex | None:
        """Return the index of the finished local file, if one is wanted."""
        if not self._index or self._whole is None:
            return None
        from headrace.formats.shared.index import scan_index
        from headrace.formats.tfrecord.format import TFRecords

        self._whole.file.flush()
        return scan_index(str(self._whole.temporary), TFRecords())

    def discard(self) -> None:
        """Leave no trace of the file."""
        file, self._file = self._file, None
        if file is None:
            return
        if self._whole is not None:
            self._whole.discard()
            return
        with ALONE.hiding(self._path):
            if not drop_upload(file) and self._system.exists(self._temporary):
                self._system.rm_file(self._temporary)

    def __del__(self) -> None:
        """Leave no trace of a file in a store that was not closed; a local one sees to that itself."""
        file = getattr(self, "_file", None)
        if file is not None and self._whole is None:
            self._file = None
            with suppress(Exception):
                drop_upload(file, wait=not sys.is_finalizing())

    @contextmanager
    def _naming(self) -> Iterator[None]:
        """Raise what the library of a store raises as one error that names the file."""
        try:
            yield
        except Exception as error:
            if self._whole is not None or isinstance(error, OSError):
                raise
            raise ALONE.write_error(self._path, error) from None

    def _open(self) -> IO[bytes]:
        if self._file is None:
            raise ValueError(f"the writer of {show_path(self._path)} is closed")
        return self._file

    def _write(self, records: pa.LargeBinaryArray) -> None:
        framed = _native.frame(*arrow_text.parts(records))
        file, packed = self._open(), self._packer.compress(framed.data)
        with self._naming():
            file.write(packed)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: object) -> None:
        if kind is None:
            self.close()
        else:
            self.discard()


def drop_upload(file: IO[bytes], *, wait: bool = True) -> bool:
    """Close a file in a store. Return whether it was still open and nothing of it is there.

    Args:
        file: The file, as fsspec opened it.
        wait: Whether to tell the store that the parts which it has are not wanted.
    """
    from fsspec.spec import AbstractBufferedFile

    if file.closed or not isinstance(file, AbstractBufferedFile):
        file.close()
        return False
    try:
        if wait:
            file.discard()
    finally:
        file.closed = True  # else it is uploaded when it is collected
    return True


def records_of(records: TensorLike) -> pa.LargeBinaryArray:
    """Return records as they are written, out of an Arrow array of bytes or anything that holds some."""
    import pyarrow as pa

    if isinstance(records, pa.Array | pa.ChunkedArray):
        kind = records.type
        if not (pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind)):
            raise TypeError(f"records are bytes, not {kind}: cast(pa.large_binary()) them if that is meant")
        return bytes_column(records)
    if isinstance(records, bytes | bytearray | memoryview | str | Mapping):
        raise TypeError(f"write_all takes many records, not one of type {type(records).__name__}: use write")
    rows = records.ravel().tolist() if isinstance(records, np.ndarray) else list(records)
    joined = _native.join_bytes(rows)
    if joined is None:  # they are not bytes all of them: what may be is made so, anything else refused
        return bytes_column([_numbered_record(number, row) for number, row in enumerate(rows)])
    return arrow_text.binary(*joined)


def _numbered_record(number: int, record: object) -> bytes:
    try:
        return record_bytes(record)
    except TypeError as error:
        raise TypeError(f"record {number}: {error}") from None


class _Packer(Protocol):
    def compress(self, data: memoryview, /) -> bytes | memoryview: ...

    def flush(self) -> bytes: ...


class _Plain:
    def compress(self, data: memoryview, /) -> memoryview:
        return data

    def flush(self) -> bytes:
        return b""


class _Zstd:
    """Frames of their own, one after another, as the format allows."""

    def compress(self, data: memoryview, /) -> bytes:
        import pyarrow as pa

        return bytes(pa.Codec("zstd").compress(np.frombuffer(data, np.uint8), asbytes=True)) if len(data) else b""

    def flush(self) -> bytes:
        return b""


def _packer(compression: str | None) -> _Packer:
    if compression == "ZSTD":
        return _Zstd()
    if compression:
        return zlib.compressobj(wbits=31 if compression == "GZIP" else 15)
    return _Plain()


class ShardPlan(NamedTuple):
    """How many files to write, and how large each will be.

    Args:
        shards: Number of files.
        shard_bytes: Approximate size of a file in bytes.
    """

    shards: int
    shard_bytes: int


SHARDS_PER_SERVER, MIN_SHARD_BYTES = 10, 10_000_000


def plan_shards(total_bytes: int, servers: int = 1, shard_bytes: int | None = None) -> ShardPlan:
    """Plan how many files to write: ten for each server that will read them, but none below 10 MB.

    `write_tfrecord(path, shards="auto", servers=8)`, and the other writers, do it for the rows that they write.

    Args:
        total_bytes: The size of all files together.
        servers: How many machines will read the files at the same time.
        shard_bytes: About how large a file is to be; None for ten files per server. The number of files is then rounded
            up to a multiple of `servers`, so that each reads as many.

    Returns:
        How many files there are, and how large each will be.

    Raises:
        ValueError: A number is too small.

    >>> hr.io.plan_shards(30_000_000_000, servers=8)
    ShardPlan(shards=80, shard_bytes=375000000)
    >>> hr.io.plan_shards(30_000_000_000, servers=8, shard_bytes=1_000_000_000)
    ShardPlan(shards=32, shard_bytes=937500000)
    """
    if total_bytes < 0 or servers < 1:
        raise ValueError(f"there are no {total_bytes} bytes for {servers} servers")
    if shard_bytes is None:
        shards = max(1, min(SHARDS_PER_SERVER * servers, total_bytes // MIN_SHARD_BYTES))
    elif shard_bytes < 1:
        raise ValueError(f"shard_bytes must be at least 1, not {shard_bytes}")
    else:
        shards = max(1, -(-total_bytes // (shard_bytes * servers))) * servers
    return ShardPlan(shards, -(-total_bytes // shards))
