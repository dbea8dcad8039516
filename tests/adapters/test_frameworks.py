"""No framework is imported unless its adapter is used, and one that is missing is named with its extra."""

import subprocess
import sys

import pytest

FRAMEWORKS = ("torch", "jax", "keras", "tensorflow")


def loaded_after(code):
    """The frameworks that a new interpreter has imported."""
    text = f"import sys, headrace as hr\nds = hr.Dataset.range(4).batch(2)\n{code}\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    return set(FRAMEWORKS) & set(done.stdout.split())


def test_running_a_pipeline_imports_none():
    assert loaded_after("list(ds); list(ds.as_numpy_iterator())") == set()


def test_an_adapter_imports_its_own():
    pytest.importorskip("torch")
    assert loaded_after("list(ds.to_torch())") == {"torch"}


@pytest.mark.parametrize("name", ["torch", "jax", "keras"])
def test_a_missing_framework_is_named_with_its_extra(name):
    code = f"""
sys.modules["{name}"] = None
try:
    ds.to_{name}()
except ModuleNotFoundError as error:
    assert str(error) == "to_{name} needs {name}, which is not installed: pip install 'headrace[{name}]'", error
else:
    raise AssertionError("it was found")
"""
    assert loaded_after(code) <= {name}
