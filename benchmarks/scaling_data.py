"""The files that `scaling.py` reads: Criteo-like tables, 1 kB Examples, text, tar shards, photographs.

Every dataset is made once into a folder of its own, with a file `done.json` that holds its sizes. Content is generated
by NumPy and repeated if that cannot change the speed of a reader.
"""

from __future__ import annotations

import gzip
import io
import json
import shutil
import sqlite3
import tarfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

FLOATS = [f"numeric_{i:02d}" for i in range(13)]
INTEGERS = [f"categorical_{i:02d}" for i in range(26)]
WORDS = 30_000
FIXED_BYTES = 785
BAD_FILES = 8


@dataclass(frozen=True)
class Sizes:
    """How many rows each dataset has."""

    parquet: int = 600_000
    csv: int = 160_000
    jsonl: int = 160_000
    webdataset: int = 8_000
    examples: int = 200_000
    lines: int = 400_000
    fixed: int = 200_000
    image_folder: int = 1_000
    text_folder: int = 4_000
    tfds: int = 200_000
    saved: int = 600_000
    sql: int = 200_000
    jpeg: int = 256
    tiny_files: int = 500
    bad: int = 64_000
    narrow: int = 1_000_000

    def scaled(self, factor: float) -> Sizes:
        """The same with `factor` times the rows, in whole shards; the number of tiny files stays."""
        rows = {name: max(BAD_FILES * 16, round(count * factor) // 160 * 160) for name, count in asdict(self).items()}
        return Sizes(**rows | {"tiny_files": self.tiny_files})


Maker = Callable[[Path, Sizes], None]
MAKERS: dict[str, Maker] = {}


def maker(fn: Maker) -> Maker:
    """Register the function that makes the dataset of its name."""
    MAKERS[fn.__name__] = fn
    return fn


def make(name: str, root: Path, sizes: Sizes) -> dict[str, float]:
    """Make a dataset unless it is there; return its seconds and megabytes."""
    folder = root / name
    done = folder / "done.json"
    wanted = asdict(sizes)
    if done.exists() and (found := json.loads(done.read_text()))["sizes"] == wanted:
        return {"seconds": 0.0, "megabytes": found["megabytes"]}
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    started = perf_counter()
    MAKERS[name](folder, sizes)
    seconds = perf_counter() - started
    megabytes = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6
    done.write_text(json.dumps({"sizes": wanted, "megabytes": megabytes}))
    return {"seconds": seconds, "megabytes": megabytes}


def criteo(rows: int, seed: int = 0) -> dict[str, np.ndarray]:
    """40 columns: a label, 13 numbers, 26 categories that are unevenly frequent."""
    random = np.random.default_rng(seed)
    columns: dict[str, np.ndarray] = {"label": (random.random(rows) < 0.03).astype(np.int32)}
    columns |= {name: random.standard_normal(rows, np.float32) for name in FLOATS}
    for name in INTEGERS:
        ids = (random.random(rows, np.float32) ** 4 * 1e6).astype(np.int64)
        columns[name] = ids * 0x9E3779B1 % (1 << 40)  # as hashes are, and of a length that text formats can bear
    return columns


def _copies(first: Path, others: list[Path]) -> None:
    for path in others:
        shutil.copyfile(first, path)


@maker
def parquet(folder: Path, sizes: Sizes) -> None:
    """4 files, 64 row groups in all."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = sizes.parquet // 4
    for i in range(4):
        pq.write_table(pa.table(criteo(rows, i)), folder / f"{i}.parquet", row_group_size=max(1, rows // 16))


@maker
def narrow(folder: Path, sizes: Sizes) -> None:
    """One Parquet file of 20 float columns, 50 row groups."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    random = np.random.default_rng(0)
    columns = {f"x{i}": random.standard_normal(sizes.narrow, np.float32) for i in range(20)}
    pq.write_table(pa.table(columns), folder / "0.parquet", row_group_size=sizes.narrow // 50)


@maker
def csv(folder: Path, sizes: Sizes) -> None:
    """2 files with a header."""
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    for i in range(2):
        arrow_csv.write_csv(pa.table(criteo(sizes.csv // 2, i)), folder / f"{i}.csv")


def _json_lines(rows: int) -> list[bytes]:
    random = np.random.default_rng(0)
    numbers = random.integers(0, 1 << 30, (rows, 4)).tolist()
    floats = random.random((rows, 4)).round(6).tolist()
    form = '{"id": %d, "a": %d, "b": %d, "c": %d, "d": %d, "w": %r, "x": %r, "y": %r, "z": %r, "text": "row %d, new"}\n'
    return [(form % (i, *n, *f, i)).encode() for i, (n, f) in enumerate(zip(numbers, floats, strict=True))]


@maker
def jsonl(folder: Path, sizes: Sizes) -> None:
    """2 files of 10 fields, one of them text."""
    lines = b"".join(_json_lines(sizes.jsonl // 8))
    for i in range(2):
        (folder / f"{i}.jsonl").write_bytes(lines * 4)


@maker
def webdataset(folder: Path, sizes: Sizes) -> None:
    """8 shards; a sample has 2 kB of image, a class and a JSON text."""
    random = np.random.default_rng(0)
    with tarfile.open(folder / "0.tar", "w") as archive:
        for i in range(sizes.webdataset // 8):
            text = json.dumps({"number": i, "caption": "a photograph of something"}).encode()
            for ending, content in (("jpg", random.bytes(2000)), ("cls", b"%d" % (i % 10)), ("json", text)):
                info = tarfile.TarInfo(f"{i:06d}.{ending}")
                info.size = len(content)
                archive.addfile(info, io.BytesIO(content))
    _copies(folder / "0.tar", [folder / f"{i}.tar" for i in range(1, 8)])


def _write_examples(path: Path, rows: int) -> None:
    import headrace as hr

    columns = {name: c.astype(np.int64) if c.dtype == np.int32 else c for name, c in criteo(rows).items()}
    (made,) = hr.Dataset.from_tensor_slices(columns).write_tfrecord(path.parent / "making", shards=1, index=False)
    Path(made).replace(path)


@maker
def examples(folder: Path, sizes: Sizes) -> None:
    """10 TFRecord files."""
    _write_examples(folder / "0.tfrecord", sizes.examples // 10)
    _copies(folder / "0.tfrecord", [folder / f"{i}.tfrecord" for i in range(1, 10)])


def _compressed(files: list[Path], folder: Path) -> None:
    for file in files:
        (folder / f"{file.name}.gz").write_bytes(gzip.compress(file.read_bytes(), 6))
        file.unlink()


@maker
def csv_gzip(folder: Path, sizes: Sizes) -> None:
    """2 compressed files with a header."""
    csv(folder, sizes)
    _compressed(sorted(folder.glob("*.csv")), folder)


@maker
def examples_gzip(folder: Path, sizes: Sizes) -> None:
    """2 compressed TFRecord files."""
    for i in range(2):
        _write_examples(folder / f"{i}.tfrecord", sizes.examples // 4)
    _compressed(sorted(folder.glob("*.tfrecord")), folder)


@maker
def tiny(folder: Path, sizes: Sizes) -> None:
    """TFRecord files of 20 records of 100 bytes."""
    from headrace import io as hr_io

    with hr_io.TFRecordWriter(str(folder / "0000.tfrecord")) as writer:
        for i in range(20):
            writer.write(bytes([i]) * 100)
    _copies(folder / "0000.tfrecord", [folder / f"{i:04d}.tfrecord" for i in range(1, sizes.tiny_files)])


@cache
def vocabulary() -> list[str]:
    """Words of 2 to 8 letters."""
    random = np.random.default_rng(0)
    letters = random.choice(np.frombuffer(b"etaoinshrdlucmfwypvbgk", np.uint8), (2 * WORDS, 8)).tobytes().decode()
    lengths = random.integers(2, 9, 2 * WORDS).tolist()
    words = dict.fromkeys(letters[8 * i : 8 * i + length] for i, length in enumerate(lengths))
    return list(words)[:WORDS]


@maker
def lines(folder: Path, sizes: Sizes) -> None:
    """2 files of lines of 12 words on average."""
    words = vocabulary()
    random = np.random.default_rng(1)
    count = sizes.lines // 20
    chosen = (np.minimum(random.zipf(1.2, count * 20), len(words)) - 1).tolist()
    lengths = random.integers(4, 21, count).tolist()
    made = "".join(" ".join(words[j] for j in chosen[20 * i : 20 * i + n]) + "\n" for i, n in enumerate(lengths))
    for i in range(2):
        (folder / f"{i}.txt").write_bytes(made.encode() * 10)


@maker
def fixed(folder: Path, sizes: Sizes) -> None:
    """4 files of records as MNIST has them: a label and 784 pixels."""
    content = np.random.default_rng(0).bytes(FIXED_BYTES * (sizes.fixed // 4))
    for i in range(4):
        (folder / f"{i}.bin").write_bytes(content)


def photo(number: int, height: int, width: int) -> np.ndarray:
    """Waves and a little noise, which compress about as photographs do."""
    random = np.random.default_rng(number)
    y, x = np.mgrid[:height, :width].astype(np.float32)
    waves = np.stack([np.sin(x / (20 + 7 * c + number % 13)) * np.cos(y / (30 + 5 * c)) for c in range(3)], 2)
    coarse = np.kron(random.normal(0, 30, (height // 16 + 1, width // 16 + 1, 1)), np.ones((16, 16, 1)))
    noise = random.normal(0, 6, (height, width, 1))
    return (127 + 60 * waves + coarse[:height, :width] + noise).clip(0, 255).astype(np.uint8)


def _jpegs(count: int, height: int, width: int) -> list[bytes]:
    import headrace as hr

    made = [hr.image.encode_jpeg(photo(i, height, width), quality=90) for i in range(32)]
    return [made[i % 32] for i in range(count)]


@maker
def jpeg(folder: Path, sizes: Sizes) -> None:
    """8 TFRecord files whose records are JPEGs of 500×375."""
    import headrace as hr

    pictures = _jpegs(sizes.jpeg, 375, 500)
    for i in range(8):
        with hr.io.TFRecordWriter(str(folder / f"{i}.tfrecord")) as writer:
            for picture in pictures[i::8]:
                writer.write(picture)


@maker
def image_folder(folder: Path, sizes: Sizes) -> None:
    """JPEGs of 128×96 in 10 classes."""
    for i, picture in enumerate(_jpegs(sizes.image_folder, 96, 128)):
        (folder / f"class {i % 10}").mkdir(exist_ok=True)
        (folder / f"class {i % 10}" / f"{i}.jpg").write_bytes(picture)


@maker
def text_folder(folder: Path, sizes: Sizes) -> None:
    """Texts of about 1 kB in 5 classes."""
    text = (" ".join(vocabulary()[:180]) + "\n").encode()
    for i in range(5):
        (folder / f"class {i}").mkdir()
    for i in range(sizes.text_folder):
        (folder / f"class {i % 5}" / f"{i}.txt").write_bytes(b"%d " % i + text)


@maker
def tfds(folder: Path, sizes: Sizes) -> None:
    """A TFDS directory of 8 TFRecord shards: 16 numbers and a label."""
    import headrace as hr

    random = np.random.default_rng(0)
    columns = {
        "x": random.standard_normal((sizes.tfds, 16), np.float32),
        "label": random.integers(0, 10, sizes.tfds),
    }
    hr.Dataset.from_tensor_slices(columns).write_tfds(folder, "numbers", shards=8, progress=False)


@maker
def saved(folder: Path, sizes: Sizes) -> None:
    """What `Dataset.save` writes of the 40 columns."""
    import headrace as hr

    columns = criteo(sizes.saved)
    hr.Dataset.from_tensor_slices(columns).save(folder / "rows", shard_func=_shard_of)


def _shard_of(row: Any) -> Any:
    return row["categorical_00"] % 8


@maker
def sql(folder: Path, sizes: Sizes) -> None:
    """An SQLite table of 10 columns with a primary key."""
    random = np.random.default_rng(0)
    numbers = random.random((sizes.sql, 5)).tolist()
    integers = random.integers(0, 1 << 30, (sizes.sql, 3)).tolist()
    with sqlite3.connect(folder / "rows.db") as db:
        db.execute("PRAGMA synchronous = OFF")
        kinds = [*(f"f{i} REAL" for i in range(5)), *(f"i{i} INTEGER" for i in range(3)), "s TEXT"]
        db.execute(f"CREATE TABLE rows (id INTEGER PRIMARY KEY, {', '.join(kinds)})")
        values = ((i, *numbers[i], *integers[i], f"name {i % 1000}") for i in range(sizes.sql))
        db.executemany(f"INSERT INTO rows VALUES ({', '.join('?' * 10)})", values)
    db.close()


@maker
def huggingface(folder: Path, sizes: Sizes) -> None:
    """The Arrow stream that a Hugging Face dataset keeps in its cache: 40 columns, 1,000 rows a batch."""
    import pyarrow as pa

    table = pa.table(criteo(sizes.parquet))
    with pa.ipc.new_stream(str(folder / "rows.arrow"), table.schema) as writer:
        writer.write_table(table, max_chunksize=1000)


def _damaged(content: bytes, separator: bytes, replacement: bytes) -> bytes:
    """The content with the line in its middle replaced."""
    start = content.index(separator, len(content) // 2) + 1
    return content[:start] + replacement + content[content.index(separator, start) :]


def _clean_and_bad(folder: Path, ending: str, content: bytes, bad: bytes) -> None:
    for i in range(BAD_FILES):
        (folder / f"clean-{i}.{ending}").write_bytes(content)
        (folder / f"bad-{i}.{ending}").write_bytes(bad)


@maker
def bad_tfrecord(folder: Path, sizes: Sizes) -> None:
    """8 files of Examples, and 8 with a checksum mismatch in the middle."""
    path = folder / "clean.tfrecord"
    _write_examples(path, sizes.bad // BAD_FILES)
    content = path.read_bytes()
    path.unlink()
    bad = bytearray(content)
    bad[len(bad) // 2] ^= 1
    _clean_and_bad(folder, "tfrecord", content, bytes(bad))


@maker
def bad_csv(folder: Path, sizes: Sizes) -> None:
    """8 CSV files without header, and 8 in which a line has one field."""
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    sink = io.BytesIO()
    table = pa.table(criteo(sizes.bad // BAD_FILES))
    arrow_csv.write_csv(table, sink, arrow_csv.WriteOptions(include_header=False))
    _clean_and_bad(folder, "csv", sink.getvalue(), _damaged(sink.getvalue(), b"\n", b"1"))


@maker
def bad_jsonl(folder: Path, sizes: Sizes) -> None:
    """8 files of JSON lines, and 8 in which a line is cut off."""
    content = b"".join(_json_lines(sizes.bad // BAD_FILES)) * 2
    _clean_and_bad(folder, "jsonl", content, _damaged(content, b"\n", b'{"id": 1'))
