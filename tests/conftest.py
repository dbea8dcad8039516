"""Every operation's tests run on the block engine, on the same without its optimiser, and on the reference executor."""

import faulthandler
import os
import sys
import threading

import pytest
from hypothesis import HealthCheck, settings

from headrace import reference
from headrace.errors import ElementError
from headrace.execute import origin
from headrace.iterator import Settings

faulthandler.enable()
SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large]
settings.register_profile("suite", max_examples=300, deadline=None, derandomize=True, suppress_health_check=SLOW)
settings.register_profile("check", settings.get_profile("suite"), max_examples=40)
SOAK = int(os.environ.get("HEADRACE_EXAMPLES", "20000"))
settings.register_profile("soak", max_examples=SOAK, deadline=None, suppress_health_check=SLOW)
collect_ignore = ["plugin_package"]  # a package of its own, which is tried as installed
settings.load_profile(os.environ.get("HEADRACE_TESTS", "suite"))

SLOW_FILES = {
    "test_chaos.py",
    "test_examples.py",
    "test_kills.py",
    "test_prefetch_process.py",
    "test_processes.py",
    "test_properties.py",
    "test_sweep.py",
    "test_table_numbers.py",
    "test_untrusted.py",
}
"""Files whose tests take more than half of the suite's time: `make check` leaves them out."""

SLOW_TESTS = (
    "test_a_chain_of_hundreds_of_datasets",
    "test_a_type_checker_still_finds_misspellings",
    "test_another_process_finds_nothing_changed_and_then_what_is",
    "test_many_processes_at_once_all_get_the_right_elements",
    "test_names_of_features_and_values",
    "test_names_of_files",
    "test_nothing_but_seed_epoch_and_element_matters[processes",
    "test_threads_processes_and_a_resume_change_no_bit[{'mode': 'process'}",
)
"""How the names of single tests begin that take seconds each."""


def pytest_collection_modifyitems(items):
    for item in items:
        if item.path.name in SLOW_FILES or item.name.startswith(SLOW_TESTS):
            item.add_marker(pytest.mark.slow)


ENGINES = {
    "blocks": Settings(),
    "unoptimised": Settings(optimise=False),
    "one-row-blocks": Settings(block_rows=1),
    "reference": None,
}


@pytest.fixture(params=ENGINES)
def run(request):
    """A function that gives the elements of a dataset; an error is raised in its place."""
    engine = ENGINES[request.param]

    def elements(ds):
        if engine is not None:
            return list(ds._iterator(engine))
        rows = []
        for row in reference.run(ds._node, ds._epochs.begin()):
            if isinstance(row.value, ElementError):
                raise row.value
            rows.append(row.value)
        return rows

    return elements


class Clock:
    """Seconds that pass only when a test says so."""

    def __init__(self):
        self._now = 1_000_000_000
        self._lock = threading.Lock()

    def nanoseconds(self):
        return self._now

    def advance(self, seconds):
        with self._lock:
            self._now += round(seconds * 1e9)


@pytest.fixture
def clock(monkeypatch):
    """The clock by which all of headrace measures how long something took."""
    made = Clock()
    for name, module in list(sys.modules.items()):
        if name.startswith("headrace.") and "perf_counter_ns" in vars(module):
            monkeypatch.setattr(module, "perf_counter_ns", made.nanoseconds)
    return made


@pytest.fixture(autouse=True)
def _records_are_found_however_busy_the_machine_is(monkeypatch):
    monkeypatch.setattr(origin, "MAX_SECONDS_PER_ROW", 300.0)
    monkeypatch.setattr(origin, "MAX_SECONDS_PER_PASS", 3000.0)


@pytest.fixture(autouse=True)
def _nothing_was_warned_of(monkeypatch):
    monkeypatch.setattr("headrace.errors._warned", set())
