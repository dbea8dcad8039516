"""Values of a generator that need no closer look."""

import itertools

import numpy as np
import pytest

import headrace as hr
from headrace.columns.row_builder import ExactValues
from headrace.plan.spec import Spec
from headrace.sources.generator import conform

SCALAR = hr.TensorSpec((), np.int64)
SIGNATURES = [
    SCALAR,
    hr.TensorSpec((), np.float64),
    hr.TensorSpec((), np.float32),
    hr.TensorSpec((), np.uint8),
    hr.TensorSpec((), bool),
    hr.TensorSpec((2,), np.float32),
    {"a": SCALAR, "b": hr.TensorSpec((2, 2), np.int64)},
    (SCALAR, hr.TensorSpec((3,), np.float64)),
]
PARTS = [
    0, -5, 2**63 - 1, -(2**63), 2**63, 1.5, float("nan"), float("-inf"), 1e300, True, "x", b"x", None, [1, 2],
    (1.0, 2.0), np.int64(3), np.int32(3), np.uint8(3), np.float32(0.1), np.float64(0.1), np.bool_(True), np.array(4),
    np.array([1, 2]), np.zeros(2, np.float32), np.zeros(3), np.arange(4).reshape(2, 2), np.arange(4).reshape(2, 2).T,
    np.zeros((2, 0)),
]  # fmt: skip


@pytest.mark.parametrize("signature", SIGNATURES, ids=str)
def test_values_that_are_just_what_was_promised_are_taken_as_a_closer_look_would_take_them(signature):
    spec = Spec.of_signature(signature)
    exact = ExactValues.of(spec)
    pairs = list(itertools.product(PARTS, PARTS))
    values = [*PARTS, *pairs, *({"a": a, "b": b} for a, b in pairs), {"a": 1}, {"a": 1, "b": 2, "c": 3}, (1, 2, 3)]
    quick = 0
    rows = exact.rows(len(values))
    for value in values:
        found = exact.leaves(value)
        assert rows.add(value) == (found is not None)
        if found is None:
            continue
        for column, a in zip(rows.block().columns, found, strict=True):
            assert column[rows.count - 1].tobytes() == a.tobytes()
        quick += 1
        structure, wanted = conform(value, spec)
        assert structure == exact.structure
        for a, b in zip(found, wanted, strict=True):
            assert (type(a), a.dtype, a.shape, a.tobytes()) == (type(b), b.dtype, b.shape, b.tobytes())
            assert not isinstance(a, np.ndarray) or all(a is not part for part in PARTS)
    assert quick


def test_an_array_that_the_generator_uses_again_is_copied(run):
    def reused():
        kept = np.zeros(3, np.float32)
        for i in range(5):
            kept += 1
            yield {"x": kept, "n": i}

    signature = {"x": hr.TensorSpec((3,), np.float32), "n": SCALAR}
    rows = list(run(hr.Dataset.from_generator(reused, output_signature=signature)))
    assert [row["x"][0] for row in rows] == [1, 2, 3, 4, 5]
