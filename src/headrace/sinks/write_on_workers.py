"""Let the workers of a cluster write files: the same as one process writes, to the byte.

If the file of each row is known beforehand, each worker makes the rows of a file and writes it. Otherwise, for example
after a filter, the rows are made first, by ranges, and stored beside the files until they are dealt out.
"""

from __future__ import annotations

import os
import secrets
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from headrace.cluster.jobs import ClusterWork, Job, run_jobs
from headrace.cluster.members import Cluster
from headrace.cluster.ranges import PlanRanges
from headrace.columns.block import Block
from headrace.core.override import override
from headrace.core.types import Component, Nested, StrPath
from headrace.errors import StorageError
from headrace.formats.shared.files import as_path, local_path, remote
from headrace.formats.shared.sidecar import SavedIndex
from headrace.indexed.stored import PartList, Stored
from headrace.ops.progress import progress_bar
from headrace.ops.shared.select import Select
from headrace.ops.take import Take
from headrace.ops.with_options import for_pass, merge_options
from headrace.plan.node import Node
from headrace.remote.redact import show_path
from headrace.remote.transport import Transport
from headrace.sinks.deal import SAMPLED_ROWS, FirstRows, Sharding, cut_runs, dealing
from headrace.sinks.shards import Shards, shards_of
from headrace.sinks.writing import Encoding, bytes_of_a_row
from headrace.storage.files import TEMPORARY
from headrace.storage.rows import in_parts
from headrace.storage.shelf import Shelf
from headrace.storage.structures import Types

if TYPE_CHECKING:
    from headrace.dataset import Dataset


RANGES_PER_WORKER = 4
"""How many ranges of rows a worker makes if rows are stored first: each costs some waiting for the disk."""


def write_on_workers(
    ds: Dataset,
    path: StrPath,
    encoding: Encoding,
    cluster: Cluster,
    *,
    sharding: Sharding,
    overwrite: bool,
    progress: bool | None,
    via: Transport,
) -> list[str]:
    """Write a dataset; returns the names of the files. `via` says how a store is reached."""
    plan, count = for_pass(ds._node), ds._node.cardinality
    ranges = PlanRanges(plan)
    options, epoch = merge_options(plan), ds._epochs.begin()

    def run(jobs: list[Node]) -> Iterator[Nested]:
        return run_jobs(cluster, jobs, options, epoch)

    with shards_of(path, encoding.suffix, overwrite=overwrite, via=via) as files:
        ((encoding, row_bytes),) = run([Job(Take(ranges.plan, SAMPLED_ROWS), LookAtFirst(encoding))])
        how = dealing(sharding, count, row_bytes)
        with progress_bar(f"writing {show_path(as_path(path))}", count, progress) as advance:
            if ranges.in_step:
                plans = [ranges.rows(start, start + rows) for start, rows, _ in how.bounds(int(count))]
            else:
                kept = _kept_rows(files, ranges.parts(RANGES_PER_WORKER * max(2, len(cluster.members()))), run)
                plans = [Select(kept, *bounds) for bounds in how.bounds(int(kept.cardinality))]
            place = files.place_elsewhere()
            indexes: list[SavedIndex | None] = []
            for written in run([Job(each, WriteFile(encoding, place, via)) for each in plans]):
                written.check()
                files.adopt(written.path)
                indexes.append(written.sidecar)
                advance(written.rows)
        names = files.publish()
        if files.local:
            encoding.keep_indexes(names, indexes)
        return names


def _kept_rows(files: Shards, ranges: list[Node], run: Any) -> Stored:
    """Return the rows of all ranges, made by the workers and kept in files beside those that are to be written."""
    if not files.local:
        raise ValueError(
            "the workers cannot tell beforehand which row goes into which file of a store, and keep no rows there: "
            "write to a folder that all of them see, or leave out cluster="
        )
    place = files.place_elsewhere()
    parts: list[Component] = []
    rows = 0
    for folder in run([Job(each, KeepRows(place)) for each in ranges]):
        shelf = Shelf(Path(folder), Types(plainly=True))
        if not shelf.complete:
            raise StorageError(_unseen(folder))
        for part in shelf.parts:
            part.start = rows
            parts.append(part)
            rows += part.rows
    return Stored(ranges[0].spec, PartList(parts), place)


