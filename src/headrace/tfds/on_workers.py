"""Let the workers of a cluster write datasets in TFDS's layout: rows to chunks, and those to files."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.cluster.jobs import ClusterWork, Job, lone_job, run_jobs
from headrace.cluster.members import Cluster
from headrace.columns.arrow_text import pick_text
from headrace.columns.block import Block
from headrace.core.override import override
from headrace.core.types import JsonValue, Nested
from headrace.errors import StorageError
from headrace.ops.with_options import merge_options
from headrace.options import Options
from headrace.plan.node import Node
from headrace.sinks.write_on_workers import check_folder
from headrace.storage.plans import Maker
from headrace.tfds.feature import FeatureConnector
from headrace.tfds.shard_files import write_shard
from headrace.tfds.staging import Key, PartWriter, check_chunks, read_chunk

STAGED = ".staged"


class RangeRows:
    """A range of the rows of a dataset, made by workers. How many come before it is not known yet."""

    def __init__(self, plan: Node, part: Node, number: int) -> None:
        self.part = part
        self._plan, self._number = plan, number

    def identity(self) -> JsonValue:
        """See RowSource."""
        return [Maker(self._plan).page if self._number == 0 else None, self._number]

    def rows(self, skip: int) -> tuple[int, Iterator[tuple[Key, Nested]]]:
        """See RowSource; rows are made elsewhere."""
        raise NotImplementedError


def stage_parts(
    cluster: Cluster,
    folder: Path,
    split: str,
    sources: Sequence[Any],
    features: FeatureConnector,
    advance: Callable[[int], object],
) -> None:
    """Let workers write the chunks of all parts that an earlier run has not."""
    for left in folder.glob(f"{split}.*{STAGED}"):
        left.unlink()
    writers = [PartWriter(folder, split, part, features) for part in range(len(sources))]
    missing = [part for part, writer in enumerate(writers) if not writer.done]
    jobs = [Job(sources[part].part, StageRows(folder.absolute(), split, part, features)) for part in missing]
    options = merge_options(sources[0].part) if sources else Options()
    for part, (names, rows) in zip(missing, run_jobs(cluster, jobs, options), strict=True):
        staged = [folder / name for name in names]
        if not all(path.exists() for path in staged):
            raise StorageError(f"a worker has written chunks, and they are not in {folder}: all machines must see it")
        writers[part].adopt(staged)
        advance(rows)


@dataclass(frozen=True)
class StageRows(ClusterWork):
    """The rows of a part as chunks, under names of their own."""

    folder: Path
    split: str
    part: int
    features: FeatureConnector

    @override
    def run(self, rows: Iterator[Block], threads: int) -> tuple[list[str], int]:
        check_folder(self.folder)
        writer = PartWriter(self.folder, self.split, self.part, self.features)
        stem = f"{self.split}.{self.part:05d}.{secrets.token_hex(8)}"
        return writer.stage((element for block in rows for element in block.elements()), stem, STAGED)


def write_shards(
    cluster: Cluster,
    chunks: Sequence[Path],
    starts: NDArray[np.int64],
    orders: Sequence[NDArray[np.int64]],
    paths: Sequence[Path],
    file_format: str,
) -> None:
    """Let workers write files of the records of chunks: those whose numbers are in `orders`."""
    jobs = []
    for order, path in zip(orders, paths, strict=True):
        needed = np.unique(np.searchsorted(starts, order, "right") - 1)
        place = np.searchsorted(needed, np.searchsorted(starts, order, "right") - 1)
        kept = np.concatenate([[0], np.cumsum(np.diff(starts)[needed])])
        numbers = order - starts[needed][place] + kept[place]
        named = [str(chunks[i].absolute()) for i in needed]
        jobs.append(lone_job(WriteShard(named, numbers, path.absolute(), file_format)))
    for path, name in zip(paths, run_jobs(cluster, jobs, Options()), strict=True):
        path.with_name(name).rename(path)


@dataclass(frozen=True)
class WriteShard(ClusterWork):
    """Write records of chunks to a file, under a unique name."""

    chunks: Sequence[str]
    numbers: NDArray[np.int64]
    path: Path
    file_format: str

    @override
    def run(self, rows: Iterator[Block], threads: int) -> str:
        check_folder(self.path.parent)
        made = self.path.with_name(f"{self.path.name}.{secrets.token_hex(8)}{STAGED}")
        chunks = [read_chunk(Path(chunk)) for chunk in self.chunks]
        try:
            try:
                records = pick_text([chunk.records for chunk in chunks], self.numbers)
            finally:  # zeros in place of what is gone are the cause of any error, too
                check_chunks(chunks)
            write_shard(made, records, self.file_format)
        except BaseException:
            made.unlink(missing_ok=True)
            raise
        return made.name
