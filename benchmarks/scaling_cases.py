"""The jobs of `scaling.py`: pipelines of headrace, and the bare libraries and kernels beside them.

A job is made in the process that measures it, with the CPU affinity already set. It runs one pass and returns its rows,
or an `Outcome` that says more.
"""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import scaling_data
from harness import batches
from scaling_data import FIXED_BYTES, FLOATS, INTEGERS, Sizes

import headrace as hr

SPIN_SECONDS = 0.002
PIECE_BYTES = 1 << 20


@dataclass(frozen=True)
class Outcome:
    """The result of a pass, if rows and the time around the call are not all."""

    rows: int
    seconds: float | None = None
    note: str = ""


Job = Callable[[], int | Outcome]


@dataclass(frozen=True)
class Data:
    """Where the files are, and how many threads a bare library may use."""

    root: Path
    sizes: Sizes
    threads: int

    def files(self, name: str, pattern: str = "*.*") -> list[str]:
        """The files of a dataset, in order."""
        return sorted(str(path) for path in (self.root / name).glob(pattern) if path.name != "done.json")

    @cached_property
    def pool(self) -> ThreadPoolExecutor:
        """As many threads as cores."""
        return ThreadPoolExecutor(self.threads)

    @cached_property
    def scratch(self) -> tempfile.TemporaryDirectory[str]:
        """An empty folder, removed at the end of the process."""
        return tempfile.TemporaryDirectory(dir=self.root)


@dataclass(frozen=True)
class Case:
    """A line of the report: a job, and the one that it is divided by.

    Attributes:
        job: Key of `JOBS`.
        bare: Key of `JOBS`, or None.
        modes: "cores" (at 1, 4, 16 cores) or "two" (at 2 cores, against other loaders).
        between: Whether it is measured on numbers of cores between the least and the most.
    """

    name: str
    job: str
    bare: str | None = None
    modes: tuple[str, ...] = ("cores",)
    between: bool = True


@dataclass(frozen=True)
class Maker:
    """How a job is made, of which dataset, and whether it reads a small part of it."""

    data: str
    make: Callable[[Data], Job]
    short: bool = False


JOBS: dict[str, Maker] = {}
CASES: list[Case] = []


@dataclass(frozen=True)
class job:  # noqa: N801 - a decorator
    """Register a job under its name; a function that returns a dataset of batches is one, too.

    With `case` it is a line of the report, divided by the job `bare`.
    """

    name: str
    data: str
    bare: str | None = None
    case: bool = True
    modes: tuple[str, ...] = ("cores",)
    between: bool = True
    short: bool = False

    def __call__(self, make: Callable[[Data], Any]) -> Callable[[Data], Any]:
        def made(data: Data) -> Job:
            given = make(data)
            return batches(lambda: given) if isinstance(given, hr.Dataset) else given

        JOBS[self.name] = Maker(self.data, made, self.short)
        if self.case:
            CASES.append(Case(self.name, self.name, self.bare, self.modes, self.between))
        return make


bare = partial(job, case=False)


def _pieces(path: str) -> list[tuple[str, int, int]]:
    """A file as byte ranges for threads."""
    size = Path(path).stat().st_size
    return [(path, start, min(start + PIECE_BYTES, size)) for start in range(0, size, PIECE_BYTES)]


def _read(path: str, start: int, stop: int) -> np.ndarray:
    return np.fromfile(path, np.uint8, stop - start, offset=start)


def _sum(data: Data, fn: Callable[..., int], items: Iterable[Any]) -> int:
    return sum(data.pool.map(fn, items))


# Tables


@bare("pyarrow read_table", "parquet")
def _(data: Data) -> Job:
    import pyarrow.parquet as pq

    files = data.files("parquet")
    return lambda: sum(pq.read_table(file, use_threads=data.threads > 1).num_rows for file in files)


def parquet(data: Data, **how: Any) -> hr.Dataset:
    return hr.ParquetDataset(data.files("parquet"), **how)


@job("Parquet → batch(4096)", "parquet", "pyarrow read_table")
def _(data: Data) -> hr.Dataset:
    return parquet(data).batch(4096)


@job("Parquet → shuffle(50_000) → batch", "parquet", "pyarrow read_table")
def _(data: Data) -> hr.Dataset:
    return parquet(data).shuffle(50_000, seed=1).batch(4096)


