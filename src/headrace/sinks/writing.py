"""The base of all writers: rows are dealt out to files, encoded on threads, and written in order."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import IO, TYPE_CHECKING, Any, TypeAlias

from headrace.cluster.members import Cluster
from headrace.columns.block import Block
from headrace.core.types import Nested
from headrace.execute.budget import cpus
from headrace.formats.shared.files import as_path
from headrace.formats.shared.format import Format
from headrace.formats.shared.index import scan_index
from headrace.formats.shared.sidecar import SavedIndex, drop_orphans, kept_sidecar
from headrace.iterator import Iterator as Pass
from headrace.ops.progress import progress_bar
from headrace.ops.shared.arguments import positive
from headrace.ops.with_options import merge_options
from headrace.plan.capabilities import require_end
from headrace.remote.redact import show_path
from headrace.remote.transport import ALONE, Transport
from headrace.sinks.deal import SAMPLED_ROWS, FirstRows, Sharding, dealing, dealt
from headrace.sinks.shards import Shards, shards_of

if TYPE_CHECKING:
    from headrace.dataset import Dataset

Encoded: TypeAlias = Any
"""What an `Encoding` makes of blocks for its `FileWriter`: bytes, records, a table or the members of an archive."""


class Encoding(ABC):
    """How rows become a file."""

    suffix: str
    run_bytes: int
    """Rows are made into bytes in runs of about this size."""

    @abstractmethod
    def encode(self, blocks: list[Block]) -> Encoded:
        """Return what `FileWriter.write` takes; called on several threads at a time."""

    @abstractmethod
    def size(self, encoded: Encoded) -> int:
        """Return how many bytes these rows will take in the file."""

    @abstractmethod
    def part(self, file: IO[bytes]) -> FileWriter:
        """Return the writer of one file."""

    @property
    def index_format(self) -> Format | None:
        """The format by which local files get an index; None if they get none."""
        return None

    def scan(self, path: str) -> SavedIndex | None:
        """Return the index of a local file that is complete but not yet published; called on several threads.

        It is made before any file has its name: if the file cannot be read back, none is published.
        """
        form = self.index_format
        return None if form is None else scan_index(path, form)

    def keep_indexes(self, paths: Sequence[str], found: Sequence[SavedIndex | None]) -> None:
        """Write the indexes of published local files, and remove those of files that they replaced."""
        for path, index in zip(paths, found, strict=True):
            if index is not None and self.index_format is not None:
                kept_sidecar(path, self.index_format, index, ALONE, beside=True)
        drop_orphans(paths[0])


class FileWriter(ABC):
    """Writes one file."""

    @abstractmethod
    def write(self, encoded: Encoded) -> None:
        """Write what the encoding made, in order."""

    @abstractmethod
    def close(self) -> None:
        """Write the end of a file; the file itself stays open."""

    def discard(self) -> None:  # noqa: B027 - most hold nothing
        """Write nothing more, not even when it is collected: the file is not wanted."""


def write(
    ds: Dataset,
    path: Any,
    encoding: Encoding,
    *,
    sharding: Sharding,
    threads: int | None,
    overwrite: bool,
    progress: bool | None,
    cluster: Cluster | None = None,
    storage_options: Mapping[str, object] | None = None,
) -> list[str]:
    """Write a dataset; returns the names of the files. With a `cluster` its workers do.

    A store is reached with the options of the dataset, and `storage_options` for its file system.
    """
    count = ds._node.cardinality
    require_end(ds._node, "a writer")
    via = Transport(merge_options(ds._node)).using(storage_options)
    if cluster is not None:
        from headrace.sinks.write_on_workers import write_on_workers

        return write_on_workers(
            ds, path, encoding, cluster, sharding=sharding, overwrite=overwrite, progress=progress, via=via
        )
    width = cpus() if threads is None else positive("num_parallel_writes", threads)
    with (
        shards_of(path, encoding.suffix, overwrite=overwrite, via=via) as files,
        Pass(ds._node, ds._epochs) as it,
        progress_bar(f"writing {show_path(as_path(path))}", count, progress) as advance,
        ThreadPoolExecutor(width, "headrace-write") as pool,
    ):
        rows = FirstRows(it.blocks())
        how = dealing(sharding, count, bytes_of_a_row(encoding, rows.peek(SAMPLED_ROWS)))
        writer = _Writer(encoding, files, pool, in_order=how.rows > 0)
        waiting: deque[tuple[int, int, Future[Any]]] = deque()
        try:
            for shard, blocks in dealt(iter(rows), how, encoding.run_bytes):
                waiting.append((shard, sum(b.rows for b in blocks), pool.submit(encoding.encode, blocks)))
                while len(waiting) > width:
                    advance(writer.write(*waiting.popleft()))
            while waiting:
                advance(writer.write(*waiting.popleft()))
            writer.finish(how.shards or max(1, len(files)))
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)
            writer.discard()
            raise
        found = list(pool.map(encoding.scan, files.paths)) if files.local else []
        names = files.publish()
        if files.local:
            encoding.keep_indexes(names, found)
        return names


def bytes_of_a_row(encoding: Encoding, first: list[Block]) -> float:
    """Estimate the size of a row in a file from the first rows; the encoding learns from them, too."""
    return encoding.size(encoding.encode(first)) / sum(block.rows for block in first) if first else 1


class _Writer:
    """Write encoded runs into their files. If rows come in order, a file is finished when the next one begins."""

    def __init__(self, encoding: Encoding, files: Shards, pool: ThreadPoolExecutor, *, in_order: bool) -> None:
        self._encoding = encoding
        self._files = files
        self._pool = pool
        self._in_order = in_order
        self._parts: list[FileWriter] = []
        self._finished: list[Future[None]] = []

    def write(self, shard: int, rows: int, made: Future[Any]) -> int:
        """Write a run of rows. Return how many there are."""
        encoded = made.result()
        self._begin(shard)
        if self._in_order:
            self._finish(shard)
        self._parts[shard].write(encoded)
        return rows

    def finish(self, count: int) -> None:
        """Finish `count` files."""
        self._begin(count - 1)
        self._finish(count)
        for each in self._finished:
            each.result()

    def discard(self) -> None:
        """Leave the files as they are."""
        for part in self._parts:
            part.discard()

    def _begin(self, shard: int) -> None:
        while len(self._parts) <= shard:
            self._parts.append(self._encoding.part(self._files.open()))

    def _finish(self, before: int) -> None:
        for number in range(len(self._finished), before):
            self._finished.append(self._pool.submit(self._finish_one, number))

    def _finish_one(self, number: int) -> None:
        self._parts[number].close()
        self._files.finish(number)


def named_columns(block: Block, what: str) -> dict[str, Any]:
    """Return the columns of elements that are dicts; those of nested dicts as `outer/inner`."""
    structure = block.structure
    if structure.kind is None or not issubclass(structure.kind, Mapping):
        remedy = "map(lambda x: {'x': x})" if structure.kind is None else "map(lambda x, y: {'x': x, 'y': y})"
        raise TypeError(
            f"{what}, not {structure.text(['…'] * structure.leaves)}: give them names first, as with {remedy}"
        )
    names = _names(structure, ())
    if len(set(names)) < len(names) or not names:
        raise TypeError(f"{what} with names of their own, not {structure}")
    return dict(zip(names, block.columns, strict=True))


def _names(structure: Nested, outer: tuple[str, ...]) -> list[str]:
    if structure.kind is None:
        return ["/".join(outer)]
    if not issubclass(structure.kind, Mapping):
        raise TypeError(f"feature {'/'.join(outer)!r} is a {structure}, which has no names: map it to a dict")
    return [
        n for k, child in zip(structure.keys, structure.children, strict=True) for n in _names(child, (*outer, str(k)))
    ]
