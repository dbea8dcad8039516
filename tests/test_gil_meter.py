"""The benchmarks' GIL meter, on calls that certainly hold the GIL or release it."""

import ctypes
import sys
from importlib import util
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "benchmarks" / "gil_meter.py"
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the GIL's word is read out of /proc")


@pytest.fixture(scope="module")
def gil_meter():
    spec = util.spec_from_file_location("gil_meter", SOURCE)
    module = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def measured(meter, sleeps):
    """The share while a C function sleeps, of enough samples however busy the machine is."""
    meter.start()
    while meter.samples < 60:
        sleeps(50_000)
        meter.stop()
    meter.close()
    return meter.share


@pytest.mark.parametrize("library, bounds", [(ctypes.PyDLL, (0.8, 1.0)), (ctypes.CDLL, (0.0, 0.2))])
def test_the_share_is_that_of_calls_that_hold_the_gil(gil_meter, library, bounds):
    meter = gil_meter.GilMeter()
    if meter.method != "memory":
        meter.close()
        pytest.skip("the memory of this process may not be read")
    least, most = bounds
    assert least <= measured(meter, library(None).usleep) <= most


def test_a_thread_that_wakes_late_tells_where_memory_cannot_be_read(gil_meter, monkeypatch):
    def refused():
        raise LookupError("no such place")

    monkeypatch.setattr(gil_meter, "locked_address", refused)
    with gil_meter.GilMeter() as meter:
        assert meter.method == "delay"


def test_the_word_follows_the_switch_interval_and_the_interval_stays(gil_meter):
    before = sys.getswitchinterval()
    try:
        address = gil_meter.locked_address()
    except LookupError as reason:
        pytest.skip(str(reason))
    assert ctypes.c_int.from_address(address).value == 1
    assert sys.getswitchinterval() == before
