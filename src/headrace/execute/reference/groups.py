"""What the operations mean that make several rows into one, or one into several."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, cycle, islice
from typing import Any

import numpy as np

from headrace.block import leaf
from headrace.errors import ElementError, SpecError
from headrace.execute.reference.base import (
    Place,
    Row,
    Unmade,
    boxed,
    call,
    draw,
    element_of,
    folded,
    pair,
    parts_of,
    private,
    rows,
    value_of,
)  # fmt: skip
from headrace.execute.reference.rows import stacked
from headrace.execute.state import keyed
from headrace.keys import keyed_seeds, mix
from headrace.ops.bucket import Bucket
from headrace.ops.choose import Choose, Pick
from headrace.ops.filter import truth
from headrace.ops.group_by_window import GroupByWindow
from headrace.ops.ignore_errors import IgnoreErrors
from headrace.ops.padded_batch import PaddedBatch
from headrace.ops.ragged_batch import RaggedBatch, fixed
from headrace.ops.rebatch import Rebatch, no_rows
from headrace.ops.rejection_resample import RejectionResample
from headrace.ops.scan import Scan
from headrace.ops.take_while import TakeWhile
from headrace.ops.unbatch import Unbatch, unequal
from headrace.ops.unique import Unique, identity
from headrace.ops.window import Window
from headrace.plan.node import Node
from headrace.plan.spec import Spec
from headrace.plan.structure import LEAF
from headrace.ragged import Ragged
from headrace.sources.counter import RANDOM_BOUND, Counter, Random
from headrace.sources.memory import Memory

_MASK = 2**64 - 1


def _failed(group: list[Row]) -> ElementError | None:
    return next((row.value for row in group if isinstance(row.value, ElementError)), None)


def _memory(group: list[Row], spec: Spec) -> Any:
    """A dataset of these elements, one structure."""
    from headrace.dataset import Dataset

    structure = parts_of(group[0].value)[0]
    columns: list[Any] = [list(c) for c in zip(*(parts_of(row.value)[1] for row in group), strict=True)]
    return Dataset(Memory(spec, len(group), structure, columns, "window"))


@rows.register
def _(node: Counter, at: Place) -> Iterator[Row]:
    number = 0
    while True:
        yield Row((at.path, number), np.asarray(node.start + number * node.step).astype(node.dtype)[()])
        number += 1


@rows.register
def _(node: Random, at: Place) -> Iterator[Row]:
    number = 0
    while True:
        yield Row((at.path, number), np.int64(draw(node.key(at.path), number, RANDOM_BOUND)))
        number += 1


@rows.register
def _(node: Pick, at: Place) -> Iterator[Row]:
    for row in rows(node.input, at):
        share = int(row.value) / RANDOM_BOUND
        yield Row(row.id, np.int64(sum(step <= share for step in node.steps)))


@rows.register
def _(node: Choose, at: Place) -> Iterator[Row]:
    inputs = [rows(n, at.branch(p) if p else at) for n, p in zip(node.branches, node.places, strict=True)]
    *sources, choices = inputs
    ended: set[int] = set()
    for number, choice in enumerate(choices):
        if isinstance(choice.value, ElementError):
            yield choice
            continue
        index = int(choice.value)
        if not 0 <= index < len(sources):
            yield Row(choice.id, node.error(IndexError(f"choice {index} of {len(sources)} datasets"), number))
            continue
        row = None if index in ended else next(sources[index], None)
        if row is not None:
            yield Row(folded(row.id, index + 1), row.value)
            continue
        ended.add(index)
        if node.stop_on_empty or len(ended) == len(sources):
            return


@rows.register
def _(node: Scan, at: Place) -> Iterator[Row]:
    state = node.initial
    for number, row in enumerate(rows(node.input, at)):
        made = row.value
        if not isinstance(made, ElementError):
            try:
                result = node.fn(state.value, private(made))
                if not isinstance(result, tuple | list) or len(result) != 2:
                    raise TypeError(f"scan's function must return the next state and an output, not {result!r}")
                after, made = state.next(result[0]), value_of(result[1])
                state = after
            except Exception as error:
                made = node.error(error, number)
        yield Row(row.id, made)


@rows.register
def _(node: TakeWhile, at: Place) -> Iterator[Row]:
    for number, row in enumerate(rows(node.input, at)):
        made = row.value
        if not isinstance(made, ElementError):
            try:
                if not truth(call(node.predicate, private(made))):
                    return
            except Exception as error:
                made = node.error(error, number)
        yield Row(row.id, made)


@rows.register
def _(node: IgnoreErrors, at: Place) -> Iterator[Row]:
    return (row for row in rows(node.input, at) if not isinstance(row.value, ElementError | Unmade))


@rows.register
def _(node: Unique, at: Place) -> Iterator[Row]:
    seen = set()
    for row in rows(node.input, at):
        if isinstance(row.value, ElementError):
            yield row
        elif (key := identity(*parts_of(row.value))) not in seen:
            seen.add(key)
            yield row


@rows.register
def _(node: Unbatch, at: Place) -> Iterator[Row]:
    size = node.input.leading
    places = 1 if size is None else size
    for number, row in enumerate(rows(node.input, at)):
        if isinstance(row.value, ElementError):
            yield from [row] * places
            continue
        structure, leaves = parts_of(row.value)
        counts = [len(v) if isinstance(v, Ragged) or np.ndim(v) else None for v in leaves]
        if None in counts or len(set(counts)) != 1:
            yield from [Row(row.id, node.error(unequal(structure, counts), number))] * places
            continue
        path = (row.id[0] * 0x9E3779B97F4A7C15 + row.id[1]) & _MASK
        for i in range(counts[0] or 0):
            yield Row((path, i), element_of(structure, [leaf(v[i]) for v in leaves]))


@rows.register
def _(node: Rebatch, at: Place) -> Iterator[Row]:
    read = [0]
    numbered = enumerate(rows(node.input, at), 1)
    source: Iterator[Row] = (row for read[0], row in numbered)
    last: Row | None = None
    for number, size in enumerate(cycle(node.sizes)):
        if size:
            group = list(islice(source, size))
            if not group or (len(group) < size and node.drop_remainder):
                return
            made = _failed(group)
            if made is None:
                made = stacked(node, [row.value for row in group], read[0])
            last = group[-1]
            yield Row(folded(group[0].id, 3), made)
            if len(group) < size:
                return
            continue
        spec = node.input.spec
        if not spec.complete:
            if last is None:
                last = next(source, None)
                if last is None:
                    return
                source = chain([last], source)
            if isinstance(last.value, ElementError):
                yield Row((at.path, number), last.value)
                continue
            spec = Spec.of_leaves(*parts_of(last.value)).loosened()
        assert spec.structure is not None
        yield Row(folded((at.path, number), 4), element_of(spec.structure, no_rows(spec)))


@rows.register
def _(node: PaddedBatch, at: Place) -> Iterator[Row]:
    return _batches(node, at, lambda values: _padded(node, values))


@rows.register
def _(node: RaggedBatch, at: Place) -> Iterator[Row]:
    return _batches(node, at, lambda values: _ragged(node, values))


def _batches(node: Any, at: Place, assemble: Any) -> Iterator[Row]:
    source = rows(node.input, at)
    number = 0
    while group := list(islice(source, node.batch_size)):
        if len(group) < node.batch_size and node.drop_remainder:
            return
        made = _failed(group)
        if made is None:
            try:
                made = assemble([row.value for row in group])
            except SpecError as error:
                made = node.error(error, number)
        yield Row(folded(group[0].id, 3), made)
        number += 1


def _padded(node: PaddedBatch, values: list[Any]) -> Any:
    structure = parts_of(values[0])[0]
    targets = node.padding.targets(structure)
    dtypes = [getattr(v, "dtype", np.dtype(type(v))) for v in parts_of(values[0])[1]]
    fillers = node.padding.fillers(structure, dtypes)
    leaves = []
    for i, (target, filler) in enumerate(zip(targets, fillers, strict=True)):
        column = [np.asarray(parts_of(v)[1][i]) for v in values]
        if column[0].dtype.kind in "US":
            leaves.append(np.array([parts_of(v)[1][i] for v in values], object))
            continue
        sizes = [max(axis) for axis in zip(*(c.shape for c in column), strict=True)]
        if target is not None:
            wanted = [n if t is None else t for n, t in zip(sizes, target, strict=True)]
            if any(n > w for n, w in zip(sizes, wanted, strict=True)):
                raise SpecError(f"an element of length {sizes[0]} does not fit into {wanted[0]}")
            sizes = wanted
        zero: Any = 0
        if column[0].dtype == object:
            zero = b"" if any(isinstance(v, bytes) for c in column for v in c.flat) else ""
        out = np.full((len(column), *sizes), zero if filler is None else filler, column[0].dtype)
        for place, row in zip(out, column, strict=True):
            place[tuple(slice(n) for n in row.shape)] = row
        leaves.append(out)
    return element_of(structure, leaves)


def _ragged(node: RaggedBatch, values: list[Any]) -> Any:
    structure = parts_of(values[0])[0]
    known = node.input.spec.leaves if node.input.spec.structure == structure else [None] * structure.leaves
    leaves: list[Any] = []
    for i, spec in enumerate(known):
        column = [parts_of(v)[1][i] for v in values]
        if (spec is not None and fixed(spec)) or not np.ndim(column[0]):
            leaves.append(np.stack([boxed(v) for v in column]))
        else:
            leaves.append(Ragged.from_rows(column))
    return element_of(structure, leaves)


@rows.register
def _(node: Window, at: Place) -> Iterator[Row]:
    everything = list(rows(node.input, at))
    start = 0
    while start < len(everything):
        if node.drop_remainder and start + node.span > len(everything):
            return
        group = everything[start : start + node.span : node.stride]
        made = _failed(group)
        first = folded(everything[start].id, 5)
        if made is None:
            structure, leaves = parts_of(group[0].value)
            known = node.input.spec
            if known.structure != structure:
                known = Spec.of_leaves(structure, leaves).loosened()
            windows = []
            for i in range(len(leaves)):
                column = [Row(row.id, parts_of(row.value)[1][i]) for row in group]
                windows.append(_memory(column, Spec(LEAF, known.leaves[i : i + 1])))
            made = element_of(structure, windows)
        yield Row(first, made)
        start += node.shift


@rows.register
def _(node: GroupByWindow, at: Place) -> Iterator[Row]:
    def reduced(key: int, group: list[Row]) -> Iterator[Row]:
        path, number = group[0].id
        try:
            key_of_seeds = mix(node.seed.key(at.path), path, number)
            with keyed_seeds(key_of_seeds):
                made = node.reduce_func(np.int64(key), _memory(group, node.input.spec))
            if not isinstance(getattr(made, "_node", None), Node):
                raise TypeError(f"the function must return a Dataset, not {made!r}")
        except Exception as error:
            return iter([Row(group[0].id, node.error(error, numbers[group[0].id]))])
        return rows(keyed(made._node, key_of_seeds), at.branch(path, number))

    numbers: dict[tuple[int, int], int] = {}
    return _grouped(node, at, reduced, numbers)


@rows.register
def _(node: Bucket, at: Place) -> Iterator[Row]:
    def reduced(key: int, group: list[Row]) -> Iterator[Row]:
        if node.drop_remainder and len(group) < node.sizes[key]:
            return iter(())
        memory = _memory(group, node.input.spec)._node
        return rows(node._batch(memory, key, len(group)), at.branch(*group[0].id))

    return _grouped(node, at, reduced, {})


def _grouped(node: Any, at: Place, reduced: Any, numbers: dict[tuple[int, int], int]) -> Iterator[Row]:
    groups: dict[int, list[Row]] = {}
    for number, row in enumerate(rows(node.input, at)):
        if isinstance(row.value, ElementError):
            yield row
            continue
        numbers[row.id] = number
        try:
            key = node.key_of(call(node.function.fn, private(row.value)))
            size = node.size_of(key)
        except Exception as error:
            yield Row(row.id, node.error(error, number))
            continue
        groups.setdefault(key, []).append(row)
        if len(groups[key]) >= size:
            yield from reduced(key, groups.pop(key))
    for key in sorted(groups):
        yield from reduced(key, groups[key])


@rows.register
def _(node: RejectionResample, at: Place) -> Iterator[Row]:
    seen = [0] * len(node.target)
    for number, row in enumerate(rows(node.input, at)):
        if isinstance(row.value, ElementError):
            yield row
            continue
        try:
            kind = node.class_of(call(node.class_func, private(row.value)))
        except Exception as error:
            yield Row(row.id, node.error(error, number))
            continue
        seen[int(kind)] += 1
        if node.accepts(node.seed.key(at.path), number, int(kind), seen):
            yield Row(row.id, pair(kind, row.value))
