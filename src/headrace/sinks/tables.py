"""Elements as Arrow tables, made in the tasks of `to_ray` and `to_dask`."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace.cluster.parcels import pack_by_value, unpack_by_value
from headrace.cluster.ranges import MAX_RANGES, PlanRanges, check_sendable
from headrace.cluster.splits import with_fixed_seeds
from headrace.columns import Varied, in_own_kinds
from headrace.columns.block import Block
from headrace.core.types import Component
from headrace.errors import SpecError
from headrace.iterator import Epochs
from headrace.iterator import Iterator as PlanIterator
from headrace.ops.shared.arguments import positive
from headrace.ops.take import Take
from headrace.ops.with_options import for_pass
from headrace.plan.capabilities import require_end
from headrace.plan.spec import Spec, TensorSpec
from headrace.plan.structure import Structure
from headrace.sinks.deal import SAMPLED_ROWS, FirstRows, cut_runs
from headrace.sinks.write_parquet import ParquetEncoding
from headrace.sinks.writing import named_columns

if TYPE_CHECKING:
    import pyarrow as pa

    from headrace.dataset import Dataset

TABLE_BYTES = 16 << 20
"""The approximate size of a table."""
PARTITION_BYTES = 64 << 20


@dataclass(frozen=True)
class PlanPart:
    """Some of the elements of a dataset: number `part` of `parts`."""

    packed: bytes
    part: int
    parts: int

    def blocks(self) -> Iterator[Block]:
        """Yield the rows, those of epoch 0."""
        try:
            with PlanIterator(unpack_by_value(self.packed), Epochs()) as it:
                yield from it.blocks()
        except Exception as error:
            where = f"process {os.getpid()} on {platform.node()}"
            error.add_note(f"It was raised in partition {self.part} of {self.parts}, by {where}.")
            raise

    def elements(self) -> list[Component]:
        """Return all of them."""
        return [element for block in self.blocks() for element in block.elements()]


@dataclass(frozen=True)
class TablePart:
    """The rows as tables of one schema."""

    rows: PlanPart
    columns: TableColumns

    def tables(self) -> Iterator[pa.Table]:
        """Yield tables of about 16 MB each; none if there are no rows."""
        for run in cut_runs(self.rows.blocks(), TABLE_BYTES):
            yield self.columns.table(run)

    def whole(self) -> pa.Table:
        """Return all rows."""
        import pyarrow as pa

        return pa.concat_tables([self.columns.empty(), *self.tables()])


class TableColumns:
    """The columns of all tables, inferred from the spec and the first rows."""

    def __init__(self, spec: Spec, first: list[Block]) -> None:
        if not first:
            raise ValueError("there are no elements, so the columns of the tables are unknown")
        structure = first[0].structure
        known = spec.leaves if spec.structure == structure else [None] * structure.leaves
        self._shapes = {
            name: shape if len(shape) > 1 or getattr(leaf, "shape", None) == shape else ()
            for (name, shape), leaf in zip(_shapes(first).items(), known, strict=True)
        }
        self._encoding = ParquetEncoding(_with_shapes(structure, known, self._shapes), "none")
        self._empty = self.table(first).slice(0, 0)

    @property
    def tensors(self) -> dict[str, tuple[int, ...]]:
        """Columns of arrays of one shape, with that."""
        return {name: shape for name, shape in self._shapes.items() if shape}

    def empty(self) -> pa.Table:
        """Return a table without rows."""
        return self._empty

    def table(self, blocks: list[Block]) -> pa.Table:
        """Return rows as a table."""
        for block in blocks:
            for name, column in _named(block).items():
                shape, here = self._shapes.get(name), column.shape[1:] if isinstance(column, np.ndarray) else "others"
                if shape and here != shape:
                    raise SpecError(_ragged(name, f"{shape} in the first rows and {here} here"))
        return self._encoding.encode(blocks)


def _named(block: Block) -> dict[str, Any]:
    return named_columns(block, "a row of a table is made of a dict")


def _shapes(first: list[Block]) -> dict[str, tuple[int, ...]]:
    """Return the shape of the rows of each column, if they are arrays of one shape; else ()."""
    found: dict[str, set[tuple[int, ...]]] = {}
    for block in first:
        for name, held in _named(block).items():
            column, shapes = in_own_kinds(held), found.setdefault(name, set())
            if isinstance(column, Varied):
                shapes.update(map(tuple, column.shapes.tolist()))
            else:
                dense = isinstance(column, np.ndarray) and column.dtype.kind in "biufmM"
                shapes.add(column.shape[1:] if dense else ())
    for name, shapes in found.items():
        if len(shapes) > 1 and max(map(len, shapes)) > 1:
            raise SpecError(_ragged(name, ", ".join(map(str, sorted(shapes)[:3]))))
    return {name: next(iter(shapes)) if len(shapes) == 1 else () for name, shapes in found.items()}


def _ragged(name: str, what: str) -> str:
    return (
        f"column {name!r} has arrays of different shapes, {what}, which no column of a table holds: "
        "pad, resize or encode them first, as with hr.image.resize or hr.image.encode_png"
    )


def _with_shapes(structure: Structure, known: Sequence[object], shapes: dict[str, tuple[int, ...]]) -> Spec:
    """Return what is known of components, and the shapes of arrays. Of one axis alone, others may be of
    another length.
    """
    leaves = []
    for leaf, shape in zip(known, shapes.values(), strict=True):
        dtype, said = (leaf.dtype, leaf.shape) if isinstance(leaf, TensorSpec) else (None, None)
        leaves.append(TensorSpec(shape or said, dtype))
    return Spec(structure, tuple(leaves))


def rows_to_look_at(ds: Dataset) -> list[Block]:
    """Return the first rows of epoch 0, made here."""
    with PlanIterator(Take(ds._node, SAMPLED_ROWS), Epochs()) as it:
        return FirstRows(it.blocks()).peek(SAMPLED_ROWS)


def plan_parts(ds: Dataset, partitions: int | None, row_bytes: float | None) -> list[PlanPart] | None:
    """Split the elements into `partitions` parts, or a sensible number; None if the plan cannot be cut."""
    count = ds._node.cardinality
    require_end(ds._node, "a table of another engine")
    plan = for_pass(ds._node)
    check_sendable(plan)
    most = MAX_RANGES if partitions is None else positive("partitions", partitions)
    if partitions is None and row_bytes is not None and count.known:
        most = min(4096, max(16, int(row_bytes * count) // PARTITION_BYTES))
    try:
        plans = PlanRanges(plan).parts(most)
    except ValueError:
        return None
    return [PlanPart(pack_by_value(each), number, len(plans)) for number, each in enumerate(plans)]


def whole_plan(ds: Dataset) -> PlanPart:
    """Return all elements as one part."""
    return PlanPart(pack_by_value(with_fixed_seeds(for_pass(ds._node))), 0, 1)
