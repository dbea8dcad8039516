"""padded_batch: rows of unequal shapes, filled up."""

import numpy as np
import pytest

import headrace as hr

D = hr.Dataset


def ragged(*lengths):
    return D.from_tensor_slices(hr.Ragged.from_rows([np.full(n, n) for n in lengths]))


def lists(rows):
    return [r.tolist() for r in rows]


def test_padded_batch_fills_up_to_the_longest_of_each_batch(run):
    assert lists(run(ragged(1, 2, 0, 3).padded_batch(2))) == [[[1, 0], [2, 2]], [[0, 0, 0], [3, 3, 3]]]


def test_padded_batch_fills_up_to_a_shape_with_a_value(run):
    assert lists(run(ragged(1, 2).padded_batch(2, [3], -1))) == [[[1, -1, -1], [2, 2, -1]]]


def test_a_padding_value_is_for_components_of_its_kind(run):
    ds = D.range(2).map(lambda n: {"i": np.arange(n), "f": np.ones(n), "s": np.array(["a"] * int(n), object)})
    (batch,) = run(ds.padded_batch(2, padding_values=7))
    assert batch["i"].tolist() == [[7], [0]]
    assert batch["f"].tolist() == [[7.0], [1.0]]
    assert batch["s"].tolist() == [[""], ["a"]]
    (batch,) = run(ds.padded_batch(2, padding_values={"i": None, "f": 2.5, "s": "-"}))
    assert [batch["i"].tolist(), batch["f"].tolist(), batch["s"].tolist()] == [
        [[0], [0]],
        [[2.5], [1.0]],
        [["-"], ["a"]],
    ]


def test_an_element_longer_than_the_shape_is_an_error_at_its_batch():
    it = iter(ragged(1, 1, 5, 1, 1, 1).padded_batch(2, [2]))
    assert next(it).shape == (2, 2)
    with pytest.raises(hr.ElementError, match="length 5 does not fit into 2"):
        next(it)
    assert next(it).shape == (2, 2)


@pytest.mark.parametrize(
    ("make", "error", "said"),
    [
        (lambda: D.from_tensor_slices(np.zeros((2, 3))).padded_batch(2, [2]), ValueError, "does not fit"),
        (lambda: D.from_tensor_slices(np.zeros((2, 3))).padded_batch(2, [3, 3]), ValueError, "1 axes, not 2"),
        (lambda: D.zip(D.range(2), D.range(2)).padded_batch(2, [2]), hr.SpecError, "structure"),
        (lambda: D.range(2).padded_batch(0), ValueError, "batch_size"),
        (lambda: D.range(2).padded_batch(2, padding_values="a"), hr.SpecError, "no component"),
        (lambda: D.range(2).padded_batch(2, padding_values=[1, 2]), hr.SpecError, "single values"),
        (lambda: D.range(2).padded_batch(2, padding_values=(1, 2)), hr.SpecError, "structure"),
        (lambda: D.zip(D.range(2), D.range(2)).padded_batch(2, padding_values=("x", 0)), hr.SpecError, "cannot fill"),
    ],
)
def test_a_contradiction_is_found_at_construction(make, error, said):
    with pytest.raises(error, match=said):
        make()


def test_single_numbers_are_only_batched(run):
    assert lists(run(D.range(5).padded_batch(3))) == [[0, 1, 2], [3, 4]]


@pytest.mark.parametrize("mode", ["auto", "eager"])
@pytest.mark.parametrize("lines", [["", "", "x"], ["", ""], ["", "", "a b", "c", "", ""]])
def test_a_batch_without_a_word_is_filled_up_with_words_of_its_kind(run, lines, mode):
    for given, nothing in ((lines, ""), ([line.encode() for line in lines], b"")):
        ds = D.from_tensor_slices(given).map(hr.text.split, mode=mode).padded_batch(2, padded_shapes=[3])
        for batch in run(ds):
            assert {type(word) for word in batch.flat} == {type(nothing)}, batch


@pytest.mark.parametrize("length", [None, 3])
def test_rows_without_a_value_are_filled_up(run, length):
    ds = hr.Dataset.from_tensor_slices(hr.Ragged.from_rows([np.empty(0, np.int64)] * 4)).padded_batch(2, [length])
    assert [batch.tolist() for batch in run(ds)] == [[[0] * (length or 0)] * 2] * 2
