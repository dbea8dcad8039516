"""unbatch: the rows of batches."""

import numpy as np
import pytest

import headrace as hr
from headrace.testing import difference, outcomes

D = hr.Dataset


def test_unbatch_of_unequal_components_is_an_error_at_the_element():
    it = iter(D.range(2).map(lambda x: (np.zeros(2), np.zeros(2 + int(x)))).unbatch())
    next(it)
    next(it)
    with pytest.raises(hr.ElementError, match=r"component\[0\] has 2, component\[1\] has 3"):
        next(it)


def test_a_failed_batch_of_known_size_is_as_many_failures(run):
    ds = D.range(9).map(lambda x: 1 // (int(x) - 4)).batch(3, drop_remainder=True)
    assert len(ds.unbatch()) == 9
    places = [kind for kind, _ in outcomes(iter(ds.unbatch()))]
    assert places == ["value"] * 3 + ["error"] * 3 + ["value"] * 3
    assert [len(b) for b in run(ds.rebatch(1).ignore_errors())] == [1] * 6
    assert ds.rebatch(1).element_spec.shape == (1,)


@pytest.mark.parametrize(
    "build",
    [
        lambda d: d.unbatch(),
        lambda d: d.rebatch(3),
        lambda d: d.rebatch([1, 1]),
        lambda d: d.batch(2, drop_remainder=True).unbatch(),
        lambda d: d.map(lambda x: x * 2).unbatch(),
        lambda d: d.window(2).flat_map(lambda w: w.batch(2, drop_remainder=True)).unbatch(),
    ],
)
def test_who_asks_for_the_spec_changes_no_element(build):
    def dataset():
        return build(D.range(6).map(lambda x: np.full(3, 1 // (int(x) - 4)), mode="eager"))

    plain, asked = dataset(), dataset()
    _ = asked.element_spec
    assert plain.cardinality() == asked.cardinality()
    assert difference(outcomes(iter(asked)), outcomes(iter(plain))) is None
    state = iter(asked).state()
    assert difference(outcomes(plain.iterator(state)), outcomes(iter(dataset()))) is None


class TestUnbatchByNumber:
    def test_of_batches_of_one_size(self):
        ds = D.range(12).batch(4, drop_remainder=True).map(lambda x: {"x": x, "y": -x}).unbatch()
        assert [ds[i]["y"] for i in (0, 5, -1)] == [0, -5, -11]
        assert [int(e["x"]) for e in ds[3:6]] == [3, 4, 5]
        assert sorted(int(e["x"]) for e in ds.shuffle()) == list(range(12))

    def test_is_refused_where_sizes_are_not_known(self):
        with pytest.raises(hr.NotIndexableError, match="unbatch"):
            D.range(12).batch(4).unbatch()[0]

    def test_a_batch_that_fails_fails_for_each_of_its_rows(self):
        ds = D.range(12).map(lambda x: 1 // 0 if x == 5 else x).batch(4, drop_remainder=True).unbatch()
        assert (ds[3], ds[8]) == (3, 8)
        for i in range(4, 8):
            with pytest.raises(hr.ElementError, match="map failed on element 5"):
                ds[i]

    def test_resumes_without_making_the_batches_before(self):
        made = []
        batches = D.range(40).batch(4, drop_remainder=True)
        noted = batches.map(lambda x: (made.append(x[0]), x)[1], output_signature=hr.TensorSpec((4,), np.int64))
        with iter(noted.unbatch()) as it:
            for _ in range(22):
                next(it)
            state = it.state()
        made.clear()
        assert next(noted.unbatch().iterator(state=state)) == 22
        assert made == [20]


def test_elements_without_components_are_refused_by_unbatch_when_they_come(run):
    with pytest.raises(hr.ElementError, match="no components"):
        run(D.range(2).map(lambda x: (), mode="eager").unbatch())


@pytest.mark.parametrize(
    ("make", "error", "said"),
    [
        (lambda d, f: d.unbatch(), ValueError, "scalar"),
    ],
)
def test_bad_arguments_are_refused(make, error, said):
    with pytest.raises(error, match=said):
        make(D.range(4), lambda x: x)
