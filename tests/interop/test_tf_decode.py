"""Raw numbers, CSV, compressed bytes and serialized tensors, against tf.io."""

import gzip
import random
import zlib

import numpy as np
import pytest

import headrace as hr

tf = pytest.importorskip("tensorflow")

pytestmark = pytest.mark.tensorflow

NUMBERS = [
    "bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64",
    "float16", "float32", "float64", "complex64", "complex128",
]  # fmt: skip
RAW = [n for n in NUMBERS if n not in ("uint32", "uint64")]


def same(ours, theirs):
    expected = theirs.numpy()
    assert np.shape(ours) == np.shape(expected)
    if isinstance(expected, bytes) or expected.dtype == object:
        assert np.asarray(ours, object).tolist() == np.asarray(expected, object).tolist()
    else:
        assert np.asarray(ours).dtype == expected.dtype
        np.testing.assert_array_equal(ours, expected)


def refusal(call):
    try:
        call()
    except (ValueError, tf.errors.InvalidArgumentError):
        return True
    return False


@pytest.mark.parametrize("dtype", RAW)
@pytest.mark.parametrize("little", [True, False])
def test_decode_raw(dtype, little):
    chance = random.Random(dtype)
    values = [np.array([chance.randint(0, 1) for _ in range(6)], dtype).tobytes() for _ in range(4)]
    kind = getattr(tf, dtype)
    for given in (values[0], values, np.array(values, object).reshape(2, 2)):
        same(hr.io.decode_raw(given, dtype, little), tf.io.decode_raw(given, kind, little))
    if dtype in ("bool", "float16", "complex64", "complex128"):
        return  # of these tf.io has no fixed lengths
    for length in (np.dtype(dtype).itemsize, 10 * np.dtype(dtype).itemsize):
        ours = hr.io.decode_raw([values[0], b""], dtype, little, fixed_length=length)
        same(ours, tf.io.decode_raw([values[0], b""], kind, little, fixed_length=length))


def test_decode_raw_refuses_what_tf_io_refuses():
    for given, dtype in (([b"1234", b"12345678"], "int32"), (b"123", "int16")):
        assert refusal(lambda: tf.io.decode_raw(given, getattr(tf, dtype)))  # noqa: B023
        assert refusal(lambda: hr.io.decode_raw(given, dtype))  # noqa: B023


@pytest.mark.parametrize("dtype", NUMBERS)
def test_serialized_tensors_are_read_by_either(dtype):
    chance = np.random.default_rng(1)
    for shape in ((), (0,), (3,), (2, 3, 4), (1, 0, 2)):
        array = (chance.random(shape) * 100).astype(dtype)
        for written in (hr.io.serialize_tensor(array), tf.io.serialize_tensor(array).numpy()):
            same(hr.io.parse_tensor(written, dtype), tf.io.parse_tensor(written, getattr(tf, dtype)))
        assert hr.io.serialize_tensor(array) == tf.io.serialize_tensor(array).numpy() or array.size == 0
        field_by_field = tf.make_tensor_proto(array)
        field_by_field.ClearField("tensor_content")
        proto = tf.compat.v1.make_tensor_proto(array.ravel().tolist() or array, array.dtype, array.shape)
        same(hr.io.parse_tensor(proto.SerializeToString(), dtype), tf.constant(array))


def test_serialized_text():
    for text in (b"one", [b"a", b"", b"\0\xff"], [["x", "y"], ["", "long " * 50]]):
        theirs = tf.io.serialize_tensor(text).numpy()
        assert hr.io.serialize_tensor(text) == theirs
        same(hr.io.parse_tensor(theirs, bytes), tf.io.parse_tensor(theirs, tf.string))


def test_a_tensor_of_one_value_many_times():
    proto = tf.make_tensor_proto(7.0, tf.float32, [3, 2])
    same(hr.io.parse_tensor(proto.SerializeToString(), np.float32), tf.fill([3, 2], 7.0))


def test_decode_compressed():
    for kind, compress in (("GZIP", gzip.compress), ("ZLIB", zlib.compress), ("", bytes)):
        data = [compress(b"water" * n) for n in (0, 1, 1000)]
        same(hr.io.decode_compressed(data, kind), tf.io.decode_compressed(data, kind))
        same(hr.io.decode_compressed(data[1], kind), tf.io.decode_compressed(data[1], kind))


LINES = {
    "plain": ["1,2.5,x", "-7,1e3,yy"],
    "defaults": [",,", "4,,z"],
    "spaces around numbers": [" 1 , 2.5,x y"],
    "signs": ["+3,-0.5,+"],
    "quotes": ['"1","2.5","a,b"', '2,3,"say ""hi"""', '3,4,""'],
    "a line end in quotes": ['1,2,"a\nb"'],
    "nan": ["1,nan,x", "2,inf,y"],
    "na_value": ["NA,NA,NA", "1,2,3"],
    "too few": ["1,2"],
    "too many": ["1,2,3,4"],
    "no number": ["one,2,x"],
    "no integer": ["1.5,2,x"],
    "too large": ["3000000000,2,x"],
    "quote within": ['1,2,a"b'],
    "quote not closed": ['1,2,"ab'],
    "text after a quote": ['1,2,"a"b'],
    "empty line": [""],
}


@pytest.mark.parametrize("lines", LINES.values(), ids=LINES)
@pytest.mark.parametrize("quotes", [True, False])
def test_decode_csv(lines, quotes):
    theirs = [tf.constant([5], tf.int32), tf.constant([0.5], tf.float32), tf.constant(["none"])]
    ours = [np.int32(5), np.float32(0.5), b"none"]
    for records in (lines, lines[0]):
        arguments = {"use_quote_delim": quotes, "na_value": "NA"}
        refused = refusal(lambda: tf.io.decode_csv(records, theirs, **arguments))  # noqa: B023
        assert refusal(lambda: hr.io.decode_csv(records, ours, **arguments)) == refused  # noqa: B023
        if not refused:
            expected, got = tf.io.decode_csv(records, theirs, **arguments), hr.io.decode_csv(records, ours, **arguments)
            for a, b in zip(got, expected, strict=True):
                same(a, b)


@pytest.mark.parametrize("seed", range(20))
def test_random_csv(seed):
    chance = random.Random(seed)
    texts = ["", "a", "b c", 'q"q', "x;y", "two\nlines", "é"]

    def line():
        whole, real, text = chance.randint(-(2**40), 2**40), chance.uniform(-1e9, 1e9), chance.choice(texts)
        fields = [str(whole), repr(real), text]
        fields = [chance.choice(["", f]) if i < 2 else f for i, f in enumerate(fields)]
        marked = [set(f) & set('",;\n') or chance.random() < 0.2 for f in fields]
        quoted = ['"' + f.replace('"', '""') + '"' if m else f for f, m in zip(fields, marked, strict=True)]
        return ";".join(quoted)

    lines = [line() for _ in range(chance.randint(1, 20))]
    theirs = [tf.constant([5], tf.int64), tf.constant([0.5], tf.float64), tf.constant(["none"])]
    expected = tf.io.decode_csv(lines, theirs, field_delim=";")
    for a, b in zip(hr.io.decode_csv(lines, [np.int64(5), np.float64(0.5), b"none"], ";"), expected, strict=True):
        same(a, b)
    some = tf.io.decode_csv(lines, theirs[1:], field_delim=";", select_cols=[1, 2])
    for a, b in zip(hr.io.decode_csv(lines, [np.float64(0.5), b"none"], ";", select_cols=[1, 2]), some, strict=True):
        same(a, b)
