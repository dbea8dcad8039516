"""Apply a function of every element and a carried state."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from headrace.columns.block import Block, Failure, Item, element, from_elements
from headrace.core.types import Nested
from headrace.execute.context import Context
from headrace.execute.registry import opens
from headrace.execute.stream import END, Made, Stream
from headrace.ops.shared.arguments import bound_function
from headrace.ops.shared.calls import each, private_elements
from headrace.ops.shared.scan_state import Carried
from headrace.plan.cardinality import Cardinality
from headrace.plan.display import ROW_BY_ROW
from headrace.plan.marks import At, OwnMark
from headrace.plan.node import Node
from headrace.plan.spec import Probe, Spec
from headrace.trace.mixed_text import check_comparisons

if TYPE_CHECKING:
    from headrace.dataset import Dataset


def scan(
    self: Dataset,
    initial_state: Nested,
    scan_func: Callable[[Any, Any], tuple[object, object]],
    name: str | None = None,
) -> Dataset:
    """Call `scan_func(state, element)` for each element; it returns the next state and what comes out.

    Args:
        initial_state: State before the first element.
        scan_func: Function (state, element) that returns (new state, output).
        name: Label of the operation in `explain()`, `stats()` and error messages.

    Returns:
        A new dataset.

    >>> list(hr.Dataset.range(1, 5).scan(0, lambda total, x: (total + x, total + x)))
    [np.int64(1), np.int64(3), np.int64(6), np.int64(10)]
    """
    fn = bound_function("scan", scan_func)
    check_comparisons(fn, self._node.spec, carries=True)
    return self._then(Scan, fn, Carried.start("scan", initial_state), name=name)


@dataclass(frozen=True, eq=False)
class Scan(Node):
    """Calls the function row by row, in order."""

    input: Node
    fn: Callable[[Any, Any], tuple[Any, Any]]
    initial: Carried = field(repr=False)
    probe: Probe = field(repr=False, default_factory=lambda: Probe(None))

    pure = False
    live = True

    def remark(self) -> str | None:
        return f"{ROW_BY_ROW}each state depends on the one before"

    def contents(self) -> tuple[object, ...]:
        return self.fn, self.initial.value

    @property
    def spec(self) -> Spec:
        return self.probe.spec or Spec.UNKNOWN

    @property
    def cardinality(self) -> Cardinality:
        return self.input.cardinality


@dataclass(slots=True)
class ScanMark(OwnMark):
    """The state before a row."""

    state: Carried

    rereads = False


@opens(Scan, own=ScanMark)
class ScanStream(Stream):
    """Calls the function on one row after the other."""

    def __init__(self, node: Scan, ctx: Context, at: At) -> None:
        self._node = node
        self._input = ctx.open(node.input, at.inputs)
        self._state = node.initial if at.own is None else node.initial.like(at.own.state)

    def pull(self, want: int) -> Made:
        item = self._input.pull(want)
        if item is END:
            return END
        if isinstance(item, Failure):
            item.own = ScanMark(self._state)
            return item
        rows = enumerate(each(private_elements(item)))
        return [self._one(item.slice(i, i + 1), fine, value) for i, (fine, value) in rows]

    def _one(self, row: Block, fine: bool, value: Nested) -> Item:
        own = ScanMark(self._state)
        try:
            if not fine:
                raise value
            result = self._node.fn(self._state.value, value)
            if not isinstance(result, tuple | list) or len(result) != 2:
                raise TypeError(f"scan's function must return the next state and an output, not {result!r}")
            state, made = self._state.next(result[0]), element(result[1])
        except Exception as error:
            return Failure(self._node.error(error, row.mark.ordinal), row.mark, own)
        self._state = state
        (block,) = from_elements([made], row.ids)
        block.mark, block.own = row.mark, own
        return block
