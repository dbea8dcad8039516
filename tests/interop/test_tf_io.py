"""hr.io against tf.io: the same records, the same arrays."""

import random

import numpy as np
import pytest

import headrace as hr
from headrace.io.parse import specs
from tests.by_hand import (
    Generator,
    entry,
    example,
    field,
    floats,
    ints,
    sequence_example,
    steps,
    texts,
    unpacked_ints,
    varint,
)

tf = pytest.importorskip("tensorflow")

pytestmark = pytest.mark.tensorflow

DTYPES = {"i": tf.int64, "f": tf.float32, "b": tf.string}
OWN = {"i": np.int64, "f": np.float32, "b": bytes}
REFUSED = "refused"


def plain(value):
    """Arrays, ragged and sparse tensors of either library as lists."""
    if isinstance(value, tf.SparseTensor):
        return value.indices.numpy().tolist(), plain(value.values), value.dense_shape.numpy().tolist()
    if isinstance(value, hr.io.Sparse):
        return value.indices.tolist(), value.values.tolist(), value.dense_shape.tolist()
    if isinstance(value, tf.RaggedTensor | hr.Ragged):
        return value.to_list()
    array = np.asarray(value.numpy() if hasattr(value, "numpy") else value)
    return array.tolist() if array.dtype.kind not in "SU" else array.astype(object).tolist()


def rows(value):
    """A SparseTensor of a VarLenFeature as the rows that headrace gives."""
    if isinstance(value, tf.SparseTensor):
        return tf.RaggedTensor.from_sparse(value).to_list() if value.dense_shape.shape[0] == 2 else plain(value.values)
    return plain(value)


def outcome(parse):
    """The arrays, or that the records were refused."""
    try:
        found = parse()
    except (hr.ParseError, tf.errors.InvalidArgumentError):
        return REFUSED
    return {name: rows(value) for name, value in found.items()}


def described(io, dtypes):
    """The same description in either library."""
    partition = io.RaggedFeature
    return {
        "i0": io.FixedLenFeature([], dtypes["i"], 5),
        "f0": io.FixedLenFeature([], dtypes["f"], 0.25),
        "b0": io.FixedLenFeature([], dtypes["b"], b"nothing"),
        "i4": io.FixedLenFeature([2, 2], dtypes["i"], [[1, 2], [3, 4]]),
        "f3": io.FixedLenFeature([3], dtypes["f"], [0.5, 1.5, 2.5]),
        "b2": io.FixedLenFeature([2], dtypes["b"], [b"x", b""]),
        "i": io.VarLenFeature(dtypes["i"]),
        "f": io.VarLenFeature(dtypes["f"]),
        "b": io.VarLenFeature(dtypes["b"]),
        "is": io.FixedLenSequenceFeature([], dtypes["i"], allow_missing=True, default_value=-7),
        "fs": io.FixedLenSequenceFeature([], dtypes["f"], allow_missing=True),
        "bs": io.FixedLenSequenceFeature([], dtypes["b"], allow_missing=True, default_value=b"pad"),
        "ragged i": io.RaggedFeature(dtypes["i"], "ir"),
        "br": io.RaggedFeature(dtypes["b"]),
        "cut": io.RaggedFeature(dtypes["f"], "fu", [partition.UniformRowLength(2)]),
    }


SIZES = {
    "i0": 1, "f0": 1, "b0": 1, "i4": 4, "f3": 3, "b2": 2, "i": None, "f": None, "b": None,
    "is": None, "fs": None, "bs": None, "ir": None, "br": None, "fu": 4,
}  # fmt: skip


@pytest.mark.parametrize("seed", range(40))
def test_thousands_of_examples_parse_alike(seed):
    chance = random.Random(seed)
    generator = Generator(chance)
    theirs, ours = described(tf.io, DTYPES), described(hr.io, OWN)
    for _ in range(8):
        records = [generator.example(SIZES) for _ in range(chance.randint(1, 12))]
        expected = outcome(lambda: tf.io.parse_example(records, theirs))  # noqa: B023
        assert expected != REFUSED
        assert outcome(lambda: hr.io.parse_example(records, ours)) == expected  # noqa: B023
    for record in records[:3]:
        expected = outcome(lambda: tf.io.parse_single_example(record, theirs))  # noqa: B023
        assert outcome(lambda: hr.io.parse_single_example(record, ours)) == expected  # noqa: B023


@pytest.mark.parametrize("seed", range(10))
def test_records_that_do_not_fit_are_refused_by_both(seed):
    chance = random.Random(seed)
    generator = Generator(chance)
    kinds = {"i0": "f0", "b0": "i0", "f3": "f4", "i": "f", "is": "b"}
    refused = 0
    for _ in range(60):
        name = chance.choice(list(kinds))
        wrong = generator.feature(kinds[name], chance.choice([1, 2, 5]))
        records = [example(entry(name.encode(), wrong))]
        expected = outcome(lambda: tf.io.parse_example(records, described(tf.io, DTYPES)))  # noqa: B023
        assert outcome(lambda: hr.io.parse_example(records, described(hr.io, OWN))) == expected  # noqa: B023
        refused += expected == REFUSED
    assert refused > 20


