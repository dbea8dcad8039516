"""Reads files of every format that shrink by many pages meanwhile: run as a process, since SIGBUS would end it."""

import io
import os
import sys
import tarfile
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from tests.framing import framed

import headrace as hr
from headrace.testing import outcomes

D = hr.Dataset
ROWS, PAD, ARRAYS = 1000, "x" * 200, 100
LENGTHS = (0, 9_000)
"""What is left of each file: nothing, and whole pages with a part of one."""


def texts():
    return [b"%08d,%s" % (i, PAD.encode()) for i in range(ROWS)]


def table():
    return pa.table({"x": np.arange(ROWS), "pad": [PAD] * ROWS})


def written(path, data):
    path.write_bytes(data)
    return str(path)


def npy(path):
    with tarfile.open(path, "w") as archive:
        for i in range(ARRAYS):
            file = io.BytesIO()
            np.save(file, np.full(500, i))
            member = tarfile.TarInfo(f"{i}.npy")
            member.size = len(file.getvalue())
            archive.addfile(member, io.BytesIO(file.getvalue()))
    return hr.WebDataset(str(path), fields=["npy"])


def arrow(path):
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table().schema) as writer:
        writer.write_table(table(), 50)
    return hr.ArrowDataset(str(path))


def parquet(path):
    pq.write_table(table(), path, row_group_size=50, compression="none", use_dictionary=False)
    return hr.ParquetDataset(str(path))


def saved(path):
    D.from_tensor_slices({"x": np.arange(ROWS), "pad": np.zeros((ROWS, 100))}).save(path)
    return D.load(path)


def cached(path):
    ds = D.range(ROWS).map(lambda x: {"x": x, "pad": np.zeros(100)}, mode="eager").cache(path)
    assert ds.count() == ROWS
    return ds


def json_lines(path):
    return hr.JsonLinesDataset(
        written(path, b"".join(b'{"x": %d, "pad": "%s"}\n' % (i, PAD.encode()) for i in range(ROWS)))
    )


READERS = {
    "records": lambda path: hr.TFRecordDataset(written(path, framed(texts())), index=False),
    "records, indexed": lambda path: hr.TFRecordDataset(written(path, framed(texts())), index=True),
    "fixed": lambda path: hr.FixedLengthRecordDataset(written(path, b"".join(texts())), len(texts()[0])),
    "lines": lambda path: hr.TextLineDataset(written(path, b"\n".join(texts()))),
    "csv": lambda path: hr.CsvDataset(written(path, b"\n".join(texts())), [np.int64, str]),
    "json": json_lines,
    "npy": npy,
    "arrow": arrow,
    "parquet": parquet,
    "saved": saved,
    "cached": cached,
}


def first(row):
    """The part of a row that tells it from others."""
    row = row.get("x", row.get("npy")) if isinstance(row, dict) else row
    return row[:8] if isinstance(row, bytes | str) else int(np.ravel(row)[0])


def check(ds, path, left, *, shuffled):
    """Shrink the files of a dataset after its first rows: the rest are its rows, or an error comes."""
    whole = [first(row) for row in ds]
    with iter(ds.shuffle(100, seed=1) if shuffled else ds) as it:
        got = outcomes(it, 3)
        for file in [path] if path.is_file() else [f for f in path.rglob("*") if f.stat().st_size > 20_000]:
            os.truncate(file, left)
        try:
            got += outcomes(it)
        except hr.StorageError as error:  # of saved rows: the pass ends
            got.append(("error", str(error)))
    rows = [first(value) for how, value in got if how == "value"]
    failed = len(rows) < len(got)
    good = 0 if shuffled else [how for how, _ in got].index("error") if failed else len(whole)
    assert rows[:good] == whole[:good], f"wrong rows: {rows[:good]}"
    assert not Counter(rows) - Counter(whole), f"more rows than there were: {Counter(rows) - Counter(whole)}"
    assert failed or len(rows) == len(whole), f"{len(rows)} rows, and no error"


def main():
    for kind, reader in READERS.items():
        for shuffled in (False, True):
            for left in LENGTHS:
                print(f"{kind}{', shuffled' * shuffled}, {left} bytes left", flush=True)
                path = Path(sys.argv[1], f"{kind} {shuffled} {left}")
                check(reader(path), path, left, shuffled=shuffled)
    print("all")


if __name__ == "__main__":
    main()
