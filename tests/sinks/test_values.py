"""apply, get_single_element and reduce: a dataset as one value."""

import pytest

import headrace as hr

D = hr.Dataset


@pytest.mark.parametrize(
    ("make", "error", "said"),
    [
        (lambda d, f: d.apply(lambda ds: 3), TypeError, "Dataset"),
        (lambda d, f: d.get_single_element(), ValueError, "more than one"),
        (lambda d, f: d.take(0).get_single_element(), ValueError, "empty"),
        (lambda d, f: d.reduce(0, lambda s, x: s + 0.5), hr.SpecError, "int64, and became float64"),
        (lambda d, f: d.reduce((0, 1), lambda s, x: s[0]), hr.SpecError, "became"),
    ],
)
def test_bad_arguments_are_refused(make, error, said):
    with pytest.raises(error, match=said):
        make(D.range(4), lambda x: x)
