"""Write datasets in TFDS's layout, atomically."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace.columns.arrow_text import parts, pick_text
from headrace.core.types import Array, JsonObject, JsonValue, Nested
from headrace.errors import StorageError
from headrace.execute.budget import cpus
from headrace.io.writer import plan_shards
from headrace.ops.progress import progress_bar
from headrace.plan.cardinality import UNKNOWN, Cardinality
from headrace.storage.files import lock_directory, read_page, settle, whole_file, write_page
from headrace.tfds import on_workers
from headrace.tfds.feature import FEATURES, FeatureConnector, canonical, labels_file, labels_in
from headrace.tfds.feature_json import write_feature
from headrace.tfds.info import FORMATS, INFO, TEMPLATE, shard_name
from headrace.tfds.shard_files import write_shard
from headrace.tfds.staging import BuildError, Chunk, PartWriter, RowSource, check_chunks, read_chunk
from headrace.tfds.versions import Version

if TYPE_CHECKING:
    from headrace.cluster.members import Cluster

SHARD_BYTES = 200 << 20
"""No file is made larger than that."""
PLAN = "plan.json"
MADE_BY = ".made_by.json"


@dataclass(frozen=True)
class DatasetPlan:
    """Everything to be written except the rows."""

    name: str
    version: Version
    features: FeatureConnector
    config: str | None = None
    default_config: str | None = None
    """Which config a name without one means; by default the first that is written."""
    description: str = ""
    config_description: str = ""
    citation: str = ""
    homepage: str = ""
    license: str = ""
    supervised_keys: Nested = None
    release_notes: Mapping[str, str] = field(default_factory=dict)
    file_format: str = "tfrecord"
    shuffle: bool = True
    """Whether rows are put in the order of their hashes, as TFDS does; else they stay in their own."""
    shards: int | None = None
    readers: int = 1
    checksums: Mapping[str, str] = field(default_factory=dict)
    download_size: int = 0
    metadata: JsonValue = None
    made_by: Mapping[str, Any] | None = None
    """The origin of the rows, as JSON values: a later build of the same version must have the same."""

    def __post_init__(self) -> None:
        if self.file_format not in FORMATS:
            raise ValueError(f"file_format is one of {', '.join(FORMATS)}, not {self.file_format!r}")
        if self.shards is not None and self.shards < 1:
            raise ValueError(f"there cannot be {self.shards} shards")

    def home(self, data_dir: Path) -> Path:
        """Return the folder of all its versions."""
        return data_dir / self.name / self.config if self.config else data_dir / self.name

    @property
    def identity(self) -> JsonObject:
        """What must be the same for chunks of an earlier run to be of use."""
        return {"name": self.name, "version": str(self.version), "features": canonical(self.features)}


class BeingBuiltError(StorageError):
    """Another process builds this version of a dataset, in `folder`."""

    def __init__(self, target: Path, folder: Path) -> None:
        super().__init__(f"{target} is being built by another process")
        self.folder = folder


@contextmanager
def building(plan: DatasetPlan, data_dir: Path, rows: object, *, overwrite: bool) -> Iterator[Path]:
    """Yield the directory of an unfinished build; at the end its `whole` becomes the version's directory."""
    with building_folder(plan.home(data_dir) / str(plan.version), overwrite=overwrite) as folder:
        _begin(folder, {**plan.identity, "rows": rows})
        yield folder


@contextmanager
def building_folder(target: Path, *, overwrite: bool) -> Iterator[Path]:
    """Yield a folder that no other process writes to; at the end its `whole` becomes `target`."""
    if target.exists() and not overwrite:
        raise StorageError(f"{target} is there already: raise the version, or write it with overwrite=True")
    target.parent.mkdir(parents=True, exist_ok=True)
    folder = target.parent / f".{target.name}.building"
    held = lock_directory(folder)
    if held is None:
        raise BeingBuiltError(target, folder)
    try:
        yield folder
        _publish(folder, target)
    finally:
        held.release()
    shutil.rmtree(folder, ignore_errors=True)


def _begin(folder: Path, identity: JsonObject) -> None:
    """Keep what an earlier run of the same build left, and nothing else."""
    page = folder / PLAN
    if page.exists() and read_page(page) == identity:
        return
    for path in folder.iterdir():
        if path.name != "lock":
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    write_page(page, identity)


