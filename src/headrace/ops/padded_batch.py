"""Batch elements that differ in size, padded to a common one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from headrace.columns import MAX_AXES, Column, RaggedText, Varied, column_of, in_own_kinds, kind_of, values
from headrace.columns.block import Block, leaf
from headrace.columns.text import is_of_bytes
from headrace.core.ragged import Ragged
from headrace.core.types import Array, Component, DType, Nested
from headrace.errors import SpecError
from headrace.ops.shared.arguments import positive
from headrace.ops.shared.batching import Batching
from headrace.ops.shared.keywords import explain_keywords
from headrace.plan.dtypes import ShapeLike
from headrace.plan.spec import DatasetSpec, Shape, Spec, TensorSpec, child_values, shape_leaves
from headrace.plan.structure import LEAF, Structure, flatten

if TYPE_CHECKING:
    from headrace.dataset import Dataset


@explain_keywords
def padded_batch(
    self: Dataset,
    batch_size: int,
    padded_shapes: Nested = None,
    padding_values: Nested = None,
    drop_remainder: bool = False,
    name: str | None = None,
) -> Dataset:
    """Combine every `batch_size` elements into one and pad shorter ones to the longest, or to `padded_shapes`.

    A `padding_values` scalar is used for all components of its kind of dtype; elsewhere, and for None, 0 or empty text.

    Args:
        batch_size: Number of elements in a batch.
        padded_shapes: Shapes to pad to; None in a shape means the longest of the batch.
        padding_values: Values to pad with. Default: 0, False or empty text.
        drop_remainder: Whether to drop the last batch if it is short.
        name: Label of the operation in `explain()`, `stats()` and error messages.

    Returns:
        A new dataset.

    >>> rows = hr.Dataset.from_tensor_slices(hr.Ragged.from_rows([[1], [2, 3], [4, 5, 6]]))
    >>> list(rows.padded_batch(2, padding_values=-1))
    [array([[ 1, -1],
           [ 2,  3]]), array([[4, 5, 6]])]
    """
    size = positive("batch_size", batch_size)
    padding = Padding(padded_shapes, padding_values)
    spec = self._node.spec
    if spec.structure is not None:
        padding.check(spec)
    return self._then(PaddedBatch, size, bool(drop_remainder), padding, name=name)


@dataclass(frozen=True)
class Padding:
    """The shapes and values to pad with, as the user wrote them."""

    shapes: Nested = None
    values: Nested = None

    def check(self, spec: Spec) -> None:
        """Refuse what contradicts what is known of the elements."""
        assert spec.structure is not None
        for path, known, target in zip(spec.structure.paths, spec.leaves, self.targets(spec.structure), strict=True):
            if isinstance(known, DatasetSpec):
                raise TypeError(f"padded batches of datasets cannot be made: component{path} is a {known}")
            if target is None or known.shape is None:
                continue
            if len(target) != len(known.shape):
                raise ValueError(f"padded_shapes: component{path} has {len(known.shape)} axes, not {len(target)}")
            for have, want in zip(known.shape, target, strict=True):
                if have is not None and want is not None and have > want:
                    raise ValueError(f"padded_shapes: component{path} is {known}, which does not fit into {target}")
        self.fillers(spec.structure, [s.dtype for s in spec.leaves])

    def targets(self, structure: Structure) -> list[Shape]:
        """Return the shape to fill each component up to; None, as a whole or for an axis, for the longest."""
        if self.shapes is None:
            return [None] * structure.leaves
        found = [self.shapes] if structure == LEAF else shape_leaves("padded_shapes", structure, self.shapes)
        return [_target(shape) for shape in found]

    def fillers(self, structure: Structure, dtypes: list[DType | None]) -> list[Component]:
        """Return what each component is filled up with, None for the default."""
        if self.values is None:
            return [None] * structure.leaves
        given, leaves = flatten(self.values)
        if given == LEAF:
            value = leaf(leaves[0])
            if np.ndim(value):
                raise SpecError(f"padding_values must be single values, not {self.values!r}")
            if dtypes and not any(_same_kind(value, d) for d in dtypes):
                raise SpecError(f"padding_values: no component is of a kind that {self.values!r} can fill")
            return [value if _same_kind(value, d) else None for d in dtypes]
        filled = _fill_nones(structure, self.values)
        for path, value, dtype in zip(structure.paths, filled, dtypes, strict=True):
            if value is not None and not _same_kind(leaf(value), dtype):
                raise SpecError(f"padding_values: component{path} is {dtype}, which {value!r} cannot fill")
        return [None if v is None else leaf(v) for v in filled]

    def __str__(self) -> str:
        return f"{self.shapes}, {self.values}"


def _target(shape: ShapeLike) -> Shape:
    if shape is None:
        return None
    if isinstance(shape, TensorSpec):
        return shape.shape
    sizes = [shape] if isinstance(shape, int) else list(shape)
    return tuple(None if n is None or n == -1 else int(n) for n in sizes)


def _fill_nones(structure: Structure, values: object) -> list[Component]:
    """Return the leaves of `values` for the structure; a None stands for a whole component's default."""
    if values is None:
        return [None] * structure.leaves
    if structure.kind is None:
        if flatten(values)[0] != LEAF:
            raise SpecError(f"padding_values {values!r} has more structure than the elements")
        return [values]
    pairs = child_values("padding_values", structure, values)
    return [found for child, item in pairs for found in _fill_nones(child, item)]


def _same_kind(value: object, dtype: DType | None) -> bool:
    if dtype is None:
        return True
    if isinstance(value, str | bytes):
        return dtype.kind in "O" + ("U" if isinstance(value, str) else "S")
    groups = {"b": "b", "i": "iu", "u": "iu", "f": "f", "c": "c"}
    kind = np.asarray(value).dtype.kind
    return dtype.kind in groups.get(kind, kind) or (kind in "iu" and dtype.kind in "fc")