@pytest.mark.parametrize("seed", range(20))
def test_whatever_protobuf_reads_headrace_reads_too(seed):
    """tf.io stops at unknown fields within features and reads lists in several pieces in part; we read all of it."""
    chance = random.Random(seed)
    unknown = [
        field(9, b"who"),
        varint(10 << 3) + varint(7),
        varint(12 << 3 | 3) + varint(8) + b"\1" + varint(12 << 3 | 4),
    ]

    def maybe():
        return chance.choice(unknown) if chance.random() < 0.4 else b""

    for _ in range(50):
        values = [chance.randint(-(2**40), 2**40) for _ in range(chance.randint(0, 6))]
        cut = chance.randint(0, len(values))
        pieces = maybe() + ints(*values[:cut])[2:] + maybe() + unpacked_ints(*values[cut:])[2:]
        feature = maybe() + field(3, pieces) + maybe()
        if chance.random() < 0.3:
            feature = floats(1.0) + feature + ints(3)
        record = maybe() + field(1, maybe() + entry(b"x", feature) + maybe())
        expected = tf.train.Example.FromString(record).features.feature["x"].int64_list.value
        got = hr.io.parse_single_example(record, {"x": hr.io.VarLenFeature(np.int64)})["x"]
        assert got.tolist() == list(expected)
        assert hr.io.Example.parse(record).get("x", np.empty(0)).tolist() == list(expected)


def test_what_tensorflow_writes_headrace_reads_and_the_other_way_round():
    chance = np.random.default_rng(0)
    for _ in range(50):
        whole, reals = chance.integers(-(2**62), 2**62, 5), chance.random(3, np.float32)
        text = [chance.bytes(n) for n in (0, 3, 300)]
        theirs = tf.train.Example()
        theirs.features.feature["whole"].int64_list.value.extend(whole)
        theirs.features.feature["reals"].float_list.value.extend(reals)
        theirs.features.feature["text"].bytes_list.value.extend(text)
        ours = hr.io.Example.parse(theirs.SerializeToString())
        assert ours["whole"].tolist() == whole.tolist()
        assert ours["reals"].tolist() == reals.tolist()
        assert ours["text"].tolist() == text
        assert ours.encode() == theirs.SerializeToString(deterministic=True)
        column = hr.io.encode_examples({"whole": whole[None], "reals": reals[None], "text": [text]})
        assert column[0].as_py() == ours.encode()


PARTITIONS = {
    "row_splits": ("RowSplits", [0, 2, 2, 5]),
    "row_lengths": ("RowLengths", [2, 0, 3]),
    "row_starts": ("RowStarts", [0, 2, 2]),
    "row_limits": ("RowLimits", [2, 2, 5]),
    "value_rowids": ("ValueRowIds", [0, 0, 2, 2, 2]),
}


@pytest.mark.parametrize("name", PARTITIONS)
@pytest.mark.parametrize("uniform", [False, True])
def test_partitions_cut_as_tf_io_does(name, uniform):
    kind, cuts = PARTITIONS[name]
    others = {"row_splits": [0, 1], "row_lengths": [1], "row_starts": [0], "row_limits": [1], "value_rowids": [0]}[name]
    times = 2 if uniform else 1
    records = [
        example(entry(b"v", ints(*range(5 * times))), entry(b"p", ints(*cuts))),
        example(),
        example(entry(b"v", ints(*range(9, 9 + times))), entry(b"p", ints(*others))),
    ]

    def feature(io, dtype):
        partitions = [getattr(io.RaggedFeature, kind)("p")]
        partitions += [io.RaggedFeature.UniformRowLength(2)] * uniform
        return {"x": io.RaggedFeature(dtype, value_key="v", partitions=partitions)}

    theirs, ours = feature(tf.io, tf.int64), feature(hr.io, np.int64)
    assert plain(hr.io.parse_example(records, ours)["x"]) == plain(tf.io.parse_example(records, theirs)["x"])
    for record in records[::2]:
        expected = plain(tf.io.parse_single_example(record, theirs)["x"])
        assert plain(hr.io.parse_single_example(record, ours)["x"]) == expected


def test_two_levels_of_partitions():
    records = [
        example(entry(b"v", texts(b"a", b"b", b"c", b"d")), entry(b"inner", ints(1, 3)), entry(b"outer", ints(2, 0))),
        example(),
    ]

    def feature(io, dtype):
        cut = io.RaggedFeature.RowLengths
        return {"x": io.RaggedFeature(dtype, value_key="v", partitions=[cut("outer"), cut("inner")])}

    expected = tf.io.parse_example(records, feature(tf.io, tf.string))["x"]
    got = hr.io.parse_example(records, feature(hr.io, bytes))["x"]
    assert got.to_list() == expected.to_list() == [[[[b"a"], [b"b", b"c", b"d"]], []], []]


