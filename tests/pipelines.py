"""Random pipelines, for property tests."""

import atexit
import functools
import hashlib
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import strategies as st

import headrace as hr
from headrace.distribute.even_shard import EvenShard
from headrace.execute.state import first_unseeded
from headrace.plan.node import obstacle, walk
from tests.framing import framed
from tests.tables import NO_TEXT, damage_group, strings, write_arrow, write_parquet, write_stream

D = hr.Dataset


class Sometimes:
    """A function that fails on some elements; picklable, and equal results for equal inputs."""

    def __init__(self, every):
        self.every = every

    def __call__(self, *args):
        number = int(sum(np.asarray(leaf, dtype=object).size for leaf in _leaves(args))) + _total(args)
        if number % self.every == 1:
            raise ValueError(f"bad {number}")
        return args[0] if len(args) == 1 else args


class Unpunctual:
    """A function that fails on some elements; every third call is overtaken by the next, if one comes soon."""

    def __init__(self, every):
        self.fn = Sometimes(every)
        self.calls = 0
        self.returned = threading.Condition()

    def __call__(self, *args):
        with self.returned:
            self.calls += 1
            number = self.calls
            if number % 3 == 1:
                self.returned.wait_for(lambda: self.calls > number, 0.003)
            self.returned.notify_all()
        return self.fn(*args)


def _leaves(value):
    if isinstance(value, tuple):
        return [leaf for v in value for leaf in _leaves(v)]
    if isinstance(value, dict):
        return [leaf for v in value.values() for leaf in _leaves(v)]
    return [value]


def _total(value):
    total = 0
    for leaf in _leaves(value):
        array = np.asarray(leaf)
        total += int(array.sum()) if array.dtype.kind in "iu" else len(str(leaf))
    return total


def _keep(*args):
    return _total(args) % 3 != 1


def _tag(*args):
    return {"it": args[0] if len(args) == 1 else args, "sum": _total(args)}


def _drawn(*args):
    *element, rng = args
    return element[0] if len(element) == 1 else tuple(element), rng.integers(1000), rng.permutation(2)


def _ragged(*args):
    return np.arange(_total(args) % 4)


def _few(*args):
    return D.range(_total(args) % 4)


def _shuffled(*args):
    return D.range(_total(args) % 5).shuffle(3)


def _cached(*args):
    return D.range(_total(args) % 3).map(lambda x: x + 1).cache().repeat(2)


# Functions that are traced where components are dense, and called on each row elsewhere.


def _first(*args):
    return args[0]


def _leaf(*args):
    """The first component that has none of its own."""
    while isinstance(args, tuple | dict):
        args = args[0] if isinstance(args, tuple) else args[min(args)]
    return args


def _doubled(*args):
    return {"it": args, "more": args[0]}


def _arithmetic(*args):
    return (args[0] * 2 + 1) / 3


def _table(*args):
    return TABLE[np.sum(args[0]).astype(np.int64)]


def _fixed(*args):
    return args[0], TABLE[3], TABLE.max(), TABLE[1:3]


def _reduced(*args):
    return np.exp(np.mean(args[0])), np.shape(args[0])[:1], np.asarray(args[0], np.float32)


def _by_list(*args):
    return args[0] * FACTORS[1] + len(FACTORS)


def _forked(*args):
    it = args[0]
    if np.sum(it) % 3 > 1:
        return it * 2, np.sum(it)
    return (it + it, np.max(it)) if np.max(it) > 4 else (it, np.sum(it))


def _picky(*args):
    if np.sum(args[0]) % 5 == 4:
        raise ValueError(f"bad {args[0]}")
    return args


def _stays(x):
    return True if np.max(x) < 3 else np.sum(x) % 3 != 1


def _turned(*args):
    it, rng = args[0], args[-1]
    if rng.random() < 0.5:
        it = it * rng.integers(3) if rng.bernoulli(0.3) else it + it
    return it, rng.integers(1000)


def _words(*args):
    return hr.text.split(hr.text.upper(args[0]), sep="I"), hr.text.length(args[0])


def _word_ids(*args):
    return VOCABULARY(hr.text.split(args[0]))


@functools.cache
def _picture_files():
    """PNGs and JPEGs of a few sizes, grey and in colour, and one that breaks off."""
    made = []
    for i in range(12):
        shape = (2 + i % 3, 3 + i % 2, 1 if i % 5 == 4 else 3)
        image = (np.arange(np.prod(shape)) * (i + 3) % 256).astype(np.uint8).reshape(shape)
        data = hr.image.encode_jpeg(image) if i % 4 == 3 else hr.image.encode_png(image)
        made.append(data[:-20] if i == 7 else data)
    return made


