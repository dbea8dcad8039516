"""Every operation, alone and where marks are hard, through the public conformance kit at every cut."""

import tempfile
from collections import UserDict
from dataclasses import dataclass, fields
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest

import headrace as hr
from headrace.core.keys import Seed
from headrace.indexed.memory import Memory
from headrace.plan.node import Node, fields_of, walk
from headrace.plan.spec import Spec
from headrace.plan.structure import LEAF
from headrace.testing import check_transformation, difference, outcomes, reference_outcomes
from tests.framing import framed
from tests.tables import NO_TEXT, damage_group, strings, write_arrow, write_parquet, write_stream

D = hr.Dataset
TOKENS = hr.TensorSpec((None,), "int64")


def picky(x):
    if x % 7 == 3:
        raise ValueError(f"bad {x}")
    return x * 2


def jittered(x, rng):
    return np.int64(picky(int(x)) + rng.integers(10)) if rng.bernoulli(0.8) else np.int64(-rng.choice(5))


def number(x, rng):
    return x, rng.random()


def streamed(n=23):
    return D.from_generator(lambda: iter(range(n)), output_signature=hr.TensorSpec((), "int64"))


def slices(n=20):
    return D.from_tensor_slices({"x": np.arange(3 * n).reshape(n, 3), "s": [str(i) for i in range(n)]})


def ragged(n=17):
    return D.from_tensor_slices(hr.Ragged.from_rows([np.arange(i % 5) for i in range(n)]))


def token_fields(n=17):
    """Elements with two rows of tokens and one number."""
    return D.range(n).map(
        lambda i: {"x": np.arange(i % 5), "y": -np.arange(i % 5), "n": i},
        output_signature={"x": TOKENS, "y": TOKENS, "n": hr.TensorSpec((), "int64")},
    )


def ragged_results(n=17):
    return D.range(n).map(lambda i: np.arange(i % 5))


def saved(ds, **how):
    folder = tempfile.mkdtemp(dir=_folder.name)
    ds.save(folder, **how)
    return D.load(folder, types=[Sum])


