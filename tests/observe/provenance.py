"""Pipelines whose elements say which records they hold, to check `rows_of`, `skip_steps` and `debug` against runs.

`python -m tests.observe.provenance --steps 21000 --rows 1000` runs the full checks (1,000 random steps of each of 21
pipelines); the suite runs a few of each. `make observe` runs it beside the benchmarks of verdicts and of their cost.
"""

import argparse
import functools
import random
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import headrace as hr

D = hr.Dataset
NUMBER = {"n": hr.io.FixedLenFeature([], np.int64)}


@functools.cache
def folder():
    """Three files of 40 records of each kind; record i of file k holds k * 1000 + i."""
    where = Path(tempfile.mkdtemp(prefix="headrace-provenance-"))
    for k in range(3):
        numbers = [k * 1000 + i for i in range(40)]
        with hr.io.TFRecordWriter(where / f"{k}.tfrecord") as writer:
            for n in numbers:
                writer.write(str(n).encode())
        (where / f"{k}.txt").write_text("".join(f"{n}\n" for n in numbers))
        pq.write_table(pa.table({"n": numbers}), where / f"{k}.parquet", row_group_size=16)
    return where


def files(kind):
    return [str(folder() / f"{k}.{kind}") for k in range(3)]


def records():
    return hr.TFRecordDataset(files("tfrecord"))


def parsed():
    return records().map(lambda r: int(r), mode="eager", output_signature=hr.TensorSpec((), np.int64))


def tables():
    return hr.ParquetDataset(files("parquet")).map(lambda row: row["n"])


def noisy(x, rng):
    return x, rng.normal(), rng.integers(0, 100)


PIPELINES = {
    "range": lambda: D.range(300).batch(7),
    "shuffled by number": lambda: D.range(300).shuffle(seed=4).batch(7, drop_remainder=True),
    "buffer": lambda: D.range(300).shuffle(20, seed=1).map(lambda x: x + 0).batch(8).prefetch(2),
    "epochs": lambda: D.range(50).shuffle(16, seed=2).repeat(4).batch(6),
    "epochs of batches": lambda: D.range(50).shuffle(16, seed=2).batch(6).repeat(4),
    "unseeded": lambda: D.range(90).shuffle(30).repeat(2).shuffle(5).batch(4),
    "filter": lambda: D.range(300).filter(lambda x: x % 3 > 0).shuffle(15, seed=3).batch(5),
    "take and shard": lambda: D.range(400).skip(9).shard(3, 1).take(100).shuffle(9, seed=1).batch(4),
    "files": lambda: records().shuffle(25, seed=5).map(lambda r: int(r), num_parallel_calls=2).batch(4),
    "text": lambda: hr.TextLineDataset(files("txt")).map(int).shuffle(30, seed=2).batch(3),
    "interleave": lambda: (
        D.list_files(str(folder() / "*.tfrecord"), seed=1)
        .interleave(hr.TFRecordDataset, cycle_length=2, block_length=3, num_parallel_calls=2)
        .map(lambda r: int(r))
        .batch(5)
    ),
    "flat_map of files": lambda: D.from_tensor_slices(files("txt")).flat_map(hr.TextLineDataset).map(int).batch(6),
    "parquet": lambda: tables().shuffle(20, seed=9).batch(4),
    "groups": lambda: D.range(200).group_by_window(lambda x: x % 4, lambda _, d: d.batch(5), 5),
    "buckets": lambda: (
        D.range(200)
        .map(lambda x: np.full(int(x) % 7 + 1, x), mode="eager", output_signature=hr.TensorSpec((None,), np.int64))
        .bucket_by_sequence_length(len, [3, 6], [4, 5, 6])
    ),
    "mixture": lambda: D.sample_from_datasets([D.range(100), D.range(1000, 1100)], [0.3, 0.7], seed=5).batch(4),
    "joined": lambda: D.range(60).shuffle(9, seed=1).concatenate(D.range(1000, 1060)).unique().batch(4),
    "cached": lambda: D.range(80).shuffle(20, seed=3).filter(lambda x: x != 7).cache().repeat(3).batch(6),
    "padded": lambda: D.range(120).padded_batch(5).map(lambda b: b + 0).rebatch(7),
    "ranks": lambda: D.range(300).shuffle(40, seed=1).distribute(1, 3, batch_size=4, uneven="pad"),
    "random": lambda: D.range(150).shuffle(12, seed=6).random_map(noisy, seed=2).repeat(2).batch(5),
}


