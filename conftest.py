"""What all tests and doctests share: names for doctests, a check for leaked threads, failures printed at once."""

import atexit
import gc
import os
import shutil
import signal
import sys
import tempfile
import threading
import traceback
from importlib.util import find_spec

import numpy as np
import pytest

import headrace as hr
from headrace.iterator import Iterator
from headrace.testing import our_threads

os.environ.setdefault("KERAS_BACKEND", "torch")
os.environ.setdefault("GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT", "false")  # gcsfs asks once, when it is first imported
if "HEADRACE_TEST_CACHE" not in os.environ:  # tests leave nothing in the user's cache folder, nor do their processes
    os.environ["HEADRACE_TEST_CACHE"] = os.environ["XDG_CACHE_HOME"] = tempfile.mkdtemp(prefix="headrace-cache-")
    atexit.register(shutil.rmtree, os.environ["HEADRACE_TEST_CACHE"], ignore_errors=True)

# Tests start many processes. Without bytecode each compiles headrace again: half of its CPU time until the first row.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

NEEDS = {"pandas": "pandas", "polars": "polars", "huggingface": "datasets"}
collect_ignore = [f"src/headrace/sources/{name}.py" for name, library in NEEDS.items() if find_spec(library) is None]
if "HEADRACE_INSIDE" not in os.environ:  # JAX does not like forks: what needs it runs in a process of its own
    collect_ignore.append("src/headrace/adapters/jax.py")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # inherited by background jobs of a shell
    signal.signal(signal.SIGINT, signal.default_int_handler)

CLEANUP_SECONDS = 60
"""How long a thread may take to end once its iterator is closed or its database call is given up."""


@pytest.fixture(autouse=True)
def _names(request):
    if isinstance(request.node, pytest.DoctestItem):
        names = request.getfixturevalue("doctest_namespace")
        names.update(hr=hr, np=np, folder=request.getfixturevalue("tmp_path"))


@pytest.fixture(autouse=True)
def _no_thread_stays(request):
    """Fail the test that leaks a thread, and clean up so that later tests are not affected.

    The traceback of a failed test keeps its iterators alive. Their threads are ended too, without a second report.
    """
    failures = request.session.testsfailed
    yield
    if not our_threads():
        return
    for thread in threading.enumerate():
        if thread.name == "headrace-database":  # a call that was given up ends when the server answers
            thread.join(CLEANUP_SECONDS)
    leaked = [thread for thread in threading.enumerate() if thread.name.startswith("headrace-")]
    if not leaked:
        return
    names = ", ".join(thread.name for thread in leaked)
    frames = sys._current_frames()
    stacks = [
        f"{thread.name}:\n{''.join(traceback.format_stack(frames[thread.ident]))}"
        for thread in leaked
        if thread.ident in frames
    ]
    _end(leaked, request.node.nodeid)
    if request.session.testsfailed == failures:
        pytest.fail("\n".join([f"{request.node.nodeid} leaked threads: {names}", *stacks]), pytrace=False)


def _end(leaked, test):
    """Close all iterators, wait for the threads, and rename those that go on so that no later test counts them."""
    for iterator in [each for each in gc.get_objects() if issubclass(type(each), Iterator)]:
        iterator.abandon()
    for thread in leaked:
        thread.join(CLEANUP_SECONDS / len(leaked))
        thread.name = f"leaked by {test}: {thread.name}"


def pytest_collection_finish():
    """Freeze what collection made: a million objects, at which each `gc.collect()` of a test would look again."""
    gc.collect()
    gc.freeze()


def pytest_unconfigure():
    """Let modules be collected at the exit, where nanobind looks for leaks."""
    gc.unfreeze()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Give each worker one half of the tests, and from the other's rest when it has done its own.

    By default workers take turns in ever smaller portions, and each starts the servers and frameworks of nearly every
    folder.
    """
    from xdist.scheduler import WorkStealingScheduling

    return WorkStealingScheduling(config, log) if config.getoption("dist") == "load" else None


@pytest.hookimpl(trylast=True)  # pytest makes its reporter in the same hook
def pytest_configure(config):
    """Print failures at once in the process that reports."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None:  # pytest-xdist's workers have none
        config.pluginmanager.register(FailuresAtOnce(reporter))


class FailuresAtOnce:
    """Prints a failure when it happens. pytest alone prints all of them after the last test."""

    def __init__(self, reporter):
        self._reporter = reporter

    def pytest_runtest_logreport(self, report):
        """Print a failed report with the output that was captured."""
        if report.failed:
            self._reporter.write("\n")
            self._reporter.section(f"{report.when} of {report.nodeid}", sep="_", red=True)
            self._reporter.write_line(report.longreprtext)
            for title, text in report.sections:
                self._reporter.section(title, sep="-")
                self._reporter.write_line(text)
