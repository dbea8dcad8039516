"""What all adapters share: a dataset as an iterable of a framework's own arrays, measured, saved and resumed."""

from __future__ import annotations

import importlib
import weakref
from collections.abc import Callable
from collections.abc import Iterator as PythonIterator
from dataclasses import dataclass, field, replace
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self

from headrace import _native
from headrace.block import Block, Failure, Item
from headrace.execute import state as states
from headrace.execute.context import Context
from headrace.execute.parallel import read_ahead
from headrace.execute.registry import opens
from headrace.execute.starvation import Meter
from headrace.execute.stats import Stats
from headrace.execute.stream import END, Made, Source, Stream
from headrace.execute.workers import Task
from headrace.iterator import Epochs, Iterator, Refused, Undelivered
from headrace.ops.even_shard import EvenShard
from headrace.ops.prefetch import Prefetch
from headrace.ops.shard import Shard
from headrace.ops.unchanged_rows import PassThrough
from headrace.plan.explain import summary
from headrace.plan.marks import At
from headrace.plan.node import Ahead, Node, user_site
from headrace.plan.structure import Structure

if TYPE_CHECKING:
    from headrace.dataset import Dataset


def framework(name: str, wanted_by: str) -> Any:
    """Import a framework, or say which extra brings it."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != name.partition(".")[0]:
            raise
        extra = name.partition(".")[0]
        raise ModuleNotFoundError(
            f"{wanted_by} needs {extra}, which is not installed: pip install 'headrace[{extra}]'", name=error.name
        ) from None


LOTS = 8
"""So many elements that another process has ready are taken over at a time, if it was not said how many it may have."""


class Target(Protocol):
    """Where elements go. One target serves one pass."""

    name: str
    ahead: int
    """How many elements a thread has ready; 0 makes each when it is asked for."""
    copies: bool
    """Whether nothing that was converted needs the arrays any more that it was made of."""

    def meter(self) -> Meter:
        """What counts the consumer's waiting."""

    def check(self, structure: Structure) -> None:
        """Refuse elements of a structure that does not fit what was asked for."""

    def convert(self, block: Block) -> Block:
        """The elements as the framework wants them."""

    def deliver(self, element: Any) -> Any:
        """What the consumer gets, on its own thread."""

    def close(self) -> None:
        """Let go of buffers."""


class PlainTarget:
    """A target that gives elements as they are; a subclass says what it does besides."""

    name = "feed"
    copies = False

    def __init__(self, ahead: int = 2) -> None:
        self.ahead = ahead

    def meter(self) -> Meter:
        """Waiting shows in the time of the calls."""
        return Meter(watch=True)

    def check(self, structure: Structure) -> None:
        """Any will do."""

    def convert(self, block: Block) -> Block:
        """The same rows."""
        return block

    def deliver(self, element: Any) -> Any:
        """Nothing is left to do."""
        return element

    def close(self) -> None:
        """There are no buffers."""


def _without_prefetch(node: Node) -> Node:
    """What a prefetch of any depth reads: where a thread converts ahead, another one before it only passes rows on."""
    while isinstance(node, Prefetch) and node.mode == "thread" and node.buffer_size is None:
        node = node.input
    return node


@dataclass(frozen=True, eq=False)
class Adapted(PassThrough):
    """The input's rows, converted; a state does not know of it."""

    target: Target = field(kw_only=True, repr=False)

    indexable = False

    @property
    def operation(self) -> str:
        return self.target.name

    @property
    def ahead(self) -> Ahead:
        return Ahead.RUNS  # or its target wants every element to be made when it is asked for

    def convert(self, item: Item) -> list[Item]:
        """An item with its rows converted, failures in the places of those that cannot be; a failure stays one."""
        if isinstance(item, Failure):
            return [item]
        self.target.check(item.structure)
        try:
            made = self.target.convert(item)
        except (TypeError, ValueError) as error:  # of the values; a device that fails is not an element's fault
            if item.rows == 1:
                return [Failure(self.error(error, item.mark.ordinal), item.mark)]
            return [one for i in range(item.rows) for one in self.convert(item.slice(i, i + 1))]
        made.mark, made.ids = item.mark, item.ids
        return [made]


@opens(Adapted)
def open_adapted(node: Adapted, ctx: Context, at: At) -> Stream:
    """Rows converted on a thread, or when they are asked for.

    Those that another process makes are there when they are asked for: a thread would take Python's lock from the
    consumer to convert a few, and is started only where that is seen to help.
    """
    ahead, tuned, lots = node.target.ahead, None, 1
    rows = _without_prefetch(node.input) if ahead else node.input
    if isinstance(rows, Prefetch) and rows.mode == "process":
        tuned, lots = "hand-over", rows.buffer_size or LOTS
        rows = replace(rows, lent=node.target.copies)
    if ahead:
        return read_ahead(ctx, rows, at.inputs, rows=ahead, task=Task(node.convert, lots=lots), if_it_helps=tuned)
    return AdaptedStream(node, ctx.open(rows, at.inputs, any_order=True))


