"""Doctests know `hr` and `np`, and run Keras on torch."""

import os

import numpy as np
import pytest

import headrace as hr

os.environ.setdefault("KERAS_BACKEND", "torch")


@pytest.fixture(autouse=True)
def _names(doctest_namespace):
    doctest_namespace.update(hr=hr, np=np)
