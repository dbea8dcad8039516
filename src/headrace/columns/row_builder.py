"""A fast path for values that match the signature exactly, or have the types and shapes of the previous one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from headrace.columns import Column, copy_in_order
from headrace.columns.block import Block, Ids
from headrace.columns.dense import MIN_LAYOUT_CHECK_BYTES, copy_into, pooled
from headrace.core.types import Component, DType
from headrace.plan.spec import Spec, TensorSpec
from headrace.plan.structure import Structure

PYTHON: dict[DType, type] = {np.dtype(np.int64): int, np.dtype(np.float64): float, np.dtype(bool): bool}
"""Python numbers that are kept unchanged."""
INTEGER_BOUND = 1 << 63
MAX_ROOM_BYTES = 4 << 20
"""How many bytes of rows are allocated at a time."""


class ExactValues:
    """Detect elements that match a signature of numbers exactly.

    Anything else is checked in detail to see whether it can be converted.
    """

    def __init__(self, structure: Structure, wanted: list[tuple[type, DType, tuple[int, ...]]]) -> None:
        self.structure = structure
        self.wanted = wanted
        self.row_bytes: int = sum(dtype.itemsize * int(np.prod(shape)) for _, dtype, shape in wanted)
        self._keys = structure.keys if structure.kind is dict else None
        self._single = structure.kind is None

    @staticmethod
    def of(spec: Spec) -> ExactValues | None:
        """Return None if the signature leaves something open, or nests."""
        known = all(isinstance(s, TensorSpec) and s.shape is not None and None not in s.shape for s in spec.leaves)
        if spec.structure is None or not known:
            return None
        return _exact(spec.structure, [(s.dtype, tuple(n or 0 for n in s.shape or ())) for s in spec.leaves])

    @staticmethod
    def like(structure: Structure, leaves: list[Component]) -> ExactValues | None:
        """Return a builder for elements like this one; None unless its components are arrays and NumPy scalars."""
        plain = all(isinstance(leaf, np.ndarray | np.generic) for leaf in leaves)
        return _exact(structure, [(leaf.dtype, leaf.shape) for leaf in leaves]) if plain else None

    def rows(self, want: int) -> ExactRows:
        """Allocate room for `want` rows, or a sensible number."""
        return ExactRows(self, max(1, min(want, MAX_ROOM_BYTES // max(1, self.row_bytes))))

    def parts(self, value: object) -> Iterable[Any]:
        """Return the components as they came, empty if their number or names differ from the signature."""
        if self._single:
            return (value,)
        if self._keys is None:
            return value if type(value) is tuple and len(value) == len(self.wanted) else ()
        if type(value) is not dict or len(value) != len(self._keys):
            return ()
        return map(value.get, self._keys)  # None is not a number

    def leaves(self, value: object) -> list[Component] | None:
        """Return the components, arrays copied; None if one does not match exactly."""
        made = []
        for part, wanted in zip(self.parts(value), self.wanted, strict=False):
            if not _fits(part, *wanted):
                return None
            made.append(_own(part, wanted[1]))
        return made if len(made) == len(self.wanted) else None


def _fits(part: Component, python: type, dtype: DType, shape: tuple[int, ...]) -> bool:
    kind = type(part)
    if shape:
        return kind is np.ndarray and (part.dtype is dtype or part.dtype == dtype) and part.shape == shape
    return kind is dtype.type or (kind is python and (kind is float or -INTEGER_BOUND < part < INTEGER_BOUND))


def _exact(structure: Structure, wanted: list[tuple[DType | None, tuple[int, ...]]]) -> ExactValues | None:
    if structure.kind not in (None, dict, tuple) or any(child.kind for child in structure.children):
        return None
    known = [(PYTHON.get(d, d.type), d, shape) for d, shape in wanted if d is not None and _is_plain(d)]
    return ExactValues(structure, known) if len(known) == len(wanted) else None


def _is_plain(dtype: DType) -> bool:
    return dtype.kind in "biufc" and dtype.isnative and dtype.metadata is None


def _own(part: object, dtype: DType) -> Component:
    if type(part) is not np.ndarray:
        return part if type(part) is dtype.type else dtype.type(part)
    return part.copy() if part.nbytes < MIN_LAYOUT_CHECK_BYTES else copy_in_order(part)


class ExactRows:
    """Copy elements, one by one, into columns."""

    def __init__(self, exact: ExactValues, room: int) -> None:
        self.room = room
        self.count: int = 0
        self._exact = exact
        self._columns = [pooled((room, *shape), dtype) for _, dtype, shape in exact.wanted]
        self._places = [
            (column, *((np.ndarray, np.ndarray) if shape else (dtype.type, python)), dtype, shape)
            for column, (python, dtype, shape) in zip(self._columns, exact.wanted, strict=True)
        ]
        self._small = exact.row_bytes < MIN_LAYOUT_CHECK_BYTES
        single = exact.structure.kind is None
        self._shape = exact.wanted[0][2] if single else ()
        self._array = self._columns[0] if self._shape else None
        self._number = exact.wanted[0][1].type if single and not self._shape else None

    def add(self, value: object) -> bool:
        """Copy an element. Return False if it does not match exactly."""
        i = self.count
        array = self._array
        if array is not None:  # the common case, in few steps
            if type(value) is not np.ndarray or value.shape != self._shape or value.dtype != array.dtype:
                return False
            if self._small:
                array[i] = value
            else:
                copy_into(value, array[i])
        elif type(value) is self._number:
            self._columns[0][i] = value
        elif not self._add_parts(i, value):
            return False
        self.count = i + 1
        return True

    def _add_parts(self, i: int, value: object) -> bool:
        """Add the components like `_fits`, inlined: there are many calls."""
        column = None
        for part, (column, kind, python, dtype, shape) in zip(self._exact.parts(value), self._places, strict=False):
            if type(part) is kind:
                if shape and ((part.dtype is not dtype and part.dtype != dtype) or part.shape != shape):
                    return False
            elif type(part) is not python or not (python is float or -INTEGER_BOUND < part < INTEGER_BOUND):
                return False
            if not shape or self._small:
                column[i] = part
            else:
                copy_into(part, column[i])
        return column is not None

    def block(self, ids: Ids | None = None) -> Block:
        """Return the rows so far, without room for many more."""
        columns: list[Column] = [c[: self.count] for c in self._columns]
        if 2 * self.count < self.room:
            columns = [c.copy() for c in columns if isinstance(c, np.ndarray)]
        return Block(self._exact.structure, columns, self.count, None, ids)