def held(name, element):
    """The records that an element of a pipeline says it was made of."""
    if name == "buckets":
        return [int(row[0]) for row in element]
    if name == "ranks":
        rows, mask = element
        return [int(n) for n in rows[mask]]
    if name == "random":
        element = element[0]
    return np.asarray(element).ravel().tolist()


def named(row):
    """What a record holds, by its name."""
    if row.file is not None:
        return int(Path(row.file).stem) * 1000 + row.number
    return row.number


def check_rows(name, count, draw):
    """Compare `rows_of` with two logged epochs at `count` random steps; how many were compared."""
    ds = PIPELINES[name]()
    logs = [[held(name, element) for element in ds] for _ in range(2)]
    for _ in range(count):
        epoch = draw.randrange(2)
        step = draw.randrange(len(logs[epoch]))
        found = [named(row) for row in ds.rows_of(step, epoch=epoch)]
        want = [n % 1000 for n in logs[epoch][step]] if name in ("mixture", "joined") else logs[epoch][step]
        assert found == want, (name, epoch, step, found, want)
    return count


def as_bytes(element):
    return [leaf.tobytes() for leaf in map(np.asarray, element if isinstance(element, tuple) else (element,))]


def check_skipped(name, count, draw):
    """Leave out `count` random steps of an epoch, by the operation and by the iterator; the rest must be bit-equal."""
    ds = PIPELINES[name]()
    log = [as_bytes(element) for element in ds]
    steps = draw.sample(range(len(log)), min(count, len(log)))
    want = [element for step, element in enumerate(log) if step not in steps]
    again = D(ds._node)
    with again.iterator() as it:
        it.exclude(steps)
        assert [as_bytes(element) for element in it] == want, name
    assert [as_bytes(element) for element in D(ds._node).skip_steps(steps)] == want, name
    return len(steps)


class Logged:
    """A function that draws, and keeps what it was given, what it drew and what it returned."""

    def __init__(self):
        self.calls = []

    def __call__(self, x, rng):
        drawn = rng.normal(), int(rng.integers(0, 1000))
        made = float(x) * drawn[0] + drawn[1]
        self.calls.append((int(x), drawn, made))
        return np.float64(made)


REPLAYED = {
    "shuffle": lambda f: D.range(600).random_map(f, seed=1).shuffle(50, seed=2).batch(8),
    "threads": lambda f: D.range(600).shuffle(40, seed=3).random_map(f, seed=4, num_parallel_calls=2).batch(8),
    "epochs": lambda f: D.range(200).random_map(f, seed=5).repeat(3).shuffle(30, seed=1).batch(8).map(lambda b: b * 2),
    "files": lambda f: parsed().random_map(f, seed=6).shuffle(20, seed=3).repeat(5).batch(6),
    "cache": lambda f: D.range(300).shuffle(40, seed=3).random_map(f, seed=9).cache().repeat(2).batch(8),
}


def check_replay(name, count, draw):
    """Replay `count` random rows; inputs, draws and results must be those of the run."""
    function = Logged()
    ds = REPLAYED[name](function)
    elements = list(ds)
    run = {call[2]: call for call in function.calls}
    scale = 2.0 if name == "epochs" else 1.0
    for _ in range(count):
        step = draw.randrange(len(elements))
        row = draw.randrange(len(elements[step]))
        function.calls.clear()
        made = ds.debug(step=step, row=row)
        assert function.calls == [run[float(made)]], (name, step, row)
        assert elements[step][row] == made * scale
    return count


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=21_000, help="random steps of all pipelines together")
    parser.add_argument("--rows", type=int, default=1000, help="rows that are replayed")
    chosen = parser.parse_args()
    draw = random.Random(0)
    started = time.perf_counter()
    rows = sum(check_rows(name, -(-chosen.steps // len(PIPELINES)), draw) for name in PIPELINES)
    print(f"rows_of: {rows} of {rows} steps of {len(PIPELINES)} pipelines equal, {time.perf_counter() - started:.0f} s")
    left_out = sum(check_skipped(name, 8, draw) for name in PIPELINES)
    print(f"skipping: {left_out} steps of {len(PIPELINES)} pipelines left out, the rest bit-equal")
    started = time.perf_counter()
    replayed = sum(check_replay(name, -(-chosen.rows // len(REPLAYED)), draw) for name in REPLAYED)
    print(f"replay: {replayed} of {replayed} rows equal, {time.perf_counter() - started:.0f} s")


if __name__ == "__main__":
    main()
