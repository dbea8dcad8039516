"""Functions of TensorFlow and torch inside map: stage 1 of a port."""

import numpy as np
import pytest

import headrace as hr
from tests.interop.conftest import plain

tf = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow
D = hr.Dataset


@tf.function
def doubled(x):
    return x * 2


FUNCTIONS = {
    "a scalar": lambda x: tf.cast(x, tf.float32) / 2,
    "an array": lambda x: tf.one_hot(x, 3),
    "a structure": lambda x: {"a": tf.range(x), "b": (x, tf.constant([1.5]))},
    "text": lambda x: tf.strings.as_string(x),
    "words": lambda x: tf.strings.split(tf.strings.join(["a b ", tf.strings.as_string(x)])),
    "bfloat16": lambda x: tf.cast(x, tf.bfloat16),
    "ragged": lambda x: tf.RaggedTensor.from_row_splits([1, 2, 3], [0, 2, 3]) + tf.cast(x, tf.int32),
    "an image": lambda x: tf.image.resize(tf.fill([4, 4, 3], tf.cast(x, tf.uint8)), [2, 2]),
    "a tf.function": doubled,
    "a py_function": lambda x: tf.py_function(lambda v: v + 1, [x], tf.int64),
    "a numpy_function": lambda x: tf.numpy_function(lambda v: v + 1, [x], tf.int64),
}


@pytest.mark.parametrize("what", FUNCTIONS)
def test_functions_of_tensorflow_give_what_they_give_in_tf_data(what):
    fn = FUNCTIONS[what]
    expected = [plain(e) for e in tf.data.Dataset.range(3).map(tf.autograph.experimental.do_not_convert(fn))]
    assert [plain(e) for e in D.range(3).map(fn)] == expected
    assert [plain(e) for e in D.range(3).map(fn, num_parallel_calls=2)] == expected


def test_filters_and_reductions_may_be_tensorflows():
    assert list(D.range(6).filter(lambda x: tf.equal(x % 2, 0))) == [0, 2, 4]
    assert D.range(5).reduce(tf.constant(0, tf.int64), lambda total, x: total + x) == 10
    assert list(D.from_tensor_slices(tf.range(3))) == [0, 1, 2]


def test_explain_says_that_they_are_called_on_each_element():
    assert "row by row: calls TensorFlow on each element" in D.range(3).map(lambda x: tf.cast(x, tf.float32)).explain()
    assert "row by row: calls TensorFlow on each element" in D.range(3).map(doubled).explain()
    assert "vectorised" in D.range(3).map(lambda x: x * 2).explain()


def test_sizes_that_tensorflow_does_not_touch_stay_known():
    def fn(row):
        resized = hr.image.resize(np.zeros((9, 9, 3), np.float32), (4, 6))
        return {"mask": tf.constant(1), "halved": tf.cast(row["y"], tf.float32) / 2, "resized": resized, **row}

    spec = D.from_tensor_slices({"x": [1.5], "y": np.ones((1, 2))}).map(fn).element_spec
    assert {name: s.shape for name, s in spec.items()} == {
        "mask": (),
        "halved": (None,),
        "resized": (4, 6, None),
        "x": (),
        "y": (2,),
    }
    assert spec["mask"].dtype == np.int32


def test_a_sparse_tensor_is_answered_by_what_to_write():
    with pytest.raises(hr.ElementError, match=r"tf\.sparse\.to_dense"):
        list(D.range(1).map(lambda x: tf.sparse.from_dense([[1, 0]])))


def test_functions_of_torch():
    torch = pytest.importorskip("torch")
    made = list(D.range(3).map(lambda x: torch.tensor([x, 1.0], requires_grad=True) * 2))
    assert [m.tolist() for m in made] == [[0, 2], [2, 2], [4, 2]]
    assert all(m.dtype == np.float32 for m in made)
    assert "row by row: calls torch on each element" in D.range(3).map(lambda x: torch.tensor(x)).explain()
    assert list(D.from_tensor_slices(torch.arange(3))) == [0, 1, 2]


WORDS = D.from_tensor_slices(["a b"])
TABLE = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(["a"], [1]), -1)
OF_TENSORS = {
    "set_shape": (D.range(1), lambda x: x.set_shape([]), r"remove \.set_shape"),
    "numpy": (D.range(1), lambda x: x.numpy(), r"remove \.numpy"),
    "as_list": (D.range(1), lambda x: tf.reshape(x, x.shape.as_list()), r"remove \.as_list"),
    "rank": (D.range(1), lambda x: x.shape.rank, r"len\(shape\)"),
    "to_dense": (D.range(1), lambda x: tf.sparse.to_dense(x), r"remove tf\.sparse\.to_dense"),
    "decode": (WORDS, lambda x: tf.numpy_function(lambda v: v.decode(), [x], tf.string), "call the function itself"),
    "decode of str": (WORDS, lambda x: x.decode(), r"remove \.decode"),
    "lookup": (WORDS, lambda x: TABLE.lookup(x), r"tf\.convert_to_tensor\(x\)"),
    "lookup of words": (WORDS.map(hr.text.split), lambda x: TABLE.lookup(x), r"tf\.convert_to_tensor\(x\)"),
    "to_tensor": (WORDS.map(hr.text.split), lambda x: x.to_tensor(), r"remove \.to_tensor"),
}


@pytest.mark.parametrize("what", OF_TENSORS)
def test_what_tensors_have_and_arrays_have_not_is_answered_by_what_to_write(what):
    ds, fn, answer = OF_TENSORS[what]
    with pytest.raises(hr.ElementError, match=answer):
        list(ds.map(fn))


def test_other_errors_have_no_hint():
    for fn in (lambda x: x.nothing, lambda x: np.rank(x), lambda x: x[0]):
        with pytest.raises(hr.ElementError) as caught:
            list(D.range(1).map(fn))
        assert "TensorFlow" not in str(caught.value)
        assert "remove" not in str(caught.value)
