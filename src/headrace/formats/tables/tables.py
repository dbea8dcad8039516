"""Tables of Arrow: their types as specs, their columns as those of blocks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING

from headrace.columns import Column
from headrace.core.types import Nested
from headrace.errors import SpecError
from headrace.formats.tables import arrow
from headrace.formats.tables.choice import OBJECT, Choice, as_objects, cast_kind, check_names, no_value
from headrace.formats.tables.damage import check_layout, check_text
from headrace.formats.tables.fields import arrow_fields, field_arrays
from headrace.plan.spec import Spec, TensorSpec
from headrace.plan.structure import Structure, flatten

if TYPE_CHECKING:
    import pyarrow as pa

Path = tuple[str, ...]
"""The names of a column and of the fields that lead to a leaf of it."""


def table_spec(schema: pa.Schema, choice: Choice) -> Spec:
    """Return the spec of a table's rows: dicts, nested if a column has fields."""
    chosen = [schema.field(i) for i in choice.numbers(schema)]
    structure, leaves = flatten({field.name: _tree(field.name, field.type, choice) for field in chosen})
    return Spec(structure, tuple(leaves))


def _tree(name: str, kind: pa.DataType, choice: Choice) -> Nested:
    import pyarrow as pa

    if choice.targets.get(name) is OBJECT and not pa.types.is_struct(kind) and not pa.types.is_interval(kind):
        return TensorSpec(None, None)
    fields = arrow_fields(kind)
    if fields is None:
        return _leaf_spec(name, kind, choice)
    if name in choice.targets or (name in choice.fillers and not isinstance(choice.fillers[name], list)):
        raise SpecError(f"column {name!r} has fields: say it of each, as '{name}.{fields[0][0] if fields else '…'}'")
    kept = [(f"{name}.{key}", key, each) for key, each in fields if f"{name}.{key}" not in choice.exclude]
    check_names([key for _, key, _ in kept], f"field of column {name!r}")
    return {key: _tree(path, each, choice) for path, key, each in kept}


def _leaf_spec(name: str, kind: pa.DataType, choice: Choice) -> TensorSpec:
    import pyarrow as pa

    target = _target(name, kind, choice)
    try:
        made = kind if target is None else _cast(pa.array([], kind), target).type
        spec = arrow.arrow_spec(made)
    except SpecError as error:
        ways = f"exclude=[{name!r}] leaves it out"
        if pa.types.is_decimal(_innermost(kind)):
            nearest = f"cast={{{name!r}: np.float64}} takes the nearest"
            ways = f"{nearest}, {{{name!r}: object}} gives Python's decimal.Decimal, {ways}"
        raise SpecError(f"column {name!r} {error}: {ways}") from None
    if name in choice.fillers:
        filler = choice.fillers[name]
        try:
            pa.scalar(filler, made if isinstance(filler, list) else _innermost(made))
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            raise SpecError(f"nulls={{{name!r}: {filler!r}}} is no value of {made}") from None
    return spec


def _target(name: str, kind: pa.DataType, choice: Choice) -> pa.DataType | None:
    """Return the type that a column is cast to: the user's choice, or that of the fill value if it has no type."""
    import pyarrow as pa

    said = choice.targets.get(name)
    if said is not None or name not in choice.fillers or not pa.types.is_null(_innermost(kind)):
        return said
    filler = choice.fillers[name]
    return None if isinstance(filler, list) else pa.scalar(filler).type


def _innermost(kind: pa.DataType) -> pa.DataType:
    return _innermost(kind.value_type) if arrow.is_list(kind) else kind


def table_columns(
    table: pa.Table | pa.RecordBatch,
    structure: Structure,
    choice: Choice,
    ready: Mapping[Path, Column] | None = None,
    *,
    decoded: bool = False,
) -> list[Column]:
    """Return the columns of a table in the order of the structure's leaves; some may be `ready`. Of `decoded` ones, see
    `numbers_of`.

    Raises SpecError if a value is missing, damaged or cannot be cast.
    """
    if not hasattr(table, "__arrow_c_array__") and len(batches := table.to_batches()) == 1:
        table = batches[0]
    names = table.schema.names
    numbers = arrow.numbers_of(table, decoded=decoded) if hasattr(table, "__arrow_c_array__") else [None] * len(names)
    if not ready and not choice.cast and not choice.nulls and plain_names(structure) == names:
        whole = [column for column in numbers if column is not None]
        if len(whole) == len(names):
            return [*whole]
    made: dict[Path, Column] = dict(ready or {})
    for i, name in enumerate(names):
        column = None if choice.changes(name) else numbers[i]
        if column is not None:
            made[(name,)] = column
            continue
        array = _whole(table.column(i))
        try:
            check_layout(array)
        except ValueError as error:
            raise SpecError(f"column {name!r} is damaged: {error}") from None
        if _is_ready(name, array, choice):
            made[(name,)] = array.to_numpy(zero_copy_only=False)
        else:
            made.update(_leaves((name,), array, choice))
    return [made[path] for path in leaf_paths(structure)]


