"""How many rows are asked for at a time."""

from types import SimpleNamespace

import pytest

from headrace.execute.stream import Pace

MS = 1_000_000


def settled(nanoseconds, nbytes=8):
    """The numbers of rows that the pace settles at for this time and these bytes per row: the smallest and
    the largest.
    """
    pace = Pace()
    seen = []
    for _ in range(40):
        seen.append(pace.rows)
        pace.learn(pace.rows, pace.rows * nbytes, pace.rows * nanoseconds)
    return min(seen[-8:]), max(seen[-8:])


@pytest.mark.parametrize(
    ("nanoseconds", "least", "most"), [(1, 1 << 15, 1 << 15), (MS // 100, 64, 256), (MS, 4, 4), (5 * MS, 1, 1)]
)
def test_about_a_millisecond_of_work_but_enough_rows_for_a_block(nanoseconds, least, most):
    low, high = settled(nanoseconds)
    assert least <= low <= high <= most


def test_large_rows_come_one_by_one():
    assert settled(1000, 10 << 20) == (1, 1)


@pytest.mark.parametrize(("delayed", "rows"), [(50 * MS, 64), (0, 32)])
def test_time_in_which_others_had_the_processor_does_not_count(monkeypatch, delayed, rows):
    pace = Pace()
    while pace.rows < 64:
        pace.learn(pace.rows, 8, 1)
    monkeypatch.setattr(Pace, "_delay", SimpleNamespace(since_last=lambda: delayed))
    pace.learn(32, 8, 50 * MS)
    assert pace.rows == rows
