"""What the operations mean that give out rows as they are, or make one of one."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np

from headrace.errors import ElementError, SpecError
from headrace.execute.reference.base import (
    Place,
    Row,
    boxed,
    call,
    draw,
    element_of,
    folded,
    join_elements,
    pair,
    parts_of,
    private,
    rows,
)
from headrace.execute.state import keyed
from headrace.keys import ROOT, Seed, keyed_seeds, mix
from headrace.ops.batch import Batch
from headrace.ops.cache import Cache
from headrace.ops.calls import promised
from headrace.ops.concatenate import Concatenate
from headrace.ops.enumerate import Enumerate
from headrace.ops.filter import Filter, truth
from headrace.ops.flat_map import FlatMap
from headrace.ops.interleave import Interleave
from headrace.ops.map import Map
from headrace.ops.permute import Permute
from headrace.ops.prefetch import Prefetch
from headrace.ops.random_map import RandomMap
from headrace.ops.repeat import Repeat
from headrace.ops.select import Select, SelectNumbers
from headrace.ops.shard import Shard
from headrace.ops.share import Share
from headrace.ops.shuffle import EVERYTHING, Shuffle
from headrace.ops.skip import Skip
from headrace.ops.take import Take
from headrace.ops.watch import Progress, Throttle
from headrace.ops.with_options import WithOptions
from headrace.ops.zip import Zip
from headrace.options import AUTOTUNE
from headrace.plan import mismatch
from headrace.plan.node import Node
from headrace.plan.spec import Spec, leaf_spec
from headrace.ragged import Ragged
from headrace.random import RowGenerator
from headrace.sources.generator import Generator, conform
from headrace.sources.memory import Memory
from headrace.sources.range import Range


@rows.register
def _(node: Memory, at: Place) -> Iterator[Row]:
    for i in range(node.rows):
        leaves = [c[i] if isinstance(c, np.ndarray | Ragged | list) else c[i].as_py() for c in node.columns]
        yield Row((at.path, i), element_of(node.structure, leaves))


@rows.register
def _(node: Range, at: Place) -> Iterator[Row]:
    for i, number in enumerate(range(node.start, node.stop, node.step)):
        yield Row((at.path, i), np.array(number).astype(node.dtype)[()])


@rows.register
def _(node: Generator, at: Place) -> Iterator[Row]:
    iterator = None
    number = 0
    while True:
        try:
            if iterator is None:
                iterator = iter(node.generator(*node.args))
            value = next(iterator)
        except StopIteration as stop:
            if iterator is None:
                yield Row((at.path, number), node.error(stop, number))
            return
        except Exception as error:
            yield Row((at.path, number), node.error(error, number))
            if iterator is None:
                return
        else:
            try:
                yield Row((at.path, number), element_of(*conform(value, node.signature)))
            except Exception as error:
                yield Row((at.path, number), node.error(error, number))
        number += 1


@rows.register
def _(node: Map, at: Place) -> Iterator[Row]:
    for number, row in enumerate(rows(node.input, at)):
        made = row.value
        if not isinstance(made, ElementError):
            try:
                made = element_of(*promised(node.fn, call(node.fn, private(made)), node.signature))
            except Exception as error:
                made = node.error(error, number)
        yield Row(row.id, made)


@rows.register
def _(node: RandomMap, at: Place) -> Iterator[Row]:
    for number, row in enumerate(rows(node.input, at)):
        made = row.value
        if not isinstance(made, ElementError):
            rng = RowGenerator(node.key, np.array(row.id, np.uint64))
            try:
                made = call(lambda *args, rng=rng: node.fn(*args, rng), private(made))
                made = element_of(*promised(node.fn, made, None))
            except Exception as error:
                made = node.error(error, number)
        yield Row(row.id, made)


@rows.register
def _(node: Filter, at: Place) -> Iterator[Row]:
    for number, row in enumerate(rows(node.input, at)):
        try:
            if isinstance(row.value, ElementError) or truth(call(node.predicate, private(row.value))):
                yield row
        except Exception as error:
            yield Row(row.id, node.error(error, number))


@rows.register
def _(node: Batch, at: Place) -> Iterator[Row]:
    source = rows(node.input, at)
    number = 0
    while group := list(islice(source, node.batch_size)):
        if len(group) < node.batch_size and node.drop_remainder:
            return
        path, first = group[0].id
        failed = next((row.value for row in group if isinstance(row.value, ElementError)), None)
        made = failed or stacked(node, [row.value for row in group], number)
        yield Row(folded((path, first), 3), made)
        number += 1


def stacked(node: Node, values: list[Any], number: int) -> Any:
    """The elements as one, or the error that they cannot be."""
    flat = [parts_of(v) for v in values]
    structure = flat[0][0]
    other = next((i for i, (s, _) in enumerate(flat) if s != structure), None)
    if other is not None:
        why = mismatch.why_structures_differ(Spec.of(values[0]), Spec.of(values[other]), other)
        return node.error(SpecError(why), number)
    leaves = []
    for i, path in enumerate(structure.paths):
        column = [row[i] for _, row in flat]
        if any(isinstance(v, Ragged) for v in column):
            return node.error(SpecError(mismatch.why_ragged_rows_are_refused(path)), number)
        arrays = [boxed(v) for v in column]
        for row, array in enumerate(arrays):
            if (array.shape, array.dtype) != (arrays[0].shape, arrays[0].dtype):
                why = mismatch.why_components_differ(path, leaf_spec(column[0]), leaf_spec(column[row]), row)
                return node.error(SpecError(why), number)
        leaves.append(np.stack(arrays))
    return element_of(structure, leaves)


@rows.register(Prefetch)
@rows.register(Throttle)
@rows.register(Progress)
@rows.register(WithOptions)
def _(node: Prefetch | Throttle | Progress | WithOptions, at: Place) -> Iterator[Row]:
    return rows(node.input, at)


@rows.register
def _(node: Take, at: Place) -> Iterator[Row]:
    return islice(rows(node.input, at), node.count) if node.count >= 0 else rows(node.input, at)


@rows.register
def _(node: Skip, at: Place) -> Iterator[Row]:
    return islice(rows(node.input, at), node.count, None) if node.count >= 0 else iter(())


@rows.register
def _(node: Shard, at: Place) -> Iterator[Row]:
    return islice(rows(node.input, at), node.index, None, node.num_shards)


@rows.register
def _(node: Share, at: Place) -> Iterator[Row]:
    rest = rows(node.input, at)
    while len(group := list(islice(rest, node.readers))) == node.readers:
        yield group[node.index]


@rows.register
def _(node: Select, at: Place) -> Iterator[Row]:
    everything = list(islice(rows(node.input, at), max(node.start, node.start + node.count * node.step) + 1))
    return iter([everything[node.start + i * node.step] for i in range(node.count)])


@rows.register
def _(node: SelectNumbers, at: Place) -> Iterator[Row]:
    everything = list(islice(rows(node.input, at), max(node.numbers, default=-1) + 1))
    for place, number in enumerate(node.numbers):
        row, again = everything[number], node.numbers[:place].count(number)
        yield Row(folded(row.id, again) if again else row.id, row.value)


@rows.register
def _(node: Enumerate, at: Place) -> Iterator[Row]:
    for number, row in enumerate(rows(node.input, at), node.start):
        yield row if isinstance(row.value, ElementError) else Row(row.id, pair(np.int64(number), row.value))


@rows.register
def _(node: Repeat, at: Place) -> Iterator[Row]:
    epoch = 0
    while epoch != node.count:
        empty = True
        for row in rows(node.input, at.epoch(epoch)):
            empty = False
            yield row
        if empty and node.count is None:
            return
        epoch += 1


@rows.register
def _(node: Concatenate, at: Place) -> Iterator[Row]:
    for branch, place in enumerate(node.places):
        for row in rows(node.branches[branch], at.branch(place) if place else at):
            yield Row(folded(row.id, branch + 1), row.value)


@rows.register
def _(node: Zip, at: Place) -> Iterator[Row]:
    inputs = [rows(n, at.branch(p) if p else at) for n, p in zip(node.branches, node.places, strict=True)]
    while True:
        heads = [next(source, None) for source in inputs]
        group = [row for row in heads if row is not None]
        if len(group) < len(inputs):
            return
        failed = next((row.value for row in group if isinstance(row.value, ElementError)), None)
        yield Row(group[0].id, failed or join_elements(node.structure, [row.value for row in group]))


def _children(node: FlatMap | Interleave, at: Place) -> Iterator[Iterator[Row]]:
    """For each parent row, the rows of its dataset; what cannot be made is a single failure."""
    for number, row in enumerate(rows(node.input, at)):
        if isinstance(row.value, ElementError):
            yield iter([row])
            continue
        try:
            key = mix(node.seed.key(at.path), *row.id)
            with keyed_seeds(key):
                made = call(node.fn, private(row.value))
            if not isinstance(getattr(made, "_node", None), Node):
                raise TypeError(f"the function must return a Dataset, not {made!r}")
        except Exception as error:
            yield iter([Row(row.id, node.error(error, number))])
        else:
            yield rows(keyed(made._node, key), at.branch(*row.id))


@rows.register
def _(node: FlatMap, at: Place) -> Iterator[Row]:
    for child in _children(node, at):
        yield from child


@rows.register
def _(node: Interleave, at: Place) -> Iterator[Row]:
    parents = _children(node, at)
    slots: list[Iterator[Row] | None] = [None] * node.cycle_length
    idle = turn = 0
    while idle < node.cycle_length:
        if slots[turn] is None:
            slots[turn] = next(parents, None)
        slot = slots[turn]
        if slot is None:
            idle += 1
        else:
            idle = 0
            group = 0
            for row in islice(slot, node.block_length):
                group += 1
                yield row
            if group < node.block_length:
                slots[turn] = None
        turn = (turn + 1) % node.cycle_length


@rows.register
def _(node: Cache, at: Place) -> Iterator[Row]:
    for row in rows(node.input, Place()):
        yield Row(folded(row.id, at.path), row.value)


@rows.register
def _(node: Shuffle, at: Place) -> Iterator[Row]:
    key = node.seed.key(at.path if node.reshuffle else ROOT)
    size = EVERYTHING if node.buffer_size == AUTOTUNE else node.buffer_size
    source = rows(node.input, at)
    buffer = list(islice(source, size - 1))
    hole = size - 1
    t = 0
    for row in source:
        buffer[hole : hole + 1] = [row]
        hole = draw(key, t, size)
        yield buffer[hole]
        t += 1
    if t:
        buffer[hole] = buffer[-1]
        buffer.pop()
    while buffer:
        slot = draw(key, t, len(buffer))
        yield buffer[slot]
        buffer[slot] = buffer[-1]
        buffer.pop()
        t += 1


@rows.register
def _(node: Permute, at: Place) -> Iterator[Row]:
    everything = list(rows(node.input, at))
    key = Seed.key(node.seed, at.path if node.reshuffle else ROOT)
    if len(everything) > 1 << 16:
        return (everything[i] for i in _feistel(key, len(everything)))
    order = list(range(len(everything)))
    for i in range(len(order) - 1, 0, -1):
        j = draw(key, i, i + 1)
        order[i], order[j] = order[j], order[i]
    return iter([everything[i] for i in order])


def _feistel(key: int, size: int) -> Iterator[int]:
    """Where a keyed permutation of a power of two sends each number, and from there, until it is below `size`."""
    bits = (size - 1).bit_length()
    left_bits, right_bits = bits // 2, bits - bits // 2
    numbers = [draw(key, n, 1 << 64) for n in (0, 1, 8, 9)]
    round_keys = [number >> shift & 0xFFFFFFFF for number in numbers for shift in (0, 32)]
    for start in range(size):
        value = start
        while True:
            left, right = value >> right_bits, value & (1 << right_bits) - 1
            for one, other in zip(round_keys[::2], round_keys[1::2], strict=True):
                left ^= _stirred(right, one) & (1 << left_bits) - 1
                right ^= _stirred(left, other) & (1 << right_bits) - 1
            value = left << right_bits | right
            if value < size:
                break
        yield value


def _stirred(x: int, key: int) -> int:
    x ^= key
    x = ((x ^ x >> 16) * 0x85EBCA6B) & 0xFFFFFFFF
    x = ((x ^ x >> 13) + key) * 0xC2B2AE35 & 0xFFFFFFFF
    return x ^ x >> 16
