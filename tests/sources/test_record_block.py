"""Records that workers copy out of their files and verify: what comes is what one thread that reads them gives."""

import os
import sys
import threading
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import headrace as hr
from headrace.columns.block import Block
from headrace.columns.lazy_block import LazyBlock, RecordBlock, Selection
from headrace.columns.refs import CorruptRecordsError
from headrace.errors import ElementError, StateError
from headrace.iterator import Epochs, Iterator, Settings
from headrace.plan.structure import LEAF

FEATURES = {"image": hr.io.FixedLenFeature([], bytes), "label": hr.io.FixedLenFeature([], np.int64)}
FILES, ROWS, BYTES = 4, 300, 3000
HEADER = 12


def parse(record):
    row = hr.io.parse_single_example(record, FEATURES)
    return hr.io.decode_raw(row["image"], np.uint8)[:4], row["label"]


@pytest.fixture
def names(tmp_path):
    made = [str(tmp_path / f"{i}.tfrecord") for i in range(FILES)]
    for number, name in enumerate(made):
        with hr.io.TFRecordWriter(name) as writer:
            for i in range(ROWS):
                writer.write({"image": bytes([i % 256]) * BYTES, "label": 1000 * number + i})
    return made


def hurt(name, byte):
    with open(name, "r+b") as file:  # noqa: PTH123
        file.seek(byte)
        old = file.read(1)
        file.seek(byte)
        file.write(bytes([old[0] ^ 1]))


def records(names, reads, calls):
    return hr.TFRecordDataset(names, num_parallel_reads=reads).map(parse, num_parallel_calls=calls)


def at_once(ds):
    """A pass whose scan goes parallel with the first row; others read some milliseconds serially."""
    return Iterator(ds._node, Epochs(), Settings(tiny_cuts=True))


def outcome(it):
    """What comes, errors in their places."""
    found = []
    while True:
        try:
            image, label = next(it)
            found.append((image.tolist(), int(label)))
        except StopIteration:
            return found
        except ElementError as error:
            found.append(str(error).partition("\n  added at")[0])


@pytest.fixture
def made_late(monkeypatch):
    """How many blocks were lazy, so that the test does not take the other path."""
    count = []
    plain = RecordBlock.pointed

    def counting(self):
        count.append(1)
        return plain(self)

    monkeypatch.setattr(RecordBlock, "pointed", counting)
    return count


SIZE = BYTES + 60
WHERE = [(0, HEADER + 40), (1, SIZE * 150), (2, SIZE * (ROWS - 2)), (3, 3)]


@pytest.mark.parametrize("reads", [None, 2, 3, hr.AUTOTUNE])
@pytest.mark.parametrize("calls", [1, 2, 5, hr.AUTOTUNE])
@pytest.mark.parametrize("bad", [[], WHERE[:1], WHERE[1:2], WHERE[2:3], WHERE[3:], WHERE])
def test_bad_records_come_in_their_places_with_what_follows(names, reads, calls, bad, made_late):
    for file, byte in bad:
        hurt(names[file], byte)
    eager = hr.TFRecordDataset(names, num_parallel_reads=reads).map(parse).with_options(hr.Options(cpu_budget=1))
    expected = outcome(iter(eager))
    assert sum(isinstance(each, str) for each in expected) == len(bad)
    assert not made_late
    assert outcome(at_once(records(names, reads, calls))) == expected
    assert made_late


@pytest.mark.parametrize("cut", [0, 100, 149, 150, 151, 500])
def test_states_around_a_bad_record_go_on_exactly(names, cut):
    hurt(names[0], SIZE * 75)
    ds = records(names, 2, 3)
    whole = outcome(iter(ds))
    with iter(ds) as it:
        for _ in range(cut):
            try:
                next(it)
            except ElementError:
                continue
        state = it.state()
    with iter(ds) as it:
        it.restore(state)
        assert outcome(it) == whole[cut:]


