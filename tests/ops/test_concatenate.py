"""concatenate: one dataset after another."""

import pytest

import headrace as hr

D = hr.Dataset


def numbers(rows):
    return [int(x) for x in rows]


def test_concatenate(run):
    ds = D.range(2).concatenate(D.range(5, 7)) + D.range(1)
    assert numbers(run(ds)) == [0, 1, 5, 6, 0]
    assert len(ds) == 5
    assert (D.range(2) + D.range(3).repeat()).cardinality() == hr.INFINITE_CARDINALITY


@pytest.mark.parametrize(
    ("other", "said"),
    [(D.from_tensors((1, 2)), "structure"), (D.from_tensors(1.0), "int64 against float64")],
)
def test_datasets_that_do_not_fit_are_refused(other, said):
    with pytest.raises(hr.SpecError, match=said):
        D.range(2).concatenate(other)
    with pytest.raises(TypeError, match="Dataset"):
        D.range(2).concatenate([1, 2])


def test_concatenated_specs_keep_what_they_share():
    ds = D.from_tensors([1, 2]).concatenate(D.from_tensors([1, 2, 3]))
    assert ds.element_spec == hr.TensorSpec([None], "int64")


def test_a_chain_of_hundreds_of_datasets(run):
    ds = D.range(1)
    for i in range(1, 300):
        ds = ds + D.range(i, i + 1)
    assert numbers(run(ds)) == list(range(300))
