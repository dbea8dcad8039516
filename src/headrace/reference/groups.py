"""What the operations share that make several rows into one, or one into several."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from headrace.core.types import AnyFunction, Component, Nested
from headrace.errors import ElementError, SpecError
from headrace.indexed.memory import Memory
from headrace.plan.datasets import dataset_of
from headrace.plan.node import AnyNode
from headrace.plan.spec import Spec
from headrace.reference.base import Place, Row, call, fold_id, parts_of, private_copy, rows


def first_error(group: list[Row]) -> ElementError | None:
    """Return the first error among these rows, which is that of all."""
    return next((row.value for row in group if isinstance(row.value, ElementError)), None)


def window_of(group: list[Row], spec: Spec) -> Nested:
    """Return a dataset of these elements, one structure."""
    structure = parts_of(group[0].value)[0]
    columns: list[Component] = [list(c) for c in zip(*(parts_of(row.value)[1] for row in group), strict=True)]
    return dataset_of(Memory(spec, len(group), structure, columns, "window"))


def batches_of(node: AnyNode, at: Place, assemble: AnyFunction) -> Iterator[Row]:
    """Yield what `assemble` makes of the elements of each batch."""
    source = rows(node.input, at)
    number = 0
    while group := list(islice(source, node.batch_size)):
        if len(group) < node.batch_size and node.drop_remainder:
            return at.drop(group)
        made = first_error(group)
        if made is None:
            try:
                made = assemble([row.value for row in group])
            except SpecError as error:
                made = node.error(error, number)
        yield Row(fold_id(group[0].id, 3), made)
        number += 1


def groups_of(node: AnyNode, at: Place, reduced: AnyFunction, numbers: dict[tuple[int, int], int]) -> Iterator[Row]:
    """Yield what `reduced` makes of the rows of one key, once there are enough; at the end, of what is left."""
    groups: dict[int, list[Row]] = {}
    for number, row in enumerate(rows(node.input, at)):
        if isinstance(row.value, ElementError):
            yield row
            continue
        numbers[row.id] = number
        try:
            key = node.key_of(call(node.function.fn, private_copy(row.value)))
            size = node.size_of(key)
        except Exception as error:
            yield Row(row.id, node.error(error, number))
            continue
        groups.setdefault(key, []).append(row)
        if len(groups[key]) >= size:
            yield from reduced(key, groups.pop(key))
    for key in sorted(groups):
        yield from reduced(key, groups[key])