def _is_ready(name: str, array: pa.Array, choice: Choice) -> bool:
    """Return whether NumPy can use the column as it is."""
    number, known = array.type.id, arrow.ids()
    if number not in known.plain or choice.changes(name):
        return False
    return number in known.with_nan or not array.null_count


@lru_cache(64)
def plain_names(structure: Structure) -> list[str] | None:
    """Return the names of the columns, in order. None if some have fields."""
    paths = leaf_paths(structure)
    if any(len(path) != 1 for path in paths):
        return None
    return [name for (name,) in paths]


@lru_cache(64)
def leaf_paths(structure: Structure, outer: Path = ()) -> tuple[Path, ...]:
    """Return the names that lead to the leaves of nested dicts."""
    if structure.kind is None:
        return (outer,)
    pairs = zip(structure.keys, structure.children, strict=True)
    return tuple(path for key, child in pairs for path in leaf_paths(child, (*outer, str(key))))


def _whole(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    import pyarrow as pa

    if not isinstance(column, pa.ChunkedArray):
        return column
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks or [pa.array([], column.type)])


def _leaves(path: Path, array: pa.Array, choice: Choice) -> Iterator[tuple[Path, Column]]:
    name = ".".join(path)
    if choice.targets.get(name) is OBJECT:
        yield path, _objects(name, array, choice)
        return
    fields = arrow_fields(array.type)
    if fields is None:
        yield path, _column(name, array, choice)
        return
    if name in choice.fillers:
        array = fill_missing(array, choice.fillers[name])
    for (key, _), each in zip(fields, field_arrays(array), strict=True):
        if f"{name}.{key}" not in choice.exclude:
            yield from _leaves((*path, key), each, choice)


def _objects(name: str, array: pa.Array, choice: Choice) -> Column:
    """Return each value as a Python object."""
    try:
        return as_objects(name, array.to_pylist(), choice)
    except UnicodeDecodeError:
        raise SpecError(_no_text(name)) from None


def _column(name: str, array: pa.Array, choice: Choice) -> Column:
    if arrow.is_encoded(array.type):
        array = arrow.decoded(array)
    target = _target(name, array.type, choice)
    if target is None or not arrow.is_bytes(target):  # any bytes are bytes
        try:
            check_text(array)
        except ValueError:
            raise SpecError(_no_text(name)) from None
    if target is not None:
        try:
            array = _cast(array, target)
        except SpecError as error:
            raise SpecError(f"column {name!r} {error}") from None
    if name in choice.fillers:
        array = fill_missing(array, choice.fillers[name])
    if arrow.missing_row(array) is not None:
        raise SpecError(no_value(name))
    return arrow.arrow_column(array)


def _no_text(name: str) -> str:
    return f"column {name!r} holds bytes that are no UTF-8; cast={{{name!r}: bytes}} reads them"


def _cast(array: pa.Array, target: pa.DataType) -> pa.Array:
    import pyarrow as pa

    try:
        return array.cast(cast_kind(array.type, target))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise SpecError(f"cannot be cast to {target}: {error}") from None


def fill_missing(array: pa.Array, value: object) -> pa.Array:
    """With `value` where there is none; within lists, unless it is a list itself."""
    import pyarrow as pa

    kind = array.type
    if isinstance(value, list) or not arrow.is_list(kind):
        return array.fill_null(pa.scalar(value, kind)) if array.null_count else array
    inner = fill_missing(array.flatten(), value)
    if array.null_count:
        return array
    size = arrow.list_size(kind)
    if size is not None:
        return pa.FixedSizeListArray.from_arrays(inner, size)
    return pa.LargeListArray.from_arrays(pa.array(arrow.offsets_of(array)), inner)
