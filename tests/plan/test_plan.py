"""Structures, specs, cardinalities and what a plan says of itself."""

import dataclasses
from collections import namedtuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import headrace as hr
from headrace.plan.cardinality import INFINITE, UNKNOWN, Cardinality, smallest
from headrace.plan.spec import Spec
from headrace.plan.structure import flatten

D = hr.Dataset
Pair = namedtuple("Pair", "left right")


@dataclasses.dataclass(frozen=True)
class Record:
    a: object
    b: object


structures = st.recursive(
    st.integers(),
    lambda inner: st.one_of(
        st.tuples(inner),
        st.tuples(inner, inner),
        st.dictionaries(st.text(max_size=2), inner, min_size=1, max_size=3),
        st.builds(Pair, inner, inner),
        st.builds(Record, inner, inner),
        st.none(),
    ),
    max_leaves=8,
)


@given(structures)
def test_flatten_and_pack_are_inverse(value):
    structure, leaves = flatten(value)
    assert structure.pack(leaves) == value
    assert structure.leaves == len(leaves) == len(structure.paths)


def test_dicts_agree_whatever_the_order_they_were_written_in():
    a, b = flatten({"x": 1, "y": 2}), flatten({"y": 2, "x": 1})
    assert a == b
    assert list(b[0].pack(b[1])) == ["y", "x"]


def test_dict_keys_of_mixed_types_have_an_order():
    structure, leaves = flatten({1: "a", "b": "c"})
    assert structure.pack(leaves) == {1: "a", "b": "c"}


@pytest.mark.parametrize(
    ("a", "b", "fits"),
    [
        (([None, 3], "f4"), ([2, 3], "f4"), True),
        (([None, 3], "f4"), ([2, 4], "f4"), False),
        ((None, "f4"), ([2, 4], "f4"), True),
        (([2], "f4"), ([2], "f8"), False),
        (([2], None), ([2], "f8"), True),
        (([], str), ([], "U7"), True),
    ],
)
def test_partial_shapes(a, b, fits):
    assert hr.TensorSpec(*a).is_compatible_with(hr.TensorSpec(*b)) is fits


def test_a_spec_admits_values():
    spec = hr.TensorSpec([None, 2], "int64")
    assert spec.is_compatible_with(np.zeros((5, 2), np.int64))
    assert not spec.is_compatible_with(np.zeros(5, np.int64))
    with pytest.raises(ValueError, match="-1"):
        hr.TensorSpec([-1], "int64")


def test_an_unknown_spec_fits_everything():
    unknown = D.range(3).filter(lambda x: x > 5).map(lambda x: x, mode="eager")
    assert unknown.element_spec == hr.TensorSpec(None, None)
    D.range(3).concatenate(unknown)
    assert Spec.UNKNOWN.mismatch(Spec.of(1)) is None


def test_the_spec_of_datasets_admits_those_whose_elements_fit():
    numbers = hr.DatasetSpec(hr.TensorSpec([], "int64"))
    assert D.range(4).window(2).element_spec == numbers
    assert numbers.is_compatible_with(D.range(3))
    assert numbers.is_compatible_with(D.range(3).map(abs)), "nothing is known of it"
    assert not numbers.is_compatible_with(D.range(3).batch(2))
    assert not numbers.is_compatible_with(3)
    assert not hr.TensorSpec([], "int64").is_compatible_with(numbers)
    assert repr(numbers) == "DatasetSpec(TensorSpec(shape=(), dtype=int64))"
    assert hr.DatasetSpec(hr.TensorSpec(None, None)).is_compatible_with(D.zip(D.range(3), D.range(3)))


def test_a_batch_of_windows_is_an_array_of_datasets():
    ds = D.range(8).window(2).batch(3, drop_remainder=True)
    assert ds.element_spec == hr.DatasetSpec(hr.TensorSpec([], "int64"), [3])
    assert ds.unbatch().element_spec == D.range(8).window(2).element_spec
    assert [[int(x) for x in w] for w in next(iter(ds))] == [[0, 1], [2, 3], [4, 5]]


def test_the_spec_of_an_empty_dataset_is_known():
    assert D.range(0).batch(3).element_spec == hr.TensorSpec([None], "int64")


counts = st.one_of(st.integers(0, 50).map(Cardinality), st.just(INFINITE), st.just(UNKNOWN))


@given(counts, counts)
def test_infinite_beats_unknown_when_one_follows_the_other(a, b):
    total = a.plus(b)
    assert total == (INFINITE if INFINITE in (a, b) else UNKNOWN if UNKNOWN in (a, b) else a + b)


@given(st.lists(counts, min_size=1))
def test_side_by_side_the_shortest_counts(several):
    known = [c for c in several if c.known]
    want = 0 if 0 in known else UNKNOWN if UNKNOWN in several else min(known, default=INFINITE)
    assert smallest(several) == want


def test_every_cardinality_of_the_semantics():
    infinite, unknown = hr.INFINITE_CARDINALITY, hr.UNKNOWN_CARDINALITY
    ds = D.range(6)
    assert ds.repeat().take(4).cardinality() == 4
    assert ds.repeat().skip(4).cardinality() == infinite
    assert ds.filter(lambda x: True).take(3).cardinality() == unknown
    assert ds.filter(lambda x: True).repeat().cardinality() == unknown
    assert D.zip(ds, ds.repeat()).cardinality() == 6
    assert ds.repeat().flat_map(D.range).cardinality() == unknown
    assert ds.cache().shuffle(2).prefetch(1).enumerate().cardinality() == 6
    assert bool(D.range(0))


def test_repr_shows_the_shape_of_the_plan():
    ds = D.range(10).shuffle(4, seed=1).map(abs).batch(2)
    assert (
        repr(ds)
        == "<Dataset range(start=0, stop=10).shuffle(buffer_size=4, seed=1).map(abs).batch(batch_size=2) of int64[?]>"
    )


def test_explain_shows_both_plans_and_the_reason():
    text = D.from_tensor_slices(np.arange(10)).skip(1).shuffle(4).repeat(2).batch(2).explain()
    before, after = text.split("runs as:")
    assert "gather" not in before
    assert "gather" in after
    assert "gather_late at shuffle" in after
    assert "test_plan.py:" in before


@pytest.mark.parametrize("known", ["float64", "int64"])
def test_an_unknown_dtype_is_no_dtype_in_particular(known):
    one, other = hr.TensorSpec((), known), hr.TensorSpec((), None)
    assert one != other
    assert other != one
    assert one.common(other).dtype is None
    assert other.common(one).dtype is None
    assert one.common(one).dtype == np.dtype(known)


def test_elements_of_an_unknown_dtype_are_not_called_float64():
    anything = D.from_generator(lambda: iter([object()]), output_signature=hr.TensorSpec((), None))
    both = D.from_tensor_slices([0.5]).concatenate(anything)
    assert both.element_spec == hr.TensorSpec((), None)
