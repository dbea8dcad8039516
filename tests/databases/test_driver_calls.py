"""Batches of drivers that are waited for on a thread, and the pages that a database is asked for."""

import gc
import signal
import threading
import time

import numpy as np
import pyarrow as pa
import pytest

from headrace.sources.sql import keys
from headrace.sources.sql.arrow_ahead import ArrowAhead
from headrace.sources.sql.database import BATCHES_AHEAD, Rows
from headrace.sources.sql.driver_calls import DriverCall
from headrace.testing import our_threads


def batches(count, before):
    for i in range(count):
        before(i)
        yield pa.record_batch({"i": [i]})


def numbers(rows):
    return [batch.column(0)[0].as_py() for batch in rows]


def press_ctrl_c(rows):
    """Interrupt the main thread once it has a call to wait for."""
    while not rows._calls:
        threading.Event().wait(0.001)
    signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)


def test_a_wait_that_the_user_ends_loses_no_batch():
    going_on, closed = threading.Event(), []

    def interrupt(i):
        if i == 2:
            press_ctrl_c(rows)
            assert going_on.wait(300)

    rows = Rows(batches(5, interrupt), lambda: closed.append(1), ahead=True, timeout=300)
    got = []
    with pytest.raises(KeyboardInterrupt):
        for batch in rows:
            got += numbers([batch])
    going_on.set()
    assert got + numbers(rows) == [0, 1, 2, 3, 4]
    rows.close()
    assert closed == [1] and our_threads() == []


def test_a_batch_that_is_under_way_is_ended_before_its_connection_is_closed():
    ended, done = threading.Event(), []

    def interrupt(i):
        if i == 1:
            press_ctrl_c(rows)
            assert ended.wait(300)
            done.append("read")

    rows = Rows(batches(3, interrupt), lambda: done.append("closed"), ended.set, ahead=True, timeout=300)
    with pytest.raises(KeyboardInterrupt):
        numbers(rows)
    rows.close()
    assert done == ["read", "closed"] and our_threads() == []


def reaches(count, number):
    """Whether `count` gets to that number, and stays there for a moment in which it could go further."""
    deadline = time.monotonic() + 300
    while count() < number and time.monotonic() < deadline:
        time.sleep(0.001)
    time.sleep(0.01)
    return count() == number


class Watched:
    """Batches, and how many of them were read."""

    def __init__(self, count, fails_at=None):
        self.read, self._count, self._fails_at = 0, count, fails_at

    def __iter__(self):
        return self

    def __next__(self):
        if self.read == self._fails_at:
            raise ConnectionError("gone")
        if self.read == self._count:
            raise StopIteration
        self.read += 1
        return pa.record_batch({"i": [self.read - 1]})

    def reaches(self, number):
        return reaches(lambda: self.read, number)


def test_who_looks_at_the_first_batch_gets_no_more_and_others_a_few_ahead():
    source = Watched(100)
    rows = Rows(source, lambda: None, ahead=True)
    assert numbers([next(rows)]) == [0] and source.reaches(1)
    for i in range(1, 5):
        assert numbers([next(rows)]) == [i] and source.reaches(1 + i + BATCHES_AHEAD)
    rows.close()
    assert our_threads() == []


def test_a_fault_ahead_comes_behind_the_batches_before_it_and_nothing_is_read_behind_it():
    source = Watched(100, fails_at=5)
    rows = Rows(source, lambda: None, ahead=True)
    got = []
    with pytest.raises(ConnectionError, match="gone"):
        for batch in rows:
            got += numbers([batch])
    source._fails_at = None
    assert got == list(range(5)) and numbers(rows) == [] and source.read == 5
    rows.close()


def test_a_query_that_has_ended_is_not_cancelled():
    cancelled = []
    for _ in range(50):
        rows = Rows(Watched(4), lambda: None, lambda: cancelled.append(1), ahead=True)
        assert numbers(rows) == [0, 1, 2, 3]
        rows.close()
    assert cancelled == []


def test_a_call_that_is_given_up_reads_no_more_and_closes_what_it_has():
    stuck, closed = threading.Event(), threading.Event()
    read = []

    def before(i):
        if i == 2:
            assert stuck.wait(300)
        read.append(i)

    rows = Rows(batches(9, before), closed.set, ahead=True, timeout=300)
    assert [next(rows).num_rows for _ in range(2)] == [1, 1]
    rows._timeout = 0.2  # for the call that is stuck alone: on a busy machine others may take longer
    with pytest.raises(TimeoutError, match=r"within 0\.2 s"):
        next(rows)
    rows.close()
    assert not closed.is_set()
    stuck.set()
    assert closed.wait(300) and read == [0, 1, 2]


def test_an_abandoned_result_is_undone_now_or_later():
    undone, going_on = [], threading.Event()
    early = DriverCall(lambda: "early", undone.append)
    late = DriverCall(lambda: going_on.wait(300) and "late", undone.append)
    early.join(300)
    early.drop()
    late.drop()
    assert undone == ["early"]
    going_on.set()
    late.join(300)
    assert undone == ["early", "late"]


def arrow_reader(read, fails_at=None):
    schema = pa.schema({"i": pa.int64()})

    def batches():
        for i in range(100):
            if i == fails_at:
                raise OSError("a: b")
            read.append(i)
            yield pa.record_batch([pa.array(np.full(1000, i))], schema)

    return pa.RecordBatchReader.from_batches(schema, batches())


def test_batches_of_a_stream_are_read_a_few_ahead():
    read = []
    ahead = ArrowAhead(arrow_reader(read))
    rows = iter(ahead)
    for i in range(5):
        assert next(rows).column(0).to_pylist() == [i] * 1000
        assert reaches(lambda: len(read), 1 if i == 0 else i + 3)  # two wait
    assert [batch.column(0)[0].as_py() for batch in rows] == list(range(5, 100))
    ahead.close()
    assert list(rows) == []


def test_a_fault_of_a_stream_is_what_arrow_raises_behind_the_batches_before_it():
    with pytest.raises(OSError, match="a: b") as plain:
        list(arrow_reader([], fails_at=7))
    ahead, got = ArrowAhead(arrow_reader([], fails_at=7)), []
    with pytest.raises(OSError, match="a: b") as found:
        for batch in ahead:
            got.append(batch.column(0)[0].as_py())
    assert got == list(range(7)) and type(found.value) is type(plain.value)
    ahead.close()


def test_a_stream_that_is_closed_early_lets_go_of_its_batches():
    before = pa.total_allocated_bytes()
    for taken in range(6):
        ahead = ArrowAhead(arrow_reader([]))
        rows = iter(ahead)
        for _ in range(taken):
            next(rows)
        ahead.close()
        rows.close()
        del rows, ahead
    gc.collect()
    assert pa.total_allocated_bytes() - before < 100_000


def test_pages_follow_the_size_of_their_rows():
    most = keys.PAGE_BYTES
    assert keys.page_rows(1000, 1000 * 8) == 8000  # a few small rows say little
    assert keys.page_rows(1_000_000, 1_000_000 * 80) == most // 80
    assert keys.page_rows(1000, 1000 << 20) == most >> 20
    assert keys.page_rows(1000, 0) == 8000
    assert keys.page_rows(20, 1 << 40) == keys.MIN_PAGE_ROWS  # the first row of a page was seen: there must be more
