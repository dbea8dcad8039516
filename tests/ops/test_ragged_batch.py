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
