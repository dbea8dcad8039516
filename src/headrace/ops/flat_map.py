"""Replace each element by the elements of a dataset."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from headrace import keys
from headrace.block import Mark
from headrace.errors import StateError
from headrace.execute.context import Context, Input
from headrace.execute.stream import END, Pulled, Stream
from headrace.ops.arguments import function
from headrace.ops.children import OneFailure, Parent, open_child
from headrace.plan.cardinality import UNKNOWN, Cardinality
from headrace.plan.node import TUNING, Node
from headrace.plan.spec import Probe, Spec

if TYPE_CHECKING:
    from headrace.dataset import Dataset


def flat_map(self: Dataset, map_func: Callable[..., Dataset], *, name: str | None = None) -> Dataset:
    """The elements of the datasets that `map_func` makes of each element, one dataset after the other.

    >>> list(hr.Dataset.range(4).flat_map(lambda n: hr.Dataset.range(n)))
    [np.int64(0), np.int64(0), np.int64(1), np.int64(0), np.int64(1), np.int64(2)]
    """
    return self._then(FlatMap, function("flat_map", map_func, self._node.spec), keys.seed(None), name=name)


@dataclass(frozen=True, eq=False)
class FlatMap(Node):
    """Opens one dataset for each row."""

    input: Node
    fn: Callable[..., Any]
    seed: keys.Seed = field(repr=False, metadata=TUNING)

    probe: Probe = field(repr=False, default_factory=lambda: Probe(None))

    pure = False

    @property
    def operation(self) -> str:
        return "flat_map"

    @property
    def spec(self) -> Spec:
        return self.probe.spec or Spec.UNKNOWN

    @property
    def cardinality(self) -> Cardinality:
        return UNKNOWN

    def open(self, ctx: Context, mark: Mark) -> Stream:
        return FlatMapStream(self, ctx, mark)


class FlatMapStream(Stream):
    """One child at a time; the mark is the parent's and, within it, the child's."""

    def __init__(self, node: Parent, ctx: Context, mark: Mark) -> None:
        self._node = node
        self._ctx = ctx
        parent, inner = mark or (None, None)
        self._parents = ctx.open(node.input, parent, with_ids=True)
        self._child: Input | OneFailure | None = None
        self._parent: Mark = None
        if mark is not None and not self._next(inner):
            raise StateError("the input of flat_map ended before the element where the state was taken")

    def _next(self, mark: Mark = None) -> bool:
        """Open the child of the next parent."""
        if self._child is not None:
            self._child.close()
            self._child = None
        row = self._parents.pull(1)
        if row is END:
            return False
        self._parent = row.mark
        self._child = open_child(self._node, self._ctx, row, mark)
        return True

    def pull(self, want: int) -> Pulled:
        while self._child is not None or self._next():
            assert self._child is not None
            item = self._child.pull(want)
            if item is not END:
                item.mark = (self._parent, item.mark)
                return item
            if not self._next():
                break
        return END

    def skip(self, count: int, *, replay: bool = False) -> int:
        done = 0
        while done < count and (self._child is not None or self._next()):
            assert self._child is not None
            done += self._child.skip(count - done, replay=replay)
            if done < count and not self._next():
                break
        return done