def _publish(folder: Path, target: Path) -> None:
    whole = folder / "whole"
    settle(whole)
    if target.exists():
        target.rename(folder / "replaced")
    whole.rename(target)
    settle(target.parent)


def write_dataset(
    plan: DatasetPlan,
    data_dir: Path,
    splits: Mapping[str, Sequence[RowSource]],
    *,
    processes: int = 1,
    overwrite: bool = False,
    progress: bool | None = None,
    counts: Mapping[str, int | None] | None = None,
    cluster: Cluster | None = None,
) -> Path:
    """Write the rows of all splits; returns the folder. A run that was stopped is gone on with."""
    rows = {split: [source.identity() for source in sources] for split, sources in splits.items()}
    with building(plan, data_dir, rows, overwrite=overwrite) as folder:
        for split, sources in splits.items():
            total = (counts or {}).get(split)
            with progress_bar(
                f"{plan.name}: {split}", UNKNOWN if total is None else Cardinality(total), progress
            ) as advance:
                if cluster is None:
                    _write_parts(folder, split, sources, plan.features, processes, advance)
                else:
                    on_workers.stage_parts(cluster, folder, split, sources, plan.features, advance)
        whole = folder / "whole"
        shutil.rmtree(whole, ignore_errors=True)
        whole.mkdir()
        written = [_write_split(folder, whole, plan, split, len(sources), cluster) for split, sources in splits.items()]
        _write_pages(whole, plan, written)
    _name_default_config(plan, data_dir)
    return plan.home(data_dir) / str(plan.version)


def _write_parts(
    folder: Path,
    split: str,
    sources: Sequence[RowSource],
    features: FeatureConnector,
    processes: int,
    advance: Callable[[int], object],
) -> None:
    if processes > 1 and len(sources) > 1:
        _write_in_processes(folder, split, sources, features, processes, advance)
        return
    for part, source in enumerate(sources):
        PartWriter(folder, split, part, features).write(source, advance)


def _write_in_processes(
    folder: Path,
    split: str,
    sources: Sequence[RowSource],
    features: FeatureConnector,
    processes: int,
    advance: Callable[[int], object],
) -> None:
    """Several parts at a time; each process writes whole parts."""
    from concurrent.futures import ProcessPoolExecutor, as_completed
    from multiprocessing import get_context

    import cloudpickle

    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        jobs = [
            pool.submit(write_part, cloudpickle.dumps((folder, split, part, features, source)))
            for part, source in enumerate(sources)
        ]
        try:
            for job in as_completed(jobs):
                advance(job.result())
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def write_part(job: bytes) -> int:
    """Write one part, in a separate process. Return how many rows it has."""
    import cloudpickle

    folder, split, part, features, source = cloudpickle.loads(job)
    rows = 0

    def count(more: int) -> None:
        nonlocal rows
        rows += more

    PartWriter(folder, split, part, features).write(source, count)
    return rows


@dataclass(frozen=True)
class WrittenSplit:
    """The metadata of a split."""

    name: str
    lengths: list[int]
    num_bytes: int


def _write_split(
    folder: Path, whole: Path, plan: DatasetPlan, split: str, sources: int, cluster: Cluster | None = None
) -> WrittenSplit:
    paths = [p for part in range(sources) for p in PartWriter(folder, split, part, plan.features).chunk_paths()]
    chunks: list[Chunk] = []
    for path in paths:
        chunks.append(read_chunk(path).numbered(split, sum(len(chunk.records) for chunk in chunks)))
    records = [chunk.records for chunk in chunks]
    count = sum(map(len, records))
    if not count:
        return WrittenSplit(split, [], 0)
    hashes = np.concatenate([chunk.hashes for chunk in chunks])
    by_hash = np.lexsort((hashes[:, 1], hashes[:, 0]))
    check_chunks(chunks)
    _check_keys(hashes[by_hash], by_hash, chunks, split)
    order = by_hash if plan.shuffle else np.arange(count)
    size = sum(int(parts(column)[1][-1] - parts(column)[1][0]) for column in records)
    shards = min(count, plan.shards or shard_count(size + 16 * count, plan.readers))
    ends = [round(count * number / shards) for number in range(shards + 1)]

    def path_of(number: int) -> Path:
        return whole / shard_name(TEMPLATE, plan.name, split, plan.file_format, number, shards)

    def write(number: int) -> None:
        write_shard(path_of(number), pick_text(records, order[ends[number] : ends[number + 1]]), plan.file_format)

    if cluster is not None:
        starts = np.cumsum([0, *map(len, records)])
        orders = [order[a:b] for a, b in pairwise(ends)]
        on_workers.write_shards(cluster, paths, starts, orders, [path_of(i) for i in range(shards)], plan.file_format)
        return WrittenSplit(split, [b - a for a, b in pairwise(ends)], size)

    try:
        with ThreadPoolExecutor(cpus(), "headrace-build") as pool:
            list(pool.map(write, range(shards)))
    finally:  # zeros in place of what is gone are the cause of any error, too
        check_chunks(chunks)
    return WrittenSplit(split, [b - a for a, b in pairwise(ends)], size)