def _unseen(path: str) -> str:
    found = show_path(path)
    return f"a worker has written {found}, and it is not here: files must be in a directory that all machines share"


@dataclass(frozen=True)
class LookAtFirst(ClusterWork):
    """Infer from the first rows what an encoding needs for all, and the size of a row."""

    encoding: Encoding

    @override
    def run(self, rows: Iterator[Block], threads: int) -> tuple[Encoding, float]:
        row_bytes = bytes_of_a_row(self.encoding, FirstRows(rows).peek(SAMPLED_ROWS))
        return self.encoding, row_bytes


@dataclass(frozen=True)
class KeepRows(ClusterWork):
    """Store rows unchanged, in a separate directory."""

    place: str

    leaves = True

    @override
    def run(self, rows: Iterator[Block], threads: int) -> str:
        folder = Path(f"{self.place}{secrets.token_hex(8)}")
        check_folder(folder.parent)
        shelf = Shelf(folder, Types(plainly=True))
        try:
            shelf.acquire(parents=False)  # a trainer that has given up has removed the folder
            for items in in_parts(rows):
                shelf.add(items, None, None)
            shelf.finish()
        finally:
            shelf.release()
        return str(folder)


def check_folder(folder: Path) -> None:
    """Raise if the directory that the trainer has made for files does not exist."""
    if not folder.is_dir():
        raise StorageError(
            f"{folder} is not there on a worker: write the files to a directory that all machines share, or to a URL"
        )


class WrittenFile(NamedTuple):
    """A file that a worker has written."""

    path: str
    size: int
    rows: int
    sidecar: SavedIndex | None

    def check(self) -> None:
        """Raise if it is not the local one."""
        here = local_path(self.path)
        if here is not None and (not Path(here).exists() or Path(here).stat().st_size != self.size):
            raise StorageError(_unseen(self.path))


@dataclass(frozen=True)
class WriteFile(ClusterWork):
    """Write rows to a file."""

    encoding: Encoding
    place: str
    via: Transport

    leaves = True

    def run(self, rows: Iterator[Block], threads: int) -> WrittenFile:
        path = f"{self.place}{secrets.token_hex(8)}{TEMPORARY}"
        file = _open(path, self.via)
        count = 0
        try:
            with file, ThreadPoolExecutor(threads, "headrace-write") as pool:
                part = self.encoding.part(file)
                waiting: deque[Future[Any]] = deque()
                for run in cut_runs(rows, self.encoding.run_bytes):
                    count += sum(block.rows for block in run)
                    waiting.append(pool.submit(self.encoding.encode, run))
                    if len(waiting) > threads:
                        part.write(waiting.popleft().result())
                while waiting:
                    part.write(waiting.popleft().result())
                part.close()
                file.flush()
                size = file.tell()
                if local_path(path) is not None:
                    os.fsync(file.fileno())
            index = self.encoding.scan(path) if local_path(path) is not None else None
        except BaseException:
            _remove(path, self.via)
            raise
        return WrittenFile(path, size, count, index)

    def undo(self, made: WrittenFile) -> None:
        _remove(made.path, self.via)


def _open(path: str, via: Transport) -> IO[bytes]:
    here = local_path(path)
    if here is None:
        system, name = remote(path, via)
        made: IO[bytes] = system.open(name, "wb")
        return made
    check_folder(Path(here).parent)
    return Path(here).open("xb")


def _remove(path: str, via: Transport) -> None:
    here = local_path(path)
    if here is not None:
        Path(here).unlink(missing_ok=True)
        return
    system, name = remote(path, via)
    if system.exists(name):
        system.rm_file(name)
