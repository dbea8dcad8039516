"""scan: a state carried along."""

import numpy as np
import pytest

import headrace as hr

D = hr.Dataset


def test_scan_and_reduce_carry_structures(run):
    ds = D.range(4).scan({"n": 0, "last": np.zeros(1)}, lambda s, x: ({"n": s["n"] + 1, "last": s["last"] + x}, s["n"]))
    assert run(ds) == [0, 1, 2, 3]
    assert D.range(4).reduce((0, 1), lambda s, x: (s[0] + x, s[1] * 2)) == (6, 16)


def test_a_state_may_change_its_shape_and_nothing_else(run):
    def grown(s, x):
        return np.append(s, x), len(s)

    assert run(D.range(4).scan(np.zeros(0, np.int64), grown)) == [0, 1, 2, 3]
    assert D.range(4).reduce(np.zeros(0, np.int64), lambda s, x: np.append(s, x)).tolist() == [0, 1, 2, 3]
    assert D.range(4).reduce("", lambda s, x: s + str(x)) == "0123"
    assert D.range(2).reduce({"a": np.int64(0)}, lambda s, x: {"a": np.full(2, x)})["a"].tolist() == [1, 1]
    with pytest.raises(hr.SpecError, match=r"component\['a'\] of the state of reduce was int64, and became float64"):
        D.range(2).reduce({"a": np.int64(0)}, lambda s, x: {"a": np.full(2, 0.5)})
