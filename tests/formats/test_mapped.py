"""Files that shrink while they are mapped: an error of the element, never the end of the process."""

import os
import subprocess
import sys

import numpy as np
import pytest
from tests.framing import framed

import headrace as hr
from headrace import _native
from headrace.formats.shared.files import open_path
from headrace.formats.shared.window import open_window
from headrace.testing import outcomes

ROWS = [b"%d" % i * 50 for i in range(20_000)]


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(framed(ROWS))
    return path


@pytest.mark.parametrize("left", [0, 1, 4096, 5000])
def test_what_is_gone_reads_as_zeros_and_is_told(file, left):
    opening = open_path(str(file))
    view = open_window(opening, "", 0, None)
    view.more()
    os.truncate(file, left)
    assert not view.data[-4096:].any()
    with pytest.raises(OSError, match="shrunk"):
        view.use(1)
    view.close()
    opening.close()


def test_a_piece_is_unmapped_once_however_often_it_is_closed(file):
    opening = open_path(str(file))
    opening.share_memory()
    released = []

    class Counted:
        data = opening.shared_memory.data
        intact = True

        def load(self, start, stop):
            pass

        def release(self, start, stop):
            released.append((start, stop))

    opening.shared_memory = Counted()
    view = open_window(opening, "", 0, None, stop=5000)
    view.more()
    for _ in range(3):
        view.close()
    assert released == [(0, 5000)]
    opening.shared_memory = None
    opening.close()


def test_a_file_that_grows_again_is_not_believed(file):
    size = file.stat().st_size
    opening = open_path(str(file))
    view = open_window(opening, "", 0, None)
    view.more()
    os.truncate(file, 4096)
    assert not view.data[-4096:].any()
    os.truncate(file, size)
    with pytest.raises(OSError, match="shrunk"):
        view.use(1)
    opening.close()


@pytest.mark.parametrize("fixed", [False, True])
def test_rows_by_number_of_a_file_that_shrinks_are_errors(file, fixed):
    ds = hr.FixedLengthRecordDataset(file, 1) if fixed else hr.TFRecordDataset(file, index=True)
    assert len(ds) > 0
    with iter(ds.shuffle(seed=3)) as it:
        next(it)
        os.truncate(file, 100)
        with pytest.raises(hr.ElementError, match="shrunk") as raised:
            while True:
                next(it)
        assert isinstance(raised.value.__cause__, OSError)
        assert str(file) in str(raised.value)


@pytest.mark.parametrize("skipped", [False, True])
def test_each_row_is_given_once_or_there_is_an_error(file, skipped):
    ds = hr.TFRecordDataset(file, index=False)
    with iter(ds.skip(5) if skipped else ds) as it:
        got = outcomes(it, 3)
        os.truncate(file, 50_000)
        got += outcomes(it)
    rows = [value for kind, value in got if kind == "value"]
    there = ROWS[5 if skipped else 0 :]
    assert rows == there[: len(rows)]
    if len(rows) < len(there):  # else the pool had read all of the file before
        assert [kind for kind, _ in got[len(rows) :]] == ["error"]


def test_passing_over_a_file_that_shrinks_counts_what_was_there(file):
    with iter(hr.TFRecordDataset(file, index=False, buffer_size=1000).enumerate()) as it:
        next(it)
        os.truncate(file, 50_000)
        got = outcomes(it)
        assert [int(value[0]) for kind, value in got if kind == "value"] == list(range(1, len(got)))
        assert got[-1][0] == "error"


CHAINED = """
import faulthandler, mmap, os, sys
from headrace import _native
path = sys.argv[1]
descriptor = os.open(path, os.O_RDONLY)
ours = _native.MappedFile(descriptor, 10_000)
faulthandler.enable()
again = _native.MappedFile(descriptor, 10_000)
theirs = mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ)
os.truncate(path, 0)
print(ours.data.sum(), again.intact, flush=True)
theirs[9_000]
"""


def test_other_mappings_still_end_the_process_and_other_handlers_hear_of_it(file):
    done = subprocess.run([sys.executable, "-c", CHAINED, file], capture_output=True, text=True, check=False)
    assert done.stdout == "0 False\n"
    assert done.returncode == -7
    assert "Bus error" in done.stderr


def test_more_files_than_there_were_ranges_for(file):
    descriptor = os.open(file, os.O_RDONLY)
    files = [_native.MappedFile(descriptor, 8192) for _ in range(600)]
    os.close(descriptor)
    os.truncate(file, 4096)
    assert [int(np.count_nonzero(f.data[4096:])) for f in files] == [0] * 600
    assert not any(f.intact for f in files)


def test_what_cannot_be_mapped(file):
    with pytest.raises(OSError, match="Bad file descriptor"):
        _native.MappedFile(12_345, 10)
    with file.open("rb") as there, pytest.raises(ValueError, match="nothing to map"):
        _native.MappedFile(there.fileno(), 0)
    with file.open("rb") as there, pytest.raises(ValueError, match="no part"):
        _native.MappedFile(there.fileno(), 10).release(5, 11)


PAGE = 1 << 16


def test_an_object_is_put_together_of_files_and_copies(tmp_path):
    (tmp_path / "a").write_bytes(b"a" * PAGE + b"what comes behind")
    parts = _native.MappedParts(2 * PAGE + 10)
    with (tmp_path / "a").open("rb") as file:
        parts.put_file(file.fileno(), PAGE, PAGE)
    parts.put_copy(b"b" * PAGE, 0)
    parts.put_copy(b"c" * 10, 2 * PAGE)
    assert parts.data.tobytes() == b"b" * PAGE + b"a" * PAGE + b"c" * 10
    parts.take_away(0)
    (tmp_path / "a").unlink()
    assert parts.data[PAGE:].tobytes() == b"a" * PAGE + b"c" * 10
    assert parts.intact


def test_a_part_that_shrinks_is_told(tmp_path):
    (tmp_path / "a").write_bytes(b"a" * 2 * PAGE)
    parts = _native.MappedParts(3 * PAGE)
    with (tmp_path / "a").open("rb") as file:
        parts.put_file(file.fileno(), 0, 2 * PAGE)
    assert parts.intact
    os.truncate(tmp_path / "a", 10)
    assert not parts.data[PAGE : 2 * PAGE].any()
    assert not parts.intact
    os.truncate(tmp_path / "a", 2 * PAGE)
    assert not parts.intact


@pytest.mark.parametrize(
    ("start", "count"), [(-PAGE, PAGE), (0, 3 * PAGE), (1, PAGE), (0, PAGE - 1), (0, 0), (PAGE, 2 * PAGE)]
)
def test_parts_are_whole_pages_of_the_object(tmp_path, start, count):
    (tmp_path / "a").write_bytes(bytes(4 * PAGE))
    parts = _native.MappedParts(2 * PAGE)
    with (tmp_path / "a").open("rb") as file, pytest.raises(ValueError, match="part"):
        parts.put_file(file.fileno(), start, count)
    with pytest.raises(ValueError, match="part"):
        parts.put_copy(bytes(count), start)
    with pytest.raises(ValueError, match="nothing to map"):
        _native.MappedParts(0)
