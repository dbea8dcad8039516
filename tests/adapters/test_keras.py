"""ds.to_keras(): the tests are in inside_keras.py."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

import headrace as hr
from tests.adapters import inside


@pytest.mark.parametrize("backend", ["torch", "jax"])
def test_inside_with_a_backend(backend):
    for package in ("keras", backend):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed")
    # Each model is compiled for a few steps: optimising it takes XLA longer than running it.
    inside.run("tests/adapters/inside_keras.py", KERAS_BACKEND=backend, JAX_DISABLE_MOST_OPTIMIZATIONS="1")


@pytest.mark.tensorflow
def test_states_with_tensorflow():
    pytest.importorskip("tensorflow")
    inside.run(
        "tests/adapters/inside_keras.py", "-k", "state or adapts", KERAS_BACKEND="tensorflow", TF_CPP_MIN_LOG_LEVEL="3"
    )


@pytest.mark.tensorflow
def test_an_example_runs_on_the_backend_of_those_who_have_tensorflow():
    pytest.importorskip("tensorflow")
    environment = {**os.environ, "KERAS_BACKEND": "tensorflow", "TF_CPP_MIN_LOG_LEVEL": "3"}
    example = Path(__file__).parents[2] / "examples" / "keras_fit.py"
    done = subprocess.run([sys.executable, example], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "test accuracy 0.9" in done.stdout


def test_a_backend_that_keras_does_not_have_is_answered_with_those_that_it_has(monkeypatch):
    def imported(name, wanted_by):
        raise ValueError("Unable to import backend : nosuch")  # as keras/src/backend/__init__.py does

    monkeypatch.setattr("headrace.adapters.keras.framework", imported)
    with pytest.raises(ValueError, match=r"nosuch.*KERAS_BACKEND.*jax, torch, tensorflow"):
        hr.Dataset.range(4).batch(2).to_keras()
