"""Elements in memory: `from_tensors` and `from_tensor_slices`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from headrace.columns import Column, Indices, read_only, take, text_column
from headrace.columns.block import Block, leaf
from headrace.core.ragged import Ragged
from headrace.execute.context import Context
from headrace.execute.registry import fetches, opens
from headrace.execute.stream import Stream
from headrace.indexed.aliasing import SharedArrays, shared_arrays
from headrace.indexed.numbered import Held, NumberedStream
from headrace.plan.datasets import dataset_of
from headrace.plan.marks import At
from headrace.plan.node import TUNING, user_site
from headrace.plan.spec import LeafSpec, Spec, TensorSpec, leaf_spec
from headrace.plan.structure import Structure, flatten

if TYPE_CHECKING:
    from headrace.dataset import Dataset


def from_tensors(tensors: object, name: str | None = None) -> Dataset:
    """Return a dataset of a single element.

    Args:
        tensors: Arrays, numbers or text, or a nested structure of these.
        name: Label of the operation in `explain()`, `stats()` and error messages.

    Returns:
        A new dataset.

    >>> list(hr.Dataset.from_tensors({"x": [1, 2], "y": 3}))
    [{'x': array([1, 2]), 'y': np.int64(3)}]
    """
    structure, given = flatten(tensors)
    leaves = [leaf(v) for v in given]
    columns: list[Column] = [_single(v) for v in leaves]
    spec = Spec(structure, tuple(leaf_spec(v) for v in leaves))
    shared = shared_arrays(structure.paths, given, columns)
    wide = python_numbers(structure.paths, given, leaves)
    return dataset_of(Memory(spec, 1, structure, columns, "from_tensors", shared, wide, site=user_site(), name=name))


def from_tensor_slices(tensors: object, name: str | None = None) -> Dataset:
    """Return a dataset of the slices of arrays along their first axis.

    The arrays are not copied: later writes to them change the elements, which the next pass reports with a warning.
    Python numbers become int64 and float64, as in NumPy.

    Args:
        tensors: Arrays, numbers or text, or a nested structure of these.
        name: Label of the operation in `explain()`, `stats()` and error messages.

    Returns:
        A new dataset.

    >>> for element in hr.Dataset.from_tensor_slices({"x": [[1, 2], [3, 4]], "name": ["a", "b"]}):
    ...     print(element)
    {'x': array([1, 2]), 'name': 'a'}
    {'x': array([3, 4]), 'name': 'b'}
    """
    structure, leaves = flatten(tensors)
    if not leaves:
        raise ValueError("from_tensor_slices needs at least one array to slice")
    columns: list[Column] = []
    specs: list[LeafSpec] = []
    sizes: list[int] = []
    for path, value in zip(structure.paths, leaves, strict=True):
        try:
            array = leaf(value)
        except ValueError as error:
            raise ValueError(f"from_tensor_slices: component{path} is not an array: {error}") from None
        if isinstance(array, Ragged):
            specs.append(TensorSpec(array.shape[1:], array.dtype))
            sizes.append(len(array))
            columns.append(read_only(array))
            continue
        if isinstance(array, np.ndarray) and not array.dtype.isnative:
            array = array.astype(array.dtype.newbyteorder("="))
        if not isinstance(array, np.ndarray):
            raise ValueError(f"from_tensor_slices: component{path} is a scalar, {array!r}; there is nothing to slice")
        specs.append(leaf_spec(array).with_shape(array.shape[1:]))
        sizes.append(len(array))
        columns.append(
            read_only(text_column(array.tolist()))
            if array.dtype == object and array.ndim == 1 and len(array)
            else read_only(array)
        )
    if len(set(sizes)) > 1:
        found = ", ".join(f"component{path} has {n}" for path, n in zip(structure.paths, sizes, strict=True))
        raise ValueError(f"from_tensor_slices needs arrays of one length: {found}")
    spec = Spec(structure, tuple(specs))
    shared = shared_arrays(structure.paths, leaves, columns)
    wide = python_numbers(structure.paths, leaves, columns)
    node = Memory(spec, sizes[0], structure, columns, "from_tensor_slices", shared, wide, site=user_site(), name=name)
    return dataset_of(node)


def python_numbers(paths: Sequence[str], given: Sequence[object], made: Sequence[object]) -> str:
    """Return which components are of 64 bits because Python numbers are: tf.data makes int32 and float32 of them."""
    found = []
    for path, value, column in zip(paths, given, made, strict=True):
        first = value
        while isinstance(first, list | tuple) and first:
            first = first[0]
        dtype = getattr(column, "dtype", None)
        if type(first) in (int, float, complex) and dtype in (np.int64, np.float64, np.complex128):
            found.append(f"{path} {dtype}".strip())
    return f"Python numbers: {', '.join(found)}" if found else ""


def _single(value: object) -> Column:
    if isinstance(value, np.ndarray):
        return read_only(value[None])
    return np.array([value], value.dtype) if isinstance(value, np.generic) else [value]


@dataclass(frozen=True, eq=False)
class Memory(Held):
    """Rows kept as columns."""

    structure: Structure = field(repr=False)
    columns: list[Column] = field(repr=False)
    origin: str = field(repr=False)
    shared: SharedArrays | None = field(default=None, repr=False, metadata=TUNING)
    """Arrays of the user's that the columns are views of."""
    wide: str = field(default="", repr=False, metadata=TUNING)
    """Which components are of 64 bits because they were Python numbers."""

    fallible = False

    @property
    def operation(self) -> str:
        return self.origin

    def contents(self) -> tuple[object, ...]:
        return tuple(self.columns)

    def remark(self) -> str | None:
        return self.wide or None

    def begin_pass(self) -> None:
        if self.shared is not None:
            self.shared.warn_if_changed(self.operation, self.site or "")


@opens(Memory)
def open_memory(node: Memory, ctx: Context, _at: At) -> Stream:
    """Return the rows as views."""

    def read(start: int, stop: int) -> Block:
        columns = [c[start:stop] for c in node.columns]
        return Block(node.structure, columns, stop - start, None, ctx.ids_between(start, stop))

    return NumberedStream(node, read)


@fetches(Memory)
def fetch_memory(node: Memory, ctx: Context, indices: Indices) -> Block:
    """Return rows, copied."""
    columns = [take(c, indices) for c in node.columns]
    return Block(node.structure, columns, len(indices), None, ctx.ids(indices))
