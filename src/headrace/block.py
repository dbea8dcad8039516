"""Columns and blocks: a run of consecutive elements, stored by column.

A column is a dense array with the rows on axis 0, a Ragged where rows differ in their first axis, a pyarrow array
(strings and bytes), or, as a last resort, a list of objects. A block has one owner: who passes it on must not look at
it again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import repeat
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from headrace.errors import ElementError, SpecError
from headrace.plan import mismatch
from headrace.plan.marks import NOWHERE
from headrace.plan.spec import Spec, leaf_spec
from headrace.plan.structure import LEAF, Structure, flatten
from headrace.ragged import Ragged, as_ragged, joined_ragged, row_views
from headrace.text import nbytes as text_bytes
from headrace.text import picked as picked_text

if TYPE_CHECKING:
    import pyarrow as pa

    from headrace.plan.marks import Mark, OwnMark

Column: TypeAlias = "NDArray[Any] | Ragged | list[Any] | pa.Array"
Indices = NDArray[np.int64]
Ids = NDArray[np.uint64]
"""Row ids: one (path key, ordinal) pair a row."""


class Block:
    """`rows` consecutive elements of one structure.

    `mark` is where the first of them lies. On the way out of an operation it is where the input is to be read again to
    make it, `own` what the operation must know besides, and `offset` how many rows of its own come before it from
    there.
    """

    __slots__ = ("_nbytes", "columns", "ids", "mark", "offset", "own", "rows", "structure")

    def __init__(
        self,
        structure: Structure,
        columns: list[Column],
        rows: int,
        mark: Mark | None = None,
        ids: Ids | None = None,
        own: OwnMark | None = None,
    ) -> None:
        self.structure = structure
        self.columns = columns
        self.rows = rows
        self.mark = NOWHERE if mark is None else mark
        self.own = own
        self.offset = 0
        self.ids = ids
        self._nbytes = -1

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

    def slice(self, start: int, stop: int) -> Block:
        """Rows `start` to `stop`, sharing memory."""
        part = self.cut(start, stop)
        part.mark = self.mark.later(start)
        part.own, part.offset = None, 0
        return part

    def cut(self, start: int, stop: int) -> Block:
        """As `slice`, on the way out of an operation."""
        ids = None if self.ids is None else self.ids[start:stop]
        part = Block(self.structure, [c[start:stop] for c in self.columns], stop - start, self.mark, ids, self.own)
        part.offset = self.offset + start
        if self._nbytes > 0 and self.rows:
            part._nbytes = self._nbytes * part.rows // self.rows
        return part

    def take(self, indices: Indices) -> Block:
        """These rows, copied; the mark stays that of the block."""
        ids = None if self.ids is None else self.ids[indices]
        return Block(self.structure, [take(c, indices) for c in self.columns], len(indices), self.mark, ids)

    def elements(self) -> Iterator[Any]:
        """The elements, one by one; the exception of one that cannot be put together, and then the next."""
        try:
            return self.structure.rows([values(c) for c in self.columns], self.rows)
        except Exception:  # the fault of some row: the others can be made, one by one
            return rows_one_by_one(self, values)

    def counted_elements(self) -> tuple[Iterator[Any], Iterator[Any]]:
        """The elements, and an iterator of whose items one goes with each: its `length_hint` says how many are left.

        Several threads may take elements: no Python code of ours runs between the components of one.
        """
        if self.structure.kind is None and type(self.columns[0]) is np.ndarray:
            left: Iterator[Any] = iter(self.columns[0])
            return left, left
        if not self.columns:
            left = repeat((), self.rows)
            return map(self.structure.pack, left), left
        try:
            columns = [iter(row_views(c)) if isinstance(c, Ragged) else values(c) for c in self.columns]
            return self.structure.rows(columns, self.rows), columns[0]
        except Exception:
            left = iter(range(self.rows))
            return rows_one_by_one(self, values, left), left

    def leaves(self) -> Iterator[tuple[Any, ...]]:
        """The components of the elements, one by one."""
        return zip(*(values(c) for c in self.columns), strict=True) if self.columns else repeat((), self.rows)


def rows_one_by_one(
    block: Block, of: Callable[[Column], Iterator[Any]], numbers: Iterable[int] | None = None
) -> Iterator[Any]:
    """The elements of a block whose columns cannot be read as a whole: each is made of columns of its own, by `of`."""

    def row(number: int) -> Any:
        columns = [of(c[number : number + 1]) for c in block.columns]
        (element,) = block.structure.rows(columns, 1)
        return element

    return map(row, range(block.rows) if numbers is None else numbers)


class Failure:
    """A row that could not be made. It occupies its place in the stream."""

    __slots__ = ("error", "mark", "offset", "own")
    rows: Final = 1
    nbytes: Final = 0
    ids: Final = None

    def __init__(self, error: ElementError, mark: Mark | None = None, own: OwnMark | None = None) -> None:
        self.error = error
        self.mark = NOWHERE if mark is None else mark
        self.own = own
        self.offset = 0

    def slice(self, start: int, stop: int) -> Failure:  # noqa: ARG002
        """The row again, to be marked by itself: there is only one row."""
        return Failure(self.error, self.mark)

    def cut(self, start: int, stop: int) -> Failure:  # noqa: ARG002
        """The row itself."""
        return self


Item: TypeAlias = Block | Failure


def leaf(value: Any) -> Any:
    """A component as headrace keeps it: an array, a NumPy scalar, str, bytes or an object."""
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
    return leaf(np.asarray(value)) if hasattr(value, "__array__") else value


def _listed(value: list[Any]) -> NDArray[Any]:
    """A list as an array; text as objects, since NumPy's own kind of bytes drops trailing zeros."""
    _refuse_datasets(value)
    array = np.asarray(value)
    if array.dtype.kind not in "SU":
        return array
    array = np.array(value, dtype=object)
    kinds = {type(v).__name__ for v in array.flat}
    if len(kinds) > 1:
        raise ValueError(f"a list that mixes {' and '.join(sorted(kinds))} is no array")
    return array


