"""What NumPy's dtypes cost if TensorFlow's are narrower: shown by explain(), warned about once before a trainer."""

import warnings

import numpy as np
import pytest

import headrace as hr

D = hr.Dataset


def pixels():
    return D.from_tensor_slices({"x": np.zeros((3, 4), np.uint8), "y": np.zeros(3, np.int32)})


def test_explain_shows_python_numbers_and_widened_components():
    assert "Python numbers: float64" in D.from_tensor_slices([1.0, 2.0]).explain()
    assert "Python numbers: ['n'] int64" in D.from_tensors({"n": 1, "x": np.float32(1)}).explain()
    scaled = pixels().map(lambda e: {"x": e["x"] / 255, "y": e["y"]})
    assert "widened to ['x'] float64" in scaled.explain()


def test_explain_says_nothing_of_what_stays_narrow():
    scaled = pixels().map(lambda e: {"x": e["x"].astype(np.float32) / 255, "y": e["y"]})
    text = scaled.explain()
    assert "widened" not in text and "Python numbers" not in text
    assert "Python numbers" not in D.from_tensor_slices([np.float32(1)]).explain()


def test_float64_of_integers_is_told_once_before_a_trainer():
    pytest.importorskip("torch")
    ds = pixels().map(lambda e: e["x"] / 255).batch(2)
    with pytest.warns(hr.PipelineWarning, match=r"to_torch: map \(.*makes float64 of integers.*astype"):
        ds.to_torch()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ds.to_torch()
        pixels().map(lambda e: e["x"] / 255).batch(2).to_torch(dtypes={np.float64: np.float32})
        pixels().map(lambda e: e["x"] / np.float32(255)).batch(2).to_torch()
