"""enumerate: elements and their numbers."""

import headrace as hr

D = hr.Dataset


def test_enumerate(run):
    assert run(D.range(5, 7).enumerate(start=3)) == [(3, 5), (4, 6)]
    assert D.range(1).enumerate().element_spec == (hr.TensorSpec([], "int64"), hr.TensorSpec([], "int64"))
