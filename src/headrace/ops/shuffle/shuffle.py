"""Put the elements into random order."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from headrace import _native
from headrace.columns import Indices
from headrace.columns.block import Block, Failure, Item
from headrace.columns.lazy_block import MIN_REFERENCED_ROW_BYTES, LazyBlock
from headrace.core import keys
from headrace.core.override import override
from headrace.errors import ElementError, StateError
from headrace.execute.context import Context, Form
from headrace.execute.inputs import Input
from headrace.execute.registry import fetches, opens
from headrace.execute.row_by_row import IsLast, Leaves
from headrace.execute.stages.parallel import tuned_buffer
from headrace.execute.stream import ASSUMED_READER_THREADS, END, End, Made, Source, Stream
from headrace.ops.cache import is_in_memory
from headrace.ops.shared.arguments import integer, positive
from headrace.ops.shared.buffer_size import Peeked, row_bytes
from headrace.ops.shared.gather import NumberStream
from headrace.ops.shared.keywords import explain_keywords
from headrace.ops.shared.unchanged_rows import MovedRows
from headrace.ops.shuffle.order import BufferOrder, draw_key
from headrace.ops.shuffle.permute import Permute
from headrace.ops.shuffle.record_refs import ReferenceInput
from headrace.ops.shuffle.shuffle_buffer import Dense, Slots
from headrace.options import AUTOTUNE
from headrace.plan.access import is_coarse, late_bytes
from headrace.plan.capabilities import index_remedy
from headrace.plan.cardinality import UNKNOWN, Cardinality
from headrace.plan.datasets import dataset_of
from headrace.plan.marks import START, At, Mark, Marks, OwnMark
from headrace.plan.node import Divides, Moves, obstacle, waits
from headrace.plan.structure import Structure

if TYPE_CHECKING:
    from headrace.dataset import Dataset
    from headrace.plan.element import Element


@explain_keywords
def shuffle(
    self: Dataset[Element],
    buffer_size: int | None = None,
    seed: int | None = None,
    reshuffle_each_iteration: bool | None = True,
    name: str | None = None,
    *,
    window: int | Literal["auto"] = "auto",
) -> Dataset[Element]:
    """Shuffle the elements: all of them, or by drawing from a buffer of `buffer_size` elements.

    Without a buffer size the shuffle is uniform over the whole dataset, in constant memory, if the dataset can be
    indexed. AUTOTUNE does the same; if the dataset cannot be indexed, its buffer takes half of the RAM budget
    (`hr.Options(ram_budget=...)`), which is decided at the first element and kept in states. Every epoch has another
    order, unless `reshuffle_each_iteration=False`.

    In a full shuffle the next `window` rows are fetched together, so that rows that are close in the files are read at
    once. The order does not depend on it: a larger window reads less, holds more memory, and takes longer to start.
    "auto" is an eighth of the RAM budget if reading one row decodes a whole row group, else one block.

    Args:
        buffer_size: Number of elements to draw from. Default: all, which needs an input that can be indexed.
        seed: Seed of the random draws. Default: `hr.set_random_seed`'s, else another one in each run.
        reshuffle_each_iteration: Whether each epoch has another order.
        name: Label of the operation in `explain()`, `stats()` and error messages.
        window: Number of rows that a shuffle of everything fetches together; "auto" chooses it.

    Returns:
        A new dataset.

    >>> sorted(hr.Dataset.range(4).shuffle(2, seed=7)) == sorted(hr.Dataset.range(4).shuffle())
    True
    """
    lot = None if window == "auto" else positive("window", window)
    made = keys.seed(None if seed is None else integer("seed", seed))
    fresh = reshuffle_each_iteration is not False
    if buffer_size in (UNKNOWN, AUTOTUNE):
        streamed = AUTOTUNE if buffer_size == AUTOTUNE else EVERYTHING
        read_once = buffer_size == AUTOTUNE and is_coarse(self._node)  # rather than group after group for each row
        buffer_size = streamed if read_once or obstacle(self._node) or not self._node.cardinality.known else None
    if buffer_size is not None:
        if lot is not None:
            raise ValueError("window is for shuffle() of everything; a buffer holds buffer_size elements")
        size = AUTOTUNE if buffer_size == AUTOTUNE else min(EVERYTHING, positive("buffer_size", buffer_size))
        return self._then(Shuffle, size, made, fresh, name=name)
    node = self._counted
    blocker = obstacle(node)
    if blocker is not None:
        raise TypeError(
            f"shuffle() of everything needs a dataset that can be indexed, which {blocker.operation} "
            f"({blocker.site}) prevents; {index_remedy(blocker)}, or give a buffer_size"
        )
    if not node.cardinality.known:
        raise ValueError("shuffle() of everything needs a finite dataset; give a buffer_size, or shuffle before repeat")
    if node.cardinality >= 2**62:
        raise ValueError(f"shuffle() of everything takes at most 2**62 elements, not {node.cardinality}")
    return dataset_of(node)._then(Permute, made, fresh, lot, name=name)


EVERYTHING = 2**50
"""A buffer that no dataset fills: what tf.data means by a buffer size of UNKNOWN_CARDINALITY."""


REFERENCES_PER_READ = 1 << 16
"""How many references at a time fill a buffer that holds only these."""
NUMBERED_SLOTS = 1 << 24
"""Up to this many row numbers are held at once; beyond, slots are created as rows arrive."""


@dataclass(frozen=True, eq=False)
class Shuffle(MovedRows):
    """Draw uniformly from a full buffer, refilled by the next row. Slot t is a function of (key, t).

    The size of an AUTOTUNE buffer is known only at run time: then rows cannot be fetched by number.
    """

    buffer_size: int
    seed: keys.Seed
    reshuffle: bool = True

    divides = Divides.ROWS

    moves = Moves.FAR

    @property
    def by_place(self) -> bool:
        """Whether draws do not depend on what is drawn: as well before a function as after it."""
        return self.buffer_size != AUTOTUNE

    @property
    def late_bytes(self) -> int:
        return late_bytes(self.input) if self.by_place else 0

    @property
    def cardinality(self) -> Cardinality:
        return self.input.cardinality

    @property
    def indexable(self) -> bool:
        return self.input.indexable and self.buffer_size != AUTOTUNE


def _drawn_rows(node: Shuffle, ctx: Context, indices: Indices) -> Indices:
    """Return the numbers of the rows that the draws put there."""
    rows = np.empty(len(indices), np.int64)
    law = (draw_key(node, ctx), node.buffer_size, max(-1, node.cardinality))
    _native.shuffle_rows_at(*law, np.ascontiguousarray(indices), rows)
    return rows


def point_at_shuffled(node: Shuffle, ctx: Context, indices: Indices) -> LazyBlock | None:
    """Return references to the rows at these positions of the shuffled order."""
    return ctx.point_at(node.input, _drawn_rows(node, ctx, indices))


@fetches(Shuffle, point=point_at_shuffled)
def fetch_shuffled(node: Shuffle, ctx: Context, indices: Indices) -> Block:
    """Fetch the rows at these positions of the shuffled order."""
    return ctx.fetch(node.input, _drawn_rows(node, ctx, indices))


@dataclass(slots=True)
class ShuffleMark(OwnMark):
    """The step, and the number of rows, once known. The input's mark comes before every buffered row."""

    t: int
    total: int | None


