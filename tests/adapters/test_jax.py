"""ds.to_jax(): the tests are in inside_jax.py."""

import importlib.util

import pytest

from tests.adapters import inside


def test_inside_with_four_devices():
    if importlib.util.find_spec("jax") is None:
        pytest.skip("jax is not installed")
    inside.run(
        "tests/adapters/inside_jax.py",
        "src/headrace/adapters/jax.py",
        XLA_FLAGS="--xla_force_host_platform_device_count=4",
    )
