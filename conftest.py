"""Doctests know `hr` and `np`."""

import numpy as np
import pytest

import headrace as hr


@pytest.fixture(autouse=True)
def _names(doctest_namespace, tmp_path):
    doctest_namespace.update(hr=hr, np=np, folder=tmp_path)
