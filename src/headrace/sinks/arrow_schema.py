"""Components as columns of Arrow tables: which types they have, and rows as tables of these."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.columns.block import Block
from headrace.core.types import DType
from headrace.errors import SpecError
from headrace.plan.spec import Spec, TensorSpec
from headrace.plan.structure import Structure
from headrace.sinks.arrow_arrays import arrow_array, arrow_unit, common_schema, lacks_dtype

if TYPE_CHECKING:
    import pyarrow as pa

SINGLE = "value"
"""The name of the column if elements are single components."""


def schema_of(spec: Spec) -> pa.Schema | None:
    """The columns of all rows, as far as the spec determines them; None if only the rows do."""
    import pyarrow as pa

    if spec.structure is None:
        return None
    kinds = [_kind_of(name, leaf) for name, leaf in zip(column_names(spec.structure), spec.leaves, strict=True)]
    if any(kind is None for kind in kinds):
        return None
    return pa.schema([pa.field(n, k) for n, k in zip(column_names(spec.structure), kinds, strict=True)])


def _kind_of(name: str, leaf: object) -> pa.DataType | None:
    import pyarrow as pa

    if not isinstance(leaf, TensorSpec):
        raise TypeError(f"column {name!r} is a dataset of its own, which no column of a table holds: flat_map it first")
    if leaf.shape is None or leaf.dtype is None or leaf.dtype.kind == "O":
        return None
    kind = value_kind(name, leaf.dtype)
    for size in reversed(leaf.shape):
        kind = pa.list_(kind, size) if size else pa.large_list(kind)
    return kind


def value_kind(name: str, dtype: DType) -> pa.DataType:
    """Return the type of single values. Raise TypeError if Arrow has no such type."""
    import pyarrow as pa

    if dtype.kind in "US":
        return pa.large_string() if dtype.kind == "U" else pa.large_binary()
    if dtype.kind in "mM":
        unit = arrow_unit(dtype)
        if dtype.kind == "M":
            return pa.date32() if unit == "D" else pa.timestamp(unit)
        return pa.duration(unit)
    try:
        return pa.from_numpy_dtype(dtype)
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid, TypeError):
        raise lacks_dtype(name, dtype) from None


def column_names(structure: Structure) -> list[str]:
    """The names of leaves: keys and numbers on the way to each, joined by `/`."""
    names = [SINGLE] if structure.kind is None else _names(structure, ())
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise SpecError(f"more than one column would be called {', '.join(twice)}: rename components with map")
    if not names:
        raise SpecError("elements have no components, so a table of them would have no columns")
    return names


def _names(structure: Structure, outer: tuple[str, ...]) -> list[str]:
    if structure.kind is None:
        return ["/".join(outer)]
    keys = structure.keys or tuple(range(len(structure.children)))
    pairs = zip(keys, structure.children, strict=True)
    return [name for key, child in pairs for name in _names(child, (*outer, str(key)))]


class ArrowColumns:
    """Rows as tables of one schema, whose columns stand in the order in which elements name them."""

    def __init__(self, spec: Spec, schema: pa.Schema) -> None:
        self._spec = spec
        self._schema = schema
        assert spec.structure is not None
        self._order = _written_order(spec.structure, schema.names)

    @classmethod
    def of_rows(cls, spec: Spec, first: list[Block]) -> ArrowColumns:
        """Infer from the first rows what the spec leaves open."""
        if not first:
            raise SpecError(
                "there are no elements, and element_spec does not tell their columns: say it, as with "
                "map(..., output_signature=)"
            )
        structure = first[0].structure
        known = spec if spec.structure == structure else Spec(structure, (TensorSpec(None, None),) * structure.leaves)
        return cls(known, common_schema([_table(block, known) for block in first]))

    @property
    def schema(self) -> pa.Schema:
        """The columns of every table."""
        return self._schema if self._order is None else _select(self._schema, self._order)

    def table(self, blocks: list[Block]) -> pa.Table:
        """Return rows as a table. Raise TypeError if they do not fit the columns."""
        import pyarrow as pa

        made = pa.concat_tables([self._cast(_table(block, self._spec)) for block in blocks]).combine_chunks()
        return made if self._order is None else made.select(self._order)

    def _cast(self, table: pa.Table) -> pa.Table:
        import pyarrow as pa

        if table.schema == self._schema:
            return table
        if table.column_names != self._schema.names:
            raise SpecError(
                f"an element has the components {table.column_names}, the first ones had {self._schema.names}: "
                "map all to one structure"
            )
        columns = []
        for field, column in zip(self._schema, table.columns, strict=True):
            try:
                columns.append(column if column.type == field.type else column.cast(field.type))
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError) as error:
                raise TypeError(
                    f"column {field.name!r} holds {column.type} here, and {field.type} in the rows before or by "
                    f"element_spec ({error}): map all rows to one dtype and shape"
                ) from None
        return pa.table(columns, schema=self._schema)


def _table(block: Block, spec: Spec) -> pa.Table:
    import pyarrow as pa

    names = column_names(block.structure)
    known = spec.leaves if spec.structure == block.structure else [None] * len(names)
    arrays = [arrow_array(n, c, leaf) for n, c, leaf in zip(names, block.columns, known, strict=True)]
    return pa.table(arrays, names=names)


def _written_order(structure: Structure, names: list[str]) -> list[str] | None:
    """Return the names in the order in which a flat dict was written, if that is another order."""
    written = [str(key) for key in structure.written]
    return written if structure.flat and written != names and sorted(written) == sorted(names) else None


def _select(schema: pa.Schema, names: list[str]) -> pa.Schema:
    import pyarrow as pa

    return pa.schema([schema.field(name) for name in names])
