"""Dtypes, specs and shapes of TensorFlow's, wherever one of ours is taken."""

import numpy as np
import pytest

import headrace as hr

tf = pytest.importorskip("tensorflow")
D = hr.Dataset
PNG = hr.image.encode_png(np.zeros((2, 2, 3), np.uint8))


def generator(**described):
    return D.from_generator(lambda: iter([([1, 2], b"a")]), **described)


SAME = {
    "a spec": lambda m: hr.TensorSpec([2], m.float32),
    "text": lambda m: hr.TensorSpec([], m.string if m is tf else bytes),
    "bfloat16": lambda m: hr.TensorSpec([], m.bfloat16 if m is tf else tf.bfloat16.as_numpy_dtype),
    "a shape": lambda m: hr.TensorSpec(tf.TensorShape([None, 2]) if m is tf else [None, 2], m.int32),
    "an unknown shape": lambda m: hr.TensorSpec(tf.TensorShape(None) if m is tf else None, m.int32),
    "range": lambda m: list(D.range(3, output_type=m.int32)),
    "counter": lambda m: D.counter(dtype=m.int32).element_spec,
    "convert_image_dtype": lambda m: hr.image.convert_image_dtype(np.ones((1, 1, 3), np.uint8), m.float32).tolist(),
    "decode_png": lambda m: hr.image.decode_png(PNG, dtype=m.uint16).dtype,
    "decode_image": lambda m: hr.image.decode_image(PNG, dtype=m.float32).dtype,
    "decode_csv": lambda m: hr.io.decode_csv("1,2", [m.float32, m.int64]),
    "ragged_batch": lambda m: D.range(3).ragged_batch(2, row_splits_dtype=m.int64).element_spec,
    "output_types": lambda m: generator(output_types=(m.int32, m.string if m is tf else bytes)).element_spec,
}


@pytest.mark.parametrize("what", SAME)
def test_a_dtype_of_tensorflows_is_numpys_of_that_name(what):
    assert SAME[what](tf) == SAME[what](np)


def test_signatures_may_be_tensorflows():
    theirs = (tf.TensorSpec([None], tf.int32), tf.TensorSpec([], tf.string))
    ours = (hr.TensorSpec([None], np.int32), hr.TensorSpec([], bytes))
    ds = generator(output_signature=theirs)
    assert ds.element_spec == ours
    assert [(a.tolist(), b) for a, b in ds] == [([1, 2], b"a")]
    mapped = D.range(2).map(lambda x: x, output_signature=tf.TensorSpec([], tf.int64))
    assert mapped.element_spec == hr.TensorSpec([], np.int64)
    assert ours[0].is_compatible_with(theirs[0]) and not ours[0].is_compatible_with(theirs[1])
    ragged = tf.RaggedTensorSpec([None, None], tf.int64)
    assert generator(output_signature=(ragged, theirs[1])).element_spec[0] == hr.TensorSpec([None, None], np.int64)


def test_what_is_no_dense_component_is_refused():
    with pytest.raises(TypeError, match=r"must be an hr\.TensorSpec"):
        generator(output_signature=tf.SparseTensorSpec([3], tf.int64))