class AdaptedStream(Stream):
    """Converts what it is asked for, when it is asked."""

    def __init__(self, node: Adapted, rows: Source) -> None:
        self._node = node
        self._input = rows

    def pull(self, want: int) -> Made:
        item = self._input.pull(want)
        return END if item is END else self._node.convert(item)

    def skip(self, count: int, *, replay: bool = False) -> int:
        return self._input.skip(count, replay=replay)


class Feed:
    """A dataset on its way to a trainer: can be iterated again and again, an epoch each time, and saved.

    `state_dict()` is the place of the newest pass: what the trainer has received, whatever is staged ahead.
    """

    def __init__(self, dataset: Dataset, part: tuple[int, int] | None = None) -> None:
        self._dataset = dataset
        self._site = user_site()
        node = dataset._node
        if part is not None and part[0] > 1 and states.process_of(node) is None:
            states.require_seeds(node, "several processes share this dataset")
            node = EvenShard(node, *part, site=self._site)
        self._node: Node = node
        self._newest: Iterator | None = None
        self._resume: dict[str, Any] | None = None

    def make_target(self) -> Target:
        """Where the elements of one pass go."""
        raise NotImplementedError

    def _begin(self) -> tuple[Node, Epochs]:
        """The plan of a new pass, and the home of its epoch."""
        return self._node, self._dataset._epochs

    def _alone(self) -> bool:
        """Whether nobody else reads a share of the same epoch, so that at its end the next one may begin."""
        return True

    def _check_place_is_known(self) -> None:
        """Refuse to say where the newest pass stands if another process makes it."""

    def __iter__(self) -> FeedIterator:
        target = self.make_target()
        node, epochs = self._begin()
        plan = Adapted(node, target=target, site=self._site)
        state, self._resume = self._resume, None
        if state is not None and state["over"] and self._alone():
            epochs.restore(state)
            state = None
        deliver = partial(_hand_over, target.deliver)
        self._newest = Iterator(plan, epochs, state=state, meter=target.meter(), deliver=deliver)
        return FeedIterator(self._newest, target)

    def __len__(self) -> int:
        count = self._node.cardinality
        if not count.known:
            raise TypeError("the number of batches is not known, or infinite")
        return count

    def __bool__(self) -> bool:
        return True

    def stats(self) -> Stats:
        """The `stats()` of the newest pass."""
        return Stats(stages=[]) if self._newest is None else self._newest.stats()

    def state_dict(self) -> dict[str, Any]:
        """Where the newest pass stands, behind the last batch that it gave; before the first pass, the start."""
        self._check_place_is_known()
        if self._resume is not None:
            return self._resume
        if self._newest is None:
            node, epochs = self._begin()
            return Iterator(node, Epochs(epochs.next, epochs.seeds, sizes=epochs.sizes)).state()
        return self._newest.state()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Have the next pass go on where `state_dict()` was taken; at the end of an epoch, with the next epoch."""
        states.check(state_dict, self._begin()[0])
        self._resume = state_dict

    def __repr__(self) -> str:
        return summary(type(self).__name__, self._dataset._node)


def _hand_over(deliver: Callable[[Any], Any], element: Any) -> Any:
    """What the consumer gets for an element; the errors of a device are not the element's."""
    try:
        return deliver(element)
    except Refused:
        raise
    except Exception as error:
        raise Undelivered(error) from error


class FeedIterator(_native.Forward, PythonIterator[Any]):
    """One pass over a Feed. Closed at its end, by `close()`, at the end of a `with`, or when it is let go."""

    def __init__(self, iterator: Iterator, target: Target) -> None:
        self._iterator = self._source = iterator
        self._finalizer = weakref.finalize(self, _let_go, iterator, target)

    def __repr__(self) -> str:
        return repr(self._iterator)

    def __iter__(self) -> Self:
        return self

    def stats(self) -> Stats:
        """What each stage has done, and under "starvation" how long the consumer waited and computed."""
        return self._iterator.stats()

    def state(self) -> dict[str, Any]:
        """The place behind the last element that was given; what is staged ahead counts as not yet read."""
        return self._iterator.state()

    def restore(self, state: dict[str, Any]) -> None:
        """Go to a place that `state()` gave."""
        self._iterator.restore(state)

    state_dict = state
    load_state_dict = restore

    def close(self) -> None:
        """End the pass and free all it holds."""
        self._iterator.close()
        self._finalizer()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def _let_go(iterator: Iterator, target: Target) -> None:
    iterator.abandon()
    target.close()


def worker_part(node: Node, worker: int, workers: int, site: str) -> Node:
    """Every `workers`-th element."""
    return node if workers == 1 else Shard(node, workers, worker, site=site)
