"""prefetch: elements made before they are asked for."""

import numpy as np
import pytest

import headrace as hr
from headrace.block import Block
from headrace.execute.budget import MemoryBudget
from headrace.execute.channel import Channel, Limits, Ticket
from headrace.plan.marks import Mark
from headrace.plan.structure import LEAF

D = hr.Dataset


def numbers(rows):
    return [int(x) for x in rows]


@pytest.mark.parametrize("size", [-2, -5])
def test_a_bad_prefetch_is_refused(size):
    with pytest.raises(ValueError, match="buffer_size"):
        D.range(3).prefetch(size)


def test_prefetching_nothing_is_nothing(run):
    assert numbers(run(D.range(3).prefetch(0))) == [0, 1, 2]


def test_errors_pass_through_prefetch_in_their_places():
    it = iter(D.range(4).map(lambda x: 1 / 0 if x == 1 else x).prefetch(2))
    assert next(it) == 0
    with pytest.raises(hr.ElementError):
        next(it)
    assert numbers(it) == [2, 3]


@pytest.mark.parametrize(("row_bytes", "ahead"), [(10, 100), (400, 2), (5000, 2)])
def test_small_rows_go_ahead_by_what_they_weigh_and_large_ones_by_number(row_bytes, ahead):
    channel = Channel(Limits(8, 2, small=1000), MemoryBudget(None))
    mark = Mark(0, 0, 0)
    assert channel.room(64) == 2
    number = channel.issue(Ticket(mark, 2), mark)
    channel.put(number, [Block(LEAF, [np.zeros((2, row_bytes), np.uint8)], 2, mark)])
    assert channel.get()
    channel.release(2)
    assert channel.room(1000) == ahead
    channel.close()
