"""The threads that read rows for a map on a device and do the CPU's part of it."""

import copy
import threading

import numpy as np
import pytest

import headrace as hr
from headrace.columns.block import Block
from headrace.device.program import _last_uses
from headrace.ops.device_map import WORKING_COPIES, HostPart, ReadyBlock
from headrace.physical.lower import lower_pass
from headrace.plan.node import walk
from headrace.plan.structure import LEAF
from headrace.trace.values import Step, Value

torch = pytest.importorskip("torch")


def drawn(ds, device="cpu"):
    return ds.random_map(lambda x, rng: x + rng.random(), seed=1, device=device)


def host_parts(ds, threads=4):
    return [node for node in walk(lower_pass(ds._node, threads)) if isinstance(node, HostPart)]


def test_the_rows_of_a_map_on_a_device_are_made_ahead_of_it():
    ds = drawn(hr.Dataset.range(1000).shuffle(50, seed=2)).map(np.square).batch(8)
    assert len(host_parts(ds)) == 1  # of two maps on the device
    assert "host_part at random_map: the CPU does its part while the device works" in ds.explain()
    assert not host_parts(ds, threads=1)
    for a, b in zip(ds, drawn(hr.Dataset.range(1000).shuffle(50, seed=2), None).map(np.square).batch(8), strict=True):
        assert np.array_equal(a, b)


def test_what_can_be_observed_is_not_read_ahead():
    read = []

    def rows():
        for i in range(100):
            read.append(i)
            yield np.float64(i)

    ds = drawn(hr.Dataset.from_generator(rows, output_signature=hr.TensorSpec((), np.float64)))
    assert not host_parts(ds)
    with iter(ds) as it:
        next(it)
        assert len(read) < 100


def test_draws_are_prepared_on_a_thread_and_states_restore():
    seen = []
    ds = drawn(hr.Dataset.range(64).map(np.float64)).batch(4)
    (node,) = host_parts(ds)
    before = node.programs.prepare
    node.programs.prepare = lambda *args: seen.append(threading.current_thread().name) or before(*args)
    with iter(ds) as it:
        batches = []
        states = []
        for batch in it:
            batches.append(batch)
            states.append(it.state())
    assert seen
    assert threading.current_thread().name not in seen
    for i, state in enumerate(states):
        with ds.iterator(state=state) as again:
            for a, b in zip(again, batches[i + 1 :], strict=True):
                assert np.array_equal(a, b)


def test_a_part_of_a_prepared_block_is_an_ordinary_one():
    block = ReadyBlock(LEAF, [np.arange(4)], 4)
    assert type(block.slice(1, 3)) is Block
    assert block.slice(1, 3).columns[0].tolist() == [1, 2]


def test_a_failure_of_the_cpus_part_is_that_of_its_element():
    good = hr.image.encode_png(np.zeros((3, 4, 3), np.uint8))
    ds = hr.Dataset.from_tensor_slices([good, b"no image", good]).map(hr.image.decode_png, device="cpu")
    with iter(ds) as it:
        assert next(it).shape == (3, 4, 3)
        with pytest.raises(hr.ElementError, match="element 1"):
            next(it)
        assert next(it).shape == (3, 4, 3)


def test_what_was_prepared_for_another_program_is_prepared_again():
    ds = drawn(hr.Dataset.range(64).map(np.float64)).batch(4)
    (node,) = host_parts(ds)
    before, run, ran = node.programs.prepare, node.programs.run, []

    def stale(*args):  # as if something that the function holds on to had changed since
        ready = before(*args)
        return ready._replace(program=copy.copy(ready.program), host=None)

    def counted(machine, block, more, usage, ready):
        ran.append(block.rows)
        return run(machine, block, more, usage, ready)

    node.programs.prepare, node.programs.run = stale, counted
    for a, b in zip(ds, drawn(hr.Dataset.range(64).map(np.float64), None).batch(4), strict=True):
        assert np.array_equal(a, b)
    assert sum(ran) == 64, "no block ran again in halves, after it had failed without its draws"


def test_rows_are_prepared_once_however_many_fit():
    ds = drawn(hr.Dataset.range(2000).map(np.float64)).batch(64)
    (node,) = host_parts(ds)
    before, rows, ready = node.programs.prepare, [], []

    def prepare(block, more):
        rows.append(block.rows)
        return before(block, more)

    run = node.programs.run

    def counted(machine, block, more, usage, prepared):
        ready.append(block.rows if prepared is not None else 0)
        return run(machine, block, more, usage, prepared)

    node.programs.prepare, node.programs.run = prepare, counted
    small = ds.with_options(hr.Options(device_memory=WORKING_COPIES * 8 * 25))  # 25 rows of 8 bytes
    expected = drawn(hr.Dataset.range(2000).map(np.float64), None).batch(64)
    for a, b in zip(small, expected, strict=True):
        assert np.array_equal(a, b)
    assert sum(rows) == 2000
    assert max(rows[-8:]) <= 25
    assert sum(ready) > 1200  # the first blocks were requested before the size of a row was known


def test_values_are_dropped_after_their_last_use():
    def step(slot, *uses):
        return Step("", slot, lambda *_: None, uses=tuple(Value(u, None, True) for u in uses))

    steps = [step(2, 0), step(3, 2), step(4, 2, 3), step(5, 4)]
    assert _last_uses(steps, {0, 3}) == [(), (), (2,), (4, 5)]
