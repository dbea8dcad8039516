"""Rows of CSV files."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from headrace.ops.arguments import integer
from headrace.plan.structure import LEAF, tuple_of
from headrace.records.csv import Csv
from headrace.records.csv_columns import CsvColumn, csv_default_column
from headrace.records.unpack import codec
from headrace.sources.files import read_files
from headrace.sources.one_file import Missing

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
    missing: Missing = "raise",
    storage_options: Mapping[str, Any] | None = None,
    name: str | None = None,
) -> Dataset:
    """The rows of CSV files as tuples, one component a column.

    `record_defaults` has an entry a column: a type (`np.int32`, `np.int64`, `np.float32`, `np.float64`, `str`, `bytes`)
    where a value is required, or a value to use where a field is empty or equals `na_value`; as in tf.data, 0 means
    int32 and 0.0 float32. A bad row is an error in its place, and reading goes on behind it. A header is the first line
    that is not blank.

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     _ = Path(folder, "a.csv").write_text('name,age\\n"Smith, J.",31\\nLee,\\n')
    ...     list(hr.CsvDataset(Path(folder, "a.csv"), [str, -1], header=True))
    [('Smith, J.', np.int32(31)), ('Lee', np.int32(-1))]
    """
    columns = columns_of("record_defaults", record_defaults)
    form = csv_format(
        codec(compression_type),
        columns,
        tuple_of([LEAF] * len(columns)),
        None,
        bool(header),
        delimiter(field_delim),
        bool(use_quote_delim),
        na_value,
        column_numbers("select_cols", select_cols),
        column_numbers("exclude_cols", exclude_cols),
    )
    return read_files(
        "CsvDataset",
        filenames,
        form,
        buffer_size=buffer_size,
        num_parallel_reads=num_parallel_reads,
        on_error=on_error,
        missing=missing,
        name=name,
        storage_options=storage_options,
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


def column_numbers(argument: str, chosen: Sequence[int] | None) -> tuple[int, ...] | None:
    """Column numbers, strictly increasing."""
    if chosen is None:
        return None
    made = tuple(integer(argument, c) for c in chosen)
    if any(a < 0 for a in made) or any(a >= b for a, b in itertools.pairwise(made)):
        raise ValueError(f"{argument} must be column numbers from 0 on, each larger than the one before, not {made}")
    return made


def columns_of(argument: str, defaults: Sequence[Any]) -> tuple[CsvColumn, ...]:
    """The columns that an argument describes."""
    return tuple(csv_column(f"{argument}[{number}]", default) for number, default in enumerate(defaults))


def csv_column(what: str, default: Any) -> CsvColumn:
    """One column; `what` names it in an error."""
    try:
        return csv_default_column(default)
    except ValueError as error:
        raise ValueError(f"{what}: {error}") from None