STEPS_AHEAD = 64
"""How many steps are processed together."""

RowParts = tuple[Structure, Leaves]
"""The structure and the components of a row."""


class _StepsAhead:
    """The results of the next steps of a shuffle, before their incoming rows are read."""

    def __init__(self, slots: Slots, hole: int, draws: list[int]) -> None:
        self.draws = draws
        held = list(set(draws) - {hole})
        self._rows: dict[int, RowParts | None] = dict(zip(held, slots.rows_at(held), strict=True)) if held else {}
        self._hole = hole
        self._done = 0

    def exchange(self, taken: RowParts | None) -> RowParts | None:
        """Return the output of the next step, given its incoming row; None stands for a row that failed."""
        slot = self.draws[self._done]
        self._rows[self._hole] = taken
        self._hole = slot
        self._done += 1
        return self._rows[slot]


@opens(Shuffle, own=ShuffleMark)
def open_shuffle(node: Shuffle, ctx: Context, at: At) -> Stream:
    """Return rows, or their numbers, through the buffer."""
    rows = node.input
    if node.buffer_size == AUTOTUNE:
        return ShuffleStream(node, ctx, at)
    if rows.addressable and rows.numbered:
        slots = min(node.buffer_size, rows.cardinality) if rows.cardinality.known else node.buffer_size
        if slots <= NUMBERED_SLOTS:
            order = BufferOrder(draw_key(node, ctx), node.buffer_size, rows.cardinality)
            return NumberStream(ctx, rows, order.count, order)
    return ShuffleStream(node, ctx, at)


