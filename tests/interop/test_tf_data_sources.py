"""from_tensors, from_tensor_slices, from_generator and range, against tf.data."""

import numpy as np
import pytest

import headrace as hr
from headrace.testing import reference_outcomes

from . import Pair, Point, i32
from .conftest import assert_same, build, cases, differs, elements, headrace, plain, tf_data

tf = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow


def yielding(D, values, *signature):
    shape, dtype = signature or ((), np.int32)
    return D.from_generator(lambda: iter(values), output_signature=D.TensorSpec(shape, dtype))


def yielding_pairs(D, values):
    return D.from_generator(lambda: iter(values), output_signature=(D.TensorSpec((), np.int32),) * 2)


def multiples(count, step):
    for i in range(count):
        yield i * step


@cases(
    {
        "stop": lambda D: D.range(5),
        "nothing": lambda D: D.range(0),
        "start and stop": lambda D: D.range(2, 5),
        "step": lambda D: D.range(1, 10, 4),
        "backwards": lambda D: D.range(10, 0, -3),
        "the wrong way": lambda D: D.range(10, 0),
        "beyond 32 bits": lambda D: D.range(2**62, 2**62 + 3),
        "NumPy integers": lambda D: D.range(np.int32(1), np.uint8(4)),
        "int32": lambda D: D.range(3, output_type=np.int32),
        "float32": lambda D: D.range(3, output_type=np.float32),
        "a dtype that overflows": lambda D: D.range(250, 260, output_type=np.uint8),
    }
)
def test_range(pipeline):
    assert_same(pipeline)


@cases(
    {
        "vector": lambda D: D.from_tensor_slices(i32(1, 2, 3)),
        "matrix": lambda D: D.from_tensor_slices(np.arange(6.0).reshape(3, 2)),
        "no rows": lambda D: D.from_tensor_slices(np.zeros((0, 3), np.float32)),
        "bool": lambda D: D.from_tensor_slices([True, False]),
        "complex": lambda D: D.from_tensor_slices(np.array([1j, 2])),
        "float16": lambda D: D.from_tensor_slices(np.array([1, 2], np.float16)),
        "str": lambda D: D.from_tensor_slices(["a", "", "straße"]),
        "bytes with zeros at the end": lambda D: D.from_tensor_slices([b"a", b"b\0"]),
        "NumPy strings": lambda D: D.from_tensor_slices(np.array(["a", "bc"])),
        "matrix of str": lambda D: D.from_tensor_slices([["a", "bc"], ["d", "e"]]),
        "list of arrays": lambda D: D.from_tensor_slices([i32(1, 2), i32(3, 4)]),
        "tuple": lambda D: D.from_tensor_slices((i32(1, 2, 3), np.eye(3))),
        "tuple of one": lambda D: D.from_tensor_slices((i32(1, 2),)),
        "dict": lambda D: D.from_tensor_slices({"b": i32(1, 2), "a": np.eye(2)}),
        "nested": lambda D: D.from_tensor_slices(({"b": i32(1, 2), "a": (i32(1, 2), i32(5, 6))}, i32(7, 8))),
        "namedtuple": lambda D: D.from_tensor_slices(Point(i32(1, 2), i32(3, 4))),
        "dataclass": lambda D: D.from_tensor_slices(Pair(i32(1, 2), i32(3, 4))),
        "None among components": lambda D: D.from_tensor_slices((i32(1, 2), None)),
    }
)
def test_from_tensor_slices(pipeline):
    assert_same(pipeline)


@cases(
    {
        "scalar": lambda D: D.from_tensors(np.int32(3)),
        "vector": lambda D: D.from_tensors(i32(1, 2, 3)),
        "str": lambda D: D.from_tensors("abc"),
        "a list is a tensor": lambda D: D.from_tensors([np.float32(1), np.float32(2)]),
        "tuple": lambda D: D.from_tensors((i32(1, 2), np.float32(2))),
        "dict with None": lambda D: D.from_tensors({"a": i32(1, 2), "n": None}),
        "dataclass": lambda D: D.from_tensors(Pair(i32(1, 2), np.int32(3))),
    }
)
def test_from_tensors(pipeline):
    assert_same(pipeline)


@cases(
    {
        "output_signature": lambda D: yielding(D, [1, 2, 3]),
        "an empty generator": lambda D: yielding(D, [], (3,), np.float32),
        "output_types": lambda D: D.from_generator(lambda: iter([1, [2, 3]]), np.int32),
        "output_types and output_shapes": lambda D: D.from_generator(lambda: iter([[1, 2], [3, 4]]), np.int32, (2,)),
        "a structure of types and shapes": lambda D: D.from_generator(
            lambda: iter([(1, [2.0]), (3, [4.0, 5.0])]), (np.int32, np.float32), ((), (None,))
        ),
        "types without shapes": lambda D: D.from_generator(lambda: iter([(1, [2.0])]), (np.int32, np.float32)),
        "a dict": lambda D: D.from_generator(
            lambda: iter([{"a": 1, "b": 2.0}]),
            output_signature={"b": D.TensorSpec((), np.float32), "a": D.TensorSpec((), np.int32)},
        ),
        "args": lambda D: D.from_generator(
            multiples, args=(np.int64(3), np.int64(10)), output_signature=D.TensorSpec((), np.int64)
        ),
        "an array as argument": lambda D: D.from_generator(
            iter, args=(np.array([3, 4]),), output_signature=D.TensorSpec((), np.int64)
        ),
        "sizes that vary": lambda D: yielding(D, [[1, 2], [3], [3, 4, 5]], (None,), np.int32),
        "lists as tensors": lambda D: D.from_generator(
            lambda: iter([([1, 2], 3)]), output_signature=(D.TensorSpec((None,), np.int32), D.TensorSpec((), np.int32))
        ),
        "tuples as a tensor": lambda D: yielding(D, [(1, 2)], (2,), np.int32),
        "str": lambda D: yielding(D, ["a", "bc"], (), np.str_),
        "bytes": lambda D: yielding(D, [b"a"], (), np.bytes_),
        "Python ints as floats": lambda D: yielding(D, [1, 2], (), np.float32),
        "wider integers that fit": lambda D: yielding(D, [np.int64(1), np.int64(2)]),
        "narrower floats": lambda D: yielding(D, [np.float64(1.5)], (), np.float32),
        "integers as floats": lambda D: yielding(D, [np.int32(1)], (), np.float32),
        "bools as integers": lambda D: yielding(D, [True, False]),
        "again for each repetition": lambda D: yielding(D, [1, 2]).repeat(2),
    }
)
def test_from_generator(pipeline):
    assert_same(pipeline)


