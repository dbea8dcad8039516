"""Rows of a dataset that is being built: encoded in chunks that are written atomically, so that a killed build
continues.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from headrace import _native
from headrace.columns.kind import Column
from headrace.core.owned_file import OwnedFile
from headrace.core.types import JsonValue, Nested
from headrace.errors import HeadraceError
from headrace.storage.files import whole_file
from headrace.tfds.encoding import EncodeError, encode_rows
from headrace.tfds.feature import FeatureConnector

if TYPE_CHECKING:
    pass

Key = str | bytes | int
PLAIN_KEYS = (int, str, bytes)
BATCH_ROWS = 512
"""How many rows are encoded together …"""
CHUNK_ROWS = 8192
CHUNK_BYTES = 32 << 20
CHUNK_SECONDS = 10.0
"""… and a chunk is written when it has this many rows or bytes, or took this long."""


class BuildError(HeadraceError, RuntimeError):
    """A dataset cannot be built: what its generator gave does not fit, or is not what it gave before."""


class RowSource(Protocol):
    """The source of the rows of a part of a split; the same rows each time."""

    def rows(self, skip: int) -> tuple[int, Iterator[tuple[Key, Nested]]]:
        """Return how many of the first `skip` rows were skipped, and an iterator over the rest with their keys."""
        ...

    def identity(self) -> JsonValue:
        """Return the identity of these rows as JSON values: chunks of others are not used."""
        ...


class ChunkFile(NamedTuple):
    """A chunk's file, and the memory that it is mapped to."""

    path: Path
    memory: _native.MappedFile


class Chunk(NamedTuple):
    """A file of rows: their hashes, keys and records.

    Rows whose keys are their numbers have only records; `numbered` adds the numbers, which depend on how many rows come
    before.
    """

    hashes: NDArray[np.uint64]
    keys: Column
    records: Column
    file: ChunkFile | None = None

    def without_keys(self) -> Chunk:
        """Return the records alone."""
        return Chunk(self.hashes[:0], self.keys[:0], self.records)

    def numbered(self, split: str, first: int) -> Chunk:
        """Return the rows with their numbers as keys, if they have no keys."""
        if len(self.keys) == len(self.records):
            return self
        import pyarrow as pa

        keys = [str(number).encode() for number in range(first, first + len(self.records))]
        hashes = _hashes(keys, hash_of(split))
        return self._replace(hashes=hashes, keys=pa.array(keys, pa.large_binary()))


def hash_of(split: str) -> Callable[[Key], bytes]:
    """Return what orders the rows of a split, as TFDS does."""
    salted = hashlib.md5(split.encode(), usedforsecurity=False)

    def digest(key: Key) -> bytes:
        made = salted.copy()
        made.update(key if isinstance(key, bytes) else str(key).encode())
        return made.digest()

    return digest


