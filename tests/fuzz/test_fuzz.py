"""A few seconds of the fuzzers on all that reads foreign bytes; `make fuzz` runs them for as long as you like."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fuzz import decoders, tables
from tests.fuzz.fuzz import KERNELS, build_once, compiler, run, seeds


@pytest.fixture(scope="module")
def programs(tmp_path_factory, request):
    cxx = compiler()
    if cxx is None:
        pytest.skip("no C++ compiler with the address and undefined-behaviour sanitizers")
    folder = tmp_path_factory.mktemp("fuzz")
    seeds(folder / "seeds")
    return folder, build_once(cxx, request.config.cache.mkdir("fuzz"))


def test_no_page_breaks_a_reader_of_stored_rows():
    command = [sys.executable, "-m", "tests.fuzz.pages", "--seconds", "3", "--seed", "1"]
    root = Path(__file__).parents[2]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600, cwd=root)
    assert done.returncode == 0, done.stderr
    runs, refused = map(int, re.findall(r"\d+", done.stdout)[1:])
    assert 0.5 * runs < refused < runs, "damage is noticed, and not all of it matters"


@pytest.mark.parametrize("name", ["states", "indexes", "texts", "cut_files", "jpegs"])
def test_no_state_index_or_text_breaks_a_reader(name):
    command = [sys.executable, "-m", f"tests.fuzz.{name}", "--seconds", "2", "--seed", "1"]
    root = Path(__file__).parents[2]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300, cwd=root)
    assert done.returncode == 0, done.stderr
    runs, some = map(int, re.findall(r"\d+", done.stdout)[1:])
    assert 0 < some < runs, "damage is noticed, and not all of it matters"


@pytest.mark.xdist_group("fuzz")
@pytest.mark.parametrize("target", KERNELS)
def test_no_input_breaks_a_kernel(programs, target, tmp_path):
    folder, built = programs
    said = run(built[target], folder / "seeds" / target, 1, 1, tmp_path / "crash")
    runs, kept, _, branches = map(int, re.findall(r"\d+", said))
    assert runs > 100
    assert kept > 0, "the fuzzer is guided by what it reaches"
    assert branches > 40


@pytest.mark.xdist_group("fuzz")
def test_no_file_of_tables_breaks_its_reader(tmp_path):
    runs, whole, partly = map(int, re.findall(r"\d+", tables.run(5, 1, tmp_path / "crash")))
    assert runs > 20
    assert whole and partly, "some mutants are still read, and some in part"


def test_no_bytes_break_a_decoder_or_take_a_gigabyte():
    command = [sys.executable, "-m", "tests.fuzz.decoders", "--runs", "4000", "--seed", "1"]
    root = Path(__file__).parents[2]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300, cwd=root)
    assert done.returncode == 0, done.stderr
    assert not done.stderr, "libraries print nothing past logging"
    assert all(f"{name} decoded" in done.stdout and f"{name} refused" in done.stdout for name in decoders.TARGETS)
