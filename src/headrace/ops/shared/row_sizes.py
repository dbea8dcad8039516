"""The sizes of rows: a function's result, the length of a component, or the number that it holds."""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace.columns import Column, Indices, values
from headrace.columns.block import Block, leaf
from headrace.core.ragged import Ragged
from headrace.core.types import AnyFunction, Component
from headrace.errors import SpecError
from headrace.ops.shared.arguments import function
from headrace.ops.shared.calls import results
from headrace.plan.spec import Spec
from headrace.plan.structure import Structure
from headrace.trace.function import Function

Size = int | float | Exception
"""How large a row is, or why that is not known."""


def size_arguments(operation: str, what: str, given: object, spec: Spec) -> tuple[AnyFunction | None, Any]:
    """A function, or the key of a component, of which a user gave one; None and None for the only component."""
    if callable(given):
        return function(operation, given, spec), None
    structure = spec.structure
    if structure is None:  # an element determines it
        return None, given
    if given is None and structure.kind is not None:
        raise SpecError(f"{operation} must know what is counted: give {what} as one of {list(structure.keys)}")
    if given is not None:
        leaf_number(operation, structure, given)
    return None, given


def leaf_number(operation: str, structure: Structure, key: object) -> int:
    """Which leaf a component is; the only one if the key is None."""
    if key is None:
        if structure.kind is not None:
            raise SpecError(f"{operation}: the element has components {list(structure.keys)}, not one")
        return 0
    if structure.kind is None or key not in structure.keys:
        known = list(structure.keys) if structure.kind is not None else "no components"
        raise SpecError(f"{operation}: there is no component {key!r}, the elements have {known}")
    place = structure.keys.index(key)
    if structure.children[place].kind is not None:
        raise SpecError(f"{operation}: the component {key!r} has components of its own; give a function")
    return sum(child.leaves for child in structure.children[:place])


def lengths_of(column: Column) -> Indices | None:
    """How long the first axis of each row is; None if one has no axis."""
    if isinstance(column, Ragged):
        return column.row_lengths()
    if isinstance(column, np.ndarray):
        return np.full(len(column), column.shape[1], np.int64) if column.ndim > 1 else None
    found = list(values(column))
    if not all(isinstance(row, Ragged) or np.ndim(row) for row in found):
        return None
    return np.array([len(row) for row in found], np.int64)


def size_of_component(value: Component) -> Component:
    """The length of a component, or the number that it is."""
    if isinstance(value, Ragged) or np.ndim(value) or isinstance(value, str | bytes):
        return len(value)
    return value


def checked_size(value: object, kinds: str) -> int | float:
    """A size as a number: an integer of at least 0; any number where `kinds` allow it."""
    size = leaf(value)
    if not isinstance(size, np.number | np.bool_) or size.dtype.kind not in kinds:
        wanted = "an integer" if "f" not in kinds else "a number"
        raise SpecError(f"the size of a row must be {wanted}, not {size!r}")
    if not size >= 0 or not np.isfinite(size):
        raise ValueError(f"the size of a row must be at least 0, not {size!r}")
    number: int | float = size.item()
    return number


def row_sizes(operation: str, sized: Function | None, key: object, block: Block, kinds: str = "iu") -> list[Size]:
    """How large the rows of a block are."""
    if sized is None:
        return _component_sizes(operation, key, block, kinds)
    made: list[Size] = []
    for fine, value in results(sized, block, kinds):
        try:
            made.append(checked_size(value, kinds) if fine else value)
        except Exception as error:
            made.append(error)
    return made


def _component_sizes(operation: str, key: object, block: Block, kinds: str) -> list[Size]:
    try:
        column = block.columns[leaf_number(operation, block.structure, key)]
    except SpecError as error:
        return [error] * block.rows
    lengths = lengths_of(column)
    if lengths is not None:
        return list(lengths.tolist())
    made: list[Size] = []
    for value in values(column):
        try:
            made.append(checked_size(size_of_component(value), kinds))
        except Exception as error:
            made.append(error)
    return made