class PartWriter:
    """Write one part of a split into a directory, continuing an earlier run."""

    def __init__(self, folder: Path, split: str, part: int, features: FeatureConnector) -> None:
        self._folder, self._split, self._part = folder, split, part
        self._features = features
        self._hash = hash_of(split)
        self._name = f"{split}.{part:05d}"

    @property
    def _done(self) -> Path:
        return self._folder / f"{self._name}.done"

    @property
    def done(self) -> bool:
        """Whether nothing is missing."""
        return self._done.exists()

    def adopt(self, staged: list[Path]) -> None:
        """Take these chunks, which another process has written, as the whole part."""
        for path in self.chunk_paths():
            path.unlink()
        for number, path in enumerate(staged):
            path.rename(self._folder / f"{self._name}.{number:07d}.chunk")
        self._finish(len(staged))

    def _finish(self, chunks: int) -> None:
        with whole_file(self._done) as file:
            file.write(str(chunks).encode())

    def chunk_paths(self) -> list[Path]:
        """Return the chunks that are there, in order."""
        return sorted(self._folder.glob(f"{self._name}.*.chunk"))

    def write(self, source: RowSource, advance: Callable[[int], object] = lambda _: None) -> None:
        """Write what is missing."""
        if self._done.exists():
            return
        there = self.chunk_paths()
        before = [read_chunk(path) for path in there]
        count = sum(len(chunk.hashes) for chunk in before)
        passed, rows = source.rows(count)
        if passed < count:
            self._check_again(before, passed, rows)
        check_chunks(before)
        del before
        advance(count)
        number = len(there)
        for chunk in self._chunks(rows, count, advance):
            write_chunk(self._folder / f"{self._name}.{number:07d}.chunk", chunk)
            number += 1
        self._finish(number)

    def stage(self, elements: Iterator[object], stem: str, suffix: str) -> tuple[list[str], int]:
        """Write chunks of rows whose keys are their numbers. Return the names of the chunks, and the number of rows."""
        names: list[str] = []
        count = 0
        try:
            for chunk in self._chunks(enumerate(elements), 0, lambda _: None):
                names.append(f"{stem}.{len(names):07d}{suffix}")
                write_chunk(self._folder / names[-1], chunk.without_keys())
                count += len(chunk.records)
        except BaseException:
            for name in names:
                (self._folder / name).unlink(missing_ok=True)
            raise
        return names, count

    def _check_again(self, before: list[Chunk], passed: int, rows: Iterator[tuple[Key, object]]) -> None:
        """Pass over rows that are written already; they must be the same ones."""
        known = np.concatenate([chunk.hashes for chunk in before])[passed:].astype(">u8")
        for at, wanted in enumerate(known):
            found = next(rows, None)
            if found is None or self._hash(found[0]) != wanted.tobytes():
                said = "ended" if found is None else f"gave the key {found[0]!r}"
                raise BuildError(
                    f"split {self._split!r}: at row {passed + at} the generator {said}, but the build that was "
                    f"stopped had another: remove {self._folder} to begin anew"
                )

    def _chunks(
        self, rows: Iterator[tuple[Key, object]], first: int, advance: Callable[[int], object]
    ) -> Iterator[Chunk]:
        import pyarrow as pa

        parts: list[Any] = []
        keys: Any = []
        size, since = 0, time.monotonic()
        for batch, records in self._encoded(rows, first):
            parts.append(records)
            keys += [key for key, _ in batch]
            size += records.nbytes
            advance(len(batch))
            if len(keys) >= CHUNK_ROWS or size >= CHUNK_BYTES or time.monotonic() - since > CHUNK_SECONDS:
                yield self._chunk(keys, pa.concat_arrays(parts))
                parts, keys, size, since = [], [], 0, time.monotonic()
        if keys:
            yield self._chunk(keys, pa.concat_arrays(parts))

    def _encoded(
        self, rows: Iterator[tuple[Key, object]], first: int
    ) -> Iterator[tuple[list[tuple[Key, Nested]], Any]]:
        """Yield rows with their records; a thread encodes a batch while the generator gives the next one.

        Errors come in the order of rows: that of a batch before that of the generator behind it.
        """
        with ThreadPoolExecutor(1, "headrace-build") as thread:
            waiting: tuple[list[tuple[Key, Nested]], Future[Any]] | None = None
            failed: Exception | None = None
            while failed is None:
                try:
                    batch = list(islice(rows, BATCH_ROWS))
                except Exception as error:
                    batch, failed = [], error
                if waiting is not None:
                    yield waiting[0], waiting[1].result()
                if not batch:
                    break
                waiting = batch, thread.submit(self._encode, batch, first)
                first += len(batch)
            if failed is not None:
                raise failed

    def _encode(self, batch: list[tuple[Key, Nested]], first: int) -> Column:
        try:
            return encode_rows(self._features, [example for _, example in batch])
        except EncodeError as error:
            key = batch[error.row][0]
            raise BuildError(f"split {self._split!r}, row {first + error.row} (key {key!r}): {error}") from error

    def _chunk(self, keys: list[Key], records: Column) -> Chunk:
        import pyarrow as pa

        named = [key if isinstance(key, bytes) else str(key).encode() for key in keys]
        return Chunk(_hashes(named, self._hash), pa.array(named, pa.large_binary()), records)


def _hashes(keys: list[bytes], digest: Callable[[Key], bytes]) -> NDArray[np.uint64]:
    return np.frombuffer(b"".join(map(digest, keys)), ">u8").reshape(-1, 2)


def write_chunk(path: Path, chunk: Chunk) -> None:
    """Write it whole."""
    import pyarrow as pa

    raw = pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(16), len(chunk.hashes), [None, pa.py_buffer(np.ascontiguousarray(chunk.hashes))]
    )
    columns = {"hash": raw, "key": chunk.keys, "record": chunk.records}
    table = pa.table(columns if len(chunk.keys) else {"record": chunk.records})
    with whole_file(path) as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)


def read_chunk(path: Path) -> Chunk:
    """Read it, mapped into memory: `check_chunks` says whether what was read were the bytes of the file."""
    import pyarrow as pa

    with OwnedFile(path) as opened:
        file = ChunkFile(path, _native.MappedFile(opened.fileno(), path.stat().st_size))
    table = pa.ipc.open_file(pa.py_buffer(file.memory.data)).read_all().combine_chunks()
    if table.num_columns == 1:
        return Chunk(np.empty((0, 2), np.uint64), pa.array([], pa.large_binary()), table.column(0).chunk(0), file)
    hashes, keys, records = (column.chunk(0) for column in table.columns)
    raw = np.frombuffer(hashes.buffers()[1], ">u8", len(hashes) * 2, hashes.offset * 16)
    return Chunk(raw.reshape(-1, 2), keys, records, file)


def check_chunks(chunks: Iterable[Chunk]) -> None:
    """Raise if a file has shrunk, or could not be read, since it was mapped: its rows were zeros then."""
    for chunk in chunks:
        if chunk.file is not None and not chunk.file.memory.intact:
            raise BuildError(
                f"{chunk.file.path} has become shorter since it was opened, or cannot be read: "
                f"remove {chunk.file.path.parent} to begin anew"
            )


def keyed(rows: Iterable[object], prefix: str) -> Iterator[tuple[Key, Nested]]:
    """Yield rows with the keys that they come with, or with their numbers."""
    for number, row in enumerate(rows):
        if type(row) is tuple and len(row) == 2 and type(row[0]) in PLAIN_KEYS:
            yield row
        elif isinstance(row, tuple) and len(row) == 2 and isinstance(row[0], str | bytes | int | np.integer):
            key = row[0]
            yield (int(key) if isinstance(key, np.integer) else key), row[1]
        else:
            yield f"{prefix}{number}", row