def _pictures(n, how):
    """Images of different sizes, or of one."""
    ds = D.from_tensor_slices(_picture_files()[:n])
    if how == "decoded":
        return ds.map(lambda data: hr.image.decode_image(data, 3))
    return ds.map(lambda data: hr.image.decode_and_resize(data, (3, 4), channels=1), num_parallel_calls=2)


def _cut(image):
    return hr.image.central_crop(hr.image.flip_left_right(image), 0.7)


def _coloured(image):
    return hr.image.adjust_contrast(hr.image.rot90(image), 0.5), hr.image.per_image_standardization(image)


def _resized(image):
    return hr.image.resize(image, (2, 5)) / np.float32(255)


def _boxes(image):
    return hr.image.crop_and_resize(image, [[0.0, 0.1, 0.9, 1.0], [0.2, 0.0, 0.5, 0.5]], [0, 0], (2, 2))


def _augmented(image, rng):
    image = hr.image.random_crop(hr.image.random_flip_left_right(image, rng), (2, 2), rng)
    return hr.image.random_brightness(image, 0.3, rng)


def _sized(image, rng):
    return hr.image.random_contrast(hr.image.random_resized_crop(image, (3, 3), rng), 0.5, 1.5, rng)


def _on_pictures(d, fn, calls=None, seed=None):
    """A function of images, where the elements are some."""
    spec = d._node.spec
    if spec.structure is None or spec.structure.kind is not None or not isinstance(spec.leaves[0], hr.TensorSpec):
        return d
    leaf = spec.leaves[0]
    if leaf.rank != 3 or leaf.dtype not in (np.uint8, np.float32) or leaf.shape[2] is None:
        return d
    return d.random_map(fn, seed, num_parallel_calls=calls) if fn in (_augmented, _sized) else d.map(fn, calls)


TABLE = np.arange(20.0)
FACTORS = [1.0, 0.5, TABLE[:2]]
VOCABULARY = hr.text.Vocabulary(["line", "a", "1"], num_oov_buckets=2)
TRACED = [_first, _doubled, _arithmetic, _table, _fixed, _reduced, _by_list, _forked, _picky, _words, _word_ids]


def _count_to(n):
    def numbers():
        yield from range(n)

    return numbers


def _mixed(n):
    return {"x": np.arange(3 * n, dtype=np.int32).reshape(n, 3), "s": [f"row {i}" for i in range(n)]}


@functools.cache
def _folder():
    """Where the files of this run go; removed at its end."""
    folder = tempfile.TemporaryDirectory(prefix="headrace-pipelines-")
    atexit.register(folder.cleanup)
    return folder.name


def _table(n, cut):
    """Chunks of at least 64 rows, because smaller ones are combined; the tested rows are around a boundary."""
    rows = 64 * 2 + n
    table = pa.table(
        {"x": np.arange(rows), "s": [f"row {i}" for i in range(rows)], "l": [[i] * (i % 3) for i in range(rows)]}
    )
    return pa.concat_tables([table[: 64 + cut], table[64 + cut :]])


@dataclass
class Odd:
    """A class that does not take all of its components."""

    x: Any

    def __post_init__(self):
        if isinstance(self.x, np.ndarray) and self.x.ndim == 1 and self.x.sum() % 4 == 3:
            raise ValueError(f"{self.x} is refused")


class Rows:
    """A map-style dataset that fails on some rows."""

    def __init__(self, n):
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        return Sometimes(5)(np.arange(i % 4), i)


def _file(data):
    path = Path(_folder(), hashlib.blake2b(data, digest_size=8).hexdigest())
    if not path.exists():
        path.write_bytes(data)
    return str(path)


def _lines(n):
    """Lines of two files, in turn where there are many, one of them no text where there are more."""
    data = b"".join(b"line %d\n" % i if i != 9 else b"\xff\n" for i in range(n))
    return hr.TextLineDataset([_file(data), _file(b"last")], buffer_size=5, num_parallel_reads=2 if n > 5 else None)


def _records(n):
    """Records by number, two bytes each."""
    return hr.FixedLengthRecordDataset(_file(b"".join(b"%02d" % i for i in range(n))), 2)


