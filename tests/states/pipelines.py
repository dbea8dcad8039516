"""The pipelines of the corpus: the conformance list, and every file format under the operations that follow a scan.

All names are relative to the working directory, so that neither states nor elements depend on where it is. A pipeline
must never change once the corpus has states of it: change a copy under another name.
"""

import gzip
import io
import sqlite3
import tarfile
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa

import headrace as hr
import tests.test_conformance as conformance
from tests.framing import framed
from tests.tables import write_arrow, write_parquet

D = hr.Dataset
ROWS = 400
"""Rows of a file; there are two of every format."""
UNORDERED = "unordered: "
CONFORMANCE = "conformance: "


def _once(name, make):
    """Files that this run, or the corpus, has made under a name."""
    own = f"own.{name}"  # the conformance list has names of its own
    if not list(Path().glob(f"{own}-*")):
        make(own)
    return sorted(str(path) for path in Path().glob(f"{own}-*"))


def _written(*contents):
    """A maker of files with these contents."""

    def make(name):
        for i, content in enumerate(contents):
            Path(f"{name}-{i}").write_bytes(content)

    return make


def _lines(first, bad=None):
    made = [b"line %d of %s\n" % (i, b"words " * (i % 4)) for i in range(first, first + ROWS)]
    return b"".join(b"\xff\n" if i == bad else line for i, line in enumerate(made))


def _csv(first, bad=None):
    made = [b'%d,%d.5,"text, %d%s"\n' % (i, i, i, b"\n" * (i % 5 == 3)) for i in range(first, first + ROWS)]
    return b"number,half,text\n" + b"".join(b"none\n" if i == bad else line for i, line in enumerate(made))


def _json(first, bad=None):
    made = [b'{"x": %d, "l": %s, "s": "row %d"}\n' % (i, b"[1, 2]" * (i % 2) or b"[]", i) for i in range(ROWS)]
    return b"\n" * first + b"".join(b"{\n" if i == bad else line for i, line in enumerate(made))


def _examples(first, bad=None):
    rows = [hr.io.encode_example({"x": i, "name": f"row {i}"}) for i in range(first, first + ROWS)]
    content = bytearray(framed(rows))
    if bad is not None:
        content[content.index(rows[bad]) + 3] ^= 1
    return bytes(content)