def _refuse_datasets(value: list[Any]) -> None:
    """NumPy would read them out."""
    kinds = {type(v) for v in value}
    if any(getattr(kind, "_headrace_component", False) for kind in kinds):
        raise TypeError(
            "a Dataset is no array: np.array(list(ds)) reads it out; of several, zip, +, choose_from_datasets and "
            "sample_from_datasets make one, and elements may be tuples and dicts of Datasets, not lists"
        )
    if list in kinds:
        for inner in value:
            if isinstance(inner, list):
                _refuse_datasets(inner)


def element(value: Any) -> tuple[Structure, list[Any]]:
    """The structure and the leaves of what a function returned; a top-level list is a tuple."""
    structure, leaves = flatten(tuple(value) if type(value) is list else value)
    return structure, [own_leaf(v) for v in leaves]


def own_leaf(value: Any) -> Any:
    """A component that a function gave, copied: the function may use its array again."""
    made = leaf(value)
    return made.copy() if isinstance(made, np.ndarray) else made


def column(rows: list[Any]) -> Column:
    """A column of leaves: dense where all have one dtype and shape, ragged where only lengths differ, else the list."""
    first = rows[0]
    kind = type(first)
    if isinstance(first, np.generic):
        alike = all(type(r) is kind for r in rows) and kind not in _PARAMETRIC
        if not alike:  # types may differ where dtypes do not, and the other way round
            alike = all(isinstance(r, np.generic) and r.dtype == first.dtype for r in rows)
        return np.array(rows, first.dtype) if alike else rows
    if kind is np.ndarray:
        shape, dtype = first.shape, first.dtype
        if len(rows) == 1:
            return first[None]
        if all(type(r) is np.ndarray and r.shape[1:] == shape[1:] and r.dtype == dtype and r.ndim for r in rows):
            same = all(len(r) == len(first) for r in rows)
            return np.stack(rows) if same else rows if dtype.hasobject else Ragged.from_rows(rows)
    return rows


_PARAMETRIC = (np.datetime64, np.timedelta64, np.void)
"""Scalars whose type alone does not tell their dtype."""


def from_elements(elements: Sequence[tuple[Structure, list[Any]]], ids: Ids | None = None) -> list[Block]:
    """Blocks of these elements: one, or one for each run of equal structure."""
    blocks = []
    start = 0
    while start < len(elements):
        structure = elements[start][0]
        stop = start + 1
        while stop < len(elements) and (elements[stop][0] is structure or elements[stop][0] == structure):
            stop += 1
        leaves = [e[1] for e in elements[start:stop]]
        columns = [column(list(rows)) for rows in zip(*leaves, strict=True)]
        blocks.append(Block(structure, columns, stop - start, None, None if ids is None else ids[start:stop]))
        start = stop
    return blocks


def text(rows: Sequence[Any]) -> Column:
    """A column of str or bytes in Arrow's layout, or the list where Arrow has no type for it."""
    import pyarrow as pa

    kinds = {type(r) for r in rows}
    if kinds in ({str}, {bytes}):
        try:
            return pa.array(rows, pa.large_string() if kinds == {str} else pa.large_binary())
        except (pa.ArrowInvalid, UnicodeEncodeError):  # lone surrogates are no UTF-8
            return list(rows)
    return list(rows)