def _left_out(n):
    """Files with bad records, which are no elements: lines, records, Examples, rows of tables."""
    bad = {0, 3, 4, 8}
    lines = b"".join(b"\xff\n" if i in bad else b"line %d\n" % i for i in range(n))
    if n % 4 == 0:
        return hr.TextLineDataset([_file(lines), _file(b"\xfe")], buffer_size=5, on_error="skip")
    if n % 4 == 1:
        data = bytearray(framed([b"%d" % i for i in range(n)]))
        for i in bad & set(range(n - 1)):
            data[17 * i + 2 + 11 * (i % 2)] ^= 1
        return hr.TFRecordDataset(_file(bytes(data)), buffer_size=20, on_error="skip")
    if n % 4 == 2:
        rows = framed([hr.io.encode_example({"y" if i in bad else "x": i}) for i in range(n)])
        return D.from_tfrecord(_file(rows), {"x": hr.io.FixedLenFeature([], np.int64)}, on_error="skip")
    path = f"{_folder()}/{n}.parquet"
    if not Path(path).exists():
        values = pa.array([None if i in bad else i for i in range(n)], pa.int64())
        pq.write_table(pa.table({"x": values}), path, row_group_size=4)
    return hr.ParquetDataset(path, on_error="skip")


def _csv(n):
    data = b"".join(b"%d,%s\n" % (i, b"x" * i if i % 5 != 3 else b'a"b') for i in range(n))
    return hr.CsvDataset(_file(data), [np.int64, str], buffer_size=7)


def _tables(n, kind):
    """Rows of one file, three a group, and of a second; where there are more, one is no text and a group is lost."""
    words = strings([NO_TEXT if i == 7 else b"row %d" % i for i in range(n)])
    lists = pa.array([[{"a": i, "b": [str(i)] * (i % 2)}] * (i % 3) for i in range(n)], LISTS)
    table = pa.table({"x": np.arange(n), "s": words, "l": lists})
    path = Path(_folder(), f"{kind}-{n}")
    if not path.exists():
        WRITERS[kind](table, path, 3)
        if kind == "parquet" and n > 9:
            damage_group(path, 1)
    reader = hr.ParquetDataset if kind == "parquet" else hr.ArrowDataset
    return reader([path, path], num_parallel_reads=2 if n % 4 == 3 else None)


LISTS = pa.list_(pa.struct([("a", pa.int64()), ("b", pa.list_(pa.string()))]))
WRITERS = {"parquet": write_parquet, "arrow": write_arrow, "stream": write_stream}


def _json(n):
    lines = [b'{"x": %d, "l": [%s]}\n' % (i, b", ".join([b'{"a": "%d"}' % i] * (i % 3))) for i in range(n)]
    data = b"".join(b"{\n\n" if i % 5 == 4 else line for i, line in enumerate(lines))
    schema = pa.schema({"x": pa.int64(), "l": pa.list_(pa.struct([("a", pa.string())]))})
    return hr.JsonLinesDataset(_file(data), schema, buffer_size=40)


TOKENS = hr.TensorSpec((None,), "int64")
sizes = st.integers(0, 12)

sources = st.one_of(
    sizes.map(D.range),
    sizes.map(_lines),
    sizes.map(_records),
    sizes.map(_csv),
    sizes.map(_left_out),
    sizes.map(_json),
    st.tuples(sizes, st.sampled_from(list(WRITERS))).map(lambda a: _tables(*a)),
    sizes.map(lambda n: D.from_tensor_slices((np.arange(n) * 1.5, np.arange(n)))),
    st.integers(1, 9).map(lambda n: D.from_tensor_slices(_mixed(n))),
    st.integers(1, 9).map(lambda n: D.from_tensor_slices(["a b1 " * (i % 3) for i in range(n)]).map(hr.text.split)),
    st.tuples(sizes, st.integers(0, 5)).map(lambda a: D.from_arrow(_table(*a))[60 : 60 + a[0]]),
    st.tuples(sizes, st.sampled_from(["decoded", "resized"])).map(lambda a: _pictures(*a)),
    sizes.map(lambda n: D.from_torch(Rows(n))),
    sizes.map(lambda n: D.from_tensor_slices(Odd(np.arange(3 * n).reshape(n, 3)))),
    sizes.map(lambda n: D.from_generator(_count_to(n), output_signature=hr.TensorSpec((), "int16"))),
)

