"""Files of every kind that headrace reads; rows contain their file and position."""

import gzip
import io
import tarfile
import zlib

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import headrace as hr
from tests.framing import framed

FEATURES = {"x": hr.io.FixedLenFeature([], np.int64)}
SCHEMA = pa.schema({"x": pa.int64(), "s": pa.string()})


def _table(values):
    return pa.table({"x": pa.array(values, pa.int64()), "s": [f"row {v}" * (v % 3) for v in values]}, SCHEMA)


def _parquet(values, **how):
    file = io.BytesIO()
    pq.write_table(_table(values), file, row_group_size=7, **how)
    return file.getvalue()


def _arrow(values, new):
    file = io.BytesIO()
    with new(file, SCHEMA) as writer:
        writer.write_table(_table(values), 7)
    return file.getvalue()


def _lines(values):
    return b"".join(b"line %d\n" % v for v in values)


def _records(values):
    return framed([b"record %d" % v for v in values])


def _json(values):
    return b"".join(b'{"x": %d, "s": "%s"}\n' % (v, b"y" * (v % 5)) for v in values)


def _samples(values):
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for v in values:
            content = b"%d" % v
            member = tarfile.TarInfo(f"{v}.x")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return file.getvalue()


def _csv(values):
    return b"x,s\n" + b"".join(b'%d,"a\n%d"\n' % (v, v % 7) for v in values)


KINDS = {
    "lines": (_lines, lambda p, **k: hr.TextLineDataset(p, buffer_size=50, **k)),
    "lines, gzip": (
        lambda v: gzip.compress(_lines(v), mtime=0),
        lambda p, **k: hr.TextLineDataset(p, "GZIP", buffer_size=50, **k),
    ),
    "records": (_records, lambda p, **k: hr.TFRecordDataset(p, buffer_size=90, index=False, **k)),
    "records, indexed": (_records, lambda p, **k: hr.TFRecordDataset(p, buffer_size=90, index=True, **k)),
    "lines, zstd": (
        lambda v: pa.compress(_lines(v), "zstd", asbytes=True),
        lambda p, **k: hr.TextLineDataset(p, "ZSTD", buffer_size=50, **k),
    ),
    "records, zlib": (
        lambda v: zlib.compress(_records(v)),
        lambda p, **k: hr.TFRecordDataset(p, "ZLIB", buffer_size=90, **k),
    ),
    "examples": (
        lambda v: framed([hr.io.encode_example({"x": x}) for x in v]),
        lambda p, **k: hr.Dataset.from_tfrecord(p, FEATURES, **k),
    ),
    "fixed length": (
        lambda v: b"".join(b"%08d" % x for x in v),
        lambda p, **k: hr.FixedLengthRecordDataset(p, 8, buffer_size=64, **k),
    ),
    "csv": (_csv, lambda p, **k: hr.CsvDataset(p, [np.int64, str], header=True, buffer_size=60, **k)),
    "json": (_json, lambda p, **k: hr.JsonLinesDataset(p, SCHEMA, buffer_size=80, **k)),
    "samples": (_samples, lambda p, **k: hr.WebDataset(p, fields=["x"], buffer_size=1500, **k)),
    "parquet": (_parquet, lambda p, **k: hr.ParquetDataset(p, **k)),
    "parquet, plain": (
        lambda v: _parquet(v, compression="none", use_dictionary=False),
        lambda p, **k: hr.ParquetDataset(p, **k),
    ),
    "arrow": (lambda v: _arrow(v, pa.ipc.new_file), lambda p, **k: hr.ArrowDataset(p, **k)),
    "arrow stream": (lambda v: _arrow(v, pa.ipc.new_stream), lambda p, **k: hr.ArrowDataset(p, **k)),
}


def number(kind, element):
    """The number that a row holds."""
    if isinstance(element, dict):
        return int(element["x"])
    if isinstance(element, tuple):
        return int(element[0])
    text = element.decode() if isinstance(element, bytes) else str(element)
    return int(text.split()[-1])


class Files:
    """Some files of one kind; those of another generation have other rows."""

    def __init__(self, chance, folder, kind=None, most=60):
        self.kind = kind or chance.choice(list(KINDS))
        self.folder = folder / "data"
        self.folder.mkdir(exist_ok=True)
        self.counts = [chance.randint(1, most) for _ in range(chance.randint(1, 3))]
        self.paths = [self.folder / f"{len(list(self.folder.iterdir()))}-{i}" for i in range(len(self.counts))]
        for i in range(len(self.paths)):
            self.write(i)

    def values(self, i, generation=0):
        return [generation * 10**6 + i * 1000 + row for row in range(self.counts[i])]

    def content(self, i, generation=0):
        return KINDS[self.kind][0](self.values(i, generation))

    def write(self, i, generation=0):
        self.paths[i].write_bytes(self.content(i, generation))

    def dataset(self, only=None, **how):
        paths = self.paths if only is None else [self.paths[only]]
        return KINDS[self.kind][1]([str(p) for p in paths], **how)