def column_bytes(column: Column) -> int:
    """The memory of a column; of objects, judged by some of them: arrays and strings."""
    if isinstance(column, np.ndarray) and column.dtype.kind == "O":
        column = column.ravel()
    elif not isinstance(column, list):
        return int(column.nbytes) if isinstance(column, np.ndarray | Ragged) else text_bytes(column)
    some = column[:: len(column) // SAMPLED | 1]  # an odd distance: rows of two kinds may take turns
    size = sum([_object_bytes(v) for v in some])
    return size * len(column) // max(1, len(some))


SAMPLED = 8


def _object_bytes(value: Any) -> int:
    return len(value) if isinstance(value, bytes | str) else getattr(value, "nbytes", 0) or 64


def values(column: Column) -> Iterator[Any]:
    """The rows of a column as components of elements."""
    if isinstance(column, np.ndarray | list | Ragged):
        return iter(column)
    return iter(objects(column).tolist())


def objects(column: pa.Array) -> NDArray[Any]:
    """An Arrow column as an array of objects; text far faster than through a list."""
    import pyarrow as pa

    if column.type in (pa.large_string(), pa.large_binary()):
        made: NDArray[Any] = column.to_numpy(zero_copy_only=False)
        return made
    made = np.empty(len(column), object)
    made[:] = column.to_pylist()
    return made


def boxed(block: Block) -> Block:
    """With text as objects, which is what a batch holds."""
    columns = [c if isinstance(c, np.ndarray | Ragged | list) else objects(c) for c in block.columns]
    return Block(block.structure, columns, block.rows, block.mark, block.ids)


def take(column: Column, indices: Indices) -> Column:
    """These rows of a column, copied."""
    if isinstance(column, np.ndarray):
        return column.take(indices, axis=0)
    return [column[i] for i in indices] if isinstance(column, list) else column.take(indices)


def joined(columns: Sequence[Column]) -> Column:
    """Columns one after another: of the first one's kind if all are, ragged if that is enough, else a list."""
    first = columns[0]
    if isinstance(first, np.ndarray | Ragged):
        arrays = [c for c in columns if isinstance(c, np.ndarray | Ragged) and c.dtype == first.dtype]
        if len(arrays) == len(columns):
            dense = [a for a in arrays if isinstance(a, np.ndarray) and a.shape[1:] == first.shape[1:]]
            if len(dense) == len(arrays):
                return np.concatenate(dense)
            if len({a.shape[2:] for a in arrays}) == 1 and all(len(a.shape) > 1 for a in arrays):
                return joined_ragged([a if isinstance(a, Ragged) else as_ragged(a) for a in arrays])
    elif not isinstance(first, list):
        import pyarrow as pa

        if all(isinstance(c, pa.Array) and c.type == first.type for c in columns):
            return pa.concat_arrays(columns)
    return [v for c in columns for v in values(c)]


def read_only(column: Column) -> Column:
    """The column as nobody can write to it, sharing memory."""
    return _each_array(column, lambda array: _locked(array.view()))


def owned(column: Column) -> Column:
    """A copy that nobody can write to."""
    return _each_array(column, lambda array: _locked(array.copy()))


def _each_array(column: Column, change: Callable[[NDArray[Any]], NDArray[Any]]) -> Column:
    """The column with every array in it changed; Arrow's cannot be written to anyway."""
    if isinstance(column, np.ndarray):
        return change(column)
    if isinstance(column, Ragged):
        return Ragged(_each_array(column.values, change), column.offsets)
    return [change(v) if isinstance(v, np.ndarray) else v for v in column] if isinstance(column, list) else column


def _locked(array: NDArray[Any]) -> NDArray[Any]:
    array.flags.writeable = False
    return array


def concat(blocks: Sequence[Block]) -> Block:
    """Blocks of one structure, one after another; the mark is that of the first."""
    first = blocks[0]
    if len(blocks) == 1:
        return first
    differ = structures_differ(blocks)
    if differ:
        raise SpecError(differ)
    columns = [joined(cs) for cs in zip(*(b.columns for b in blocks), strict=True)]
    ids = None if first.ids is None else np.concatenate([b.ids for b in blocks if b.ids is not None])
    made = Block(first.structure, columns, sum(b.rows for b in blocks), first.mark, ids)
    made._nbytes = sum(b._nbytes for b in blocks) if min(b._nbytes for b in blocks) >= 0 else -1
    return made


def structures_differ(blocks: Sequence[Block], whole: str = "batch") -> str | None:
    """Why blocks cannot be one, where their elements differ in structure; the first row of them all is element 0."""
    row = 0
    for block in blocks:
        if block.structure != blocks[0].structure:
            return mismatch.why_structures_differ(_row_spec(blocks[0]), _row_spec(block), row, whole)
        row += block.rows
    return None


def _row_spec(block: Block) -> Spec:
    return Spec(block.structure, tuple(leaf_spec(next(values(c))) for c in block.columns))


def picked(blocks: Sequence[Block], order: Indices) -> Block:
    """Rows of several blocks of one structure by their numbers among all of them; the mark is that of the first."""
    first = blocks[0]
    columns = [_picked(columns, order) for columns in zip(*(b.columns for b in blocks), strict=True)]
    ids = None if first.ids is None else np.concatenate([b.ids for b in blocks if b.ids is not None])[order]
    return Block(first.structure, columns, len(order), first.mark, ids)


def _picked(columns: Sequence[Column], order: Indices) -> Column:
    kinds = {None if isinstance(c, np.ndarray | Ragged | list) else c.type for c in columns}
    return take(joined(columns), order) if None in kinds or len(kinds) > 1 else picked_text(columns, order)


def gathered(starts: Indices, numbers: Indices, read: Callable[[int, Indices], Block]) -> Block:
    """Rows by number out of runs that follow one another, in the order asked for. Each run is read once.

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
    return picked(parts, back)


def in_runs(starts: Indices, numbers: Indices) -> tuple[Indices, list[tuple[int, Indices]]]:
    """Row numbers sorted by the run that each lies in: their order, and the numbers within each run that has any."""
    run_of = np.searchsorted(starts, numbers, side="right") - 1
    by_run = np.argsort(run_of, kind="stable")
    within = (numbers - starts[run_of])[by_run]
    runs, counts = np.unique(run_of, return_counts=True)
    ends = np.cumsum(counts).tolist()
    return by_run, [(run, within[a:b]) for run, a, b in zip(runs.tolist(), [0, *ends], ends, strict=False)]


def stackable(column: Column, path: str = "") -> NDArray[Any] | str:
    """The column as a dense array, strings as objects; or, where the rows of a batch do not fit together, why not."""
    if isinstance(column, np.ndarray):
        return column
    if isinstance(column, Ragged):
        lengths, dense = column.row_lengths(), column.values
        if isinstance(dense, Ragged):
            return mismatch.why_ragged_rows_are_refused(path)
        if (lengths == lengths[0]).all():
            stacked: NDArray[Any] = dense.reshape(len(column), int(lengths[0]), *dense.shape[1:])
            return stacked
        row = int(np.flatnonzero(lengths != lengths[0])[0])
        return mismatch.why_components_differ(path, leaf_spec(column[0]), leaf_spec(column[row]), row)
    if not isinstance(column, list):
        return objects(column)
    if any(isinstance(v, Ragged) for v in column):
        return mismatch.why_ragged_rows_are_refused(path)
    joined = joined_leaves(column)
    if joined is not None:
        return joined
    specs = [leaf_spec(v) for v in column]
    row = next(i for i, spec in enumerate(specs) if not mismatch.alike(specs[0], spec))
    return mismatch.why_components_differ(path, specs[0], specs[row], row)


def joined_leaves(rows: list[Any]) -> NDArray[Any] | None:
    """Rows of a list as one dense array, None where they differ in dtype or shape."""
    made = column(rows)
    if isinstance(made, np.ndarray):
        return made
    if any(isinstance(r, np.ndarray | np.generic) for r in rows):
        return None
    boxes = np.empty(len(rows), dtype=object)
    for i, row in enumerate(rows):
        boxes[i] = row
    return boxes


def fold(block: Block, size: int) -> Block | str:
    """Every `size` rows as one, a multiple of them; or why the rows of a component cannot be stacked."""
    groups = block.rows // size
    columns: list[Column] = []
    for path, col in zip(block.structure.paths, block.columns, strict=True):
        dense = stackable(col, path)
        if isinstance(dense, str):
            return dense
        columns.append(dense[None] if groups == 1 else dense.reshape(groups, size, *dense.shape[1:]))
    made = Block(block.structure, columns, groups, block.mark, None if block.ids is None else block.ids[::size])
    made._nbytes = block._nbytes
    return made


def scalar_block(values: NDArray[Any], ids: Ids | None = None) -> Block:
    """A block of single components."""
    return Block(LEAF, [values], len(values), None, ids)


def folded(ids: Ids | None, value: int) -> Ids | None:
    """The ids of rows that have become others: the path key with `value` folded in, one to one."""
    if ids is None:
        return None
    made = ids.copy()
    made[:, 0] = made[:, 0] * np.uint64(FOLD) + np.uint64(value)
    return made


FOLD = 0x9E3779B97F4A7C15


def source_ids(path: int, ordinals: Indices) -> Ids:
    """The ids of rows that a source on this path gives."""
    ids = np.empty((len(ordinals), 2), np.uint64)
    ids[:, 0] = path
    ids[:, 1] = ordinals
    return ids
