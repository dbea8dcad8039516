"""CSV files, JSON lines and lines of text with changed bytes: both executors read the same rows and errors of them.

python -m tests.fuzz.texts --seconds 600
"""

import random
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

import headrace as hr
from headrace.testing import difference, outcomes, reference_outcomes
from tests.fuzz import command

CSV = b'n,f,s\n1,0.5,"a ""b"" c"\n-7,1e3,plain\n+3,,"two\nlines"\n9223372036854775807,nan,\xc3\xa4\r\n,0x10,""\n'
JSON = (
    b'{"x": 1, "s": "a", "l": [1, 2]}\n{"x": -5, "s": "\\u00e4", "l": []}\n\n{"s": "b", "x": 3, "l": [7]}\n'
    b'{"x": 9, "s": "long line", "l": [1]}\n'
)
LINES = b"one\ntwo\r\n\n\xc3\xa4\xc3\xb6\nlast without an end"
SCHEMA = pa.schema({"x": pa.int64(), "s": pa.string(), "l": pa.list_(pa.int64())})
READERS = {
    "csv": (CSV, lambda path, size: hr.CsvDataset(path, [np.int64, 0.0, str], header=True, buffer_size=size)),
    "json": (JSON, lambda path, size: hr.JsonLinesDataset(path, SCHEMA, buffer_size=size)),
    "lines": (LINES, lambda path, size: hr.TextLineDataset(path, buffer_size=size)),
}
TELLING = [
    b'"',
    b",",
    b"\n",
    b"\r",
    b"\r\n",
    b"{",
    b"}",
    b"[",
    b"]",
    b":",
    b"\\",
    b"\0",
    b"\xff",
    b"\xef\xbb\xbf",
    b"1",
    b"e",
]


def mutated(data, chance):
    data = bytearray(data * chance.choice([1, 1, 3]))
    for _ in range(chance.choice([1, 1, 2, 5])):
        place = chance.randrange(len(data) + 1)
        how = chance.randrange(5)
        if how == 0:
            data[place:place] = chance.choice(TELLING)
        elif how == 1:
            data[place : place + 1] = chance.choice(TELLING)
        elif how == 2:
            del data[place : place + chance.randrange(1, 9)]
        elif how == 3:
            source = chance.randrange(len(data) + 1)
            data[place:place] = data[source : source + chance.randrange(1, 30)]
        elif chance.random() < 0.2:
            del data[place:]
    return bytes(data)


def _places(rows):
    """The rows with errors identified by position: of two errors in one, either may be named."""
    return [(what, value if what == "value" else value.partition("\n  record: ")[2]) for what, value in rows]


LEAST = 60
"""So many inputs are tried, however busy the machine is."""


def run(seconds, seed):
    chance = random.Random(seed)
    until = time.monotonic() + seconds
    runs = with_errors = 0
    with tempfile.TemporaryDirectory() as name:
        path = Path(name, "data")
        while time.monotonic() < until or runs < LEAST:
            kind = chance.choice(list(READERS))
            good, reader = READERS[kind]
            data = mutated(good, chance)
            path.write_bytes(data)
            size = chance.choice([1, 2, 3, 7, 16, 64, None])
            try:
                ds = reader(str(path), size)
                got = outcomes(iter(ds))
                reason = difference(_places(got), _places(reference_outcomes(ds)))
                assert reason is None, reason
            except BaseException:
                print(f"seed {seed}, run {runs}: {kind}, {size} bytes at a time, {data!r}", file=sys.stderr)
                raise
            runs, with_errors = runs + 1, with_errors + ("error" in {what for what, _ in got})
    return runs, with_errors


if __name__ == "__main__":
    command.main("texts", __doc__, run, "files", "with errors")