def test_errors_that_are_passed_over_lose_the_rest_of_that_file_alone(names, made_late):
    hurt(names[1], SIZE * 100)
    labels = [int(label) for _, label in records(names, 3, 4).ignore_errors()]
    assert made_late
    plain = hr.TFRecordDataset(names, num_parallel_reads=3).map(parse).ignore_errors()
    assert labels == [int(label) for _, label in plain]
    assert {label for label in labels if label // 1000 != 1} == {1000 * f + i for f in (0, 2, 3) for i in range(ROWS)}


@pytest.mark.parametrize("reads", [None, 2])
@pytest.mark.parametrize("change", ["shrink", "touch", "replace", "remove"])
def test_a_bad_file_that_changes_meanwhile_is_an_error_behind_right_rows(names, reads, change):
    """What is gone cannot be re-read: the pass says so, every time, and loses nothing silently."""
    hurt(names[0], SIZE * 200)
    found, said = [], ""
    with iter(records(names[:2], reads, 2)) as it:
        found.append(next(it))
        if change == "shrink":
            os.truncate(names[0], SIZE * 150)
        elif change == "touch":
            os.utime(names[0], (1, 1))
        else:
            Path(names[0]).rename(f"{names[0]}.old")
            if change == "replace":
                with hr.io.TFRecordWriter(names[0]) as writer:
                    writer.write({"image": bytes(BYTES), "label": 77})
        while not said:
            try:
                found.append(next(it))
            except (ElementError, StateError) as error:
                said = str(error)
    labels = [int(label) for _, label in found]
    assert labels == [i if reads is None else 1000 * (i % 2) + i // 2 for i in range(len(labels))]
    assert all((image == label % 1000 % 256).all() for image, label in found)
    assert len(labels) <= 400 and names[0] in said


def test_rows_that_wait_keep_no_file_open(tmp_path):
    names = [str(tmp_path / f"{i}") for i in range(400)]
    for i, name in enumerate(names):
        with hr.io.TFRecordWriter(name) as writer:
            writer.write({"image": bytes([i % 256]) * BYTES, "label": i})
    ds = hr.TFRecordDataset(names, num_parallel_reads=2).prefetch(300).map(parse, num_parallel_calls=4)
    most = 0
    with iter(ds) as it:
        for number, (_, label) in enumerate(it):
            assert label == number
            most = max(most, len(list(Path("/proc/self/fd").iterdir()))) if sys.platform == "linux" else 0
    assert most < 100


def test_readers_that_skip_bad_records_see_them_at_once(names, made_late):
    hurt(names[0], SIZE * 75)
    ds = hr.TFRecordDataset(names[:1], on_error="skip").map(parse, num_parallel_calls=2)
    assert len(list(ds)) == ROWS - 1
    assert not made_late


def test_parsed_files_are_not_pointed_at(names):
    ds = hr.Dataset.from_tfrecord(names, FEATURES).map(lambda row: row["label"] + 1, num_parallel_calls=2)
    assert [int(x) for x in ds] == [1000 * f + i + 1 for f in range(FILES) for i in range(ROWS)]


@pytest.mark.parametrize("reads", [None, 2])
def test_rows_that_are_passed_over_are_sound_too(names, reads, made_late):
    hurt(names[0], SIZE * 75)
    expected = outcome(iter(hr.TFRecordDataset(names, num_parallel_reads=reads).map(parse)))
    at = next(i for i, each in enumerate(expected) if isinstance(each, str))
    for count in (at - 1, at, at + 1, at + 20):
        ds = records(names, reads, 3).skip(count).prefetch(2)
        assert outcome(at_once(ds)) == expected[count:]
    assert made_late


class Slow(LazyBlock):
    """Rows that take until all threads are there to be made."""

    __slots__ = ("_gate",)

    def __init__(self, gate):
        super().__init__(LEAF, 3, 24, None, None)
        self._gate = gate

    def make(self):
        self._gate.wait()
        self.columns = [np.arange(3)]


def test_a_merge_that_was_cut_belongs_to_several_threads():
    slow, other = Slow(threading.Barrier(2, timeout=300)), Block(LEAF, [np.arange(3, 6)], 3)
    whole = Selection.of([slow, other], np.arange(6)[::-1])
    inner = Selection.of([whole, whole.cut(0, 1)], np.arange(6))
    parts, found = [inner.cut(0, 3), inner.cut(3, 6)], {}

    def make(number):
        found[number] = parts[number].columns[0].tolist()

    threads = [threading.Thread(target=partial(make, i)) for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {0: [5, 4, 3], 1: [2, 1, 0]}


def test_corrupt_rows_are_no_error_of_a_users_function():
    assert not issubclass(CorruptRecordsError, Exception)
