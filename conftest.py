"""Doctests know `hr` and `np`; those of other libraries' data need the library."""

from importlib.util import find_spec

import numpy as np
import pytest

import headrace as hr

NEEDS = {"pandas": "pandas", "polars": "polars", "huggingface": "datasets"}
collect_ignore = [f"src/headrace/sources/{name}.py" for name, library in NEEDS.items() if find_spec(library) is None]


@pytest.fixture(autouse=True)
def _names(doctest_namespace, tmp_path):
    doctest_namespace.update(hr=hr, np=np, folder=tmp_path)
