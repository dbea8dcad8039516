"""Rows that another process makes, converted by their consumer: out of that process's memory, and no later."""

import threading

import numpy as np
import pytest

import headrace as hr
from headrace.adapters.feed import Feed, PlainTarget
from headrace.columns.block import Block
from headrace.plan.structure import LEAF

BATCHES = 60


def batches(size=32):
    rows = np.arange(BATCHES * size, dtype=np.int64)
    wide = np.repeat(rows[:, None], 200, 1)
    return hr.Dataset.from_tensor_slices({"wide": wide, "number": rows}).shuffle(100, 3).batch(size)


class Copies(PlainTarget):
    """What is made of a batch needs nothing of it any more."""

    name = "to_copies"
    copies = True

    def __init__(self, ahead, seen):
        super().__init__(ahead)
        self._seen = seen

    def convert(self, block):
        self._seen.append((threading.get_ident(), block.rows, [c.flags.owndata for c in block.columns]))
        rows = [(wide.copy(), number.copy()) for number, wide in zip(*block.columns, strict=True)]
        return Block(LEAF, [rows], block.rows)


class CopiesFeed(Feed):
    """A feed of one's own."""

    def __init__(self, dataset, ahead):
        super().__init__(dataset)
        self.ahead = ahead
        self.seen = []

    def make_target(self):
        return Copies(self.ahead, self.seen)


def rows_of(feed):
    return [(wide.tolist(), number.tolist()) for wide, number in feed]


EXPECTED = [(b["wide"].tolist(), b["number"].tolist()) for b in batches()]


@pytest.mark.parametrize("ahead", [0, 2, 5])
@pytest.mark.parametrize("buffer", [1, 8])
def test_all_rows_come_though_their_memory_is_used_again(ahead, buffer):
    feed = CopiesFeed(batches().prefetch(buffer, mode="process"), ahead)
    assert rows_of(feed) == EXPECTED
    assert not any(own for _, _, owned in feed.seen for own in owned)


def test_a_thread_is_not_needed_for_rows_that_are_there():
    feed = CopiesFeed(batches().prefetch(8, mode="process"), 2)
    assert rows_of(feed) == EXPECTED
    assert {ident for ident, _, _ in feed.seen} == {threading.get_ident()}


def test_a_thread_is_what_others_have():
    feed = CopiesFeed(batches(), 2)
    assert rows_of(feed) == EXPECTED
    assert threading.get_ident() not in {ident for ident, _, _ in feed.seen}


@pytest.mark.parametrize("cut", [0, 1, 17, BATCHES])
def test_states_between_rows_that_came_together(cut):
    feed = CopiesFeed(batches().prefetch(4, mode="process"), 2)
    with iter(feed) as it:
        first = [next(it)[1].tolist() for _ in range(cut)]
        state = it.state()
    again = CopiesFeed(batches().prefetch(4, mode="process"), 0)
    with iter(again) as it:
        it.restore(state)
        rest = [number.tolist() for _, number in it]
    assert [*first, *rest] == [number for _, number in EXPECTED]


class NumbersFeed(Feed):
    """Elements as they are, taken over on the consumer's own thread."""

    def make_target(self):
        return PlainTarget(2)


def failing(number):
    if number % 7 == 5:
        raise ValueError(f"not {number}")
    return number


def test_what_is_ready_comes_together_and_failures_in_their_places():
    ds = hr.Dataset.range(300).map(failing, mode="eager").prefetch(8, mode="process")
    plain, it = [], iter(NumbersFeed(ds))
    while True:
        try:
            plain.append(int(next(it)))
        except StopIteration:
            break
        except hr.ElementError as error:
            plain.append(str(error.__cause__))
    assert plain == [f"not {n}" if n % 7 == 5 else n for n in range(300)]


def test_several_batches_that_lie_ready_are_taken_over_at_a_time():
    feed = CopiesFeed(batches().prefetch(8, mode="process"), 2)
    assert rows_of(feed) == EXPECTED
    lots = [rows for _, rows, _ in feed.seen]
    assert sum(lots) == BATCHES
    assert lots[0] == 1, "the consumer waits for the first"
    assert max(lots) > 1


def test_large_batches_are_taken_over_one_by_one():
    wide = hr.Dataset.from_tensor_slices({"wide": np.zeros((24, 1 << 20), np.int64), "number": np.arange(24)}).batch(2)
    feed = CopiesFeed(wide.prefetch(8, mode="process"), 2)
    assert [number.tolist() for _, number in feed] == [[2 * i, 2 * i + 1] for i in range(12)]
    assert {rows for _, rows, _ in feed.seen} == {1}
