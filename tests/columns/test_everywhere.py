"""Rows of every kind, through all that stores, sends, moves or writes them."""

import numpy as np
import pytest

import headrace as hr
from headrace.testing import outcomes, reference_outcomes, same

ROWS = {
    "text in batches": lambda: hr.Dataset.from_tensor_slices({"s": ["a", "bé", "", "d"], "n": np.arange(4)}).batch(2),
    "bytes in batches of batches": lambda: (
        hr.Dataset.from_tensor_slices({"s": [b"%d" % i for i in range(8)]}).batch(2).batch(2)
    ),
    "images": lambda: hr.Dataset.range(6).map(lambda i: {"x": np.full((i + 1, i + 2), i)}),
    "ragged": lambda: hr.Dataset.from_tensor_slices({"r": hr.Ragged.from_rows([[1], [2, 3], [4], []])}),
    "ragged batches": lambda: ROWS["ragged"]().ragged_batch(2),
    "batches of ragged batches": lambda: ROWS["ragged batches"]().batch(2),
}
WAYS = {
    "cache": lambda ds, path: ds.cache(),
    "cache in a file": lambda ds, path: ds.cache(str(path / "cache")),
    "snapshot": lambda ds, path: ds.snapshot(str(path / "snapshot")),
    "save": lambda ds, path: ds.save(str(path / "saved")) or hr.Dataset.load(str(path / "saved")),
    "parquet": lambda ds, path: (
        ds.write_parquet(str(path / "p")) and hr.ParquetDataset(sorted(str(each) for each in path.glob("p*")))
    ),
    "process": lambda ds, path: ds.prefetch(1, mode="process"),
    "map in a process": lambda ds, path: ds.map(lambda row: row, mode="process", num_parallel_calls=1),
    "map": lambda ds, path: ds.map(lambda row: row, mode="eager"),
    "shuffle": lambda ds, path: ds.shuffle(3, seed=4),
    "everything shuffled": lambda ds, path: ds.cache().shuffle(seed=4),
    "interleave": lambda ds, path: hr.Dataset.range(2).interleave(lambda _: ds, cycle_length=2),
    "filter": lambda ds, path: ds.filter(lambda row: True),
    "unbatch": lambda ds, path: ds.unbatch(),
    "rebatch": lambda ds, path: ds.unbatch().batch(1),
    "window": lambda ds, path: ds.window(2).flat_map(lambda w: next(iter(w.values()))),
    "take and skip": lambda ds, path: ds.take(3).skip(1).repeat(2),
    "unique": lambda ds, path: ds.unique(),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("rows", ROWS)
def test_both_executors_agree(rows, way, tmp_path):
    if way == "parquet" and rows == "images":
        pytest.skip("Parquet has lists of lists, not arrays of any shape")
    ds = WAYS[way](ROWS[rows](), tmp_path)
    want = reference_outcomes(ds)
    got = outcomes(iter(ds))
    assert [kind for kind, _ in got] == [kind for kind, _ in want]
    assert all(same(a, b) for (_, a), (_, b) in zip(got, want, strict=True))
    it = iter(ds)
    some = outcomes(it, 2)
    rest = outcomes(ds.iterator(state=it.state()))
    assert len(some) + len(rest) == len(want)