@job("Parquet → shuffle() → batch", "parquet", "pyarrow read_table")
def _(data: Data) -> hr.Dataset:
    return parquet(data).shuffle(seed=1).batch(4096)


@job("Parquet → shuffle(window=a tenth) → batch", "parquet", "pyarrow read_table")
def _(data: Data) -> hr.Dataset:
    return parquet(data).shuffle(seed=1, window=data.sizes.parquet // 10).batch(4096)


@bare("pyarrow read_csv", "csv")
def _(data: Data) -> Job:
    from pyarrow import csv

    options = csv.ReadOptions(use_threads=data.threads > 1)
    return lambda: sum(csv.read_csv(file, options).num_rows for file in data.files("csv"))


DEFAULTS = [np.int32, *[np.float32] * len(FLOATS), *[np.int64] * len(INTEGERS)]


@job("CSV → batch(4096)", "csv", "pyarrow read_csv")
def _(data: Data) -> hr.Dataset:
    return hr.CsvDataset(data.files("csv"), DEFAULTS, header=True).batch(4096)


@bare("pyarrow read_csv, gzip", "csv_gzip")
def _(data: Data) -> Job:
    from pyarrow import csv

    options = csv.ReadOptions(use_threads=data.threads > 1)
    return lambda: sum(csv.read_csv(file, options).num_rows for file in data.files("csv_gzip"))


@job("CSV, gzip → batch(4096)", "csv_gzip", "pyarrow read_csv, gzip")
def _(data: Data) -> hr.Dataset:
    return hr.CsvDataset(data.files("csv_gzip"), DEFAULTS, compression_type="GZIP", header=True).batch(4096)


@bare("pyarrow read_json", "jsonl")
def _(data: Data) -> Job:
    from pyarrow import json

    options = json.ReadOptions(use_threads=data.threads > 1)
    return lambda: sum(json.read_json(file, options).num_rows for file in data.files("jsonl"))


@job("JSON lines → batch(4096)", "jsonl", "pyarrow read_json")
def _(data: Data) -> hr.Dataset:
    return hr.JsonLinesDataset(data.files("jsonl")).batch(4096)


# Records


@bare("the bytes of the shards, read", "webdataset")
def _(data: Data) -> Job:
    pieces = [piece for file in data.files("webdataset", "*.tar") for piece in _pieces(file)]

    def job() -> int:
        for _ in data.pool.map(lambda piece: _read(*piece), pieces):
            pass
        return data.sizes.webdataset // 8 * 8

    return job


@job("WebDataset tar → batch(256)", "webdataset", "the bytes of the shards, read")
def _(data: Data) -> hr.Dataset:
    return hr.WebDataset(data.files("webdataset", "*.tar"), ["jpg", "cls"], decode=False).batch(256)


FEATURES = {
    **{name: hr.io.FixedLenFeature((), np.float32) for name in FLOATS},
    **{name: hr.io.FixedLenFeature((), np.int64) for name in ("label", *INTEGERS)},
}


@bare("kernels for Examples", "examples")
def _(data: Data) -> Job:
    import pyarrow as pa

    from headrace import _native

    files = data.files("examples")

    def parse(piece: tuple[np.ndarray, int]) -> int:
        values, offsets, _, _ = _native.unframe(*piece, 2048, 1 << 40)
        rows = len(offsets) - 1
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(values)]
        hr.io.parse_example(pa.Array.from_buffers(pa.large_binary(), rows, buffers), FEATURES)
        return rows

    def job() -> int:
        maps = [np.memmap(file, np.uint8, "r") for file in files]
        bounds = [_native.scan_records(content, 0, 1 << 40, False)[0] for content in maps]
        pieces = [(m, int(at)) for m, every in zip(maps, bounds, strict=True) for at in every[:-1:2048]]
        return _sum(data, parse, pieces)

    return job


def _parsed(record: Any) -> Any:
    return hr.io.parse_single_example(record, FEATURES)


@job("Examples of 1 kB, parsed → batch(1024)", "examples", "kernels for Examples")
def _(data: Data) -> hr.Dataset:
    ds = hr.TFRecordDataset(data.files("examples"), index=False)
    return ds.map(_parsed, num_parallel_calls=hr.AUTOTUNE).batch(1024)


