"""Doctests know `hr` and `np`, and run Keras on torch."""

import os

import numpy as np
import pytest

import headrace as hr

os.environ.setdefault("KERAS_BACKEND", "torch")

# JAX does not like the forks of other tests: what needs it runs in a process of its own (tests/adapters).
collect_ignore = [] if "HEADRACE_INSIDE" in os.environ else ["src/headrace/adapters/jax.py"]


@pytest.fixture(autouse=True)
def _names(doctest_namespace):
    doctest_namespace.update(hr=hr, np=np)
