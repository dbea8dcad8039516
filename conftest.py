"""Doctests know `hr` and `np`, and run Keras on torch; those of other libraries' data need the library."""

import os
from importlib.util import find_spec

import numpy as np
import pytest

import headrace as hr

os.environ.setdefault("KERAS_BACKEND", "torch")

NEEDS = {"pandas": "pandas", "polars": "polars", "huggingface": "datasets"}
collect_ignore = [f"src/headrace/sources/{name}.py" for name, library in NEEDS.items() if find_spec(library) is None]
if "HEADRACE_INSIDE" not in os.environ:  # JAX does not like forks: what needs it runs in a process of its own
    collect_ignore.append("src/headrace/adapters/jax.py")


@pytest.fixture(autouse=True)
def _names(doctest_namespace, tmp_path):
    doctest_namespace.update(hr=hr, np=np, folder=tmp_path)
