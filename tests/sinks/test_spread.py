"""What is known of numbers depends on the numbers alone."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.feature_column import learners
from headrace.sinks import deal, spread
from headrace.sinks.summaries import Summary

NUMBERS = st.lists(st.floats(width=64) | st.integers(-9, 9).map(float), min_size=1, max_size=60)


@settings(max_examples=60, deadline=None)
@given(NUMBERS)
def test_sums_have_all_their_digits(values):
    learner = spread.Spread()
    learner.take(np.array(values))
    found = learner.known()
    exact = [Fraction(value) for value in values if np.isfinite(value)]
    if not exact:
        assert found is None
        return
    mean = sum(exact) / len(exact)
    assert found[0] == float(mean)
    variance = sum(value**2 for value in exact) / len(exact) - mean**2
    assert found[1] == (float(variance) ** 0.5 if variance < 10**308 else np.inf)


@settings(max_examples=60, deadline=None)
@given(NUMBERS, st.randoms(use_true_random=False), st.integers(0, 60))
def test_neither_the_order_nor_who_saw_which_tells(values, draw, cut):
    with pytest.MonkeyPatch.context() as few:
        few.setattr(learners, "MAX_EXACT_VALUES", 8)
        few.setattr(spread.Spread, "run", 4)
        few.setattr(learners.Quantiles, "run", 4)
        whole = Summary()
        whole.take(np.array(values))
        mixed = draw.sample(values, len(values))
        parts = [Summary(), Summary()]
        for part, some in zip(parts, (mixed[:cut], mixed[cut:]), strict=True):
            part.take(np.array(some, np.float64))
        parts[1].merge(parts[0].arrays())
        a, b = parts[1].statistics(4, 3), whole.statistics(4, 3)
    assert repr(a) == repr(b)


def test_quantiles_of_many_numbers_are_near(monkeypatch):
    monkeypatch.setattr(learners, "MAX_EXACT_VALUES", 1 << 10)
    monkeypatch.setattr(learners.Quantiles, "run", 1 << 9)
    values = np.random.default_rng(0).normal(size=20_000)
    learner = learners.Quantiles()
    learner.take(values)
    assert len(learner.counted()[0]) <= 1 << 10
    want = np.quantile(values, [0.1, 0.2, 0.7])
    np.testing.assert_allclose([learner.at(10)[i] for i in (0, 1, 6)], want, rtol=0.01)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 5), min_size=1, max_size=40), st.data())
def test_runs_end_by_the_rows_alone(lengths, data):
    """However rows are cut into blocks, and whichever columns those have."""
    from headrace.columns import column_of
    from headrace.columns.block import Block
    from headrace.plan.structure import LEAF

    rows = [np.arange(length) for length in lengths]

    def runs(cuts):
        cutter = deal.RunCutter(100)
        found = []
        for start, stop in zip([0, *cuts], [*cuts, len(rows)], strict=True):
            if stop > start:
                block = Block(LEAF, [column_of(rows[start:stop])], stop - start)
                found += [sum(b.rows for b in run) for run in cutter.add(block)]
        return found + [sum(b.rows for b in run) for run in cutter.end()]

    cuts = sorted(data.draw(st.lists(st.integers(0, len(rows)), max_size=6)))
    assert runs(cuts) == runs([]) and sum(runs([])) == len(rows)
