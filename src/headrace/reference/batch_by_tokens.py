"""What `batch_by_tokens` means."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from headrace.core.keys import mix_key
from headrace.core.types import Component
from headrace.errors import ElementError
from headrace.ops.batch_by_tokens import BatchByTokens
from headrace.ops.padded_batch import PaddedBatch, Padding
from headrace.ops.ragged_batch import RaggedBatch
from headrace.ops.shared.row_sizes import checked_size, leaf_number, size_of_component
from headrace.plan.node import Node
from headrace.reference.base import Place, Row, call, fold_id, parts_of, private_copy, rows
from headrace.reference.batch import stack_elements
from headrace.reference.groups import window_of


@rows.register
def _(node: BatchByTokens, at: Place) -> Iterator[Row]:
    source = enumerate(rows(node.input, at))
    ended = False
    while not ended:
        start: int | None = None
        window: list[tuple[int, int, Row]] = []
        while len(window) < node.window:
            number, row = next(source, (None, None))
            if number is None or row is None:
                ended = True
                break
            start = number if start is None else start
            found = _length(node, number, row)
            if isinstance(found, ElementError):
                yield Row(row.id, found)
            else:
                window.append((found, number, row))
        groups = _groups(node, window, drop_last=ended and node.drop_remainder)
        drawn = sorted(range(len(groups)), key=lambda i: mix_key(at.path, start or 0, i))
        for i in sorted(drawn, key=lambda i: len(groups[i]) != node.limits.group):
            for batch in groups[i]:
                yield _batch(node, at, batch)


def _length(node: BatchByTokens, number: int, row: Row) -> int | ElementError:
    if isinstance(row.value, ElementError):
        return row.value
    try:
        if node.function is not None:
            found = call(node.function.fn, private_copy(row.value))
        else:
            structure, leaves = parts_of(row.value)
            found = size_of_component(leaves[leaf_number(node.operation, structure, node.key)])
        length = int(checked_size(found, "iu"))
        error = node.too_long(length)
        if error is not None:
            raise error
    except Exception as error:
        return node.error(error, number)
    return length


Sized = tuple[int, int, Row]


def _groups(node: BatchByTokens, window: list[Sized], *, drop_last: bool) -> list[list[list[Sized]]]:
    """The longest rows first, as many as fit, in batches of the same number of rows."""
    limits = node.limits
    left = sorted(window, key=lambda sized: -sized[0])
    made: list[list[list[Sized]]] = []
    while left:
        fit = 0
        while fit < (limits.max_rows or len(left) + 1):
            lengths = [length for length, _, _ in left[: fit + 1]]
            if (sum(lengths) if limits.packed else limits.padded(lengths[0]) * (fit + 1)) > limits.budget:
                break
            fit += 1
        if limits.padded(left[0][0]) and not limits.packed:
            fit = min(limits.max_rows or limits.budget, limits.budget // limits.padded(left[0][0]))
        if len(left) < fit * limits.group and drop_last:
            break
        even = min(fit, len(left) // limits.group)
        if not even:
            made.append([left[i : i + fit] for i in range(0, len(left), fit)])
            break
        made.append([left[i * even : (i + 1) * even] for i in range(limits.group)])
        left = left[even * limits.group :]
    return made


def _batch(node: BatchByTokens, at: Place, batch: list[Sized]) -> Row:
    group = [row for _, _, row in batch]
    number = batch[0][1]
    if len({parts_of(row.value)[0] for row in group}) > 1:
        made: Component = stack_elements(node, [row.value for row in group], number)
        return Row(fold_id(group[0].id, 3), made)
    memory = window_of(group, node.input.spec)._node
    (row,) = rows(_batching(node, memory, group), at)
    made = row.value
    if isinstance(made, ElementError):
        made = node.error(made.__cause__ or str(made), number)
    return Row(fold_id(group[0].id, 3), made)


def _batching(node: BatchByTokens, memory: Node, group: list[Row]) -> Node:
    size = len(group)
    if node.padding is None:
        return RaggedBatch(memory, size, site=node.site)
    structure, leaves = parts_of(group[0].value)
    known = node.input.spec
    shapes: list[Component] = []
    for i, leaf in enumerate(leaves):
        fixed = known.structure == structure and not node.input.tentative and known.leaves[i].shape
        if not np.ndim(leaf) or node.limits.multiple == 1 or (fixed and fixed[0] is not None):
            shapes.append(None)
            continue
        longest = max(len(parts_of(row.value)[1][i]) for row in group)
        shapes.append((node.limits.padded(longest), *(None,) * (np.ndim(leaf) - 1)))
    if all(shape is None for shape in shapes):
        return PaddedBatch(memory, size, padding=node.padding, site=node.site)
    given = [(None,) * np.ndim(leaf) if shape is None else shape for shape, leaf in zip(shapes, leaves, strict=True)]
    return PaddedBatch(memory, size, padding=Padding(structure.around(given), node.padding.values), site=node.site)