seeds = st.one_of(st.none(), st.integers(0, 3))
counts = st.integers(1, 5)
fresh = st.sampled_from([None, False])


def steps(other):
    """One more operation on a dataset; `other` makes second datasets for zip and concatenate."""
    simple = st.one_of(
        st.tuples(counts, st.sampled_from([None, 2, hr.AUTOTUNE])).map(
            lambda a: lambda d: d.batch(a[0], num_parallel_calls=a[1])
        ),
        counts.map(lambda n: lambda d: d.batch(n, drop_remainder=True)),
        st.tuples(counts, seeds, fresh).map(lambda a: lambda d: d.shuffle(*a)),
        seeds.map(lambda seed: lambda d: d.shuffle(hr.AUTOTUNE, seed)),
        st.integers(0, 3).map(lambda n: lambda d: d.repeat(n)),
        st.integers(-1, 9).map(lambda n: lambda d: d.take(n)),
        st.integers(0, 5).map(lambda n: lambda d: d.skip(n)),
        st.lists(st.integers(0, 9), max_size=4).map(lambda steps: lambda d: d.skip_steps(steps)),
        st.tuples(counts, counts).map(lambda a: lambda d: d.shard(max(a), min(a) - 1)),
        st.lists(st.integers(0, 5), max_size=6).map(
            lambda rows: lambda d: d if obstacle(d._node) or len(d) < 6 else d[rows]
        ),
        st.tuples(counts, counts, st.integers(1, 3), st.sampled_from(["drop", "pad", "wrap"])).map(
            lambda a: lambda d: _share(d, *a)
        ),
        st.just(lambda d: d.enumerate()),
        st.just(lambda d: d.cache()),
        st.just(lambda d: d.cache(tempfile.mkdtemp(dir=_folder()))),
        st.just(lambda d: d.snapshot(tempfile.mkdtemp(dir=_folder()))),
        st.integers(1, 4).map(lambda n: lambda d: d.prefetch(n)),
        st.just(lambda d: d.prefetch(hr.AUTOTUNE)),
        st.just(lambda d: d.ignore_errors()),
        st.just(lambda d: d.unique()),
        counts.map(lambda n: lambda d: d.batch(n).unbatch()),
        st.lists(st.integers(0, 3), min_size=1, max_size=3).map(
            lambda sizes: lambda d: d.batch(2).rebatch([*sizes, 1])
        ),
        st.tuples(counts, counts).map(lambda a: lambda d: d.batch(a[0] * a[1], drop_remainder=True).rebatch(a[0])),
        counts.map(lambda n: lambda d: d.batch(n, drop_remainder=True).unbatch()),
        st.tuples(counts, counts, st.integers(1, 2), st.booleans()).map(lambda a: lambda d: _flat(d.window(*a))),
        st.tuples(st.integers(1, 4), counts, counts, st.integers(1, 2), st.booleans()).map(
            lambda a: lambda d: _batched(d.window(*a[1:]), a[0])
        ),
    )
    traced = st.one_of(
        st.sampled_from(TRACED).map(lambda f: lambda d: d.map(f)),
        st.sampled_from(TRACED).map(lambda f: lambda d: d.map(f, num_parallel_calls=2)),
        st.tuples(st.sampled_from(TRACED), st.sampled_from(TRACED)).map(lambda f: lambda d: d.map(f[0]).map(f[1])),
        st.integers(2, 4).map(
            lambda n: (
                lambda d: d.map(_leaf).enumerate().map(lambda i, x: (i, x + i, x)).filter(lambda i, y, x: i % n != 1)
            )
        ),
        st.integers(2, 4).map(lambda n: lambda d: d.map(_leaf).filter(lambda x: np.sum(x) % n != 1)),
        st.sampled_from([None, 2, hr.AUTOTUNE]).map(
            lambda n: lambda d: d.map(_leaf).filter(_stays, num_parallel_calls=n)
        ),
        st.tuples(seeds, st.sampled_from([None, 2, hr.AUTOTUNE])).map(lambda a: lambda d: d.random_map(_turned, *a)),
        st.just(lambda d: d.map(_leaf).take_while(lambda x: np.max(x) < 9)),
        counts.map(
            lambda n: (
                lambda d: d.map(_leaf).group_by_window(
                    lambda x: np.sum(x).astype(np.int64) % 3, lambda k, w: w.shuffle(2), n
                )
            )
        ),
        counts.map(lambda n: lambda d: d.map_batches(lambda *a: a, n)),
        st.tuples(
            st.sampled_from([_cut, _coloured, _resized, _boxes, _augmented, _sized]), st.sampled_from([None, 2]), seeds
        ).map(lambda a: lambda d: _on_pictures(d, *a)),
    )
    functions = st.one_of(
        st.just(lambda d: d.map(_tag)),
        st.just(lambda d: d.map(_tag, num_parallel_calls=2)),
        st.just(lambda d: d.map(_ragged)),
        st.integers(2, 6).map(lambda n: lambda d: d.map(Sometimes(n))),
        st.integers(2, 6).map(lambda n: lambda d: d.map(Sometimes(n), num_parallel_calls=hr.AUTOTUNE)),
        st.tuples(st.integers(2, 6), counts, st.sampled_from([2, hr.AUTOTUNE])).map(
            lambda a: lambda d: d.map(Sometimes(a[0]), num_parallel_calls=a[2]).batch(a[1])
        ),
        seeds.map(lambda seed: lambda d: d.random_map(_drawn, seed)),
        seeds.map(lambda seed: lambda d: d.random_map(_drawn, seed, num_parallel_calls=2)),
        st.just(lambda d: d.filter(_keep)),
        st.sampled_from([2, hr.AUTOTUNE]).map(lambda n: lambda d: d.filter(_keep, num_parallel_calls=n)),
        st.just(lambda d: d.take_while(lambda *a: _total(a) % 11 != 7)),
        st.just(lambda d: d.scan(0, lambda s, v: (s + _total((v,)), (s, v)))),
        st.just(lambda d: d.scan(np.zeros(0, np.int64), lambda s, v: (np.append(s, _total((v,)))[-3:], (s.sum(), v)))),
        st.sampled_from([None, [0.6, 0.2, 0.2]]).map(
            lambda i: lambda d: d.rejection_resample(lambda *a: _total(a) % 3, [0, 0.5, 0.5], i, seed=2)
        ),
        counts.map(lambda n: lambda d: d.map(_ragged).padded_batch(n)),
        counts.map(lambda n: lambda d: d.map(_ragged).ragged_batch(n)),
        st.tuples(counts, st.sampled_from(["concat", "first_fit", "best_fit"]), st.sampled_from([None, 7]), counts).map(
            lambda a: lambda d: d.map(_ragged, output_signature=TOKENS).pack(*a[:3], lookahead=a[3])
        ),
        counts.map(lambda n: lambda d: d.map(_ragged, output_signature=TOKENS).chunk(n, n // 2)),
        st.tuples(counts, counts, counts).map(
            lambda a: lambda d: d.map(_ragged).batch_by_tokens(a[0] + 3, len, sort_window=a[1], group=a[2])
        ),
        counts.map(lambda n: lambda d: d.group_by_window(lambda *a: _total(a) % 3, lambda k, w: w.shuffle(2), n)),
        counts.map(lambda n: lambda d: d.map(_ragged).bucket_by_sequence_length(len, [2, 3], [n, 2, 3])),
        st.integers(2, 6).map(lambda n: lambda d: d.filter(lambda *a: bool(Sometimes(n)(*a) is not None))),
        st.sampled_from([_few, _shuffled, _cached]).map(lambda f: lambda d: d.flat_map(f)),
        counts.map(lambda n: lambda d: _sliced(d.batch(n))),
        st.tuples(
            st.sampled_from([_few, _shuffled, _cached]), counts, counts, st.sampled_from([None, 2, hr.AUTOTUNE])
        ).map(lambda a: lambda d: d.interleave(*a)),
    )
    binary = st.one_of(
        other.map(lambda o: lambda d: D.zip(d, o)),
        st.just(lambda d: D.zip({"a": d, "b": d})),
        st.just(lambda d: d.concatenate(d)),
        st.tuples(other, seeds, st.booleans()).map(lambda a: lambda d: _mixed_in(d, *a)),
        st.just(lambda d: d.shuffle() if _uniform(d) else d),
        st.just(lambda d: d.split([0.5, 0.5], seed=2)[0]),
        st.just(
            lambda d: d.weighted_sample(np.arange(1, len(d) + 1), seed=2) if _uniform(d) and d.cardinality() > 0 else d
        ),
    )
    return st.one_of(simple, simple, functions, traced, binary)


def _flat(windows):
    return windows.flat_map(lambda *w: D.zip(w) if len(w) > 1 or not isinstance(w[0], dict) else D.zip(w[0]))


def _sliced(batches):
    """Batches taken apart by functions that only slice: those are asked once for many batches."""
    structure = batches._node.spec.structure
    if structure is not None and structure.kind is tuple:
        return batches.flat_map(lambda *parts: D.from_tensor_slices(parts))
    return batches.flat_map(D.from_tensor_slices)


def _batched(windows, n):
    """Windows in batches, by functions that only build: those are asked once for many windows."""
    structure = windows._node.spec.structure
    if structure is None or structure.kind is None:
        return windows.flat_map(lambda w: w.batch(n))
    if structure.kind is tuple and len(structure.children) == 2 == structure.leaves:
        return windows.flat_map(lambda a, b: hr.Dataset.zip((a.batch(n), b.batch(n))))
    if structure.kind is dict and structure.keys == ("s", "x"):
        return windows.flat_map(lambda w: D.zip({"x": w["x"].batch(n), "s": w["s"].batch(n)}))
    return _flat(windows)


def _mixed_in(ds, other, seed, repeat):
    """With another dataset, if their elements fit and there are some."""
    try:
        made = hr.mix({"a": ds, "b": other}, [2, 1], seed, repeat=repeat)
    except (hr.SpecError, ValueError):
        return ds
    return made.take(50)


def _share(ds, rank, world, batch, uneven):
    """What one process gets; a single one where several would each draw their own seeds."""
    world = 1 if first_unseeded(ds._node) else max(rank, world)
    return ds.distribute(min(rank, world) - 1, world, batch, uneven)


def _uniform(ds):
    try:
        ds.shuffle()
    except (TypeError, ValueError):
        return False
    return True


def _built(parts):
    ds, operations = parts
    for operation in operations:
        ds = operation(ds)
    return ds.take(40)


pipelines = st.tuples(sources, st.lists(steps(sources), max_size=5)).map(_built)


def _indexed(parts):
    """A dataset whose elements are found by number; what would prevent it is left out."""
    ds, operations = parts
    for operation in operations:
        made = operation(ds)
        ds = made if _countable(made) else ds
    return ds.take(40)


def _countable(ds):
    try:
        return len(ds[:]) >= 0
    except (TypeError, IndexError):
        return False


def _all_numbered(ds):
    return _countable(ds) and not ds._node.has_extra_failures


indexed = st.tuples(sources, st.lists(steps(sources), max_size=6)).map(_indexed).filter(_all_numbered)
"""Pipelines that can be indexed, and give nothing that has no number."""


passing = st.one_of(
    st.just(lambda d: d.filter(_keep)),
    st.just(lambda d: d.map(lambda *a: _total(a)).filter(lambda x: x % 3 != 1)),
    st.just(lambda d: d.ignore_errors()),
    st.just(lambda d: d.map(_tag)),
    st.just(lambda d: d.enumerate().map(lambda i, x: x)),
    st.integers(1, 4).map(lambda n: lambda d: d.prefetch(n)),
)
"""Operations that pass items on by themselves: what is delivered out of order reaches the consumer so."""


def _unordered(parts):
    ds, every, threads, in_turn, operations = parts
    free = {"num_parallel_calls": threads, "deterministic": False}
    first = ds.interleave(_few, 3, 2, **free) if in_turn else ds.map(Unpunctual(every), **free)
    return _built((first, operations))


unordered = st.tuples(sources, st.integers(2, 6), st.integers(2, 3), st.booleans(), st.lists(passing, max_size=3)).map(
    _unordered
)


def _planted(parts):
    """Numbers of which some fail, in one of the ways that elements are made."""
    n, bad, how = parts
    ds = D.range(n)
    if how == "generator":
        ds = D.from_generator(_count_to(n), output_signature=hr.TensorSpec((), "int64"))
    elif how == "filtered":
        ds = ds.filter(lambda x: x % 5 != 2)
    if how == "file":
        return hr.TextLineDataset([_file(b"a\nb\nc\n"), *["/no/such/file"] * (n % 3 != 0), _file(b"d\n" * (n % 5))])
    return ds.map(Failing(bad), num_parallel_calls=2 if how == "threads" else None)


class Failing:
    """A function that fails on some numbers."""

    def __init__(self, numbers):
        self.numbers = numbers

    def __call__(self, x):
        if int(x) in self.numbers:
            raise ValueError(f"bad {int(x)}")
        return x


planted = st.tuples(
    sizes,
    st.frozensets(st.integers(0, 11), max_size=4),
    st.sampled_from(["indexed", "filtered", "generator", "threads", "file"]),
).map(_planted)

dropping = st.one_of(
    counts.map(lambda n: lambda d: d.batch(n + 1, drop_remainder=True)),
    counts.map(lambda n: lambda d: d.map(_ragged).padded_batch(n + 1, drop_remainder=True)),
    counts.map(lambda n: lambda d: d.map(_ragged).ragged_batch(n + 1, drop_remainder=True)),
    st.tuples(counts, counts).map(lambda a: lambda d: d.batch(a[0]).rebatch(a[1] + 1, drop_remainder=True)),
    st.lists(st.integers(0, 4), min_size=1, max_size=3).map(
        lambda sizes: lambda d: d.batch(2).rebatch([*sizes, 3], drop_remainder=True)
    ),
    st.tuples(counts, counts, st.integers(1, 3)).map(lambda a: lambda d: _flat(d.window(*a, drop_remainder=True))),
    st.tuples(counts, counts).map(
        lambda a: lambda d: d.map(_ragged).bucket_by_sequence_length(len, [2], [a[0] + 1, a[1]], drop_remainder=True)
    ),
    st.tuples(counts, counts, st.integers(1, 3)).map(lambda a: lambda d: _share(d, *a, "drop")),
    st.tuples(st.integers(2, 4), st.integers(0, 1)).map(lambda a: lambda d: D(EvenShard(d._node, *a))),
    counts.map(lambda n: lambda d: d.flat_map(lambda *a: _few(*a).map(Failing({n % 3})).batch(2, drop_remainder=True))),
    st.tuples(counts, counts).map(
        lambda a: (
            lambda d: d.interleave(
                lambda *row: _few(*row).map(Failing({a[0] % 3})).batch(2, drop_remainder=True), a[0], a[1]
            )
        )
    ),
)
"""Operations that leave out the elements at the end that do not fill a group."""


def _behind(other):
    """What may come after them; `other` makes second datasets for zip."""
    return st.one_of(
        st.integers(0, 3).map(lambda n: lambda d: d.repeat(n)),
        st.integers(-1, 6).map(lambda n: lambda d: d.take(n)),
        st.integers(0, 4).map(lambda n: lambda d: d.skip(n)),
        st.tuples(counts, counts).map(lambda a: lambda d: d.shard(max(a), min(a) - 1)),
        st.tuples(counts, st.integers(0, 3)).map(lambda a: lambda d: d.shuffle(*a)),
        counts.map(lambda n: lambda d: d.map(_first).batch(n)),
        dropping,
        st.just(lambda d: d.enumerate()),
        st.just(lambda d: d.cache()),
        st.just(lambda d: d.cache(tempfile.mkdtemp(dir=_folder()))),
        st.just(lambda d: d.map(_tag, num_parallel_calls=2)),
        st.just(lambda d: d.prefetch(2)),
        st.just(lambda d: d.ignore_errors()),
        st.just(lambda d: d.unique()),
        st.just(lambda d: d.take_while(lambda *a: _total(a) % 11 != 7)),
        st.just(lambda d: d.concatenate(d)),
        st.just(lambda d: D.zip(d, d)),
        counts.map(lambda n: lambda d: d.group_by_window(lambda *a: _total(a) % 3, lambda k, w: w.shuffle(2), n)),
        st.tuples(counts, st.booleans()).map(
            lambda a: (
                lambda d: D.choose_from_datasets([d, d.skip(a[0])], D.range(15).map(lambda x: x * x % 3 % 2), a[1])
            )
        ),
        other.map(lambda o: lambda d: D.zip(o, d)),
        st.integers(0, 3).map(lambda seed: lambda d: _permuted(d, seed)),
    )


def _permuted(ds, seed):
    """A shuffle by number, unless failures that have none may be kept among the elements."""
    kept = any(node.operation == "cache" for node in walk(ds._node))
    return ds.shuffle(seed=seed) if _uniform(ds) and not kept else ds


remainders = st.tuples(
    planted, st.lists(st.integers(0, 3).map(lambda n: lambda d: d.skip(n)), max_size=1), dropping,
    st.lists(_behind(planted), max_size=3),
).map(lambda a: _built((a[0], [*a[1], a[2], *a[3]])))  # fmt: skip
"""Pipelines that drop elements which fail."""
