"""ragged_batch: rows of unequal lengths together."""

import numpy as np

import headrace as hr

D = hr.Dataset


def ragged(*lengths):
    return D.from_tensor_slices(hr.Ragged.from_rows([np.full(n, n) for n in lengths]))


def test_ragged_batches_keep_lengths(run):
    batches = run(ragged(1, 0, 2).ragged_batch(2))
    assert [b.to_list() for b in batches] == [[[1], []], [[2, 2]]]
    assert run(D.range(3).ragged_batch(2))[0].tolist() == [0, 1]


def arrays(shapes, signature):
    rows = [np.arange(np.prod(shape), dtype=np.int64).reshape(shape) for shape in shapes]
    return D.from_generator(lambda: iter(rows), output_signature=hr.TensorSpec(signature, np.int64))


def test_axes_after_the_first_may_differ(run):
    (batch,) = run(arrays([(2, 1), (0, 5), (1, 3)], [None, None]).ragged_batch(3))
    assert batch.to_list() == [[[0], [1]], [], [[0, 1, 2]]]
    assert batch.shape == (3, None, None)
    (batch,) = run(arrays([(2, 1, 2), (2, 2, 2)], [2, None, 2]).ragged_batch(2))
    assert (batch.to_list(), batch.shape) == (
        [[[[0, 1]], [[2, 3]]], [[[0, 1], [2, 3]], [[4, 5], [6, 7]]]],
        (2, None, None, 2),
    )


def test_the_signature_says_how_many_axes_are_ragged(run):
    """So every batch has as many, also one whose rows happen to have one shape."""
    same = run(arrays([(2, 2), (2, 2)], [None, None]).ragged_batch(2))
    assert [b.shape for b in same] == [(2, None, None)]
    assert [b.shape for b in run(arrays([(1, 2), (3, 2)], [None, 2]).ragged_batch(2))] == [(2, None, 2)]


def test_a_function_that_says_nothing_of_its_results_gives_what_its_rows_need(run):
    rows = D.range(3).map(lambda x: np.ones((2, int(str(x)) + 1), np.int64))
    assert [b.to_list() for b in run(rows.ragged_batch(2))] == [
        [[[1], [1]], [[1, 1], [1, 1]]],
        [[[1, 1, 1], [1, 1, 1]]],
    ]
    _ = rows.element_spec
    assert [b.shape for b in run(rows.ragged_batch(2))] == [(2, None, None), (1, None, 3)]


def test_texts_may_differ_in_later_axes(run):
    rows = [np.array([["a", "b"]], object), np.array([["c"], ["d"]], object)]
    ds = D.from_generator(lambda: iter(rows), output_signature=hr.TensorSpec([None, None], str))
    assert [b.to_list() for b in run(ds.ragged_batch(2))] == [[[["a", "b"]], [["c"], ["d"]]]]
