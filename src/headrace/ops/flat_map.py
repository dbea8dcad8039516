"""Replace each element by the elements of a dataset."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from headrace.columns.block import Block
from headrace.core import keys
from headrace.core.types import UserFunction
from headrace.errors import StateError
from headrace.execute.context import Context
from headrace.execute.inputs import Input
from headrace.execute.registry import opens
from headrace.execute.row_buffer import RowBuffer
from headrace.execute.stream import END, Made, Pending, Pulled, Stream, with_more
from headrace.ops.shared.arguments import function
from headrace.ops.shared.children import OneRow, Parent, open_child
from headrace.ops.shared.row_slices import RowSlices
from headrace.ops.shared.template import BuildingNode, Template
from headrace.ops.window import Window, as_datasets
from headrace.plan.cardinality import UNKNOWN, Cardinality
from headrace.plan.marks import At, Mark, Marked, OwnMark
from headrace.plan.node import TUNING, Divides, Node
from headrace.plan.spec import Probe

if TYPE_CHECKING:
    from headrace.dataset import Dataset
    from headrace.plan.element import Element


def flat_map(self: Dataset, map_func: Callable[..., Dataset[Element]], name: str | None = None) -> Dataset[Element]:
    """Map each element to a dataset and return the elements of these datasets, one after the other.

    Args:
        map_func: Function of one element that returns a dataset.
        name: Label of the operation in `explain()`, `stats()` and error messages.

    Returns:
        A new dataset.

    >>> list(hr.Dataset.range(4).flat_map(lambda n: hr.Dataset.range(n)))
    [np.int64(0), np.int64(0), np.int64(1), np.int64(0), np.int64(1), np.int64(2)]
    """
    fn = function("flat_map", map_func, self._node.spec, mode="eager")
    return self._then(FlatMap, fn, keys.seed(None), name=name)


@dataclass(frozen=True, eq=False)
class FlatMap(BuildingNode):
    """Opens one dataset for each row."""

    input: Node
    fn: UserFunction
    seed: keys.Seed = field(repr=False, metadata=TUNING)

    probe: Probe = field(repr=False, default_factory=lambda: Probe(None))
    template: Template | RowSlices | None = field(default=None, repr=False, metadata=TUNING)
    """What the function makes of any row, if one call determines it."""

    divides = Divides.RUNS

    @cached_property
    def pure(self) -> bool:
        return self.input.pure and (self.template is not None or self.building.pure(self.input.spec))

    @property
    def operation(self) -> str:
        return "flat_map"

    def remedy(self) -> str | None:
        return "make it an interleave with num_parallel_calls=hr.AUTOTUNE"

    @property
    def cardinality(self) -> Cardinality:
        return UNKNOWN

    def asked_once(self) -> Node | None:
        """Return the node that knows what the function makes of every row, if one call determines it."""
        windows = self.input.stacked_windows() if isinstance(self.input, Window) else None
        structure = self.input.spec.structure
        if windows is None:
            slices = self.building.slices(self.input.spec)
            return None if slices is None else replace(self, template=slices, stands_for=self)
        if structure is None:
            return None
        template = Template.of(self.fn, structure, windows[1])
        return None if template is None else replace(self, input=windows[0], template=template, stands_for=self)


@dataclass(slots=True)
class Child(OwnMark):
    """The position in the dataset of a row."""

    mark: Marked


@opens(FlatMap, own=Child)
def open_flat_map(node: FlatMap, ctx: Context, at: At) -> Stream:
    """Return the rows of one dataset after the other."""
    return FlatMapStream(node, ctx, at, node.template)


class ManyAtOnce(Protocol):
    """Make the rows of many parents at once."""

    @property
    def rows(self) -> int | None:
        """Return how many rows each parent has, if known."""

    @property
    def most(self) -> int | None:
        """Return how many parents it takes at a time."""

    def fill(self, ctx: Context, parents: Block) -> Block | None:
        """Return the rows of all these parents in order; None if they must be handled one by one."""


class ParentPlace(NamedTuple):
    """The position at which a halted stream ends: before the parent `following`, and inside the child of another if
    cut.
    """

    following: int
    inside: tuple[int, Any] | None


class FlatMapStream(Stream):
    """Read one child at a time, or many windows or rows at once."""

    def __init__(self, node: Parent, ctx: Context, at: At, template: ManyAtOnce | None = None) -> None:
        self._node = node
        self._ctx = ctx
        self._stacked = isinstance(template, Template)
        self._template = None if ctx.with_ids else template
        self._rows_each = 1
        parents = ctx.with_row_ids().open(node.input, at.inputs)
        self._parents = RowBuffer(parents) if node.input.pure else parents
        self._waiting = Pending()
        self._left: Block | None = None
        self._child: Input | OneRow | None = None
        self._unseen = node.pure
        self._halted = False
        self._parent: Mark
        if at.own is not None and not self._next(at.own.mark):
            raise StateError("the input of flat_map ended before the element at which the state was taken")

    def _next(self, mark: Marked | None = None) -> bool:
        """Open the child of the next parent."""
        row = self._waiting.pull(1) if self._waiting else self._parents.pull(1)
        if row is END:
            return False
        self._parent = row.mark
        if self._stacked and isinstance(row, Block):
            row = as_datasets(row, self._node.input.inputs[0].spec)
        self._child = open_child(self._node, self._ctx, row, mark)
        return True

    def halt(self) -> ParentPlace | None:
        following = self._waiting.mark() if self._waiting else self._parents.mark()
        inside = None if self._child is None or isinstance(self._child, OneRow) else self._child.stream.halt()
        self._halted = True
        return ParentPlace(following.ordinal, None if inside is None else (self._parent.ordinal, inside))

    def _close_child(self) -> None:
        if self._child is not None:
            self._child.close()
            self._child = None

    def _at_once(self, want: int) -> Block | None:
        """Return the rows of as many parents as are wanted; keep the parents pending if that is impossible."""
        template = self._template
        if template is None or self._waiting:
            return None
        each = template.rows or (self._rows_each if self._node.input.pure else want)
        count = -(-want // each)
        parents = self._parents.pull(count if template.most is None else min(count, template.most))
        if parents is END:
            return None
        made = template.fill(self._ctx, parents) if isinstance(parents, Block) else None
        if made is None:
            self._waiting.add([parents])
            return None
        self._rows_each = max(1, made.rows // parents.rows)
        made.mark = parents.mark
        return made

    def pull(self, want: int) -> Made:
        """Return the next rows; if reading is unobservable, those of many small children at once."""
        item = self._pull(want)
        return with_more(item, want, self._pull) if self._unseen else item

    def _pull(self, want: int) -> Pulled:
        left, self._left = self._left, None
        if left is not None:
            return left
        while True:
            if self._child is not None:
                item = self._child.pull(want)
                if item is not END:
                    item.own, item.mark = Child(item.mark), self._parent
                    return item
                self._close_child()
            if self._halted:
                return END
            made = self._at_once(want)
            if made is None:
                if not self._next():
                    return END
            elif made.rows:
                return made

    def skip(self, count: int, *, replay: bool = False) -> int:
        if self._left is not None:  # it is pulled
            return 0
        done = 0
        while done < count:
            made = self._at_once(count - done) if self._child is None else None
            if made is not None:
                passed = min(made.rows, count - done)
                self._left = made.cut(passed, made.rows) if passed < made.rows else None
                done += passed
                continue
            if self._child is None and not self._next():
                break
            assert self._child is not None
            done += self._child.skip(count - done, replay=replay)
            if done < count:
                self._close_child()
        return done
