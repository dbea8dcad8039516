"""Reads Parquet and Arrow files with changed bytes: they give rows and errors, as many as they say, and nothing else.

python -m tests.fuzz.tables --seconds 600
"""

import argparse
import logging
import random
import resource
import subprocess
import sys
import tempfile
import time
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import headrace as hr
from headrace.testing import outcomes

ROWS = 60
MEMORY = 6 << 30
REFUSALS = (hr.HeadraceError, ValueError, OSError, MemoryError, pa.ArrowException)
"""What a file may be refused with before the first row."""


LEAST = 60
"""So many inputs are tried, however busy the machine is."""


def table():
    """Every kind of column that there is."""
    words = [f"wörd {i}" if i % 7 else "" for i in range(ROWS)]
    pairs = pa.map_(pa.string(), pa.int32())
    return pa.table(
        {
            "i": pa.array(range(ROWS), pa.int16()),
            "f": pa.array([None if i % 9 == 1 else i / 3 for i in range(ROWS)]),
            "b": [i % 3 == 0 for i in range(ROWS)],
            "s": words,
            "raw": [word.encode() for word in words],
            "code": pa.array([b"%04d" % i for i in range(ROWS)], pa.binary(4)),
            "kind": pa.array(words).dictionary_encode(),
            "l": [[i] * (i % 4) for i in range(ROWS)],
            "ll": [[[word] * (i % 3)] * (i % 2) for i, word in enumerate(words)],
            "pair": pa.array([[i, -i] for i in range(ROWS)], pa.list_(pa.float32(), 2)),
            "in": [{"a": i, "b": {"c": word}} for i, word in enumerate(words)],
            "chat": [[{"role": word, "n": [i]}] * (i % 3) for i, word in enumerate(words)],
            "map": pa.array([[(word, i)] * (i % 3) for i, word in enumerate(words)], pairs),
            "price": pa.array([Decimal(i) / 4 for i in range(ROWS)], pa.decimal128(9, 2)),
            "when": pa.array(np.arange(ROWS) * 10**6, pa.timestamp("us")),
        }
    )


def views():
    """What only Arrow's own files have."""
    words = [f"wörd {i}" * (i % 5) for i in range(ROWS)]
    return pa.table(
        {
            "s": pa.array(words, pa.string_view()),
            "l": pa.array([[i] * (i % 4) for i in range(ROWS)], pa.list_view(pa.int64())),
            "ls": pa.array([[word] * (i % 3) for i, word in enumerate(words)], pa.large_list(pa.string_view())),
            "kind": pa.array([[word] for word in words], pa.list_(pa.dictionary(pa.int8(), pa.string()))),
        }
    )


def seeds(folder):
    """Files to begin with."""
    made = []

    def parquet(name, **how):
        made.append(folder / f"{name}.parquet")
        pq.write_table(table(), made[-1], row_group_size=25, **how)

    def arrow(name, content, new, **how):
        made.append(folder / f"{name}.arrow")
        with new(str(made[-1]), content.schema, **how) as writer:
            writer.write_table(content, 25)

    parquet("plain", compression="none", use_dictionary=False)
    parquet("dictionary", compression="none", write_page_checksum=True)
    parquet("packed", compression="zstd", data_page_version="2.0")
    parquet("snappy", compression="snappy", data_page_size=100)
    for name, content in (("table", table()), ("views", views())):
        arrow(f"{name}-file", content, pa.ipc.new_file)
        arrow(f"{name}-stream", content, pa.ipc.new_stream)
        arrow(f"{name}-lz4", content, pa.ipc.new_file, options=pa.ipc.IpcWriteOptions(compression="lz4"))
    return made


def mutated(data, chance):
    """The bytes with some of them changed, or cut short."""
    data = bytearray(data)
    for _ in range(chance.choice([1, 1, 2, 4, 16])):
        place = chance.randrange(len(data))
        how = chance.randrange(6)
        if how == 0:
            data[place] ^= 1 << chance.randrange(8)
        elif how == 1:
            data[place] = chance.choice([0, 1, 127, 128, 255])
        elif how == 2:
            data[place : place + 4] = np.int32(chance.choice([-1, 0, 1, 2**31 - 1, -(2**31), ROWS])).tobytes()
        elif how == 3:
            data[place : place + 8] = np.int64(chance.choice([-1, 0, 2**62, -(2**63), 1 << 33])).tobytes()
        elif how == 4:
            source = chance.randrange(len(data))
            data[place : place + 16] = data[source : source + 16]
        elif chance.random() < 0.1:
            del data[place:]
            break
    return bytes(data) or b"\0"


def read(path):
    """Read a file in every way; AssertionError where it gives anything but rows and errors of its own."""
    reader = hr.ParquetDataset if path.suffix == ".parquet" else hr.ArrowDataset
    try:
        ds = reader(path)
        rows = len(ds)
    except REFUSALS:
        return 0
    got = outcomes(iter(ds))
    assert len(got) == rows, f"{len(got)} rows where the file says {rows}"
    left = outcomes(iter(reader(path, on_error="skip")))
    good = [value for kind, value in got if kind == "value"]
    assert [kind for kind, _ in left].count("value") == len(good)
    for number in {0, rows // 2, rows - 1} & set(range(rows)):
        kind, value = got[number]
        assert _by_number(ds, number) == (kind, repr(value) if kind == "value" else "")
    return len(good)


def _by_number(ds, number):
    try:
        return "value", repr(ds[number])
    except hr.ElementError:
        return "error", ""


def work(seconds, seed, crash):
    """Read mutants for this long; the current one is stored in `crash`."""
    logging.disable(logging.WARNING)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        originals = [(path.suffix, path.read_bytes()) for path in seeds(Path(folder))]
        assert all(read(path) == ROWS for path in Path(folder).iterdir()), "all seeds are good"
        runs = good = partly = 0
        until = time.monotonic() + seconds
        while time.monotonic() < until or runs < LEAST:
            suffix, data = chance.choice(originals)
            path = crash.with_suffix(suffix)
            path.write_bytes(mutated(data, chance))
            found = read(path)
            runs, good, partly = runs + 1, good + (found == ROWS), partly + (0 < found < ROWS)
            path.unlink()
    print(f"{runs} files, {good} of them read whole, {partly} in part")


def run(seconds, seed, crash):
    """What a process of its own has to say; AssertionError if a file broke it."""
    command = [
        sys.executable,
        "-X",
        "faulthandler",
        "-m",
        "tests.fuzz.tables",
        "--work",
        str(seconds),
        str(seed),
        crash,
    ]
    root = Path(__file__).parents[2]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=seconds + 600, cwd=root)
    if done.returncode:
        raise AssertionError(f"a file broke the readers, it is {crash}.*\n{done.stderr}")
    return done.stdout.strip()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=random.randrange(2**32))
    parser.add_argument("--work", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        seconds, seed, crash = options.work
        work(float(seconds), int(seed), Path(crash))
        return
    crash = Path(tempfile.gettempdir(), "headrace-fuzz-table")
    print(f"tables (seed {options.seed}): {run(options.seconds, options.seed, crash)}", flush=True)


if __name__ == "__main__":
    main()