def shard_count(size: int, readers: int) -> int:
    """Ten files for each reader, as long as they do not become small; and none beyond 200 MB."""
    return max(plan_shards(size, readers).shards, -(-size // SHARD_BYTES))


def _check_keys(hashes: Array, order: Array, chunks: Sequence[Any], split: str) -> None:
    twice = np.flatnonzero((hashes[1:] == hashes[:-1]).all(axis=1))
    if len(twice):
        row = int(order[twice[0]])
        for chunk in chunks:
            if row < len(chunk.keys):
                key = chunk.keys[row].as_py()
                raise BuildError(f"split {split!r}: two rows have the key {key.decode(errors='backslashreplace')!r}")
            row -= len(chunk.keys)


def _write_pages(whole: Path, plan: DatasetPlan, splits: Sequence[WrittenSplit]) -> None:
    _write_json(whole / FEATURES, write_feature(plan.features))
    for path, labels in labels_in(plan.features):
        if labels.named:
            with whole_file(whole / labels_file(path)) as file:
                file.write(("\n".join(labels.names) + "\n").encode())
    if plan.metadata is not None:
        _write_json(whole / "metadata.json", plan.metadata)
    if plan.made_by is not None:
        write_page(whole / MADE_BY, dict(plan.made_by))
    _write_json(whole / INFO, info_page(plan, splits))


def info_page(plan: DatasetPlan, splits: Sequence[WrittenSplit]) -> JsonObject:
    """`dataset_info.json`; what is empty is left out, as TFDS does."""
    page: JsonObject = {
        "name": plan.name,
        "version": str(plan.version),
        "configName": plan.config,
        "configDescription": plan.config_description,
        "description": plan.description,
        "citation": plan.citation,
        "location": {"urls": [plan.homepage]} if plan.homepage else None,
        "redistributionInfo": {"license": plan.license} if plan.license else None,
        "releaseNotes": dict(plan.release_notes),
        "fileFormat": plan.file_format,
        "disableShuffling": not plan.shuffle,
        "downloadSize": str(plan.download_size) if plan.download_size else None,
        "downloadChecksums": dict(plan.checksums),
        "supervisedKeys": _supervised_page(plan.supervised_keys),
        "splits": [
            {
                "name": split.name,
                "shardLengths": [str(length) for length in split.lengths],
                "numBytes": str(split.num_bytes),
                "filepathTemplate": TEMPLATE,
            }
            for split in splits
        ],
    }
    return {name: value for name, value in page.items() if value}


def _supervised_page(keys: Nested) -> JsonValue:
    return None if keys is None else {"tuple": {"items": [_key_page(key) for key in keys]}}


def _key_page(key: Any) -> JsonValue:
    if isinstance(key, str):
        return {"featureKey": key}
    if isinstance(key, Mapping):
        return {"dict": {"dict": {name: _key_page(inner) for name, inner in key.items()}}}
    return {"tuple": {"items": [_key_page(inner) for inner in key]}}


def _write_json(path: Path, page: object) -> None:
    with whole_file(path) as file:
        file.write(json.dumps(page, indent=2, sort_keys=True).encode())


def _name_default_config(plan: DatasetPlan, data_dir: Path) -> None:
    """Make the first config that was written the default one, unless another is named."""
    if plan.config is not None:
        name_default_config(data_dir / plan.name, plan.default_config or plan.config)


def name_default_config(home: Path, config: str) -> None:
    """Set the default config of a dataset, if it is not set."""
    page = home / ".config/metadata.json"
    if not page.exists():
        page.parent.mkdir(exist_ok=True)
        _write_json(page, {"default_config_name": config})