@bare("inflate", "examples_gzip")
def _(data: Data) -> Job:
    import gzip

    files = data.files("examples_gzip")

    def inflate(file: str) -> int:
        return data.sizes.examples // 4 if gzip.decompress(Path(file).read_bytes()) else 0

    return lambda: _sum(data, inflate, files)


@job("Examples of 1 kB, gzip, parsed → batch(1024)", "examples_gzip", "inflate")
def _(data: Data) -> hr.Dataset:
    ds = hr.TFRecordDataset(data.files("examples_gzip"), "GZIP", index=False)
    return ds.map(_parsed, num_parallel_calls=hr.AUTOTUNE).batch(1024)


@bare("kernels for text", "lines")
def _(data: Data) -> Job:
    import pyarrow as pa

    from headrace import _native

    words = hr.text.Vocabulary(scaling_data.vocabulary()[:20_000])
    contents = [np.fromfile(file, np.uint8) for file in data.files("lines")]

    def ids(piece: np.ndarray) -> int:
        values, offsets, *_ = _native.cut_lines(piece, 1 << 40, True)
        rows = len(offsets) - 1
        buffers = [None, pa.py_buffer(np.ascontiguousarray(offsets)), pa.py_buffer(values)]
        words(hr.text.split(pa.Array.from_buffers(pa.large_string(), rows, buffers)))
        return rows

    def job() -> int:
        pieces = []
        for content in contents:
            start = 0
            while start < len(content):
                stop = min(start + PIECE_BYTES // 4, len(content))
                stop += int(np.argmax(content[stop - 1 :] == 10)) if stop < len(content) else 0
                pieces.append(content[start:stop])
                start = stop
        return _sum(data, ids, pieces)

    return job


def _to_ids(data: Data) -> hr.Dataset:
    words = hr.text.Vocabulary(scaling_data.vocabulary()[:20_000])
    lines = hr.TextLineDataset(data.files("lines"))
    return lines.map(lambda line: words(hr.text.split(line)), num_parallel_calls=hr.AUTOTUNE)


@job("text lines → split → ids → padded_batch(64)", "lines", "kernels for text")
def _(data: Data) -> hr.Dataset:
    return _to_ids(data).padded_batch(64)


@job("eager filter → bucket_by_sequence_length(64)", "lines", "eager filter → padded_batch(64)")
def _(data: Data) -> hr.Dataset:
    ds = _to_ids(data).take(data.sizes.lines // 40).filter(lambda ids: bool(len(ids) > 4))
    return ds.bucket_by_sequence_length(len, [8, 12, 16], [64] * 4)


@bare("eager filter → padded_batch(64)", "lines")
def _(data: Data) -> hr.Dataset:
    return _to_ids(data).take(data.sizes.lines // 40).filter(lambda ids: bool(len(ids) > 4)).padded_batch(64)


@bare("the bytes of the records, read", "fixed")
def _(data: Data) -> Job:
    pieces = [piece for file in data.files("fixed") for piece in _pieces(file)]

    def job() -> int:
        for _ in data.pool.map(lambda piece: _read(*piece), pieces):
            pass
        return data.sizes.fixed // 4 * 4

    return job


@job("fixed-length records → batch(256)", "fixed", "the bytes of the records, read")
def _(data: Data) -> hr.Dataset:
    ds = hr.FixedLengthRecordDataset(data.files("fixed"), FIXED_BYTES)
    return ds.map(lambda record: hr.io.decode_raw(record, np.uint8)).batch(256)


# Folders, stored rows, databases


def _decoder() -> Callable[[bytes], np.ndarray]:
    try:
        from simplejpeg import decode_jpeg
    except ModuleNotFoundError:
        return lambda content: hr.image.decode_jpeg(content, 3)
    return decode_jpeg


@bare("simplejpeg on the files of the folder", "image_folder")
def _(data: Data) -> Job:
    files = data.files("image_folder", "*/*.jpg")
    decode = _decoder()
    return lambda: _sum(data, lambda file: len(decode(Path(file).read_bytes())) and 1, files)


@job("image folder, resized to 64×64 → batch(64)", "image_folder", "simplejpeg on the files of the folder")
def _(data: Data) -> hr.Dataset:
    return hr.Dataset.from_image_folder(data.root / "image_folder", (64, 64)).batch(64)


@bare("the files of the folder, read", "text_folder")
def _(data: Data) -> Job:
    files = data.files("text_folder", "*/*.txt")
    return lambda: _sum(data, lambda file: len(Path(file).read_bytes()) and 1, files)


@job("text folder → batch(64)", "text_folder", "the files of the folder, read")
def _(data: Data) -> hr.Dataset:
    return hr.Dataset.from_text_folder(data.root / "text_folder").batch(64)


@job("TFDS directory → batch(256)", "tfds")
def _(data: Data) -> hr.Dataset:
    return hr.tfds.load("numbers", split="train", data_dir=data.root / "tfds").batch(256)


@job("saved dataset → batch(4096)", "saved")
def _(data: Data) -> hr.Dataset:
    return hr.Dataset.load(data.root / "saved" / "rows").batch(4096)


@job("CSV, cached in files → batch(4096)", "csv")
def _(data: Data) -> hr.Dataset:
    return hr.CsvDataset(data.files("csv"), DEFAULTS, header=True).cache(data.scratch.name).batch(4096)


@job("SQLite in 16 partitions → batch(4096)", "sql")
def _(data: Data) -> hr.Dataset:
    uri = f"sqlite:///{data.root / 'sql' / 'rows.db'}"
    return hr.Dataset.from_sql(uri, "SELECT * FROM rows", key="id", partitions=16).batch(4096)


@bare("datasets, Arrow batches", "huggingface")
def _(data: Data) -> Job:
    split = _split(data).with_format("arrow")
    return lambda: sum(len(table) for table in split.iter(4096))


def _split(data: Data) -> Any:
    os.environ["HF_HUB_OFFLINE"] = "1"
    import datasets

    return datasets.Dataset.from_file(data.files("huggingface", "*.arrow")[0])


@job("Hugging Face dataset → batch(4096)", "huggingface", "datasets, Arrow batches")
def _(data: Data) -> hr.Dataset:
    return hr.Dataset.from_huggingface(_split(data)).batch(4096)


# Images


@bare("simplejpeg in threads", "jpeg")
def _(data: Data) -> Job:
    decode = _decoder()

    def batch(records: Sequence[bytes]) -> int:
        random = np.random.default_rng(0)
        out = np.empty((len(records), 224, 224, 3), np.uint8)
        for i, record in enumerate(records):
            pixels = decode(record)
            y, x = random.integers(pixels.shape[0] - 223), random.integers(pixels.shape[1] - 223)
            out[i] = pixels[y : y + 224, x : x + 224]
        return len(out)

    def job() -> int:
        records = list(hr.TFRecordDataset(data.files("jpeg")))
        return _sum(data, batch, [records[i : i + 8] for i in range(0, len(records), 8)])

    return job


def _cropped(record: Any, rng: Any) -> Any:
    return hr.image.random_crop(hr.image.decode_jpeg(record, channels=3), (224, 224, 3), rng)


@job("JPEG records → random crop 224 → batch(64)", "jpeg", "simplejpeg in threads", modes=("cores", "two"))
def _(data: Data) -> hr.Dataset:
    ds = hr.TFRecordDataset(data.files("jpeg"))
    return ds.random_map(_cropped, seed=1, num_parallel_calls=hr.AUTOTUNE).batch(64)


# Many files, several at once


def _tf() -> Any:
    from peers import tensorflow

    return tensorflow()


@bare("tf.data, 500 tiny files in parallel", "tiny")
def _(data: Data) -> Job:
    tf = _tf()
    ds = tf.data.TFRecordDataset(data.files("tiny"), num_parallel_reads=4).batch(256)
    return lambda: sum(len(batch) for batch in ds.as_numpy_iterator())


@job("500 tiny TFRecord files, in order", "tiny", "tf.data, 500 tiny files in parallel", modes=("cores", "two"))
def _(data: Data) -> hr.Dataset:
    return hr.TFRecordDataset(data.files("tiny")).batch(256)


@job(
    "500 tiny TFRecord files, num_parallel_reads=4",
    "tiny",
    "tf.data, 500 tiny files in parallel",
    modes=("cores", "two"),
)
def _(data: Data) -> hr.Dataset:
    return hr.TFRecordDataset(data.files("tiny"), num_parallel_reads=4).batch(256)


@bare("tf.data, interleave", "examples")
def _(data: Data) -> Job:
    tf = _tf()
    ds = tf.data.Dataset.from_tensor_slices(data.files("examples"))
    ds = ds.interleave(tf.data.TFRecordDataset, 10, 16, num_parallel_calls=tf.data.AUTOTUNE).batch(1024)
    return lambda: sum(len(batch) for batch in ds.as_numpy_iterator())


@job("interleave over 10 shards → batch(1024)", "examples", "tf.data, interleave", modes=("cores", "two"))
def _(data: Data) -> hr.Dataset:
    ds = hr.Dataset.from_tensor_slices(data.files("examples"))
    return ds.interleave(_records, 10, 16, num_parallel_calls=hr.AUTOTUNE).batch(1024)


def _records(file: Any) -> hr.Dataset:
    return hr.TFRecordDataset(file)


@bare("tf.data, parse_example", "examples")
def _(data: Data) -> Job:
    tf = _tf()
    features = {name: tf.io.FixedLenFeature([], tf.float32) for name in FLOATS}
    features |= {name: tf.io.FixedLenFeature([], tf.int64) for name in ("label", *INTEGERS)}
    ds = tf.data.TFRecordDataset(data.files("examples")).batch(1024)
    ds = ds.map(lambda batch: tf.io.parse_example(batch, features), num_parallel_calls=tf.data.AUTOTUNE).prefetch(2)
    return lambda: sum(len(batch["label"]) for batch in ds.as_numpy_iterator())


@job("Examples → batch(1024) → parse_example", "examples", "tf.data, parse_example", modes=("cores", "two"))
def _(data: Data) -> hr.Dataset:
    ds = hr.TFRecordDataset(data.files("examples"), index=False).batch(1024)
    return ds.map(lambda batch: hr.io.parse_example(batch, FEATURES), num_parallel_calls=hr.AUTOTUNE)


# Damage


def _on_error(name: str, read: Callable[[list[str], Any], hr.Dataset], folder: str, ending: str) -> None:
    """Three jobs: clean files, files with a bad record that is skipped, and one that is put into quarantine."""
    clean = f"{name}, clean files"

    def made(pattern: str, policy: Callable[[Data], Any]) -> Callable[[Data], hr.Dataset]:
        return lambda data: read(data.files(folder, f"{pattern}-*.{ending}"), policy(data))

    bare(clean, folder)(made("clean", lambda _: "raise"))
    job(f"{name}, a bad record per file, skipped", folder, clean, between=False)(made("bad", lambda _: "skip"))
    job(f"{name}, a bad record per file, Quarantine", folder, clean, between=False)(
        made("bad", lambda data: hr.Quarantine(data.scratch.name, max_fraction=1.0))
    )


_on_error("TFRecord", lambda files, e: hr.TFRecordDataset(files, on_error=e).batch(1024), "bad_tfrecord", "tfrecord")
_on_error("CSV", lambda files, e: hr.CsvDataset(files, DEFAULTS, on_error=e).batch(4096), "bad_csv", "csv")
_on_error("JSON lines", lambda files, e: hr.JsonLinesDataset(files, on_error=e).batch(4096), "bad_jsonl", "jsonl")


# Short passes


def _short(name: str, data: str, source: Callable[[Data], hr.Dataset]) -> None:
    """`take(10)` and the first batch, each of a pass of its own."""

    def first(found: Data) -> Job:
        ds = source(found).batch(1024)

        def job() -> int:
            with iter(ds) as it:
                next(it)
            return 1024

        return job

    job(f"{name} → take(10)", data, between=False, short=True)(lambda found: source(found).take(10).batch(10))
    job(f"{name}, first batch of 1024", data, between=False, short=True)(first)


_short("Parquet", "parquet", parquet)
_short("CSV", "csv", lambda data: hr.CsvDataset(data.files("csv"), DEFAULTS, header=True))
_short("Examples", "examples", lambda data: hr.TFRecordDataset(data.files("examples"), index=False).map(_parsed))
_short("JSON lines", "jsonl", lambda data: hr.JsonLinesDataset(data.files("jsonl")))


def _rare(row: Any) -> Any:
    return row["numeric_00"] > 4.265  # of a normal distribution, 1 in 10⁵


@job("Parquet → filter that keeps 1 in 10⁵, all of it", "parquet")
def _(data: Data) -> Job:
    rows = data.sizes.parquet
    ds = parquet(data).filter(_rare).batch(4)

    def job() -> int:
        for _ in ds:
            pass
        return rows  # read, of which few are delivered

    return job


@job("Parquet → filter that keeps 1 in 10⁵ → take(2)", "parquet", between=False, short=True)
def _(data: Data) -> Job:
    ds = parquet(data).filter(_rare).take(2)

    def job() -> int:
        for _ in ds:
            pass
        return 1

    return job


@job("first state() of a pass", "parquet", between=False)
def _(data: Data) -> Job:
    ds = parquet(data).shuffle(50_000, seed=1).batch(4096)

    def job() -> Outcome:
        with iter(ds) as it:
            next(it)
            started = perf_counter()
            it.state()
            return Outcome(1, perf_counter() - started)

    return job


# Consumers


@job("two Parquet passes at once", "parquet", "Parquet → batch(4096)")
def _(data: Data) -> Job:
    passes = [parquet(data).batch(4096), parquet(data).batch(4096)]

    def job() -> Outcome:
        counts = [0, 0]
        at_first_end: list[list[int]] = []

        def consume(number: int) -> None:
            for batch in passes[number]:
                counts[number] += len(batch["label"])
            at_first_end.append(list(counts))

        threads = [threading.Thread(target=consume, args=(i,)) for i in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        few, many = sorted(at_first_end[0])
        return Outcome(sum(counts), note=f"the slower at {few / many:.0%} of the faster")

    return job


def _spin() -> None:
    end = perf_counter() + SPIN_SECONDS
    while perf_counter() < end:
        pass


@bare("the consumer alone", "parquet")
def _(data: Data) -> Job:
    count = -(-data.sizes.parquet // 4096)

    def job() -> int:
        for _ in range(count):
            _spin()
        return data.sizes.parquet

    return job


@job("Parquet → batch, a consumer that holds the GIL for 2 ms a batch", "parquet", "the consumer alone")
def _(data: Data) -> Job:
    ds = parquet(data).batch(4096)

    def job() -> int:
        rows = 0
        for batch in ds:
            rows += len(batch["label"])
            _spin()
        return rows

    return job


# On two cores, against other loaders

NARROW = "20 columns, shuffled, batch(1024)"


@bare(f"polars, {NARROW}", "narrow")
def _(data: Data) -> Job:
    import polars

    file = data.files("narrow")[0]

    def job() -> int:
        frame = polars.read_parquet(file).sample(fraction=1.0, shuffle=True, seed=1)
        rows = 0
        for part in frame.iter_slices(1024):
            rows += len(next(iter({name: part[name].to_numpy() for name in part.columns}.values())))
        return rows

    return job


@bare(f"PyTorch over row groups, {NARROW}", "narrow")
def _(data: Data) -> Job:
    import pyarrow.parquet as pq
    import torch

    file = data.files("narrow")[0]

    class Groups(torch.utils.data.IterableDataset):  # type: ignore[misc,name-defined]
        def __iter__(self) -> Any:
            reader = pq.ParquetFile(file)
            for group in torch.randperm(reader.num_row_groups).tolist():
                table = reader.read_row_group(group)
                columns = {name: torch.from_numpy(table[name].to_numpy()) for name in table.column_names}
                order = torch.randperm(table.num_rows)
                for start in range(0, table.num_rows, 1024):
                    some = order[start : start + 1024]
                    yield {name: column[some] for name, column in columns.items()}

    loader = torch.utils.data.DataLoader(Groups(), batch_size=None)
    return lambda: sum(len(next(iter(batch.values()))) for batch in loader)


def _narrow(name: str, against: str, **how: Any) -> None:
    key = f"{name}, {NARROW}"
    if key not in JOBS:
        bare(key, "narrow")(lambda data: hr.ParquetDataset(data.files("narrow")).shuffle(seed=1, **how).batch(1024))
    CASES.append(Case(f"{key} against {against}", key, f"{against}, {NARROW}", ("two",)))


for _against in ("polars", "PyTorch over row groups"):
    _narrow("shuffle(65536)", _against, buffer_size=65536)
    _narrow("shuffle()", _against)
