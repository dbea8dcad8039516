"""Batches that a user's function makes of a list of elements, as a DataLoader's `collate_fn` does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from headrace.columns.block import Block
from headrace.core.types import Component, Nested
from headrace.ops.shared.batching import Batching
from headrace.plan.bound import PickledByReference
from headrace.plan.spec import Spec, TensorSpec
from headrace.plan.structure import LEAF
from headrace.trace.binding import bind


class ElementList:
    """The elements of one batch, as one value that no operation looks into."""

    def __init__(self, elements: list[Component]) -> None:
        self.elements = elements

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ElementList) and repr(self.elements) == repr(other.elements)

    __hash__: ClassVar[None] = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"ElementList({self.elements!r})"


@dataclass(frozen=True, eq=False)
class ListBatch(Batching):
    """Rows as lists of elements, of whatever shapes."""

    @property
    def operation(self) -> str:
        return "batch"

    @property
    def spec(self) -> Spec:
        return Spec(LEAF, (TensorSpec((), object),))

    def assemble(self, block: Block, size: int) -> Block | str:
        elements = list(block.elements())
        lists = [ElementList(elements[start : start + size]) for start in range(0, block.rows, size)]
        ids = None if block.ids is None else block.ids[::size]
        return Block(LEAF, [lists], len(lists), None, ids)


class Collate(PickledByReference):
    """The function of `batch(collate_fn=)` as `map` calls it."""

    def __init__(self, collate_fn: Callable[[list[Nested]], object]) -> None:
        if not callable(collate_fn):
            raise TypeError(f"batch: collate_fn is a function that makes a batch of a list, not {collate_fn!r}")
        self.collate_fn: Callable[[list[Component]], Any] = bind(collate_fn, "batch")
        self.__name__: Any | str = getattr(collate_fn, "__name__", type(collate_fn).__name__)

    def __call__(self, listed: ElementList) -> Nested:
        return self.collate_fn(listed.elements)
