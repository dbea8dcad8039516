"""hr.Ragged against tf.RaggedTensor: the same parts and the same dense arrays."""

import numpy as np
import pytest

import headrace as hr

tf = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow

ROWS = [[1, 2, 3], [], [4], [5, 6]]
NESTED = [[[1], [2, 3]], [], [[4]]]
CUTS = [
    np.s_[:, 1:2],
    np.s_[:, -1:],
    np.s_[1:, :2],
    np.s_[:, ::2],
    np.s_[:, ::-1],
    np.s_[..., :1],
    np.s_[0, 1],
    np.s_[2:],
]


def ours(rows):
    return hr.Ragged.from_rows([np.array(row, np.int32) for row in rows])


def nested():
    inner = ours([row for rows in NESTED for row in rows])
    return hr.Ragged(inner, np.cumsum([0, *map(len, NESTED)]))


def plain(value):
    return value.to_list() if isinstance(value, tf.RaggedTensor | hr.Ragged) else np.asarray(value).tolist()


@pytest.mark.parametrize("cut", CUTS, ids=str)
def test_parts(cut):
    assert plain(ours(ROWS)[cut]) == plain(tf.ragged.constant(ROWS)[cut])


@pytest.mark.parametrize("shape", [None, (None, 2), (6, 5), (2, None), (None, 0)])
@pytest.mark.parametrize("default", [None, -1])
def test_dense_arrays(shape, default):
    want = tf.ragged.constant(ROWS).to_tensor(default, shape=shape).numpy()
    found = ours(ROWS).to_tensor(default, shape=shape)
    assert (found.tolist(), found.shape, found.dtype) == (want.tolist(), want.shape, want.dtype)


@pytest.mark.parametrize("shape", [None, (None, 1, None), (4, 2, 5), (None, None, 1)])
def test_nested_rows(shape):
    want = tf.ragged.constant(NESTED).to_tensor(7, shape=shape).numpy()
    found = nested().to_tensor(7, shape=shape)
    assert (found.tolist(), found.shape) == (want.tolist(), want.shape)
