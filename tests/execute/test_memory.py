"""What the C library keeps of freed memory while pipelines run."""

import platform
import subprocess
import sys

import pytest

CODE = """
import headrace as hr
from headrace.execute.budget import keep_heap
assert keep_heap.cache_info().currsize == 0, "nothing is changed by the import"
next(iter(hr.Dataset.range(3)))
assert keep_heap.cache_info().currsize == 1
print(keep_heap())
"""


def kept(**settings):
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True, env=settings)
    return done.stdout.strip() == "True"


def test_the_first_pass_has_freed_memory_kept():
    assert kept() == (platform.libc_ver()[0] == "glibc")


@pytest.mark.parametrize("settings", [{"HEADRACE_KEEP_HEAP": "0"}, {"MALLOC_TRIM_THRESHOLD_": "1000000"}])
def test_who_has_chosen_is_left_alone(settings):
    assert not kept(**settings)
