"""Rows of CSV files."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace.ops.arguments import integer
from headrace.plan.structure import LEAF, tuple_of
from headrace.records.csv import KINDS, Csv, CsvColumn
from headrace.records.unpack import codec
from headrace.sources.files import read_files

if TYPE_CHECKING:
    from headrace.dataset import Dataset


def CsvDataset(  # noqa: N802 - as tf.data names it
    filenames: Any,
    record_defaults: Sequence[Any],
    compression_type: str | None = None,
    buffer_size: int | None = None,
    header: bool = False,
    field_delim: str = ",",
    use_quote_delim: bool = True,
    na_value: str = "",
    select_cols: Sequence[int] | None = None,
    exclude_cols: Sequence[int] | None = None,
    *,
    num_parallel_reads: int | None = None,
    on_error: Any = "raise",
    name: str | None = None,
) -> Dataset:
    """The rows of CSV files as tuples, one component a column.

    `record_defaults` has an entry a column: a type (`np.int32`, `np.int64`, `np.float32`, `np.float64`, `str`, `bytes`)
    where a value is required, or `[value]` to use where a field is empty or equals `na_value`. A bad row is an error in
    its place, and reading goes on behind it.

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     _ = Path(folder, "a.csv").write_text('name,age\\n"Smith, J.",31\\nLee,\\n')
    ...     list(hr.CsvDataset(Path(folder, "a.csv"), [str, [-1]], header=True))
    [('Smith, J.', np.int32(31)), ('Lee', np.int32(-1))]
    """
    columns = tuple(column(i, default) for i, default in enumerate(record_defaults))
    form = csv_format(
        codec(compression_type),
        columns,
        tuple_of([LEAF] * len(columns)),
        None,
        bool(header),
        delimiter(field_delim),
        bool(use_quote_delim),
        na_value,
        numbers("select_cols", select_cols),
        numbers("exclude_cols", exclude_cols),
    )
    return read_files(
        "CsvDataset",
        filenames,
        form,
        buffer_size=buffer_size,
        num_parallel_reads=num_parallel_reads,
        on_error=on_error,
        name=name,
    )


def csv_format(
    compression: str,
    columns: tuple[CsvColumn, ...],
    structure: Any,
    names: tuple[str, ...] | None,
    header: bool,
    delim: str,
    quotes: bool,
    na: str,
    select: tuple[int, ...] | None,
    exclude: tuple[int, ...] | None,
) -> Csv:
    """A format whose parts fit together."""
    if not columns:
        raise ValueError("record_defaults must name at least one column")
    if select is not None and exclude is not None:
        raise ValueError("give select_cols or exclude_cols, not both")
    if select is not None and len(select) != len(columns):
        raise ValueError(f"select_cols has {len(select)} entries, record_defaults {len(columns)}")
    return Csv(compression, columns, structure, names, header, delim, quotes, na, select, exclude or ())


def delimiter(field_delim: str) -> str:
    """A single character, one byte."""
    if len(field_delim.encode()) != 1 or field_delim in "\r\n":
        raise ValueError(f"field_delim must be one character of one byte and no line end, not {field_delim!r}")
    return field_delim


def numbers(argument: str, chosen: Sequence[int] | None) -> tuple[int, ...] | None:
    """Column numbers, strictly increasing."""
    if chosen is None:
        return None
    made = tuple(integer(argument, c) for c in chosen)
    if any(a < 0 for a in made) or any(a >= b for a, b in itertools.pairwise(made)):
        raise ValueError(f"{argument} must be column numbers from 0 on, each larger than the one before, not {made}")
    return made


def column(number: int, default: Any) -> CsvColumn:
    """A column as record_defaults describes it: a type, or a value to fall back on."""
    if isinstance(default, type | np.dtype) or (isinstance(default, str) and default in (*KINDS, "string")):
        return CsvColumn(_kind(number, np.dtype(str if default == "string" else default)))
    if isinstance(default, np.ndarray) and default.ndim == 1 and not len(default):
        return CsvColumn(_kind(number, default.dtype))
    values = np.ravel(np.asarray(default, None if not isinstance(default, str | bytes) else object))
    if len(values) != 1:
        raise ValueError(f"record_defaults[{number}] must be a type or one value in a list, not {default!r}")
    value = default[0] if isinstance(default, list | tuple) else values[0]
    if isinstance(value, str):
        return CsvColumn("str", value.encode())
    if isinstance(value, bytes):
        return CsvColumn("bytes", value)
    if isinstance(value, np.generic):
        return CsvColumn(_kind(number, value.dtype), value.item())
    if isinstance(value, float):
        return CsvColumn("float32", value)
    if isinstance(value, int) and not isinstance(value, bool):
        return CsvColumn("int32", _fitting(number, value))
    raise ValueError(f"record_defaults[{number}]: a column of CSV cannot hold {value!r}")


def _fitting(number: int, value: int) -> int:
    if not -(2**31) <= value < 2**31:
        raise ValueError(f"record_defaults[{number}]: {value} does not fit into int32; write np.int64({value})")
    return value


def _kind(number: int, dtype: np.dtype[Any]) -> str:
    name = {"U": "str", "S": "bytes"}.get(dtype.kind, dtype.name)
    if name not in KINDS:
        raise ValueError(f"record_defaults[{number}]: a column of CSV is one of {', '.join(KINDS)}, not {dtype}")
    return name
