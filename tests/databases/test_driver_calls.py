"""Batches of drivers that are waited for on a thread, and the pages that a database is asked for."""

import signal
import threading

import pyarrow as pa
import pytest

from headrace.sources.sql import keys
from headrace.sources.sql.database import Rows
from headrace.testing import our_threads


def batches(count, before):
    for i in range(count):
        before(i)
        yield pa.record_batch({"i": [i]})


def numbers(rows):
    return [batch.column(0)[0].as_py() for batch in rows]


def press_ctrl_c(rows):
    """Interrupt the main thread once it has a call to wait for."""
    while rows._call is None:
        threading.Event().wait(0.001)
    signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)


def test_a_wait_that_the_user_ends_loses_no_batch():
    going_on, closed = threading.Event(), []

    def interrupt(i):
        if i == 2:
            press_ctrl_c(rows)
            assert going_on.wait(30)

    rows = Rows(batches(5, interrupt), lambda: closed.append(1), timeout=60)
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
            assert ended.wait(30)
            done.append("read")

    rows = Rows(batches(3, interrupt), lambda: done.append("closed"), ended.set, timeout=60)
    with pytest.raises(KeyboardInterrupt):
        numbers(rows)
    rows.close()
    assert done == ["read", "closed"] and our_threads() == []


def test_pages_follow_the_size_of_their_rows():
    most = keys.PAGE_BYTES
    assert keys.page_rows(1000, 1000 * 8) == 8000  # a few small rows tell little
    assert keys.page_rows(1_000_000, 1_000_000 * 80) == most // 80
    assert keys.page_rows(1000, 1000 << 20) == most >> 20
    assert keys.page_rows(1000, 0) == 8000
    assert keys.page_rows(20, 1 << 40) == keys.LEAST_PAGE  # the first row of a page was seen: there must be more