class ShuffleStream(Stream):
    """Step t takes in row capacity-1+t and returns one row; see ShuffleLaw in src/native/kernels.h.

    On restore the buffered rows are computed from the draws and re-read, by number if the input allows it.
    """

    def __init__(self, node: Shuffle, ctx: Context, at: At) -> None:
        self._node = node
        self._ctx = ctx
        self._key = draw_key(node, ctx)
        self._by_number = node.addressable
        tuned = node.buffer_size == AUTOTUNE
        self._late = ctx.late and node.late_bytes >= MIN_REFERENCED_ROW_BYTES
        self._pointed: ReferenceInput | None = None
        self._input: Source
        self._open_input(at.inputs)
        self._capacity = tuned_buffer(ctx, "shuffle", self._row_bytes) if tuned else node.buffer_size
        self._slots = Slots(self._capacity, kept=is_in_memory(node.input))
        self._failures: dict[int, Failure] = {}
        self._past: deque[Mark] = deque()
        self._base: Mark
        self._base_due = 0
        self._filled = False
        self._joins = node.input.pure and not waits(node.input) and self._pointed is None
        self._total: int | None = None
        self._t: int = 0
        if at.own is not None:
            self._t, self._total = at.own.t, at.own.total
            self._refill_from_stream()

    def _open_input(self, marks: Marks = START) -> None:
        """Open the input. That of a tuned buffer is a separate branch, so that one further up has another name.

        Rows that are buffered long are verified at once: no rows may follow a bad one.
        """
        tuned = self._node.buffer_size == AUTOTUNE
        self._ended = False
        self._input = self._ctx.open(self._node.input, marks, slot=int(tuned), form=Form(late=self._late))
        if self._late:
            self._input = self._pointed = ReferenceInput(self._input, self._ctx.run.tuner.cpus)

    def _row_bytes(self, room: int) -> int:
        """Return what a row takes, by the spec or by the first rows."""
        known = row_bytes(self._node.spec)
        if known is not None:
            return known
        self._input = peeked = Peeked(self._input)
        return peeked.row_bytes(room)

    def _start(self, t: int) -> None:
        """Move to step t of an input whose rows have numbers."""
        self._t = t
        total = self._node.cardinality
        if t and total.known and t > total - self._capacity:
            self._total = total
        self._open_input()
        if t == 0:
            return
        held, slots = self._held()
        first_unread = total if self._total is not None else self._capacity - 1 + t
        self._input.skip(int(first_unread), replay=True)
        rows = self._fetch_held(held) if len(held) else None
        if rows is not None:
            self._place(slots, rows, held)
        elif len(held):  # one of them fails, or is not a reference like the others: the stream tells which
            self._input.close()
            self._open_input()
            self._refill_from_stream()
        self._filled = True

    def _fetch_held(self, held: Indices) -> Block | None:
        """Fetch rows that the buffer held, by number; None if that is impossible."""
        if self._pointed is not None:
            found = self._ctx.point_at(self._node.input, held)
            return None if found is None else self._pointed.places_of(found, held)
        try:
            return self._ctx.fetch(self._node.input, held)
        except ElementError:
            return None

    def _held(self) -> tuple[Indices, Indices]:
        """Return the ordinals of the rows that the buffer holds before step t, and their slots; sets up
        hole or tail.
        """
        known = self._total if self._total is not None else -1
        rows = np.empty(self._capacity if known < 0 else min(self._capacity, known), np.int64)
        self._used = _native.shuffle_held(self._key, self._capacity, known, self._t, rows)
        rows = rows[: self._used]
        slots = np.flatnonzero(rows >= 0)
        if self._total is None:
            self._hole = int(np.flatnonzero(rows < 0)[0])
        return rows[slots], slots

    def _refill_from_stream(self) -> None:
        """Read again the rows that the buffer held, passing over the others."""
        self._filled = True
        held, slots = self._held()
        order = np.argsort(held)
        held, slots = held[order], slots[order]
        self._past.append(self._input.mark())
        runs = held - np.arange(len(held))
        pace = self._ctx.run.pace()
        costly = waits(self._node.input)
        done = 0
        while done < len(held):
            gap = int(held[done]) - self._input.ordinal
            if gap < 0:
                raise StateError("the state's position in the input of shuffle is after rows that its buffer held")
            if gap > 0:
                self._input.skip(gap, replay=True)
            # Rows that cost a user's call are read run by run; others at once, to pick from.
            run = int(np.searchsorted(runs, runs[done], side="right")) - done
            span = int(held[-1]) + 1 - self._input.ordinal
            item = self._input.pull(run if costly else min(max(run, 4 * pace.rows), span))
            if item is END:
                raise StateError("the input of shuffle ended before the element at which the state was taken")
            pace.observe(item, 0)
            self._remember(item)
            first = item.mark.ordinal
            stop = int(np.searchsorted(held, first + item.rows))
            if isinstance(item, Failure):
                self._failures[int(slots[done])] = item
            else:
                self._place(slots[done:stop], item.take(held[done:stop] - first), held[done:stop])
            done = stop
        if self._total is None:
            self._input.skip(self._capacity - 1 + self._t - self._input.ordinal, replay=True)

    def _remember(self, item: Item) -> None:
        """Note marks of the input now and then: a state needs one from before the oldest row held."""
        if self._by_number:
            return
        if not self._past or item.mark.ordinal - self._past[-1].ordinal > self._capacity // 4:
            self._past.append(item.mark)

    def _from(self) -> Mark | None:
        """Return the mark from which the input is re-read; None if rows are fetched by number."""
        if self._by_number:
            return None
        if self._t >= self._base_due:
            self._base_due = self._t + self._capacity // 8 + 1
            oldest = self._oldest()
            while len(self._past) > 1 and self._past[1].ordinal <= oldest:
                self._past.popleft()
            self._base = self._past[0] if self._past else self._input.mark()
        return self._base

    def _oldest(self) -> int:
        """Return the ordinal of the oldest row held, or one before it."""
        if self._holds_places:
            places = self._slots.numbers()
            least = _native.least_number(places) if len(places) else 0
        else:
            held = self._slots.extra[-1][: self._capacity] if self._slots.extra else np.empty(0, np.int64)
            least = int(held.min()) if len(held) else 0
        return min(least, *(f.mark.ordinal for f in self._failures.values()), self._input.ordinal)

    @property
    def _holds_places(self) -> bool:
        """Whether rows are references to records, which know their own numbers."""
        return self._pointed is not None and self._pointed.points

    def _extra(self, item: Block, ordinals: Indices | None = None) -> list[Dense]:
        extra: list[Dense] = [] if item.ids is None else [item.ids]
        if not self._by_number and not self._holds_places:
            first = item.mark.ordinal
            extra.append(np.arange(first, first + item.rows) if ordinals is None else ordinals)
        return extra

    def _place(self, slots: Indices | slice, block: Block, ordinals: Indices) -> None:
        self._slots.place(slots, block, self._extra(block, ordinals))

    def _put(self, slot: int, item: Item) -> None:
        """Put rows as they come into the slots from `slot` on."""
        if isinstance(item, Failure):
            self._failures[slot] = item
        else:
            self._slots.place(slice(slot, slot + item.rows), item, self._extra(item))

    def _fill(self) -> None:
        """Fill all slots but one; the first step takes the last row itself."""
        self._filled = True
        self._hole = self._capacity - 1
        pace = self._ctx.run.pace(threads=ASSUMED_READER_THREADS)
        while self._input.ordinal < self._capacity - 1:
            start = self._input.ordinal
            room = REFERENCES_PER_READ if self._holds_places else max(64, pace.rows)
            item = self._input.pull(min(room, self._capacity - 1 - start))
            if item is END:
                self._begin_tail()
                return
            pace.observe(item, 0)
            self._remember(item)
            self._put(start, item)

    def _begin_tail(self) -> None:
        """No more rows come in: from here the slots close up."""
        self._total = total = self._input.ordinal
        self._used = min(total, self._capacity - 1)
        if total >= self._capacity:
            self._slots.close_up(self._hole, self._used)
            if self._used in self._failures:
                self._failures[self._hole] = self._failures.pop(self._used)

    def pull(self, want: int) -> Made:
        items = self._pull(want)
        if self._pointed is None or items is END:
            return items
        return self._pointed.rows_of(items, self._slots)

    def _pull(self, want: int) -> list[Item] | Literal[End.END]:
        if not self._filled:
            self._fill()
        self._slots.expect(want)
        base, t = self._from(), self._t
        if self._total is None:
            items = [] if self._ended else self._steps_of(want)
            if items:
                return self._marked(items, base, t)
            self._begin_tail()
            base = self._from()
        if self._used == 0:
            self._read_to_end(self._total or 0)
            return END
        return self._marked(self._tail_steps(min(want, self._used)), base, t)

    def pull_until(self, want: int, is_last: IsLast) -> Made | None:
        if not self._filled:
            self._fill()
        if self._total is not None or self._failures or not isinstance(self._input, Input):
            return None
        base, t = self._from(), self._t
        steps = _StepsAhead(self._slots, self._hole, self._draws(min(want, STEPS_AHEAD)).tolist())

        def ends(structure: Structure, leaves: Leaves) -> bool:
            given = steps.exchange((structure, leaves))
            assert given is not None, "no row that failed is held"
            return is_last(*given)

        items = self._input.pull_until(len(steps.draws), ends)
        if items is END:
            self._begin_tail()
            return None
        made: list[Item] = []
        for item in items:
            self._remember(item)
            if isinstance(item, Failure) and (given := steps.exchange(None)) is not None:
                is_last(*given)
            made += self._steps(item)
        return self._marked(made, base, t)

    @property
    def unseen_rows(self) -> int:
        return 1 if self._total is None else STEPS_AHEAD

    def _read_to_end(self, total: int) -> None:
        """Move the input to its end, which a restore may not have reached: it may have dropped a failure there."""
        if self._node.input.has_extra_failures:
            self._input.skip(max(0, total - self._input.ordinal), replay=True)
            self._input.pull(1)

    def _marked(self, items: list[Item], base: Mark | None, t: int) -> list[Item]:
        """Return the outputs of the steps from `t` on, each with its step."""
        if base is not None:
            for item in items:
                item.mark, item.own = base, ShuffleMark(t, self._total)
                t += item.rows
        return items

    def _draws(self, count: int) -> Indices:
        draws = np.empty(count, np.int64)
        total = -1 if self._total is None else self._total
        _native.shuffle_draws(self._key, self._capacity, total, self._t, draws)
        return draws

    def _steps_of(self, want: int) -> list[Item]:
        """Run up to `want` steps, in one block if the input's rows are fast. None at the end."""
        if self._joins:
            want = self._slots.reserve(want)
        out: list[Item] = []
        done = 0
        while done < want:
            item = self._input.pull(want - done)
            if item is END:
                self._ended = True
                break
            self._remember(item)
            out += self._steps(item)
            done += item.rows
            if not self._joins:
                break
        return [*out, *self._slots.finish()]

    def _steps(self, item: Item) -> list[Item]:
        draws = self._draws(item.rows)
        self._t += item.rows
        if isinstance(item, Block) and not self._failures:
            made = self._slots.exchange(self._hole, item, self._extra(item), draws)
            self._hole = int(draws[-1])
            return made
        out = self._slots.finish()
        for i, slot in enumerate(draws.tolist()):
            self._put(self._hole, item.slice(i, i + 1))
            self._hole = slot
            out.append(self._failures.pop(slot) if slot in self._failures else self._slots.pop(slot))
        return out

    def _tail_steps(self, count: int) -> list[Item]:
        draws = self._draws(count)
        self._t += count
        self._used -= count
        if not self._failures:
            return self._slots.drain(self._used + count, draws)
        out: list[Item] = []
        for i, slot in enumerate(draws.tolist()):
            last = self._used + count - 1 - i
            out.append(self._failures.pop(slot) if slot in self._failures else self._slots.pop(slot))
            self._slots.close_up(slot, last)
            if last in self._failures:
                self._failures[slot] = self._failures.pop(last)
        return out

    def close(self) -> None:
        if self._pointed is not None:
            self._pointed.close()

    @override
    def skip(self, count: int, *, replay: bool = False) -> int:
        if not self._by_number or (self._filled and count < self._capacity):
            return 0
        total = self._node.cardinality
        rows = min(count, total - self._t) if total.known else count
        self._input.close()
        self._slots, self._failures = Slots(self._capacity, kept=is_in_memory(self._node.input)), {}
        self._start(self._t + rows)
        return int(rows)