@dataclass(frozen=True, eq=False)
class PaddedBatch(Batching):
    """Pad rows to a common shape."""

    padding: Padding = field(default=Padding())

    @property
    def operation(self) -> str:
        return "padded_batch"

    @property
    def spec(self) -> Spec:
        known = self.input.spec
        if known.structure is None:
            return known
        targets = self.padding.targets(known.structure)
        leaves = (s if t is None else s.with_shape(t) for s, t in zip(known.leaves, targets, strict=True))
        return Spec(known.structure, tuple(leaves)).with_leading_axis(self.leading)

    def assemble(self, block: Block, size: int) -> Block | str:
        groups = block.rows // size
        structure = block.structure
        columns: list[Column] = []
        targets = self.padding.targets(structure)
        known = [in_own_kinds(column) for column in block.columns]
        fillers = self.padding.fillers(structure, [column_dtype(c) for c in known])
        for path, col, target, filler in zip(structure.paths, known, targets, fillers, strict=True):
            made = pad_rows(col, groups, size, target, filler)
            if isinstance(made, str):
                return f"component{path}: {made}" if path else made
            columns.append(made)
        return Block(structure, columns, groups, block.mark, None if block.ids is None else block.ids[::size])


def column_dtype(col: Column) -> DType | None:
    """The dtype of the rows of a column, as far as it has one."""
    if isinstance(col, np.ndarray | Ragged | Varied):
        return col.dtype
    first = next(values(col), None)
    return np.dtype(type(first)) if isinstance(first, str | bytes) else getattr(first, "dtype", None)


def pad_rows(col: Column, groups: int, size: int, target: Shape, filler: object) -> Column | str:
    """Return every `size` rows of a column padded and stacked, or why they cannot be."""
    if isinstance(col, RaggedText):
        col = col.boxed()
    if isinstance(col, np.ndarray) and (target is None or _fits_as_it_is(col.shape[1:], target)):
        return col.reshape(groups, size, *col.shape[1:])
    if isinstance(col, Ragged) and (target is None or _fits_as_it_is(col.shape[2:], target[1:])):
        return _pad_ragged(col, groups, size, None if target is None else target[0], filler)
    if not isinstance(col, np.ndarray | Ragged | Varied | list):
        return kind_of(col).stack(col, size, "")
    rows = list(values(col))
    if all(not isinstance(r, np.ndarray) for r in rows):
        return kind_of(rows).stack(rows, size, "")
    made: list[Array] = []
    for start in range(0, len(rows), size):
        batch = _padded_rows([np.asarray(r) for r in rows[start : start + size]], target, filler)
        if isinstance(batch, str):
            return batch
        made.append(batch)
    return column_of(list(made))


def _fits_as_it_is(shape: tuple[int | None, ...], target: tuple[int | None, ...]) -> bool:
    return len(shape) == len(target) and all(b is None or a == b for a, b in zip(shape, target, strict=True))


def _pad_ragged(col: Ragged, groups: int, size: int, length: int | None, filler: object) -> Column | str:
    longest = col.row_lengths().reshape(groups, size).max(1, initial=0)
    if length is not None and longest.max(initial=0) > length:
        return f"an element of length {longest.max()} does not fit into {length}"
    lengths = longest if length is None else np.full(groups, length)
    if not col.dtype.hasobject and not isinstance(col.values, Ragged) and col.values.ndim + 2 < MAX_AXES:
        fill = np.zeros((), col.dtype)[()] if filler is None else filler
        values, cell = col.groups_to_padded(lengths, fill), col.values.shape[1:]
        if (lengths == lengths[0]).all():
            return values.reshape(groups, size, int(lengths[0]), *cell)
        shapes = np.empty((groups, 2 + len(cell)), np.int64)
        shapes[:] = (size, 0, *cell)
        shapes[:, 1] = lengths
        return Varied(values.reshape(-1), shapes)
    batches = []
    for i, most in enumerate(lengths.tolist()):
        rows = col[i * size : (i + 1) * size]
        fill = _default(col.dtype, next(iter(rows.values.flat), None)) if filler is None else filler
        batches.append(rows.to_padded(fill, most))
    return column_of(batches)


def _padded_rows(rows: list[Array], target: Shape, filler: object) -> Array | str:
    first = rows[0]
    for row in rows:
        if row.ndim != first.ndim:
            return f"elements of {first.ndim} and of {row.ndim} axes"
        if row.dtype != first.dtype:
            return f"elements of dtype {first.dtype} and of {row.dtype}"
    sizes = [max(axis) for axis in zip(*(r.shape for r in rows), strict=True)]
    if target is not None:
        if len(target) != first.ndim:
            return f"an element of shape {first.shape} does not fit into {target}"
        wanted = [n if t is None else t for n, t in zip(sizes, target, strict=True)]
        if any(n > t for n, t in zip(sizes, wanted, strict=True)):
            return f"an element of shape {tuple(sizes)} does not fit into {target}"
        sizes = wanted
    default = _default(first.dtype, next((r.flat[0] for r in rows if r.size), None)) if filler is None else filler
    out = np.full((len(rows), *sizes), default, first.dtype)
    for place, row in zip(out, rows, strict=True):
        place[tuple(slice(n) for n in row.shape)] = row
    return out


def _default(dtype: DType, example: object) -> Component:
    """Return what a batch is filled up with; `example` is one of its values, if it has any."""
    if dtype.kind == "O":
        return b"" if isinstance(example, bytes) or (example is None and is_of_bytes(dtype)) else ""
    return np.zeros((), dtype)[()]