def _tar(first):
    sink = io.BytesIO()
    with tarfile.open(fileobj=sink, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for i in range(first, first + ROWS // 4):
            for ending, content in (("txt", b"caption %d" % i), ("bin", bytes([i % 256]) * (i % 9))):
                info = tarfile.TarInfo(f"{i:04d}.{ending}")
                info.size = len(content)
                archive.addfile(info, io.BytesIO(content))
    return sink.getvalue()


def _table(first):
    rows = range(first, first + ROWS)
    return pa.table(
        {
            "x": pa.array(rows),
            "f": pa.array([i / 4 for i in rows], pa.float32()),
            "s": [f"row {i}" for i in rows],
            "l": [list(range(i % 3)) for i in rows],
        }
    )


def _tables(write):
    def make(name):
        for i in range(2):
            write(_table(i * ROWS), Path(f"{name}-{i}"), 64)

    return make


def _database(name):
    with sqlite3.connect(f"{name}-0") as db:
        db.execute("CREATE TABLE rows (id INTEGER PRIMARY KEY, x REAL, s TEXT)")
        db.executemany("INSERT INTO rows VALUES (?, ?, ?)", ((3 * i, i / 2, f"row {i}") for i in range(ROWS)))
    db.close()


def _images(name):
    for i in range(24):
        folder = Path(f"{name}-0", f"class {i % 3}")
        folder.mkdir(parents=True, exist_ok=True)
        image = (np.arange(6 * (4 + i % 2) * 3) * (i + 1) % 256).astype(np.uint8).reshape(6, 4 + i % 2, 3)
        (folder / f"{i:02d}.png").write_bytes(hr.image.encode_png(image))


def _texts(name):
    for i in range(60):
        folder = Path(f"{name}-0", f"class {i % 3}")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{i:02d}.txt").write_text(f"text {i}\n" * (i % 4))


def _numbers():
    return D.from_tensor_slices({"x": np.arange(ROWS), "y": np.arange(ROWS * 3, dtype=np.float32).reshape(ROWS, 3)})


def _tfds(name):
    folder = Path(f"{name}-0")
    _numbers().write_tfds(folder, "numbers", shards=3, progress=False)


def _saved(name):
    _numbers().save(f"{name}-0")


DEFAULTS = [np.int64, np.float32, str]
FEATURES = {"x": hr.io.FixedLenFeature([], np.int64), "name": hr.io.FixedLenFeature([], bytes)}
SCHEMA = pa.schema({"x": pa.int64(), "l": pa.list_(pa.int64()), "s": pa.string()})


def _gz(make):
    return _written(*(gzip.compress(make(i * ROWS), mtime=0) for i in range(2)))


def _two(make, bad=None):
    return _written(make(0, bad), make(ROWS, bad))


def _text(name="lines", bad=None, **how):
    return hr.TextLineDataset(_once(name, _two(_lines, bad)), **how)


def _csv_rows(name="csv", bad=None, **how):
    return hr.CsvDataset(_once(name, _two(_csv, bad)), DEFAULTS, header=True, **how)


def _json_rows(name="json", bad=None, **how):
    return hr.JsonLinesDataset(_once(name, _two(_json, bad)), SCHEMA, **how)


def _records(name="records", bad=None, **how):
    return hr.TFRecordDataset(_once(name, _two(_examples, bad)), **how)


def _parsed(name="records", bad=None, **how):
    return D.from_tfrecord(_once(name, _two(_examples, bad)), FEATURES, **how)


def _samples(name="tar", **how):
    files = _once(name, _written(_tar(0), _tar(ROWS // 4)))
    return hr.WebDataset(files, ["txt", "bin"], decode=False, **how)


def _parquet(**how):
    return hr.ParquetDataset(_once("table.parquet", _tables(write_parquet)), **how)


def _interleaved():
    files = D.from_tensor_slices(_once("lines", _two(_lines)))
    return files.interleave(hr.TextLineDataset, cycle_length=2, block_length=3, num_parallel_calls=2)


SOURCES = {
    "text": _text,
    "text in small reads": lambda: _text(buffer_size=700),
    "text by number": lambda: _text("numbered-lines", index=True),
    "text in turn": lambda: _text(num_parallel_reads=2),
    "text, bad lines": lambda: _text("bad-lines", 130),
    "text, bad lines skipped": lambda: _text("bad-lines", 130, on_error="skip"),
    "text, GZIP": lambda: hr.TextLineDataset(_once("lines.gz", _gz(_lines)), "GZIP"),
    "text, interleaved": _interleaved,
    "CSV": _csv_rows,
    "CSV in small reads": lambda: _csv_rows(buffer_size=700),
    "CSV in turn": lambda: _csv_rows(num_parallel_reads=2),
    "CSV, bad lines": lambda: _csv_rows("bad-csv", 130),
    "CSV, bad lines skipped": lambda: _csv_rows("bad-csv", 130, on_error="skip"),
    "JSON lines": _json_rows,
    "JSON lines in small reads": lambda: _json_rows(buffer_size=700),
    "JSON lines, bad lines": lambda: _json_rows("bad-json", 130),
    "JSON lines, bad lines skipped": lambda: _json_rows("bad-json", 130, on_error="skip"),
    "records": _records,
    "records in small reads": lambda: _records(buffer_size=700, index=False),
    "records by number": lambda: _records("numbered-records", index=True),
    "records in turn": lambda: _records(num_parallel_reads=2),
    "records, GZIP": lambda: hr.TFRecordDataset(_once("records.gz", _gz(_examples)), "GZIP"),
    "records, a bad checksum": lambda: _records("bad-records", 130),
    "records, a bad checksum skipped": lambda: _records("bad-records", 130, on_error="skip"),
    "Examples": _parsed,
    "Examples by number": lambda: _parsed("numbered-records", index=True),
    "Examples in turn": lambda: _parsed(num_parallel_reads=2),
    "Examples, a bad one in quarantine": lambda: _parsed("bad-records", 130, on_error=hr.Quarantine("quarantine", 1)),
    "fixed-length records": lambda: hr.FixedLengthRecordDataset(
        _once("fixed", _written(bytes(range(250)) * 24)), 15, index=True
    ),
    "WebDataset": _samples,
    "WebDataset by number": lambda: _samples("numbered-tar", index=True),
    "WebDataset in turn": lambda: _samples(num_parallel_reads=2),
    "Parquet": _parquet,
    "Parquet in turn": lambda: _parquet(num_parallel_reads=2),
    "Parquet with a filter": lambda: _parquet(filter=[("x", ">", 100)]),
    "Parquet, some columns": lambda: _parquet(columns=["s", "x"]),
    "Arrow": lambda: hr.ArrowDataset(_once("table.arrow", _tables(write_arrow))),
    "image folder": lambda: D.from_image_folder(_once("images", _images)[0], (4, 4)),
    "text folder": lambda: D.from_text_folder(_once("texts", _texts)[0]),
    "SQLite": lambda: D.from_sql(f"sqlite:///{_once('rows.db', _database)[0]}", "SELECT * FROM rows ORDER BY id"),
    "SQLite in partitions": lambda: D.from_sql(
        f"sqlite:///{_once('rows.db', _database)[0]}", "SELECT * FROM rows", key="id", partitions=5
    ),
    "TFDS directory": lambda: hr.tfds.load("numbers", split="train", data_dir=_once("tfds", _tfds)[0]),
    "saved dataset": lambda: D.load(_once("saved", _saved)[0]),
    "arrays": _numbers,
}


def _drawn(*args):
    return args[:-1], args[-1].integers(1000), args[-1].random()


def _kept(number, _):
    return number % 3 != 1


TAILS = {
    "rows": lambda ds: ds,
    "batch": lambda ds: ds.batch(32),
    "filter, batch": lambda ds: ds.enumerate().filter(_kept).batch(16),
    "random_map, batch": lambda ds: ds.random_map(_drawn, seed=3).batch(16),
    "skip, take, shard": lambda ds: ds.skip(101).take(500).shard(2, 1).batch(8),
    "shuffle, batch": lambda ds: ds.shuffle(50, seed=5).batch(16),
    "shuffle, repeat, batch": lambda ds: ds.shuffle(64, seed=2).repeat(2).batch(48),
    "shuffle everything": lambda ds: ds.shuffle(seed=7).batch(32),
}


RAGGED = ("JSON lines", "Parquet", "Arrow")
"""Sources with rows of several lengths, whose batches are ragged ones."""


def _joined(source, tail):
    def build():
        ds = SOURCES[source]()
        if source.startswith(RAGGED) and source != "Parquet, some columns":
            ds = ds.map(lambda row: {"x": row["x"], "s": row["s"], "n": np.shape(row["l"])[0]})
        return TAILS[tail](ds)

    return build


PIPELINES = {
    **{CONFORMANCE + name: build for name, build in conformance.PIPELINES.items()},
    **{UNORDERED + name: build for name, build in conformance.UNORDERED.items()},
    **{f"{source}: {tail}": _joined(source, tail) for source in SOURCES for tail in TAILS},
}

EMBEDDED = (
    "parquet-*",
    "arrow-*",
    "stream-*",
    "*.gz-*",
    "own.table.*-*",
    "*.db-*",
    "own.images-*",
    "own.tfds-*",
    "own.saved-*",
    "saved *",
)
"""Files whose bytes depend on a library's version, and those that headrace itself wrote: the corpus keeps them."""


def in_working_directory(monkeypatch, name):
    """Have the conformance list make its files here; what it saves is called after the pipeline."""
    monkeypatch.setattr(conformance, "_folder", SimpleNamespace(name="."))

    def saved(ds, **how):
        folder = Path(f"saved {name.removeprefix(CONFORMANCE)}")
        if not folder.exists():
            ds.save(folder, **how)
        return D.load(folder, types=[conformance.Sum])

    monkeypatch.setattr(conformance, "saved", saved)
