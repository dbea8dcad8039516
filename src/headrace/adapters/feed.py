"""The base of all adapters: a dataset as an iterable of a framework's arrays, measured, saved and resumed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Iterator as PythonIterator
from dataclasses import dataclass, field, replace
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self

from headrace import _native
from headrace.columns.block import Block, Failure, Item
from headrace.core.closer import Closer
from headrace.core.deferred import Deferred
from headrace.core.types import JsonObject, Nested
from headrace.distribute.distribute import Distribute
from headrace.distribute.mixtures import adopted
from headrace.execute import state as states
from headrace.execute.context import Context
from headrace.execute.registry import opens
from headrace.execute.stages.autotune import Tuning
from headrace.execute.stages.parallel import read_ahead
from headrace.execute.stages.starvation import Meter
from headrace.execute.stages.workers import Task
from headrace.execute.stats import Stats
from headrace.execute.stream import END, Made, Source, Stream
from headrace.iterator import Epochs, Iterator, Refused, Undelivered
from headrace.ops.prefetch import Prefetch
from headrace.ops.shard import Shard
from headrace.ops.shared.unchanged_rows import PassThrough
from headrace.plan.explain import summary
from headrace.plan.marks import At
from headrace.plan.node import Ahead, Node, user_site
from headrace.plan.structure import Structure

if TYPE_CHECKING:
    from headrace.adapters.observe_feed import headroom, why_slow
    from headrace.dataset import Dataset
    from headrace.observe.verdict import Verdict
else:
    headroom = Deferred("headrace.adapters.observe_feed")
    why_slow = Deferred("headrace.adapters.observe_feed")


ELEMENTS_PER_TAKE = 8
"""How many ready elements of another process are taken at a time, unless the prefetch gives a number."""


class Target(Protocol):
    """The destination of elements. One target serves one pass."""

    name: str
    ahead: int
    """How many elements a thread has ready; 0 makes each on request."""
    copies: bool
    """Whether converted elements no longer need the arrays they were made from."""

    def meter(self) -> Meter:
        """Return the meter of the consumer's waiting."""

    def check(self, structure: Structure) -> None:
        """Refuse elements of a structure that does not fit what was requested."""

    def convert(self, block: Block) -> Block:
        """Convert the elements for the framework."""

    def deliver(self, element: Nested) -> Nested:
        """Return what the consumer gets, on its own thread."""

    def close(self) -> None:
        """Free the buffers."""


class PlainTarget:
    """A target that passes elements on unchanged; subclasses add to it."""

    name = "feed"
    copies = False

    def __init__(self, ahead: int = 2) -> None:
        self.ahead = ahead

    def meter(self) -> Meter:
        """Return a meter that times the consumer's calls, because the consumer waits inside them."""
        return Meter(watch=True)

    def check(self, structure: Structure) -> None:
        """Accept any structure."""

    def convert(self, block: Block) -> Block:
        """Return the same rows."""
        return block

    def deliver(self, element: Nested) -> Nested:
        """Return the element unchanged."""
        return element

    def close(self) -> None:
        """Do nothing: there are no buffers."""


def _without_prefetch(node: Node) -> Node:
    """Return the input of a prefetch of any depth: if a thread converts ahead, another one before it only passes rows
    on.
    """
    while isinstance(node, Prefetch) and node.mode == "thread" and node.buffer_size is None:
        node = node.input
    return node


@dataclass(frozen=True, eq=False)
class Adapted(PassThrough):
    """The input's rows, converted; a state does not know of it."""

    target: Target = field(kw_only=True, repr=False)

    indexable = False
    follows_device = True
    accepts_device = True

    @property
    def operation(self) -> str:
        return self.target.name

    @property
    def ahead(self) -> Ahead:
        return Ahead.RUNS  # or its target wants every element to be made on request

    def convert(self, item: Item) -> list[Item]:
        """Return an item with its rows converted, failures in the places of those that cannot be; a failure
        stays one.
        """
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
    """Open rows that are converted on a thread, or on request.

    Rows of another process are ready when they are requested: a thread would take the GIL from the consumer to convert
    a few, and is started only if that is measured to help.
    """
    ahead, tuned, lots = node.target.ahead, None, 1
    rows = _without_prefetch(node.input) if ahead else node.input
    if isinstance(rows, Prefetch) and rows.mode == "process":
        tuned, lots = "hand-over", rows.buffer_size or ELEMENTS_PER_TAKE
        rows = replace(rows, lent=node.target.copies)
    if ahead:
        return read_ahead(ctx, rows, at.inputs, rows=ahead, task=Task(node.convert, lots=lots), if_it_helps=tuned)
    return AdaptedStream(node, ctx.open(rows, at.inputs, any_order=True))


