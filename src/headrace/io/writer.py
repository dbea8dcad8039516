"""Writing TFRecord files."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple, Protocol, Self

import numpy as np

from headrace import _native
from headrace.io.binary import binary
from headrace.io.examples import encode_example
from headrace.records.files import as_path, local_path, remote
from headrace.storage.files import unfinished
from headrace.text import parts

if TYPE_CHECKING:
    import pyarrow as pa

PENDING = 1 << 20
"""Single records are framed and written together once they have so many bytes."""


class TFRecordWriter:
    """Writes records to a TFRecord file, which appears under its name only when it is whole.

    A record is bytes, or a dict that becomes a tf.Example. `compression` is "GZIP", "ZLIB" or "ZSTD"; `index` makes
    an index of the file (`hr.io.build_index`), with which it can be read in any order.

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
        self._path = as_path(path)
        self._index = index
        if compression not in (None, "", "GZIP", "ZLIB", "ZSTD"):
            raise ValueError(f'compression is None, "GZIP", "ZLIB" or "ZSTD", not {compression!r}')
        if index and compression:
            raise ValueError(f"a file compressed as {compression} cannot be indexed; leave out one of the two")
        local = local_path(self._path)
        where: tuple[Any, str] = (None, local) if local is not None else remote(self._path)
        self._system, self._place = where
        self._temporary = unfinished(self._place)
        self._file: IO[bytes] | None = self._opened()
        self._packer = _packer(compression)
        self._waiting: list[bytes] = []
        self._waiting_bytes = 0

    def _opened(self) -> IO[bytes]:
        if self._system is None:
            return Path(self._temporary).open("wb")
        return self._system.open(self._temporary, "wb")  # type: ignore[no-any-return]

    def write(self, record: bytes | Mapping[str, Any]) -> None:
        """One record."""
        data = encode_example(record) if isinstance(record, Mapping) else bytes(record)
        self._open()
        self._waiting.append(data)
        self._waiting_bytes += len(data)
        if self._waiting_bytes >= PENDING:
            self.flush()

    def write_all(self, records: Iterable[bytes] | pa.Array) -> None:
        """Many records at once: a list, or an Arrow array of bytes, without making an object of any."""
        self.flush()
        self._write(binary(records))

    def flush(self) -> None:
        """Hand what was written so far to the operating system."""
        file = self._open()
        waiting, self._waiting, self._waiting_bytes = self._waiting, [], 0
        if waiting:
            self._write(binary(waiting))
        file.flush()

    def close(self) -> None:
        """Finish the file and give it its name."""
        if self._file is None:
            return
        try:
            self.flush()
            self._file.write(self._packer.flush())
            self._file.close()
        except BaseException:
            self.discard()
            raise
        self._file = None
        if self._system is None:
            Path(self._temporary).replace(self._place)
        else:
            self._system.mv(self._temporary, self._place)
        if self._index:
            from headrace.records.index import build_index
            from headrace.records.tfrecord import TFRecords

            build_index(self._path, TFRecords())

    def discard(self) -> None:
        """Leave no trace of the file."""
        file, self._file = self._file, None
        if file is None:
            return
        file.close()
        if self._system is None:
            Path(self._temporary).unlink(missing_ok=True)
        else:
            self._system.rm_file(self._temporary)

    def _open(self) -> IO[bytes]:
        if self._file is None:
            raise ValueError(f"the writer of {self._path} is closed")
        return self._file

    def _write(self, records: pa.LargeBinaryArray) -> None:
        framed = _native.frame(*parts(records))
        self._open().write(self._packer.compress(framed.data))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: object) -> None:
        if kind is None:
            self.close()
        else:
            self.discard()


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
    """How many files to write, and how large each will be."""

    shards: int
    shard_bytes: int


SERVER_SHARDS, LEAST_BYTES = 10, 10_000_000


def plan_shards(total_bytes: int, servers: int = 1) -> ShardPlan:
    """Ten files for each server that will read them, but none below 10 MB; over 100 MB is better still.

    >>> hr.io.plan_shards(30_000_000_000, servers=8)
    ShardPlan(shards=80, shard_bytes=375000000)
    """
    if total_bytes < 0 or servers < 1:
        raise ValueError(f"there are no {total_bytes} bytes for {servers} servers")
    shards = max(1, min(SERVER_SHARDS * servers, total_bytes // LEAST_BYTES))
    return ShardPlan(shards, -(-total_bytes // shards))
