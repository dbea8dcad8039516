"""Rules make plans faster and change nothing else."""

import numpy as np

import headrace as hr
from headrace.iterator import Epochs, Iterator, Settings
from headrace.ops.shared.gather import Gather
from headrace.optimize.rules import apply_rules
from headrace.plan.node import walk

D = hr.Dataset
ROWS = np.arange(40).reshape(20, 2)


def _epoch(ds, settings):
    return Iterator(ds._node, Epochs(), settings)


def gathers(ds):
    return [n for n in walk(apply_rules(ds._node)) if isinstance(n, Gather)]


def test_rows_are_fetched_once_after_all_that_only_moves_them():
    ds = D.from_tensor_slices(ROWS).skip(2).shuffle(5).shard(2, 0).repeat(3).take(20).batch(4)
    plan = apply_rules(ds._node)
    assert isinstance(plan.inputs[0], Gather)
    assert len(gathers(ds)) == 1


def test_sequential_reading_is_left_alone():
    assert gathers(D.from_tensor_slices(ROWS).skip(2).take(5).repeat(2)) == []


def test_functions_whose_calls_can_be_counted_are_not_reordered():
    assert gathers(D.from_tensor_slices(ROWS).map(lambda x: x, mode="eager").shuffle(5)) == []


def test_a_plan_without_anything_to_gain_stays_the_same_object():
    node = D.range(10).shuffle(3).batch(2)._node
    assert apply_rules(node) is node


def test_batches_of_a_shuffle_are_gathered_straight_into_place():
    ds = D.from_tensor_slices(ROWS).shuffle(5, seed=1).batch(4)
    first = next(iter(ds))
    assert first.flags.writeable
    assert first.base is not None


def test_rows_that_change_from_epoch_to_epoch_are_not_fetched_by_number():
    ds = D.zip(D.range(6), D.range(6).shuffle(6, seed=1)).shuffle(3, seed=2).repeat(3)
    assert list(_epoch(ds, Settings())) == list(_epoch(ds, Settings(optimise=False)))
