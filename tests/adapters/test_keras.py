"""ds.to_keras(): the tests are in inside_keras.py."""

import importlib.util

import pytest

from tests.adapters import inside


@pytest.mark.parametrize("backend", ["torch", "jax"])
def test_inside_with_a_backend(backend):
    for package in ("keras", backend):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed")
    inside.run("tests/adapters/inside_keras.py", KERAS_BACKEND=backend)