@pytest.mark.parametrize("seed", range(5))
def test_sparse_features(seed):
    chance = random.Random(seed)
    records = []
    for _ in range(6):
        places = chance.sample([(r, c) for r in range(4) for c in range(5)], chance.randint(0, 6))
        across, down, values = [r for r, _ in places], [c for _, c in places], [chance.random() for _ in places]
        records.append(example(entry(b"r", ints(*across)), entry(b"c", ints(*down)), entry(b"v", floats(*values))))

    def described(io, dtype):
        return {"one": io.SparseFeature("c", "v", dtype, 5), "two": io.SparseFeature(["r", "c"], "v", dtype, [4, 5])}

    theirs, ours = described(tf.io, tf.float32), described(hr.io, np.float32)
    expected, got = tf.io.parse_example(records, theirs), hr.io.parse_example(records, ours)
    assert plain(got["two"]) == plain(expected["two"])
    indices, _, shape = plain(expected["one"])  # values of one place come in whichever order TensorFlow's sort leaves
    assert plain(got["one"])[::2] == (indices, shape)
    for record in records:
        assert plain(hr.io.parse_single_example(record, ours)["two"]) == plain(
            tf.io.parse_single_example(record, theirs)["two"]
        )


def listed(io, dtypes):
    context = {"i0": io.FixedLenFeature([], dtypes["i"], 3), "f": io.VarLenFeature(dtypes["f"])}
    lists = {
        "i2": io.FixedLenSequenceFeature([2], dtypes["i"], allow_missing=True),
        "b0": io.FixedLenSequenceFeature([], dtypes["b"], allow_missing=True),
        "f": io.VarLenFeature(dtypes["f"]),
        "i": io.RaggedFeature(dtypes["i"]),
    }
    return context, lists


@pytest.mark.parametrize("seed", range(20))
def test_sequence_examples_parse_alike(seed):
    chance = random.Random(seed)
    generator = Generator(chance)
    sizes = {"i2": 2, "b0": 1, "f": None, "i": None}

    def record():
        context = [
            entry(n.encode(), generator.feature(n, s)) for n, s in {"i0": 1, "f": None}.items() if chance.random() < 0.8
        ]
        lists = []
        for name, size in sizes.items():
            for _ in range(chance.choice([0, 1, 1, 1, 2])):
                features = [generator.feature(name, size) for _ in range(chance.randint(0, 4))]
                lists.append(steps(name.encode(), *features))
        return sequence_example(context, lists)

    theirs, ours = listed(tf.io, DTYPES), listed(hr.io, OWN)
    records = [record() for _ in range(6)]
    expected, got = tf.io.parse_sequence_example(records, *theirs), hr.io.parse_sequence_example(records, *ours)
    assert {n: rows(v) for n, v in got[0].items()} == {n: rows(v) for n, v in expected[0].items()}
    assert {n: plain(got[1][n]) for n in ("i2", "b0", "i")} == {n: plain(expected[1][n]) for n in ("i2", "b0", "i")}
    assert {n: plain(v) for n, v in got[2].items()} == {n: plain(v) for n, v in expected[2].items()}
    sparse = expected[1]["f"]
    assert got[1]["f"].values.values.tolist() == sparse.values.numpy().tolist()
    places = [[i, j, k] for i, row in enumerate(got[1]["f"]) for j, step in enumerate(row) for k in range(len(step))]
    assert places == sparse.indices.numpy().tolist()
    for one in records:
        expected, got = (
            tf.io.parse_single_sequence_example(one, *theirs),
            hr.io.parse_single_sequence_example(one, *ours),
        )
        assert {n: plain(got[1][n]) for n in ("i2", "b0", "i")} == {n: plain(expected[1][n]) for n in ("i2", "b0", "i")}
        assert {n: rows(v) for n, v in got[0].items()} == {n: rows(v) for n, v in expected[0].items()}


def test_specs_are_those_of_tf_io():
    theirs, ours = described(tf.io, DTYPES), described(hr.io, OWN)
    ds = tf.data.Dataset.from_tensor_slices([b""])
    single = ds.map(lambda r: tf.io.parse_single_example(r, theirs)).element_spec
    batch = ds.batch(2).map(lambda r: tf.io.parse_example(r, theirs)).element_spec
    for expected, got in ((single, specs(ours)), (batch, specs(ours, batch=True))):
        for name, spec in expected.items():
            assert got[name].shape == tuple(spec.shape.as_list()), name
            assert got[name].dtype.kind == np.dtype(spec.dtype.as_numpy_dtype).kind.replace("O", "S"), name


@pytest.mark.parametrize("compression", [None, "GZIP", "ZLIB"])
def test_files_that_either_has_written(tmp_path, compression):
    records = [b"one", b"", b"\0" * 5000, *(b"%d" % i for i in range(1000))]
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    with hr.io.TFRecordWriter(ours, compression) as writer:
        for record in records:
            writer.write(record)
    with tf.io.TFRecordWriter(str(theirs), compression) as writer:
        for record in records:
            writer.write(record)
    assert list(tf.data.TFRecordDataset(str(ours), compression).as_numpy_iterator()) == records
    assert list(hr.TFRecordDataset(theirs, compression)) == records
    if compression is None:
        assert ours.read_bytes() == theirs.read_bytes()
