"""Blocks: runs of consecutive elements, stored by column.

A block has one owner: a caller that passes it on must not use it again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import repeat
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from headrace import _native
from headrace.columns import (
    Column,
    Indices,
    box_text,
    boxes,
    column_bytes,
    column_of,
    copy_in_order,
    join_all,
    kind_of,
    pick,
    take,
    values,
)
from headrace.columns.dense import MIN_LAYOUT_CHECK_BYTES, copy_into, pooled
from headrace.core.types import Array, Component, Nested, Reduced
from headrace.errors import ElementError, SpecError, drop_own_frames
from headrace.plan import mismatch
from headrace.plan.frameworks import as_array, is_tensor
from headrace.plan.marks import NOWHERE
from headrace.plan.spec import Spec, leaf_spec
from headrace.plan.structure import LEAF, Structure, flatten

if TYPE_CHECKING:
    from headrace.plan.marks import Mark, OwnMark
    from headrace.plan.spec import TensorSpec
from headrace.core.ragged import Ragged

Ids = NDArray[np.uint64]
"""Row ids: one (path key, ordinal) pair a row."""


_MADE_IN_C = (None, tuple, dict)
"""The flat structures whose elements are assembled in C."""


SlicedColumns: TypeAlias = tuple[list[Column], int]
"""Columns, and the number of the first row that counts."""
TEXT_OBJECT_BYTES = 64
"""About how much memory a str or bytes object takes besides its text."""
MIN_COLUMNS_SLICED_LAZILY = 6
"""A slice of at least this many columns is made on use: most are joined with others or sliced again."""


class Block:
    """`rows` consecutive elements of one structure.

    `mark` is the position of the first of them. On the way out of an operation it is the position from which the input
    is re-read to make it, `own` what the operation needs besides, and `offset` how many of its own rows come before it
    from there.
    """

    __slots__ = ("_columns", "_nbytes", "ids", "mark", "offset", "own", "rows", "structure")

    def __init__(
        self,
        structure: Structure,
        columns: list[Column],
        rows: int,
        mark: Mark | None = None,
        ids: Ids | None = None,
        own: OwnMark | None = None,
        nbytes: int = -1,
    ) -> None:
        self.structure: Structure = structure
        self._columns: list[Column] | SlicedColumns = columns
        self.rows: int = rows
        self.mark: Mark = NOWHERE if mark is None else mark
        self.own: OwnMark | None = own
        self.offset: int = 0
        self.ids: Ids | None = ids
        self._nbytes = nbytes

    @property
    def columns(self) -> list[Column]:
        """The rows of each component."""
        held = self._columns
        if isinstance(held, tuple):
            columns, first = held
            held = self._columns = _native.slice_columns(columns, first, first + self.rows)
        return held

    @columns.setter
    def columns(self, columns: list[Column]) -> None:
        self._columns = columns

    def sliced_columns(self) -> SlicedColumns:
        """Return columns that hold its rows, and others perhaps."""
        held = self._columns
        return held if isinstance(held, tuple) else (held, 0)

    def __getstate__(self) -> object:
        if isinstance(self._columns, tuple):
            self._columns = self.columns  # other rows of the same columns are not sent to another process
        return super().__getstate__()

    @property
    def nbytes(self) -> int:
        """How much memory the columns take, roughly."""
        if self._nbytes < 0:
            nbytes = 0
            for column in self.columns:
                if type(column) is np.ndarray and column.dtype.kind != "O":
                    nbytes += column.nbytes
                else:
                    nbytes += column_bytes(column)
            self._nbytes = nbytes
        return self._nbytes

    def box_texts(self) -> None:
        """Make the objects of texts now, in this thread, for a consumer that gets them as objects."""
        texts = [type(column) is not np.ndarray and kind_of(column).name == "text" for column in self.columns]
        if any(texts):
            nbytes = self.nbytes + sum(texts) * TEXT_OBJECT_BYTES * self.rows
            self.columns = [
                box_text(column) if text else column for column, text in zip(self.columns, texts, strict=True)
            ]
            self._nbytes = nbytes

    def slice(self, start: int, stop: int) -> Block:
        """Return rows `start` to `stop`, sharing memory."""
        part = self.cut(start, stop)
        part.mark = self.mark.later(start)
        part.own, part.offset = None, 0
        return part

    def cut(self, start: int, stop: int) -> Block:
        """Like `slice`, on the way out of an operation."""
        ids = None if self.ids is None else self.ids[start:stop]
        held = self._columns
        if type(held) is list and len(held) < MIN_COLUMNS_SLICED_LAZILY:
            part = Block(self.structure, [c[start:stop] for c in held], stop - start, self.mark, ids, self.own)
        else:
            part = Block(self.structure, [], stop - start, self.mark, ids, self.own)
            columns, first = held if isinstance(held, tuple) else (held, 0)
            part._columns = columns, first + start
        part.offset = self.offset + start
        if self._nbytes > 0 and self.rows:
            part._nbytes = self._nbytes * part.rows // self.rows
        return part

    def take(self, indices: Indices) -> Block:
        """Return these rows, copied; the mark stays that of the block."""
        ids = None if self.ids is None else self.ids[indices]
        return Block(self.structure, [take(c, indices) for c in self.columns], len(indices), self.mark, ids)

    @property
    def late_spec(self) -> TensorSpec | None:
        """Return the spec of the rows of its only column, if they are not materialized yet."""
        return None

    def arguments(self, in_place: frozenset[int]) -> list[Column]:  # noqa: ARG002
        """Return the columns for a function that takes some of them, by number, as `RecordRefs` too."""
        return self.columns

    def whole(self) -> Block:
        """Return the block as one that has all of its rows; see `Stream.announce`."""
        return self

    def elements(self) -> Iterator[Component]:
        """Return the elements, one by one; the exception of one that cannot be assembled, and then the next."""
        try:
            return self.structure.rows([values(c) for c in self.columns], self.rows)
        except Exception:  # some row failed: the others can be made one by one
            return rows_one_by_one(self, values)

    def consumer_elements(self) -> tuple[Iterator[Component], bool]:
        """Return the elements, as `elements()` gives them, and whether Python code may run while one is made."""
        structure, columns = self.structure, self.columns
        if structure.kind is None and type(columns[0]) is np.ndarray:
            return iter(columns[0]), False
        plain = structure.kind in _MADE_IN_C and structure.flat
        if plain and structure.kind is not None and columns:
            made = _native.elements(columns, *structure.components, self.rows)
            if made is not None:
                return made, False
        return self.elements(), not (plain and all(type(c) is np.ndarray or type(c) is list for c in columns))

    def leaves(self) -> Iterator[tuple[Any, ...]]:
        """Return the components of the elements, one by one."""
        return zip(*(values(c) for c in self.columns), strict=True) if self.columns else repeat((), self.rows)


class FirstHalf(Block):
    """Rows whose columns another thread may have joined with those of the next block, `second`, by the time of use."""

    __slots__ = ("joined", "second")

    def __init__(self, block: Block) -> None:
        super().__init__(block.structure, [], block.rows, block.mark, block.ids, block.own, block._nbytes)
        self._columns = block._columns
        self.offset: int = block.offset
        self.second: Block | None = None
        self.joined: list[Column] = []

    def join(self, second: Block) -> None:
        """Join the columns with those of the next block now, in this thread."""
        self.joined = _joined_columns((self, second))
        self.second = second

    def __reduce__(self) -> Reduced:
        return Block, (self.structure, self.columns, self.rows, self.mark, self.ids, self.own, self._nbytes)


def rows_one_by_one(block: Block, of: Callable[[Column], Iterator[object]]) -> Iterator[Component]:
    """Yield the elements of a block whose columns cannot be read as a whole: each is made from single-row columns, by
    `of`.
    """

    def row(number: int) -> Nested:
        columns = [of(c[number : number + 1]) for c in block.columns]
        (element,) = block.structure.rows(columns, 1)
        return element

    return map(row, range(block.rows))


class Failure:
    """A row that could not be made. It occupies its place in the stream."""

    __slots__ = ("error", "mark", "offset", "own")
    rows: Final = 1
    nbytes: Final = 0
    ids: Final = None

    def __init__(self, error: ElementError, mark: Mark | None = None, own: OwnMark | None = None) -> None:
        self.error: ElementError = error
        error.__traceback__ = None  # its frames refer to the iterator; the consumer gets a copy of the error
        drop_own_frames(error.__cause__)
        self.mark: Mark = NOWHERE if mark is None else mark
        self.own: OwnMark | None = own
        self.offset: int = 0

    def slice(self, start: int, stop: int) -> Failure:  # noqa: ARG002
        """Return the row again, to be marked by itself: there is only one row."""
        return Failure(self.error, self.mark)

    def cut(self, start: int, stop: int) -> Failure:  # noqa: ARG002
        """Return the row itself."""
        return self

    def whole(self) -> Failure:
        """Return the row itself."""
        return self


Item: TypeAlias = Block | Failure


def leaf(value: Component) -> Component:
    """Return a component as headrace keeps it: an array, a NumPy scalar, str, bytes or an object."""
    kind = type(value)
    if kind is np.ndarray:
        if value.ndim == 0:
            return leaf(value[()])
        return value.astype(object) if value.dtype.kind in "SU" else value
    if kind is str or kind is bytes:
        return value
    if isinstance(value, np.generic):
        return value.item() if value.dtype.kind in "SU" else value
    if isinstance(value, bool | int | float | complex):
        return np.asarray(value)[()]
    if isinstance(value, list):
        return _listed(value)
    if isinstance(value, Ragged) or not is_tensor(value):
        return value
    made = as_array(value)
    return made if isinstance(made, Ragged) else leaf(made)


def _listed(value: list[Component]) -> Array:
    """Return a list as an array; text as objects, since NumPy's own kind of bytes drops trailing zeros; datasets as
    such.
    """
    if any(map(_is_dataset, value)):
        return _datasets(value)
    if any(isinstance(inner, list) and any(map(_is_dataset, inner)) for inner in value):
        raise TypeError("a list of lists of Datasets is no array: elements may hold Datasets, and flat lists of them")
    array = np.asarray(value)
    if array.dtype.kind not in "SU":
        return array
    array = np.array(value, dtype=object)
    kinds = {type(v).__name__ for v in array.flat}
    if len(kinds) > 1:
        raise ValueError(f"a list that mixes {' and '.join(sorted(kinds))} is no array")
    return array


def _is_dataset(value: object) -> bool:
    return getattr(type(value), "_headrace_component", False)


def _datasets(value: list[Component]) -> Array:
    """Return Datasets in an array of objects; np.array would iterate over them."""
    if not all(map(_is_dataset, value)):
        raise TypeError("a list that mixes Datasets and other values is no array: put them into a tuple")
    first = value[0]._node.spec
    for number, other in enumerate(value):
        why = first.mismatch(other._node.spec)
        if why:
            raise SpecError(f"the Datasets of a list differ in their elements: that of number {number} has {why}")
    return boxes(value)


def element(value: object, rooms: Rooms | None = None) -> tuple[Structure, list[Component]]:
    """Return the structure and the leaves of what a function returned; a top-level list is a tuple.

    Copied, into `rooms`.
    """
    structure, leaves = flatten(tuple(value) if type(value) is list else value)
    return structure, [own_leaf(v) for v in leaves] if rooms is None else rooms.keep(leaves)


def own_leaf(value: object) -> Component:
    """Return a component that a function gave, copied: the function may use its array again."""
    made = leaf(value)
    if not isinstance(made, np.ndarray):
        return made
    return made.copy() if made.nbytes < MIN_LAYOUT_CHECK_BYTES else copy_in_order(made)


class Rooms:
    """Memory for the arrays of rows that are made one by one: each is copied once, to its slot."""

    def __init__(self, rows: int) -> None:
        self._rows = rows
        self._next = 0
        self._rooms: list[Array | None] = []

    def keep(self, leaves: list[Component]) -> list[Component]:
        """Return the components of the next row, copied."""
        made = [
            self._kept(number, value) if type(value) is np.ndarray and value.ndim else own_leaf(value)
            for number, value in enumerate(leaves)
        ]
        self._next += 1
        return made

    def _kept(self, number: int, value: Array) -> Array:
        if number < len(self._rooms) and (room := self._rooms[number]) is not None:
            if room.dtype == value.dtype and room.shape[1:] == value.shape and self._next < self._rows:
                kept: Array = room[self._next]
                copy_into(value, kept)
                return kept
            return copy_in_order(value)
        if value.dtype.hasobject or value.dtype.kind in "SU" or not value.nbytes or self._next >= self._rows:
            copied: Array = own_leaf(value)
            return copied
        self._rooms += [None] * (number + 1 - len(self._rooms))
        self._rooms[number] = pooled((self._rows, *value.shape), value.dtype)
        return self._kept(number, value)

    def column(self, number: int, rows: list[Component]) -> Column:
        """Return these components of consecutive rows as a column, without a copy if they are all stored here."""
        room = self._rooms[number] if number < len(self._rooms) else None
        if room is None or not all(type(row) is np.ndarray and row.base is room for row in rows):
            return column_of(rows)
        # They are stored in order: if the first and the last are exactly this far apart, all are between.
        first, last = ((row.ctypes.data - room.ctypes.data) // room.strides[0] for row in (rows[0], rows[-1]))
        return room[first : last + 1] if last - first == len(rows) - 1 else column_of(rows)


def from_elements(
    elements: Sequence[tuple[Structure, list[Component]]], ids: Ids | None = None, rooms: Rooms | None = None
) -> list[Block]:
    """Make blocks of these elements: one, or one for each run of equal structure. `rooms` is where they
    were copied to.
    """
    blocks = []
    start = 0
    while start < len(elements):
        structure = elements[start][0]
        stop = start + 1
        while stop < len(elements) and (elements[stop][0] is structure or elements[stop][0] == structure):
            stop += 1
        leaves = [e[1] for e in elements[start:stop]]
        rows = zip(*leaves, strict=True)
        columns = [rooms.column(i, list(c)) if rooms else column_of(list(c)) for i, c in enumerate(rows)]
        blocks.append(Block(structure, columns, stop - start, None, None if ids is None else ids[start:stop]))
        start = stop
    return blocks


def concat(blocks: Sequence[Block]) -> Block:
    """Return blocks of one structure, one after another; the mark is that of the first."""
    first = blocks[0]
    if len(blocks) == 1:
        return first
    differ = structures_differ(blocks)
    if differ:
        raise SpecError(differ)
    columns = _joined_columns(blocks)
    ids = None if first.ids is None else np.concatenate([b.ids for b in blocks if b.ids is not None])
    made = Block(first.structure, columns, sum(b.rows for b in blocks), first.mark, ids)
    made._nbytes = sum(b._nbytes for b in blocks) if min(b._nbytes for b in blocks) >= 0 else -1
    return made


def _joined_columns(blocks: Sequence[Block]) -> list[Column]:
    if len(blocks) == 2 and type(first := blocks[0]) is FirstHalf and first.second is blocks[1]:
        return first.joined
    parts: list[list[Column]] = []
    bounds: list[tuple[int, int]] = []
    for block in blocks:
        held, start = block.sliced_columns()
        parts.append(held)
        bounds.append((start, start + block.rows))
    return join_all(list(zip(*parts, strict=True)), bounds)


def structures_differ(blocks: Sequence[Block], whole: str = "batch") -> str | None:
    """Say why blocks cannot be joined, if their elements differ in structure; the first row of them all is
    element 0.
    """
    row = 0
    for block in blocks:
        if block.structure != blocks[0].structure:
            return mismatch.why_structures_differ(_row_spec(blocks[0]), _row_spec(block), row, whole)
        row += block.rows
    return None


def _row_spec(block: Block) -> Spec:
    return Spec(block.structure, tuple(leaf_spec(next(values(c))) for c in block.columns))


def pick_rows(blocks: Sequence[Block], order: Indices) -> Block:
    """Return rows of several blocks of one structure by their numbers among all of them; the mark is that
    of the first.
    """
    first = blocks[0]
    columns = [pick(columns, order) for columns in zip(*(b.columns for b in blocks), strict=True)]
    ids = None if first.ids is None else np.concatenate([b.ids for b in blocks if b.ids is not None])[order]
    made = Block(first.structure, columns, len(order), first.mark, ids)
    if min(b._nbytes for b in blocks) > 0:
        made._nbytes = sum(b._nbytes for b in blocks) * len(order) // sum(b.rows for b in blocks)
    return made


def gathered(starts: Indices, numbers: Indices, read: Callable[[int, Indices], Block]) -> Block:
    """Return rows by number out of runs that follow one another, in the order requested. Each run is read once.

    Run i begins with row `starts[i]`, the first with 0; `read(i, rows)` gives rows by their numbers within it.
    """
    if len(starts) == 1:
        return read(0, numbers)
    by_run, runs = in_runs(starts, numbers)
    parts = [read(run, rows) for run, rows in runs]
    if len(parts) == 1:
        return parts[0]  # a stable sort of equal keys has moved nothing
    back = np.empty_like(by_run)
    back[by_run] = np.arange(len(by_run))
    return pick_rows(parts, back)


def in_runs(starts: Indices, numbers: Indices) -> tuple[Indices, list[tuple[int, Indices]]]:
    """Group row numbers by run: return their order, and the numbers within each run that has any."""
    run_of = np.searchsorted(starts, numbers, side="right") - 1
    by_run = np.argsort(run_of, kind="stable")
    within = (numbers - starts[run_of])[by_run]
    runs, counts = np.unique(run_of, return_counts=True)
    ends = np.cumsum(counts).tolist()
    return by_run, [(run, within[a:b]) for run, a, b in zip(runs.tolist(), [0, *ends], ends, strict=False)]


def fold(block: Block, size: int) -> Block | str:
    """Return every `size` rows as one, a multiple of them; or why the rows of a component cannot be stacked."""
    groups = block.rows // size
    columns: list[Column]
    columns, all_folded = _native.fold_columns(block.columns, size)
    for number, stacked in enumerate(() if all_folded else columns):
        if stacked is None:
            col = block.columns[number]
            made = kind_of(col).stack(col, size, block.structure.paths[number])
            if isinstance(made, str):
                return made
            columns[number] = made
    whole = Block(block.structure, columns, groups, block.mark, None if block.ids is None else block.ids[::size])
    whole._nbytes = block._nbytes
    return whole


def scalar_block(values: Array, ids: Ids | None = None) -> Block:
    """Return a block of single components."""
    return Block(LEAF, [values], len(values), None, ids)


def folded(ids: Ids | None, value: int) -> Ids | None:
    """Return the ids of rows that have become others: the path key with `value` folded in, one to one."""
    if ids is None:
        return None
    made = ids.copy()
    made[:, 0] = made[:, 0] * np.uint64(FOLD) + np.uint64(value)
    return made


FOLD = 0x9E3779B97F4A7C15


def source_ids(path: int, ordinals: Indices) -> Ids:
    """Return the ids of rows that a source on this path gives."""
    ids = np.empty((len(ordinals), 2), np.uint64)
    ids[:, 0] = path
    ids[:, 1] = ordinals
    return ids
