"""Rows that an object gives by number: anything with `__len__` and `__getitem__`."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from headrace.columns import Indices
from headrace.columns.block import Item, from_elements, own_leaf, scalar_block
from headrace.core.types import Component, LibraryObject
from headrace.execute.context import Context
from headrace.execute.registry import fetches, opens
from headrace.execute.stream import Stream
from headrace.ops.shared.calls import CallOutcome, with_failures
from headrace.ops.shared.gather import NumberStream
from headrace.plan.cardinality import Cardinality
from headrace.plan.display import ROW_BY_ROW
from headrace.plan.marks import At
from headrace.plan.node import Node
from headrace.plan.spec import Probe, Spec
from headrace.plan.structure import Structure, flatten


@dataclass(frozen=True, eq=False)
class MapStyle(Node):
    """Row i is `dataset[i]`; several rows come from `__getitems__` if it exists.

    `live` means that user code makes the rows. Then none is made before it is requested.
    """

    origin: str = field(repr=False)
    dataset: LibraryObject = field(repr=False)
    rows: int
    live: bool = field(repr=False, default=True)
    probe: Probe = field(repr=False, default_factory=lambda: Probe(None))

    numbered = True
    indexable = True
    positional = True

    @cached_property
    def pure(self) -> bool:
        return not self.live

    @property
    def operation(self) -> str:
        return self.origin

    def remark(self) -> str | None:
        return None if hasattr(self.dataset, "__getitems__") else f"{ROW_BY_ROW}the dataset has no __getitems__"

    def contents(self) -> tuple[object, ...]:
        return (self.dataset,)

    @property
    def spec(self) -> Spec:
        return self.probe.spec or Spec.UNKNOWN

    @property
    def cardinality(self) -> Cardinality:
        return Cardinality(self.rows)

    def outcomes(self, numbers: list[int]) -> list[CallOutcome]:
        """Return the rows with these numbers, or why there is none."""
        return self._together(numbers) or [self._one(number) for number in numbers]

    def _together(self, numbers: list[int]) -> list[CallOutcome] | None:
        """Get all rows by one call, None if that is impossible: then each is requested by itself, and may fail."""
        if len(numbers) < 2 or not hasattr(self.dataset, "__getitems__"):
            return None
        try:
            values = self.dataset.__getitems__(numbers)
            return [(True, row(value)) for value in values] if len(values) == len(numbers) else None
        except Exception:  # whichever row it was says so itself
            return None

    def _one(self, number: int) -> CallOutcome:
        try:
            return True, row(self.dataset[number])
        except Exception as error:
            return False, error


@opens(MapStyle)
def open_map_style(node: MapStyle, ctx: Context, _at: At) -> Stream:
    """Return the rows by number."""
    return NumberStream(ctx, node, node.rows, np.arange)


@fetches(MapStyle, items=True)
def fetch_map_style(node: MapStyle, ctx: Context, indices: Indices) -> list[Item]:
    """Return the rows with these numbers, with failures in their places."""
    results = node.outcomes(indices.tolist())
    ids = ctx.ids(indices)

    def good(start: int, stop: int) -> list[Item]:
        part = None if ids is None else ids[start:stop]
        return [*from_elements([value for _, value in results[start:stop]], part)]

    return with_failures(node, scalar_block(indices, ids), results, good, indices)


def row(value: object) -> tuple[Structure, list[Component]]:
    """Return an element of what a dataset gave: tensors and images are arrays, a list is a tuple."""
    structure, leaves = flatten(tuple(value) if type(value) is list else value)
    return structure, [own_leaf(_array(v)) for v in leaves]


def _array(value: Component) -> Component:
    if hasattr(value, "detach"):  # a torch tensor on any device, with or without gradients
        try:
            return value.numpy(force=True)
        except TypeError as error:
            raise TypeError(f"{error}; NumPy has no {value.dtype}, so return tensor.float()") from None
    if isinstance(value, list):
        return [_array(v) for v in value]
    return np.asarray(value) if hasattr(value, "__array_interface__") else value
