"""Replace each element by the elements of a dataset."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from headrace import keys
from headrace.block import Block, Mark, concat
from headrace.errors import StateError
from headrace.execute.context import Context, Input
from headrace.execute.stream import END, Pending, Pulled, Stream, Unseen
from headrace.ops.arguments import function
from headrace.ops.children import OneRow, Parent, open_child
from headrace.ops.template import BuildingFunction, Template
from headrace.ops.window import as_datasets
from headrace.plan.cardinality import UNKNOWN, Cardinality
from headrace.plan.node import TUNING, Node
from headrace.plan.spec import Probe, Spec

if TYPE_CHECKING:
    from headrace.dataset import Dataset


def flat_map(self: Dataset, map_func: Callable[..., Dataset], name: str | None = None) -> Dataset:
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
    template: Template | None = field(default=None, repr=False, metadata=TUNING)
    """What the function makes of any row, where one call of it is as good as many."""

    @cached_property
    def pure(self) -> bool:
        return self.input.pure and (self.template is not None or self._building.pure(self.input.spec))

    @property
    def operation(self) -> str:
        return "flat_map"

    def remedy(self) -> str | None:
        return "make it an interleave with num_parallel_calls=hr.AUTOTUNE"

    @property
    def spec(self) -> Spec:
        return self.probe.spec or self._spec_it_builds

    @cached_property
    def tentative(self) -> bool:
        return not self.probe.promised and (self.input.tentative or not self._spec_it_builds.complete)

    @property
    def _spec_it_builds(self) -> Spec:
        return self._building.spec(self.input.spec)

    @cached_property
    def _building(self) -> BuildingFunction:
        return BuildingFunction(self.fn)

    @property
    def cardinality(self) -> Cardinality:
        return UNKNOWN

    def asked_once(self) -> Node | None:
        windows, structure = self.input.stacked_windows(), self.input.spec.structure
        if windows is None or structure is None:
            return None
        template = Template.of(self.fn, structure, windows[1])
        return None if template is None else replace(self, input=windows[0], template=template)

    def open(self, ctx: Context, mark: Mark) -> Stream:
        return FlatMapStream(self, ctx, mark, self.template)


SMALL = 64
"""Children of fewer rows are put together: a block costs as much as so many rows."""


class FlatMapStream(Stream):
    """One child at a time, or many windows at once; the mark is the parent's and, within it, the child's."""

    def __init__(self, node: Parent, ctx: Context, mark: Mark, template: Template | None = None) -> None:
        self._node = node
        self._ctx = ctx
        self._stacked = template is not None
        self._template = None if ctx.with_ids else template
        parent, inner = mark or (None, None)
        parents = ctx.open(node.input, parent, with_ids=True)
        self._parents = Unseen(parents) if node.input.pure else parents
        self._waiting = Pending(own=False)
        self._made = Pending()
        self._child: Input | OneRow | None = None
        self._unseen = node.pure
        self._parent: Mark = None
        if mark is not None and not ((not inner and self._at_once(1)) or self._next(inner)):
            raise StateError("the input of flat_map ended before the element where the state was taken")

    def _next(self, mark: Mark = None) -> bool:
        """Open the child of the next parent."""
        row = self._waiting.pull(1) if self._waiting else self._parents.pull(1)
        if row is END:
            return False
        self._parent = row.mark
        if self._stacked and isinstance(row, Block):
            row = as_datasets(row, self._node.input.inputs[0].spec)
        self._child = open_child(self._node, self._ctx, row, mark)
        return True

    def _close_child(self) -> None:
        if self._child is not None:
            self._child.close()
            self._child = None

    def _at_once(self, want: int) -> bool:
        """Make the rows of as many windows as are wanted; where that cannot be done, they wait."""
        if self._template is None or self._waiting:
            return False
        windows = self._parents.pull(-(-want // self._template.rows))
        if windows is END:
            return False
        made = self._template.fill(self._ctx, windows) if isinstance(windows, Block) else None
        if made is None:
            self._waiting.add([windows])
            return False
        made.mark = (windows.mark, 0)
        self._made.add([made])
        return True

    def pull(self, want: int) -> Pulled:
        """The next rows; where nobody can tell, those of many small children at once."""
        item = self._pull(want)
        if not self._unseen or not isinstance(item, Block) or item.rows >= min(want, SMALL):
            return item
        parts, rows = [item], item.rows
        while rows < min(want, SMALL):
            other = self._pull(want - rows)
            if not isinstance(other, Block) or other.structure != item.structure:
                if other is not END:
                    self._made.put_back(other)
                break
            parts.append(other)
            rows += other.rows
        return item if len(parts) == 1 else concat(parts)

    def _pull(self, want: int) -> Pulled:
        while not self._made:
            if self._child is not None:
                item = self._child.pull(want)
                if item is not END:
                    item.mark = (self._parent, item.mark)
                    return item
                self._close_child()
            if not self._at_once(want) and not self._next():
                return END
        return self._made.pull(want)

    def skip(self, count: int, *, replay: bool = False) -> int:
        if self._template is not None:
            return super().skip(count, replay=replay)
        done = self._made.drop(count)
        while done < count and (self._child is not None or self._next()):
            assert self._child is not None
            done += self._child.skip(count - done, replay=replay)
            if done < count:
                self._close_child()
        return done
