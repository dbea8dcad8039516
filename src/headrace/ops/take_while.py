"""The elements before the first for which a function is false."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.columns.block import Block, Item
from headrace.execute.context import Context
from headrace.execute.registry import opens
from headrace.execute.row_by_row import IsLast, Leaves, arguments_of
from headrace.execute.stream import END, Made, Stream
from headrace.ops.filter import Deciding, truth
from headrace.ops.shared.arguments import function
from headrace.ops.shared.calls import CallOutcome, call_each_row, single, with_failures
from headrace.plan.marks import At
from headrace.plan.spec import Spec
from headrace.plan.structure import Structure
from headrace.trace.function import Function

if TYPE_CHECKING:
    from headrace.dataset import Dataset
    from headrace.plan.element import Element


def take_while(self: Dataset[Element], predicate: Callable[..., object], name: str | None = None) -> Dataset[Element]:
    """Keep elements until `predicate` returns False for one.

    Args:
        predicate: Function of one element that returns True or False.
        name: Label of the operation in `explain()`, `stats()` and error messages.

    Returns:
        A new dataset.

    >>> list(hr.Dataset.range(10).take_while(lambda x: x < 3))
    [np.int64(0), np.int64(1), np.int64(2)]
    """
    fn = function("take_while", predicate, self._node.spec)
    return self._then(TakeWhile, fn, Function(fn), name=name)


@dataclass(frozen=True, eq=False)
class TakeWhile(Deciding):
    """The rows until the predicate says no."""

    endless = False

    @property
    def operation(self) -> str:
        return "take_while"


@opens(TakeWhile, calls=True)
class TakeWhileStream(Stream):
    """Read no further than the row that ends it, if reading is observable."""

    def __init__(self, node: TakeWhile, ctx: Context, at: At) -> None:
        self._node = node
        self._input = ctx.open(node.input, at.inputs)
        self._over = False

    def pull(self, want: int) -> Made:
        if not self._node.input.pure:
            return self.pull_until(want, lambda *_: False)
        item = END if self._over else self._input.pull(want)
        return self._kept(item) if isinstance(item, Block) else item

    def pull_until(self, want: int, is_last: IsLast) -> Made:
        results: list[CallOutcome] = []

        def ends(structure: Structure, leaves: Leaves) -> bool:
            if not self._node.function.text_checked and not isinstance(leaves, Exception):
                self._node.function.check_first_rows(Spec.of_leaves(structure, leaves))
            try:
                stays = truth(self._node.predicate(*arguments_of(structure, leaves)))
            except Exception as error:
                results.append((False, error))
                return True
            if stays:
                results.append((True, stays))
            self._over = not stays
            return self._over or is_last(structure, leaves)

        items = END if self._over else self._input.pull_until(want, ends)
        if items is END:
            return END
        made: list[Item] = []
        for item in items:
            if isinstance(item, Block):
                made += self._placed(item, results[: item.rows])
                del results[: item.rows]
            else:
                made.append(item)
        return made

    def _kept(self, block: Block) -> list[Item]:
        decided = single(self._node.whole(block), "b")
        if decided is not None:
            self._over = not decided.all()
            kept = int(decided.argmin()) if self._over else block.rows
            return [block.slice(0, kept)] if kept else []
        results: list[CallOutcome] = []
        for fine, value in call_each_row(self._node.predicate, block, keep=True):
            outcome: CallOutcome = (fine, value)
            if fine:
                try:
                    if not truth(value):
                        self._over = True
                        break
                except Exception as error:
                    outcome = (False, error)
            results.append(outcome)
        return self._placed(block, results)

    def _placed(self, block: Block, results: list[CallOutcome]) -> list[Item]:
        """Return the rows of a block before the one that ends the dataset; a predicate that raised is a failure."""
        head = block.slice(0, len(results))
        return with_failures(self._node, head, results, lambda a, b: [head.slice(a, b)]) if results else []
