"""Check that an installed headrace works on this machine: `python -m headrace.selftest`.

The checks need only the packages that headrace itself requires. They compare with values that were computed
independently: published test vectors, plain NumPy, and the one-element-at-a-time reference executor.
"""

from __future__ import annotations

import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TextIO

import numpy as np

import headrace as hr
from headrace import _native
from headrace.core.types import Nested
from headrace.testing import check_transformation, our_threads

Check = Callable[[Path], None]


class SelfTestError(AssertionError):
    """A check found a wrong result."""


def _expect(condition: bool, message: str) -> None:
    if not condition:
        raise SelfTestError(message)


def _same(got: Nested, want: Nested, what: str) -> None:
    _expect(bool(np.array_equal(got, want)), f"{what}: got {got!r}, expected {want!r}")


def checksums(_folder: Path) -> None:
    """CRC32C by every implementation that this CPU can run."""
    vectors = {b"": 0, b"123456789": 0xE3069283, bytes(32): 0x8A9136AA, b"\xff" * 32: 0x62A8AB43}
    for data, crc in vectors.items():
        for options in ({}, {"portable": True}, {"by_instruction": True}):
            _same(_native.crc32c(data, **options), crc, f"CRC32C of {len(data)} bytes {options}")
    noise = np.random.default_rng(0).integers(0, 256, 5000, np.uint8).tobytes()
    for size in (1, 7, 95, 96, 255, 256, 1023, 5000):
        _same(_native.crc32c(noise[:size]), _native.crc32c(noise[:size], portable=True), f"CRC32C of {size} bytes")


def batches(_folder: Path) -> None:
    """Shuffled batches hold every row exactly once, with its label."""
    rows = np.arange(3000, dtype=np.float32).reshape(1000, 3)
    ds = hr.Dataset.from_tensor_slices((rows, np.arange(1000))).shuffle(100, seed=1).batch(64)
    features, labels = (np.concatenate(part) for part in zip(*ds, strict=True))
    _same(np.sort(labels), np.arange(1000), "labels")
    _same(features, rows[labels], "rows")
    _expect(not np.array_equal(labels, np.arange(1000)), "shuffle kept the order")


def functions(_folder: Path) -> None:
    """A NumPy function gives the same bits one element at a time, on blocks and on threads."""
    values = np.linspace(-4, 4, 500, dtype=np.float32)
    want = [np.float32(np.exp(x) * 3 - x) for x in values]
    ds = hr.Dataset.from_tensor_slices(values)
    for options in ({}, {"mode": "eager"}, {"num_parallel_calls": 3}):
        _same(list(ds.map(lambda x: np.exp(x) * 3 - x, **options)), want, f"map {options}")


def randomness(_folder: Path) -> None:
    """Random functions draw the same numbers on one thread and on four."""
    ds = hr.Dataset.range(200)
    one = list(ds.random_map(lambda x, rng: x + rng.normal(), seed=5))
    four = list(ds.random_map(lambda x, rng: x + rng.normal(), seed=5, num_parallel_calls=4))
    _same(four, one, "draws")
    _expect(len(set(one)) == 200, "two elements drew the same number")


def resume(_folder: Path) -> None:
    """A pass continues exactly after a stop anywhere."""
    ds = (
        hr.Dataset.range(60)
        .shuffle(13, seed=3, reshuffle_each_iteration=False)
        .filter(lambda x: x % 7 > 0)
        .batch(4)
        .prefetch(2)
    )
    with ds.iterator() as it:
        whole = [batch.tolist() for batch in it]
    for cut in range(len(whole) + 1):
        with ds.iterator() as it:
            before = [next(it).tolist() for _ in range(cut)]
            state = it.state()
        with ds.iterator(state=state) as it:
            after = [batch.tolist() for batch in it]
        _expect(before + after == whole, f"the pass differs after a stop at batch {cut}")


def records(folder: Path) -> None:
    """TFRecord files of tf.Examples are written, read, parsed, and their damage is found."""
    rows = hr.Dataset.range(100).map(lambda x: {"id": x, "half": np.float32(x) / 2, "name": f"row {x}"})
    (path,) = rows.write_tfrecord(folder / "rows", shards=1)
    features = {
        "id": hr.io.FixedLenFeature((), np.int64),
        "half": hr.io.FixedLenFeature((), np.float32),
        "name": hr.io.FixedLenFeature((), bytes),
    }
    parsed = list(hr.TFRecordDataset(path).map(lambda record: hr.io.parse_single_example(record, features)))
    _same([row["id"] for row in parsed], np.arange(100), "ids")
    _same([row["half"] for row in parsed], np.arange(100, dtype=np.float32) / 2, "floats")
    _expect([row["name"] for row in parsed] == [f"row {i}".encode() for i in range(100)], "wrong text in records")
    data = bytearray(Path(path).read_bytes())
    data[20] ^= 1
    damaged = folder / "damaged.tfrecord"
    damaged.write_bytes(data)
    try:
        list(hr.TFRecordDataset(damaged))
    except hr.ElementError:
        return
    raise SelfTestError("a flipped bit in a record was not noticed")


