"""The rules that the suite sets itself: a leaked thread fails one test, a failure is printed at once, GC is quick."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = """
import gc
import os
import sys
import threading

import headrace as hr
from headrace.testing import our_threads

held, never = [], threading.Event()


def started(ds):
    held.append(iter(ds))
    next(held[-1])


def test_1_that_forgets_an_iterator():
    started(hr.Dataset.range(100).repeat().prefetch(3))


def test_2_after_it():
    assert our_threads() == []


def test_3_that_fails_with_an_open_iterator():
    it = iter(hr.Dataset.range(100).repeat().prefetch(3))
    next(it)
    assert next(it) == "another element"


def test_4_whose_thread_cannot_be_ended():
    threading.Thread(target=never.wait, name="headrace-stuck", daemon=True).start()


def test_5_after_them():
    assert our_threads() == []
    assert gc.get_freeze_count() > len(sys.modules), "a collection looks at what was imported"
    assert "PYTHONDONTWRITEBYTECODE" not in os.environ, "each process compiles headrace anew"
    print("the last test has run")
"""


@pytest.mark.parametrize("workers", [[], ["-n", "1"]], ids=["one process", "xdist"])
def test_a_leaked_thread_fails_the_test_that_leaked_it_alone(tmp_path, workers):
    conftest = (Path(__file__).parents[1] / "conftest.py").read_text()
    assert "CLEANUP_SECONDS = 60" in conftest
    (tmp_path / "conftest.py").write_text(conftest.replace("CLEANUP_SECONDS = 60", "CLEANUP_SECONDS = 0"))
    (tmp_path / "test_leaks.py").write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-v", "-rA", "-s", "-p", "no:cacheprovider", *workers, "."]
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=tmp_path, timeout=600, env=environment
    )
    said = done.stdout
    summary = set(re.findall(r"^(PASSED|FAILED|ERROR) test_leaks.py::test_(\d)", said, re.MULTILINE))
    passed = {("PASSED", str(number)) for number in (1, 2, 4, 5)}  # their calls did; two of them failed afterwards
    assert summary == passed | {("ERROR", "1"), ("FAILED", "3"), ("ERROR", "4")}, said
    assert "test_leaks.py::test_1_that_forgets_an_iterator leaked threads: headrace-prefetch" in said
    assert "test_leaks.py::test_4_whose_thread_cannot_be_ended leaked threads: headrace-stuck" in said
    printed, following = said.index("== 'another element'"), said.index("test_5_after_them")
    assert printed < following, "a failure is printed before the tests that follow it"
