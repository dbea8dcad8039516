"""bucket_by_sequence_length: elements of similar lengths together."""

import numpy as np
import pytest

import headrace as hr

D = hr.Dataset


def ragged(*lengths):
    return D.from_tensor_slices(hr.Ragged.from_rows([np.full(n, n) for n in lengths]))


def test_bucket_pads_to_the_boundary(run):
    ds = ragged(1, 2, 1, 3, 4, 1).bucket_by_sequence_length(len, [3, 6], [2, 2, 1], pad_to_bucket_boundary=True)
    assert [b.shape for b in run(ds)] == [(2, 2), (2, 5), (2, 2)]


def test_an_incomplete_bucket_can_be_dropped_when_padding_to_the_boundary(run):
    how = {"pad_to_bucket_boundary": True, "drop_remainder": True}
    ds = ragged(1, 2, 1, 4).bucket_by_sequence_length(len, [3, 6], [2, 2, 1], **how)
    assert [b.shape for b in run(ds)] == [(2, 2)]


@pytest.mark.parametrize(
    ("make", "error", "said"),
    [
        (lambda d, f: d.bucket_by_sequence_length(f, [3, 2], [1, 1, 1]), ValueError, "rise"),
        (lambda d, f: d.bucket_by_sequence_length(f, [3], [1]), ValueError, "2 buckets"),
    ],
)
def test_bad_arguments_are_refused(make, error, said):
    with pytest.raises(error, match=said):
        make(D.range(4), lambda x: x)
