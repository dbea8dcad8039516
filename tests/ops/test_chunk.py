"""chunk: long documents in parts, which together are the document."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import headrace as hr
from headrace.testing import check_transformation

D = hr.Dataset
TOKENS = hr.TensorSpec((None,), "int64")


@given(st.lists(st.integers(0, 40), min_size=1, max_size=20), st.integers(1, 12), st.data())
def test_chunks_overlap_as_asked_and_lose_nothing(sizes, length, data):
    overlap = data.draw(st.integers(0, length - 1))
    ds = D.from_tensor_slices(hr.Ragged.from_rows([np.arange(n) + 100 * i for i, n in enumerate(sizes)], np.int64))
    chunks = [chunk.tolist() for chunk in ds.chunk(length, overlap)]
    for i, size in enumerate(sizes):
        whole, mine = list(range(100 * i, 100 * i + size)), chunks.pop(0)
        assert len(mine) == min(length, size)
        while len(mine) < size:
            part = chunks.pop(0)
            assert len(part) == min(length, size - len(mine) + overlap)
            assert part[:overlap] == mine[len(mine) - overlap :]
            mine += part[overlap:]
        assert mine == whole
    assert not chunks


def test_fields_are_cut_together_and_others_copied(run):
    ds = D.range(2).map(lambda i: {"tokens": np.arange(3) + i, "mask": np.ones((3, 2)), "id": i})
    rows = run(ds.chunk(2))
    assert [row["tokens"].tolist() for row in rows] == [[0, 1], [2], [1, 2], [3]]
    assert [row["mask"].shape for row in rows] == [(2, 2), (1, 2)] * 2
    assert [int(row["id"]) for row in rows] == [0, 0, 1, 1]
    rows = run(D.range(1).map(lambda i: (np.arange(3), np.arange(5))).chunk(2, fields=[0]))
    assert [(a.tolist(), b.tolist()) for a, b in rows] == [([0, 1], [0, 1, 2, 3, 4]), ([2], [0, 1, 2, 3, 4])]


def test_texts_of_a_document_are_cut(run):
    rows = run(D.from_tensors(np.array(["a", "b", "c"], object)).chunk(2))
    assert [row.tolist() for row in rows] == [["a", "b"], ["c"]]


def test_every_promise_is_kept():
    ds = D.range(12).map(
        lambda n: (np.arange(n * 7 % 11), np.arange(n * 7 % 11 + (n == 3))), output_signature=(TOKENS, TOKENS)
    )
    check_transformation(ds.chunk(3, 1))
    check_transformation(D.from_generator(lambda: map(np.arange, range(9)), output_signature=TOKENS).chunk(2).batch(2))


def test_bad_arguments_and_elements_are_named():
    ds = D.from_tensors({"a": np.arange(4), "b": np.arange(5), "c": 1})
    for wrong, said in [
        (lambda: ds.chunk(0), "length must be"),
        (lambda: ds.chunk(3, 3), r"overlap must be from 0 to 2 \(length - 1\), not 3"),
    ]:
        with pytest.raises(ValueError, match=said):
            wrong()
    for wrong, said in [
        (lambda: ds.chunk(3, fields=["x"]), "fields names 'x', the elements have"),
        (lambda: D.range(3).chunk(2), "has an axis to cut"),
    ]:
        with pytest.raises(hr.SpecError, match=said):
            wrong()
    with pytest.raises(hr.ElementError, match=r"differ in length: component\['a'\] has 4, component\['b'\] has 5"):
        list(ds.chunk(3))