def tables(folder: Path) -> None:
    """Parquet, CSV and JSON Lines hold what was written."""
    (path,) = hr.Dataset.range(50).map(lambda x: {"x": x, "y": x / 4}).write_parquet(folder / "rows", shards=1)
    _same([row["y"] for row in hr.ParquetDataset(path)], np.arange(50) / 4, "Parquet")
    lines = folder / "rows.csv"
    lines.write_text("x,y\n" + "".join(f"{i},{i / 4}\n" for i in range(50)))
    _same([y for _, y in hr.CsvDataset(lines, [np.int64, np.float64], header=True)], np.arange(50) / 4, "CSV")
    lines = folder / "rows.jsonl"
    lines.write_text("".join(f'{{"x": {i}}}\n' for i in range(50)))
    _same([row["x"] for row in hr.JsonLinesDataset(lines)], np.arange(50), "JSON Lines")


def caches(folder: Path) -> None:
    """A cache on disk gives the same rows without calling the function again."""
    calls: list[int] = []

    def double(x: int) -> int:
        calls.append(int(x))
        return x * 2

    ds = hr.Dataset.range(20).map(double).cache(str(folder / "cache"))
    _same(list(ds), np.arange(20) * 2, "first pass")
    _same(list(ds), np.arange(20) * 2, "second pass")
    _same(calls, np.arange(20), "calls")


def text(_folder: Path) -> None:
    """Strings are split, hashed as TensorFlow hashes them, and padded."""
    _same(hr.text.to_hash_bucket_fast("Bern", 1000), 591, "hash of 'Bern'")
    words = hr.Dataset.from_tensor_slices(["a b c", "d"]).map(hr.text.split)
    (batch,) = words.padded_batch(2, padding_values="")
    _expect(batch.tolist() == [["a", "b", "c"], ["d", "", ""]], f"wrong words: {batch.tolist()}")


def errors(_folder: Path) -> None:
    """An error names its element, and the pass continues after it."""
    with iter(hr.Dataset.from_tensor_slices(["1", "2", "x", "4"]).map(int)) as it:
        good = [next(it), next(it)]
        try:
            next(it)
        except hr.ElementError as error:
            _expect("element 2" in str(error), f"the error does not name element 2: {error}")
        else:
            raise SelfTestError("int('x') raised no error")
        _same([*good, *it], [1, 2, 4], "elements around the error")


def processes(_folder: Path) -> None:
    """Worker processes start, compute and end."""
    ds = hr.Dataset.range(40).map(lambda x: x * 3, mode="process", num_parallel_calls=2)
    _same(list(ds), np.arange(40) * 3, "results of worker processes")


def conformance(_folder: Path) -> None:
    """The optimised executor gives what the reference executor gives."""
    check_transformation(hr.Dataset.range(30).shuffle(7, seed=1).batch(4), cuts=4)

    def fail_sometimes(x: int) -> int:
        if x % 5 == 0:
            raise ValueError(f"{x} is a multiple of 5")
        return x

    check_transformation(hr.Dataset.range(20).map(fail_sometimes).repeat(2).skip(3), cuts=4)


def cleanup(_folder: Path) -> None:
    """No thread is left behind."""
    _expect(not our_threads(), f"threads are still running: {our_threads()}")


CHECKS: tuple[Check, ...] = (
    checksums, batches, functions, randomness, resume, records, tables, caches, text, errors, processes, conformance,
    cleanup,
)  # fmt: skip
"""All checks, in the order in which they run; `cleanup` is the last."""


def run(checks: tuple[Check, ...] = CHECKS, out: TextIO | None = None) -> int:
    """Run the checks and print one line for each.

    Args:
        checks: Functions that take an empty folder and raise an exception if something is wrong.
        out: Where to print; standard output by default.

    Returns:
        How many checks failed.
    """
    failed = 0
    started = time.perf_counter()
    stream = out or sys.stdout
    for check in checks:
        before = time.perf_counter()
        summary = (check.__doc__ or check.__name__).splitlines()[0].rstrip(".")
        try:
            with tempfile.TemporaryDirectory(prefix="headrace-selftest-") as folder:
                check(Path(folder))
        except Exception:  # the report shows it, and the remaining checks still run
            failed += 1
            stream.write(f"FAILED  {summary}\n{traceback.format_exc()}")
        else:
            stream.write(f"ok      {summary} ({time.perf_counter() - before:.1f} s)\n")
    verdict = f"{failed} of {len(checks)} checks failed" if failed else f"all {len(checks)} checks passed"
    stream.write(f"headrace {hr.__version__}: {verdict} in {time.perf_counter() - started:.1f} s\n")
    if failed:
        stream.write("Please report this with the output of `headrace doctor`.\n")
    stream.flush()
    return failed


def main() -> None:
    """Run all checks and exit with 1 if one fails."""
    sys.exit(1 if run() else 0)


if __name__ == "__main__":
    main()