def table(n=150):
    """Two chunks that the columns do not agree on; Arrow's text, lists and categories; a null that is NaN."""
    half = n // 3
    return pa.table(
        {
            "x": pa.chunked_array([np.arange(half), np.arange(half, n)]),
            "f": [None if i % 5 == 2 else i / 2 for i in range(n)],
            "s": pa.chunked_array([[str(i) for i in range(n - half)], [str(i) for i in range(n - half, n)]]),
            "l": [list(range(i % 4)) for i in range(n)],
            "c": pa.array(["even", "odd"] * (n // 2)).dictionary_encode(),
        }
    )


class Picky:
    """A map-style dataset that fails now and then; by whole blocks if `together`."""

    def __init__(self, n=20, together=False):
        self.n = n
        if together:
            self.__getitems__ = lambda numbers: [self[i] for i in numbers]

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        return {"x": np.array([picky(i), i]), "s": str(i)}


def frame(library):
    return pytest.importorskip(library).DataFrame(table(24).to_pydict())


def split(n=150):
    datasets = pytest.importorskip("datasets")
    return datasets.Dataset.from_dict({"x": range(n), "s": [None if i % 50 == 7 else str(i) for i in range(n)]})


_folder = TemporaryDirectory(prefix="headrace-conformance-")


def files(name, *contents):
    """Names of files with these contents."""
    paths = [Path(_folder.name, f"{name}-{i}") for i in range(len(contents))]
    for path, content in zip(paths, contents, strict=True):
        if not path.exists():
            path.write_bytes(content)
    return paths


def tables(name, write):
    """Names of two files of tables, in which one row is no text, and of Parquet one group is damaged."""
    paths = [Path(_folder.name, f"{name}-{i}") for i in range(2)]
    if not paths[0].exists():
        words = strings([NO_TEXT if i == 8 else b"row %d" % i for i in range(11)])
        for path in paths:
            write(pa.table({"x": np.arange(11), "s": words, "l": [[{"a": i}] * (i % 3) for i in range(11)]}), path, 4)
        if write is write_parquet:
            damage_group(paths[1], 1)
    return paths


EXAMPLES = [hr.io.encode_example({"x": i if i != 4 else "text", "name": f"row {i}"}) for i in range(9)]
FEATURES = {"x": hr.io.FixedLenFeature([], np.int64), "name": hr.io.FixedLenFeature([], bytes)}
LINES = b"".join(b"line %d\n" % i for i in range(9))


@dataclass
class Sum:
    """A class that does not take all values: of single numbers and of batches, some."""

    x: Any
    y: Any = 0

    def __post_init__(self):
        if np.sum(self.x) % 7 == 3:
            raise ValueError(f"{np.sum(self.x)} is refused")


class Pair(NamedTuple):
    x: Any
    y: Any


class Refusing(Pair):
    def __new__(cls, x, y):
        if np.sum(x) % 5 == 2:
            raise StopIteration
        return super().__new__(cls, x, y)


class Closed(UserDict):
    def __init__(self, items):
        if not isinstance(items["x"], hr.TensorSpec) and np.sum(items["x"]) % 5 == 2:
            raise KeyError("refused")
        super().__init__(items)


def sums(n=20):
    """Elements 3, 10 and 17 cannot be put together."""
    assert n % 7 == 6
    return D.from_tensor_slices(Sum(np.arange(n), np.arange(n)))


def twice(combine, ds):
    return combine(ds, ds)


PIPELINES = {
    "range": lambda: D.range(10),
    "from_tensors": lambda: D.from_tensors((1, "a", None)),
    "from_tensor_slices": slices,
    "from_generator": streamed,
    "from_arrow": lambda: D.from_arrow(table()).take(110).skip(90),
    "from_arrow by number": lambda: D.from_arrow(table()).shuffle(20).batch(8),
    "from_arrow of an array": lambda: D.from_arrow(table()["l"]).shuffle().ragged_batch(7),
    "from_pandas": lambda: D.from_pandas(frame("pandas")).shuffle(9),
    "from_polars": lambda: D.from_polars(frame("polars")).shuffle(9),
    "from_torch": lambda: D.from_torch(Picky()),
    "from_torch by blocks": lambda: D.from_torch(Picky(together=True)).shuffle().batch(3),
    "from_torch in a buffer": lambda: D.from_torch(Picky()).shuffle(6).batch(3),
    "from_huggingface": lambda: D.from_huggingface(split().select_columns(["x"]).select(range(9, 60))).shuffle(9),
    "from_huggingface with nulls": lambda: D.from_huggingface(split(20)).shuffle(9),
    "from_huggingface in a format": lambda: D.from_huggingface(split(20).with_format("numpy")).shuffle(),
    "map": lambda: D.range(20).map(picky),
    "map that breaks its promise": lambda: D.range(20).map(
        lambda x: x if x % 5 else float(x), output_signature=hr.TensorSpec((), "int64")
    ),
    "parallel map": lambda: D.range(30).map(picky, num_parallel_calls=3),
    "random_map": lambda: D.range(20).random_map(jittered),
    "random_map of structures": lambda: slices().batch(3).random_map(lambda d, rng: (rng.permutation(d["x"]), d["s"])),
    "random_map in a row": lambda: D.range(9).random_map(jittered, seed=1).random_map(jittered, seed=1),
    "random_map, parallel": lambda: streamed().random_map(jittered, num_parallel_calls=3),
    "random_map a shuffle of itself": lambda: (
        twice(D.zip, D.range(9).random_map(jittered, seed=2)).shuffle(4).repeat(2)
    ),
    "random_map after repeat": lambda: slices(5).shuffle(3).repeat(3).random_map(lambda d, rng: (d["s"], rng.random())),
    "random_map in flat_map": lambda: (
        D.range(5).flat_map(lambda n: D.range(n).random_map(jittered)).random_map(jittered)
    ),
    "random_map in a cache": lambda: D.range(8).random_map(jittered).cache().random_map(jittered).repeat(2),
    "random_map of some": lambda: D.range(9).random_map(jittered).concatenate(D.range(3)).batch(2),
    "filter": lambda: D.range(30).filter(lambda x: bool(picky(x) % 3)),
    "filter in batches": lambda: streamed(60).filter(lambda x: bool(picky(x) % 3)).batch(4).batch(2),
    "batch": lambda: D.range(20).map(picky).batch(4),
    "batch by a function": lambda: D.range(20).map(picky).batch(3, collate_fn=lambda rows: np.array(rows).sum()),
    "split": lambda: slices().split(0.7, seed=3)[0].batch(3),
    "split of a stream": lambda: streamed().split(0.5, seed=3)[1],
    "weighted_sample": lambda: slices().weighted_sample(np.arange(len(slices())), 40, seed=3).batch(3),
    "weighted_sample with failures": lambda: D.range(20).map(picky).weighted_sample(np.ones(20), seed=1),
    "weighted_sample without replacement": lambda: D.range(20).weighted_sample(
        np.arange(20), 12, replacement=False, seed=4
    ),
    "batch of batches": lambda: slices().batch(2).batch(3),
    "batch without remainder": lambda: streamed().batch(3, drop_remainder=True),
    "ragged rows": lambda: D.range(9).map(lambda n: np.arange(n // 2)).batch(2),
    "filter on threads": lambda: streamed(40).filter(lambda x: bool(picky(x) % 3), num_parallel_calls=3).batch(4),
    "filter of some on threads": lambda: D.range(60).filter(lambda x: x % 3 > 0, num_parallel_calls=2),
    "filter of many": lambda: D.range(3000).filter(lambda x: x % 700 == 3, num_parallel_calls=2),
    "shuffle by number": lambda: slices().shuffle(5),
    "shuffle a stream": lambda: streamed().shuffle(6, seed=2),
    "shuffle with failures": lambda: D.range(40).map(picky).shuffle(7, seed=3),
    "shuffle in a buffer larger than the data": lambda: streamed().shuffle(100),
    "shuffle ragged rows": lambda: D.range(12).map(lambda n: np.arange(n % 3)).shuffle(4, seed=1),
    "shuffle a shuffle": lambda: slices().shuffle(5).shuffle(3),
    "shuffle everything": lambda: slices().shuffle(),
    "shuffle everything with failures": lambda: D.range(20).map(picky).shuffle(seed=4),
    "shuffle after repeat": lambda: slices().repeat().shuffle(7).take(40),
    "repeat and reshuffle": lambda: slices().shuffle(4).repeat(3).batch(7),
    "repeat and reshuffle a stream": lambda: streamed().shuffle(5).repeat(2).batch(4),
    "repeat for ever": lambda: slices().shuffle(4).repeat().take(50),
    "repeat repeats": lambda: streamed(5).shuffle(3).repeat(2).repeat(2),
    "repeat nothing": lambda: D.range(0).repeat(),
    "take": lambda: streamed().take(5),
    "skip": lambda: streamed().skip(2).batch(3).skip(1).take(3),
    "skip_steps": lambda: streamed().skip_steps([0, 3, 4]).batch(3).skip_steps([1, 90]),
    "skip_steps by number": lambda: D.range(40).map(picky).shuffle(9, 3).skip_steps([0, 5, 6, 38]).repeat(2),
    "shard": lambda: D.range(50).map(picky).shard(4, 3),
    "shard by number": lambda: slices().skip(1).shard(3, 2),
    "zip": lambda: D.zip(D.range(20).map(picky), streamed()),
    "zip a dict": lambda: D.zip({"a": slices(), "b": D.range(7)}),
    "zip with itself": lambda: twice(D.zip, D.range(9).shuffle(5, seed=1)),
    "concatenate": lambda: streamed().concatenate(D.range(3)),
    "concatenate with itself": lambda: twice(D.concatenate, D.range(5).shuffle(5)).concatenate(D.range(2)),
    "enumerate": lambda: D.range(20).map(picky).enumerate(3),
    "flat_map": lambda: D.range(6).flat_map(D.range),
    "flat_map with shuffles": lambda: D.range(6).shuffle(3).flat_map(lambda n: D.range(n).shuffle(3)),
    "flat_map with failures": lambda: D.range(6).flat_map(lambda n: D.range(n + 3).map(picky) if n != 2 else 5),
    "nested flat_map": lambda: D.range(5).flat_map(lambda n: D.range(n).flat_map(lambda m: D.range(m).shuffle(2))),
    "interleave": lambda: D.range(7).interleave(lambda n: D.range(n * 10, n * 10 + n), cycle_length=3),
    "interleave blocks with failures": lambda: D.range(7).interleave(
        lambda n: D.range(n * 10, n * 10 + n).map(picky), cycle_length=3, block_length=2
    ),
    "interleave long strands": lambda: (
        D.range(7).interleave(lambda n: D.range(n, n + 50), cycle_length=3, block_length=2).batch(50)
    ),
    "parallel interleave": lambda: D.range(7).interleave(
        lambda n: D.range(n * 10, n * 10 + 5).shuffle(3), cycle_length=3, num_parallel_calls=2
    ),
    "interleave in flat_map": lambda: D.range(3).flat_map(
        lambda n: D.range(n + 2).interleave(D.range, cycle_length=2).batch(2)
    ),
    "shuffle what fits": lambda: (
        streamed()
        .shuffle(hr.AUTOTUNE)
        .shuffle(hr.AUTOTUNE, seed=2)
        .repeat(2)
        .with_options(hr.Options(ram_budget=1 << 20))
    ),
    "prefetch": lambda: slices().shuffle(5).prefetch(3).batch(4).prefetch(hr.AUTOTUNE),
    "cache": lambda: streamed().cache(),
    "cache in files": lambda: slices().shuffle(7).cache(tempfile.mkdtemp(dir=_folder.name)).repeat(2),
    "cache failures in files": lambda: (
        D.range(20).map(picky).cache(tempfile.mkdtemp(dir=_folder.name)).shuffle(5).batch(3)
    ),
    "cache ragged rows in files": lambda: ragged_results().cache(tempfile.mkdtemp(dir=_folder.name)).repeat(2),
    "snapshot": lambda: slices().shuffle(7).snapshot(tempfile.mkdtemp(dir=_folder.name)).batch(3),
    "load": lambda: saved(slices()),
    "load and shuffle": lambda: saved(ragged_results()).shuffle(5).batch(1),
    "load shards": lambda: saved(D.range(20), shard_func=lambda x: x % 3),
    "cache a shuffle": lambda: D.range(10).shuffle(4).cache().repeat(2),
    "cache failures": lambda: D.range(20).map(picky).cache().shuffle(5).batch(3),
    "cache in flat_map": lambda: D.range(4).flat_map(lambda n: D.range(n + 2).shuffle(2).cache().repeat(2)),
    "slice": lambda: D.range(20).map(picky)[2:15:3],
    "elements by number": lambda: D.range(20).map(picky)[[3, 1, -4, 1, 5, 3, 1]].batch(2),
    "shuffle everything in windows": lambda: D.range(20).map(picky).shuffle(seed=4, window=6).batch(4),
    "distribute": lambda: slices().shuffle(seed=1).distribute(1, 3, 2),
    "distribute a stream, padded": lambda: streamed().distribute(1, 3, 4, "pad"),
    "distribute and wrap": lambda: D.range(20).map(picky).shuffle(seed=2).repeat(2).distribute(2, 3, 4, "wrap"),
    "distribute elements": lambda: streamed().filter(lambda x: x % 3 > 0).distribute(0, 2, uneven="wrap").batch(3),
    "mix": lambda: hr.mix({"a": D.range(9).shuffle(seed=1), "b": D.range(20, 24).map(picky)}, [2, 1], seed=3).take(60),
    "mix streams": lambda: hr.mix({"a": streamed(7).shuffle(3), "b": D.range(9)}, schedule={20: [1, 5]}).take(60),
    "mix once": lambda: hr.mix({"a": streamed(), "b": D.range(9)}, [2, 1], repeat=False).batch(4),
    "pack": lambda: ragged().pack(4, separator=9),
    "pack to fit": lambda: ragged().shuffle(5).pack(6, "first_fit", lookahead=7, documents=True).batch(2),
    "pack by best fit": lambda: (
        token_fields()
        .shuffle(5, seed=1)
        .pack(6, "best_fit", {"x": 9, "y": 8}, fields=("x", "y"), lookahead=7, max_documents=3, cu_seqlens=True)
    ),
    "pack pairs": lambda: token_fields().pack({"x": 5, "y": 6}, "first_fit", lookahead=5).repeat(2),
    "pack items": lambda: token_fields().pack(6, fields=["x"], items=["n"], pad=-1).take(9),
    "chunk": lambda: ragged().chunk(2, 1).shuffle(3, seed=1),
    "chunk with failures": lambda: D.range(20).map(lambda i: np.arange(picky(i) % 5), output_signature=TOKENS).chunk(2),
    "chunk fields": lambda: token_fields().chunk(2, fields=["x", "y"]).batch(1),
    "batch by tokens": lambda: ragged().batch_by_tokens(6, sort_window=5, group=2),
    "batch by tokens of a field": lambda: token_fields().batch_by_tokens(8, "n", sort_window=5, pad_to_multiple_of=2),
    "distribute balanced": lambda: token_fields(23).distribute(
        1, 2, None, "pad", balance="n", cost="quadratic", window=3
    ),
    "pack with failures": lambda: D.range(20).map(lambda i: np.arange(picky(i) % 5), output_signature=TOKENS).pack(6),
    "ragged": lambda: ragged(),
    "shuffle ragged columns": lambda: ragged().shuffle(4),
    "shuffle ragged results": lambda: ragged_results().shuffle(4, seed=1),
    "cache ragged rows": lambda: ragged_results().cache().repeat(2),
    "padded_batch": lambda: ragged().padded_batch(4),
    "padded_batch with a value": lambda: ragged_results().padded_batch(4, padding_values=-1),
    "padded_batch to a shape": lambda: ragged().padded_batch(3, [6]),
    "padded_batch without remainder": lambda: ragged().padded_batch(4, drop_remainder=True),
    "padded_batch of rows too long": lambda: ragged().padded_batch(3, [3]),
    "padded_batch with failures": lambda: D.range(20).map(lambda i: np.arange(picky(i) % 5)).padded_batch(3),
    "padded_batch of structures": lambda: D.zip(ragged(), slices(17)).padded_batch(4),
    "padded_batch of matrices": lambda: D.range(9).map(lambda i: np.ones((i % 3, i % 2 + 1))).padded_batch(4),
    "ragged_batch": lambda: ragged().ragged_batch(4),
    "ragged_batch of results": lambda: ragged_results().ragged_batch(4),
    "ragged_batch of dense rows": lambda: slices().ragged_batch(3),
    "counter": lambda: D.counter(3, 2).take(10),
    "random": lambda: D.random(seed=1).take(10),
    "random, rerandomized": lambda: D.random(rerandomize_each_iteration=True).take(10).repeat(2),
    "scan": lambda: D.range(20).map(picky).scan(0, lambda s, x: (s + x, s)),
    "scan with an array": lambda: streamed().scan(np.zeros(2, np.int64), lambda s, x: (s + x, (s, x))),
    "scan whose state changes": lambda: D.range(5).scan(0, lambda s, x: (s + 0.5 if x == 2 else s + x, x)),
    "take_while": lambda: D.range(20).map(picky).take_while(lambda x: x < 20),
    "take_while with failures": lambda: streamed().take_while(lambda x: bool(picky(x) < 20)),
    "ignore_errors": lambda: D.range(30).map(picky).ignore_errors().batch(4),
    "unique": lambda: D.range(30).map(lambda x: x * x % 7).unique(),
    "unique structures": lambda: slices().map(lambda d: (d["s"][:1], d["x"] * 0)).unique(),
    "unique ragged batches": lambda: ragged_results().ragged_batch(1).unique(),
    "unbatch": lambda: D.range(20).batch(3).unbatch(),
    "unbatch tuples": lambda: D.range(20).batch(3).map(lambda x: (x, x * 2)).unbatch().batch(4),
    "unbatch unequal components": lambda: D.range(9).map(lambda x: (np.arange(x % 3), np.arange(2))).unbatch(),
    "unbatch ragged rows": lambda: ragged().unbatch(),
    "unbatch structures": lambda: slices().batch(4).unbatch(),
    "unbatch ragged batches": lambda: ragged().ragged_batch(3).unbatch(),
    "rebatch": lambda: D.range(20).batch(3).rebatch(4),
    "rebatch to sizes": lambda: D.range(20).batch(3).rebatch([1, 3, 0]),
    "rebatch to empty batches at the end": lambda: D.range(6).batch(3).rebatch([2, 0, 0]),
    "rebatch results to empty batches": lambda: D.range(8).batch(3).map(lambda x: (x, x * 0.5)).rebatch([0, 2, 0]),
    "rebatch nothing to empty batches": lambda: D.range(0).batch(3).rebatch([0, 0, 2]),
    "rebatch failures to empty batches": lambda: D.range(20).map(picky).batch(1).rebatch([0, 2, 0]),
    "rebatch failures": lambda: D.range(20).map(picky).batch(1).rebatch([2, 3]),
    "unbatch failed batches of a known size": lambda: D.range(40).map(picky).batch(4, drop_remainder=True).unbatch(),
    "rebatch whole batches": lambda: D.range(40).map(picky).batch(4, drop_remainder=True).rebatch(2),
    "rebatch whole batches to sizes": lambda: D.range(40).map(picky).batch(6, drop_remainder=True).rebatch([2, 2]),
    "repeat what is empty now and then": lambda: (
        D.range(3).shuffle(3, seed=4).take(1).filter(lambda x: int(x) > 0).repeat(6)
    ),
    "repeat what is empty in the end": lambda: D.range(3).filter(lambda x: int(x) > 5).repeat(3),
    "scan with a state that grows": lambda: streamed(9).scan(
        np.zeros(0, np.int64), lambda s, x: (np.append(s, x)[-4:], s.sum())
    ),
    "windows in whole batches": lambda: D.range(23).window(5, 3).flat_map(lambda w: w.batch(2, drop_remainder=True)),
    "windows in whole batches that take turns": lambda: (
        D.range(23).map(picky).window(5, 3).interleave(lambda w: w.batch(2, drop_remainder=True), cycle_length=3)
    ),
    "rejection_resample to one class": lambda: D.range(40).rejection_resample(lambda x: x % 2, [0, 1], seed=1),
    "sample_from_datasets of no weight": lambda: D.sample_from_datasets([streamed(), D.range(3)], [0, 0]).repeat(2),
    "rebatch without remainder": lambda: streamed().batch(5).rebatch([2, 4], drop_remainder=True),
    "choose_from_datasets": lambda: D.choose_from_datasets(
        [D.range(9), D.range(100, 109)], D.from_tensor_slices([0, 1, 1, 0, 0, 1] * 4)
    ),
    "choose_from_datasets to the last": lambda: D.choose_from_datasets(
        [D.range(3), D.range(100, 109).map(picky)],
        D.from_tensor_slices([0, 1, 1, 0, 0, 1] * 4),
        stop_on_empty_dataset=False,
    ),
    "choose_from_datasets out of range": lambda: D.choose_from_datasets(
        [D.range(9), D.range(100, 109)], D.from_tensor_slices([0, 5, 1, -1, 0])
    ),
    "sample_from_datasets": lambda: D.sample_from_datasets(
        [D.range(9), D.range(100, 120), D.range(5)], [0.5, 0.5, 0], seed=3
    ),
    "sample_from_datasets unseeded": lambda: D.sample_from_datasets([streamed(), D.range(100, 120).shuffle(3)]),
    "sample_from_datasets by a dataset": lambda: D.sample_from_datasets(
        [D.range(9), D.range(100, 120)], D.from_tensors([0.5, 0.5]).repeat()
    ),
    "group_by_window": lambda: D.range(20).group_by_window(lambda x: x % 3, lambda k, w: w.batch(3), 4),
    "group_by_window with failures": lambda: (
        D.range(40).map(picky).group_by_window(lambda x: x % 5, lambda k, w: w.shuffle(3).batch(2), 3)
    ),
    "group_by_window of sizes": lambda: streamed(40).group_by_window(
        lambda x: picky(x) % 4, lambda k, w: w.batch(2), window_size_func=lambda k: k + 1
    ),
    "group_by_window to no dataset": lambda: D.range(20).group_by_window(
        lambda x: x % 3, lambda k, w: w.batch(3) if k != 1 else 5, 4
    ),
    "bucket_by_sequence_length": lambda: ragged(40).bucket_by_sequence_length(len, [2, 4], [3, 4, 2]),
    "bucket_by_sequence_length without remainder": lambda: ragged_results(40).bucket_by_sequence_length(
        len, [2, 4], [3, 4, 2], drop_remainder=True
    ),
    "bucket_by_sequence_length to the boundary": lambda: ragged(40).bucket_by_sequence_length(
        len, [2, 4], [3, 4, 2], pad_to_bucket_boundary=True
    ),
    "bucket_by_sequence_length without padding": lambda: slices(20).bucket_by_sequence_length(
        lambda d: len(d["s"]), [2], [3, 2], no_padding=True
    ),
    "rejection_resample": lambda: D.range(200).rejection_resample(lambda x: x % 4 == 0, [0.5, 0.5], seed=1),
    "rejection_resample with failures": lambda: (
        D.range(200).map(picky).rejection_resample(lambda x: x % 4 // 2, [0.5, 0.5], [0.7, 0.3])
    ),
    "window": lambda: D.range(23).window(5, shift=2, stride=2).flat_map(lambda w: w.batch(5)),
    "window of structures": lambda: (
        slices().window(3, drop_remainder=True).flat_map(lambda d: D.zip({"x": d["x"], "s": d["s"]}))
    ),
    "window with failures": lambda: D.range(23).map(picky).window(3, shift=5, stride=1).flat_map(lambda w: w),
    "window that strides over failures": lambda: (
        D.range(23).map(picky).window(2, shift=1, stride=2).flat_map(lambda w: w.batch(2))
    ),
    "options": lambda: D.range(9).map(picky).with_options(hr.Options(cpu_budget=1)).batch(2),
    "throttle and progress": lambda: slices(6).throttle(rows_per_second=1e6).progress("test").batch(2),
    "windows at once": lambda: (
        D.range(23).enumerate().window(4, 3, 2).flat_map(lambda i, x: D.zip((i.batch(2), x.batch(2))))
    ),
    "windows at once, of a stream": lambda: streamed().window(4, 3).flat_map(lambda w: w.batch(4)).shuffle(3).batch(2),
    "buckets of known lengths": lambda: ragged().bucket_by_sequence_length(len, [2, 3], [2, 3, 2]),
    "rebatch of rows that do not fit together": lambda: ragged().padded_batch(2).batch(2).rebatch([3, 0, 1]),
    "unique ragged batches again": lambda: ragged().ragged_batch(5).repeat(2).unique(),
    "list_files": lambda: D.list_files([str(f) for f in files("list", b"", b"", b"")]).batch(2),
    "TextLineDataset": lambda: hr.TextLineDataset(files("text", LINES, b"", b"\xff\nend"), buffer_size=10),
    "TextLineDataset in turn": lambda: hr.TextLineDataset(
        files("turn", LINES, b"a", LINES), num_parallel_reads=2
    ).batch(4),
    "TextLineDataset by number": lambda: hr.TextLineDataset(files("index", LINES, b"a"), index=True).shuffle().batch(3),
    "TextLineDataset of shuffled names": lambda: hr.TextLineDataset(
        D.list_files([str(f) for f in files("names", b"a\nb", b"c", b"d")])
    ),
    "FixedLengthRecordDataset": lambda: hr.FixedLengthRecordDataset(files("fixed", LINES[:21], LINES[:7]), 7).shuffle(
        3
    ),
    "interleave over files": lambda: (
        D.from_tensor_slices([str(f) for f in files("inter", LINES, b"a\nb", LINES)])
        .interleave(hr.TextLineDataset, 2, 3)
        .batch(5)
    ),
    "CsvDataset": lambda: hr.CsvDataset(files("csv", b'1,a\n2\n3,"b\nc"\nx,d\n'), [np.int64, str], buffer_size=3).batch(
        2
    ),
    "from_tfrecord": lambda: D.from_tfrecord(files("examples", framed(EXAMPLES), framed(EXAMPLES[:3])), FEATURES),
    "from_tfrecord by number": lambda: (
        D.from_tfrecord(files("good", framed(EXAMPLES[:4])), FEATURES, index=True).shuffle().batch(2)
    ),
    "ParquetDataset": lambda: hr.ParquetDataset(tables("parquet", write_parquet)),
    "ParquetDataset in turn": lambda: hr.ParquetDataset(tables("parquet", write_parquet), num_parallel_reads=2).batch(
        2
    ),
    "ParquetDataset by number": lambda: hr.ParquetDataset(tables("parquet", write_parquet)).shuffle().take(20),
    "ParquetDataset shuffled": lambda: hr.ParquetDataset(tables("parquet", write_parquet)).shuffle(5, 1).skip(3),
    "ParquetDataset skips": lambda: hr.ParquetDataset(tables("parquet", write_parquet), on_error="skip").shuffle(5, 1),
    "ParquetDataset filters": lambda: hr.ParquetDataset(tables("parquet", write_parquet), filter=[("x", ">", 2)]),
    "ArrowDataset": lambda: hr.ArrowDataset(tables("arrow", write_arrow)).shuffle(5, 1),
    "ArrowDataset by number": lambda: hr.ArrowDataset(tables("arrow", write_arrow)).shuffle(),
    "ArrowDataset of streams": lambda: hr.ArrowDataset(tables("stream", write_stream)).shuffle(),
    "JsonLinesDataset": lambda: hr.JsonLinesDataset(
        files("json", b'\xef\xbb\xbf\n{"a": [{"b": "x"}]}\n{"a"\n{"a": []}\n{"a": [{"b": "\xff"}]}\n'), buffer_size=9
    ),
    "elements that their class refuses": lambda: sums(),
    "elements that a named tuple refuses": lambda: D.from_tensor_slices(Refusing(np.arange(20), np.arange(20))),
    "elements that a mapping refuses": lambda: D.from_tensor_slices(Closed({"x": np.arange(20), "y": np.arange(20)})),
    "refused elements of a stream": lambda: streamed().map(lambda x: Sum(x)),
    "refused elements within others": lambda: D.zip({"a": sums().enumerate(), "b": D.range(20)}),
    "functions of refused elements": lambda: sums().map(lambda s: int(s.x)),
    "functions of refused elements on threads": lambda: sums().map(lambda s: s, num_parallel_calls=2),
    "draws for refused elements": lambda: sums().random_map(lambda s, rng: (s.x, rng.integers(9)), seed=1),
    "filter refused elements": lambda: sums().filter(lambda s: int(s.x) % 2 == 0),
    "take_while refused elements": lambda: sums().take_while(lambda s: int(s.x) < 12),
    "ignore refused elements": lambda: sums().ignore_errors().batch(2),
    "ignore refused elements of a stream": lambda: streamed().map(lambda x: Sum(x)).enumerate().ignore_errors(),
    "batches that their class refuses": lambda: sums().batch(3),
    "shuffle refused elements": lambda: sums().shuffle(5, seed=1).map(lambda s: s.y),
    "shuffle all refused elements": lambda: sums().shuffle(seed=1),
    "scan refused elements": lambda: sums().scan(0, lambda n, s: (n + 1, n)),
    "scan with a state that its class refuses": lambda: D.range(20).scan(Sum(0), lambda s, x: (Sum(s.x + x), x)),
    "group refused elements": lambda: sums(34).group_by_window(lambda s: int(s.x) % 3, lambda k, w: w.batch(2), 4),
    "refused elements with datasets": lambda: sums().flat_map(lambda s: D.range(s.x % 3)),
    "refused elements that take turns": lambda: sums().interleave(lambda s: D.range(s.x % 3), cycle_length=3),
    "cache refused elements": lambda: sums().map(lambda s: Pair(s, 1)).cache().shuffle(5),
    "unique refused elements": lambda: sums().repeat(2).unique(),
    "unbatch refused elements": lambda: sums().batch(4).unbatch(),
    "rebatch refused elements": lambda: sums().batch(4).rebatch([3, 0]),
    "windows of refused elements": lambda: sums().window(3).map(lambda w: next(iter(w.x))),
    "resample refused elements": lambda: sums(69).rejection_resample(lambda s: s.x % 2, [0.5, 0.5], seed=1),
    "save refused elements": lambda: saved(sums()),
    "snapshot refused elements": lambda: sums().snapshot(tempfile.mkdtemp(dir=_folder.name)),
    "bucket refused elements": lambda: sums().bucket_by_sequence_length(
        lambda s: int(s.x) % 5, [2, 4], [2, 3, 2], no_padding=True
    ),
    "no components": lambda: D.range(5).map(lambda n: (None, ())).shuffle(2),
}


@pytest.mark.parametrize("name", PIPELINES)
def test_a_pipeline_keeps_every_promise(name):
    check_transformation(PIPELINES[name]())


@pytest.mark.parametrize("name", PIPELINES)
def test_what_one_pass_left_of_a_cache_the_next_reads_on(name):
    ds = PIPELINES[name]().cache()
    want = reference_outcomes(ds, limit=60)
    for cut in {1, len(want) // 3, len(want) - 1} & set(range(len(want))):
        with iter(ds) as it:
            assert difference(outcomes(it, cut), want[:cut]) is None
    with iter(ds) as it:
        assert difference(outcomes(it, 60), want) is None


@pytest.mark.parametrize("name", PIPELINES)
def test_inputs_and_seeds_are_found_by_how_they_are_declared(name):
    for node in walk(PIPELINES[name]()._node):
        values = [getattr(node, f.name) for f in fields(node)]
        flat = [v for value in values for v in (value if isinstance(value, tuple) else (value,))]
        assert [v for v in flat if isinstance(v, Node)] == list(node.inputs)
        seeds = [f.name for f, value in zip(fields(node), values, strict=True) if isinstance(value, Seed)]
        assert seeds == list(fields_of(type(node), "Seed"))


UNORDERED = {
    "map": lambda: D.range(40).map(picky, num_parallel_calls=3, deterministic=False),
    "random_map": lambda: D.range(40).random_map(jittered, seed=3, num_parallel_calls=3, deterministic=False),
    "map then batch": lambda: D.range(40).map(lambda x: x, num_parallel_calls=3, deterministic=False),
    "map then filter": lambda: (
        D.range(40).map(picky, num_parallel_calls=3, deterministic=False).filter(lambda x: int(x) % 3 == 0)
    ),
    "map then ignore_errors": lambda: (
        D.range(40).map(picky, num_parallel_calls=3, deterministic=False).ignore_errors().prefetch(2)
    ),
    "interleave then filter": lambda: (
        D.range(7)
        .interleave(
            lambda n: D.range(n * 10, n * 10 + 5),
            cycle_length=3,
            block_length=2,
            num_parallel_calls=3,
            deterministic=False,
        )
        .filter(lambda x: int(x) % 3 != 1)
    ),
    "interleave": lambda: D.range(7).interleave(
        lambda n: D.range(n * 10, n * 10 + 5).map(picky),
        cycle_length=3,
        block_length=2,
        num_parallel_calls=2,
        deterministic=False,
    ),
}


@pytest.mark.parametrize("name", UNORDERED)
def test_out_of_order_delivery_stays_exact(name):
    check_transformation(UNORDERED[name](), ordered=False)


class TestTheKitItself:
    """A kit that never fails would prove nothing."""

    def test_notices_wrong_elements(self):
        calls = iter(range(1000))
        with pytest.raises(AssertionError, match="element 0"):
            check_transformation(D.range(3).map(lambda x: next(calls)))

    def test_notices_a_wrong_spec(self):
        liar = Memory(Spec.of(np.float32(0)), 3, LEAF, [np.arange(3)], "liar")
        ds = D(liar)
        with pytest.raises(AssertionError, match=r"element_spec.*int64 where float32"):
            check_transformation(ds)

    def test_notices_a_resume_that_is_not_exact(self):
        class Fickle:
            passes = 0

            def __call__(self):
                Fickle.passes += 1
                yield from range(5)
                if Fickle.passes > 12:
                    yield 99

        ds = D.from_generator(Fickle(), output_signature=hr.TensorSpec((), "int64"))
        with pytest.raises(AssertionError, match="elements, not"):
            check_transformation(ds)
