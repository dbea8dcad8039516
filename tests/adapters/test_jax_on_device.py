"""Maps with device="auto" before to_jax(): most tests are in inside_jax_device.py."""

import importlib.util
import subprocess
import sys

import pytest

from tests.adapters import inside

pytestmark = pytest.mark.skipif(importlib.util.find_spec("jax") is None, reason="jax is not installed")


def test_inside_with_eight_devices():
    inside.run("tests/adapters/inside_jax_device.py", XLA_FLAGS="--xla_force_host_platform_device_count=8")


@pytest.mark.parametrize(
    ("pipeline", "absent"),
    [
        ('map(lambda x: x * 2, device="auto").batch(2)', ("torch",)),
        ("map(lambda x: x * 2).batch(2)", ("torch", "headrace.device.on_jax", "headrace.image.on_jax")),
    ],
)
def test_nothing_is_imported_that_is_not_needed(pipeline, absent):
    code = (
        "import sys, headrace as hr\n"
        f"print([x.tolist() for x in hr.Dataset.range(4).{pipeline}.to_jax()])\n"
        f"print([name for name in {absent} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["[[0, 2], [4, 6]]", "[]"]