class AdaptedStream(Stream):
    """Convert elements on request."""

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

    `state_dict()` is the position of the newest pass: what the trainer has received, regardless of staged elements.
    """

    def __init__(self, dataset: Dataset, part: tuple[int, int] | None = None, *, plan: Node | None = None) -> None:
        self._dataset = dataset
        self._site = user_site()
        self._plan: Node = dataset._node if plan is None else plan
        self._node: Node = self._plan
        self._take_share(part)
        self._newest: Iterator | None = None
        self._resume: JsonObject | None = None

    def _take_share(self, part: tuple[int, int] | None) -> None:
        """Read every n-th element, if (n, index) says that several processes share the dataset.

        A state then holds where all of them stand: that of one process is valid for all, in any number.
        """
        node = self._plan
        if part is None or part[0] == 1 or states.process_of(node) is not None:
            return
        states.require_seeds(node, "several processes share this dataset")
        self._deal(*part)

    def _deal(self, readers: int, index: int) -> None:
        self._node = Distribute(self._plan, index, readers, None, "drop", site=self._site)

    def make_target(self) -> Target:
        """Return the target of one pass."""
        raise NotImplementedError

    def _begin(self) -> tuple[Node, Epochs]:
        """Return the plan of a new pass, and the home of its epoch."""
        return self._node, self._dataset._epochs

    def _alone(self) -> bool:
        """Return whether no other reader has a share of the same epoch, so that at its end the next one may begin."""
        return True

    def _check_place_is_known(self) -> None:
        """Raise if the newest pass runs in another process: its position is unknown here."""

    def __iter__(self) -> FeedIterator:
        target = self.make_target()
        node, epochs = self._begin()
        if self._resume is None and self._newest is not None and self._newest.is_untouched and self._alone():
            self._resume = self._newest.state()  # a trainer only looked whether this can be iterated over
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

    why_slow = why_slow
    headroom = headroom

    def stats(self) -> Stats:
        """Return the `stats()` of the newest pass."""
        return Stats(stages=[]) if self._newest is None else self._newest.stats()

    def state_dict(self) -> JsonObject:
        """Return the position after the last batch that the newest pass gave; before the first pass, the start.

        The dict has one string under one key, whatever the position: checkpoints that load by a template
        (torch.distributed.checkpoint) can hold it.
        """
        return states.packed(self._state())

    def _state(self) -> JsonObject:
        self._check_place_is_known()
        if self._resume is not None:
            return self._resume
        if self._newest is None:
            node, epochs = self._begin()
            return Iterator(node, Epochs(epochs.next, epochs.seeds, sizes=epochs.sizes)).state()
        return self._newest.state()

    def load_state_dict(self, state_dict: JsonObject) -> None:
        """Let the next pass continue where `state_dict()` was taken; at the end of an epoch, with the next epoch."""
        state = states.opened(state_dict)
        states.check_form(state)
        if state.get("process") is not None and states.process_of(self._node) is None:
            self._deal(1, 0)  # several processes shared it then
        known, plan, _ = adopted(state, self._begin()[0])
        states.check(known, plan)
        self._resume = state

    def set_epoch(self, epoch: int) -> None:
        """Let the next pass be at least epoch `epoch`, as trainers ask that skip batches to resume.

        A pass that continues from a state keeps the state's epoch. Epochs that have begun do not come again.
        """
        epochs = self._dataset._epochs
        if self._resume is None and epochs.next < epoch:
            epochs.skip_to(epoch)

    def __repr__(self) -> str:
        return summary(type(self).__name__, self._dataset._node)


def _hand_over(deliver: Callable[[Nested], object], element: object) -> Nested:
    """Return what the consumer gets for an element; the errors of a device are not the element's."""
    try:
        return deliver(element)
    except Refused:
        raise
    except Exception as error:
        raise Undelivered(error) from error


class FeedIterator(_native.Forward, PythonIterator[Nested]):
    """One pass over a Feed. Closed at its end, by `close()`, at the end of a `with`, or when it is let go."""

    def __init__(self, iterator: Iterator, target: Target) -> None:
        self._iterator = self._source = iterator
        self._finalizer = Closer(partial(_let_go, iterator, target))

    def __repr__(self) -> str:
        return repr(self._iterator)

    def __iter__(self) -> Self:
        return self

    def stats(self) -> Stats:
        """Return what each stage has done, and under "starvation" how long the consumer waited and computed."""
        return self._iterator.stats()

    def tuning(self) -> Tuning:
        """What AUTOTUNE has chosen so far, stage by stage, and why; see `hr.Iterator.tuning`."""
        return self._iterator.tuning()

    def why_slow(self) -> Verdict:
        """What limits this pass, from what its stages have counted so far; see `hr.Iterator.why_slow`."""
        return self._iterator.why_slow()

    def record(self, interval_seconds: float = 0.1, *, calls: bool = False) -> None:
        """Record a timeline of this pass from now on; see `hr.Iterator.record`."""
        self._iterator.record(interval_seconds, calls=calls)

    def report(
        self,
        path: str | os.PathLike[str],
        *,
        align_with: str | os.PathLike[str] | None = None,
        ranks: str | os.PathLike[str] | None = None,
    ) -> None:
        """Write what this pass has done so far; see `hr.Iterator.report`."""
        self._iterator.report(path, align_with=align_with, ranks=ranks)

    def _repr_html_(self) -> str:
        return self._iterator._repr_html_()

    def _ipython_display_(self) -> None:
        self._iterator._ipython_display_()

    def state(self) -> JsonObject:
        """Return the position after the last element that was given; elements staged ahead count as unread."""
        return self._iterator.state()

    def restore(self, state: JsonObject) -> None:
        """Go to a position that `state()` returned."""
        self._iterator.restore(state)

    def set_weights(self, weights: Mapping[str, float], *, mixture: int = 0) -> None:
        """Change the weights of `hr.mix` from the next element on: see `Iterator.set_weights`."""
        self._iterator.set_weights(weights, mixture=mixture)

    def mixture_report(self, *, mixture: int = 0) -> dict[str, JsonObject]:
        """Return how many rows of each source of a mixture were delivered so far: see `Iterator.mixture_report`."""
        return self._iterator.mixture_report(mixture=mixture)

    def state_dict(self) -> JsonObject:
        """Return the position as `Feed.state_dict` does: one string under one key."""
        return states.packed(self.state())

    load_state_dict = restore

    def exclude(self, steps: Iterable[int]) -> None:
        """Leave out elements that this pass has not delivered yet; see `hr.Iterator.exclude`."""
        self._iterator.exclude(steps)

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
    """Return every `workers`-th element."""
    return node if workers == 1 else Shard(node, workers, worker, site=site)