@cases(
    {
        "a size": lambda D: yielding(D, [[1, 2], [3], [4, 5]], (2,), np.int32),
        "a rank": lambda D: yielding(D, [1, [2], 3]),
        "text for a number": lambda D: yielding(D, ["a", 1]),
        "a number for text": lambda D: yielding(D, [1, "a"], (), np.str_),
        "None for a number": lambda D: yielding(D, [None, 1]),
        "rows of unequal length": lambda D: yielding(D, [[[1], [2, 3]], [[1, 2], [3, 4]]], (None, None), np.int32),
        "a number for a tuple": lambda D: yielding_pairs(D, [1, (2, 3)]),
        "an array for a tuple": lambda D: yielding_pairs(D, [i32(1, 2), (2, 3)]),
        "a tuple too long": lambda D: yielding_pairs(D, [(1, 2, 3), (1, 2)]),
        "a missing key": lambda D: D.from_generator(
            lambda: iter([{"a": 1}, {"a": 1, "b": 2}]),
            output_signature={"a": D.TensorSpec((), np.int32), "b": D.TensorSpec((), np.int32)},
        ),
    }
)
def test_a_value_that_breaks_the_signature_is_an_error_in_its_place(pipeline):
    assert_same(pipeline)


@cases(
    {
        "from_tensors": lambda D: D.from_tensors((i32(1), (i32(2),))),
        "from_tensor_slices": lambda D: D.from_tensor_slices(((i32(1),), i32(2))),
        "zip": lambda D: D.zip((D.range(3), (D.range(3),))),
        "enumerate": lambda D: D.from_tensor_slices((i32(1, 2),)).enumerate(),
    }
)
def test_a_tuple_of_one_inside_a_tuple_stays_a_tuple(pipeline):
    assert_same(pipeline)


@cases(
    {
        "a tuple inside a tuple, as a tensor": lambda D: D.from_generator(
            lambda: iter([((1, 2), 3)]), output_signature=(D.TensorSpec((None,), np.int32), D.TensorSpec((), np.int32))
        ),
        "a namedtuple for a tuple": lambda D: yielding_pairs(D, [Point(1, 2)]),
    }
)
def test_a_generator_may_yield_tuples_of_any_kind(pipeline):
    assert_same(pipeline)


def test_a_generator_may_yield_an_empty_list_of_any_dtype():
    assert_same(lambda D: yielding(D, [[1, 2], [], [3]], (None,), np.int32))


def test_a_generator_may_not_yield_a_list_for_a_tuple():
    assert_same(lambda D: yielding_pairs(D, [[1, 2], (2, 3)]))


@differs("tf.data casts without a check; SEMANTICS: a value that does not match the signature is an error")
@cases(
    {
        "a float as an integer": lambda D: yielding(D, [1, 2.5, 3]),
        "a NumPy float as an integer": lambda D: yielding(D, [np.float32(1)]),
        "an integer as a bool": lambda D: yielding(D, [1], (), np.bool_),
        "an integer too large": lambda D: yielding(D, [1, 2**40, 3]),
        "a negative number as unsigned": lambda D: yielding(D, [1, -1, 3], (), np.uint8),
    }
)
def test_a_generator_s_numbers_are_cast_to_the_signature(pipeline):
    assert_same(pipeline)


@differs("the error comes once, then the end")
@cases(
    {
        "not iterable": lambda D: D.from_generator(lambda: 3, np.int32),
        "missing arguments": lambda D: D.from_generator(multiples, np.int64, args=(np.int64(1),)),
    }
)
def test_a_generator_that_cannot_start_fails_at_each_next(pipeline):
    expected, got = (elements(build(pipeline, library), limit=3) for library in (tf_data(), headrace()))
    assert got == expected


def test_a_generator_that_promises_tf_string_may_give_str():
    given = ["é", b"b", np.str_("c"), ["d", ""], [], np.array(["e"]), np.array([["f", "g"]], object)]

    def rows():
        yield from given

    expected = [plain(x) for x in tf.data.Dataset.from_generator(rows, output_signature=tf.TensorSpec(None, tf.string))]
    ours = hr.Dataset.from_generator(rows, output_signature=tf.TensorSpec(None, tf.string))
    assert [plain(x) for x in ours] == expected
    assert [plain(value) for _, value in reference_outcomes(ours)] == expected
    assert next(iter(ours)) == "é".encode()
