"""prefetch: elements made before they are asked for."""

import numpy as np
import pytest

import headrace as hr
from headrace.columns.block import Block
from headrace.execute.budget import MemoryBudget
from headrace.execute.stages.channel import Channel, Limits, Ticket
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


@pytest.mark.parametrize(
    "ahead",
    [lambda ds: ds.prefetch(2), lambda ds: ds.map(lambda x: x + 1, num_parallel_calls=2)],
    ids=["prefetch", "map"],
)
def test_rows_of_a_batch_that_is_waited_for_are_not_ahead_and_no_more_than_was_said_are(ahead):
    given, beyond = 0, []

    def numbers():
        for i in range(400):
            beyond.append(i - 8 * given)
            yield i

    ds = D.from_generator(numbers, output_signature=hr.TensorSpec((), np.int64))
    with iter(ahead(ds).batch(8)) as it:
        for _ in it:
            given += 1
    assert max(beyond) < 8 + 2 + 1, "the batch that is waited for, two rows, and one that is being handed over"
