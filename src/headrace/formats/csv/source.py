"""Rows of CSV files."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from headrace.core.types import FilePatterns, Nested
from headrace.formats.csv.columns import CsvColumn, csv_default_column
from headrace.formats.csv.format import Csv
from headrace.formats.shared.many_files import read_files
from headrace.formats.shared.one_file import Missing
from headrace.formats.shared.unpack import codec
from headrace.ops.shared.arguments import integer
from headrace.plan.structure import LEAF, tuple_of

if TYPE_CHECKING:
    from headrace.dataset import Dataset
    from headrace.formats.shared.quarantine import Quarantine


def CsvDataset(  # noqa: N802 - as tf.data names it
    filenames: FilePatterns,
    record_defaults: Sequence[object],
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
    on_error: str | Quarantine = "raise",
    missing: Missing = "raise",
    storage_options: Mapping[str, object] | None = None,
    name: str | None = None,
) -> Dataset:
    """Read the rows of CSV files as tuples, one component per column.

    `record_defaults` has an entry a column: a type (`np.int32`, `np.int64`, `np.float32`, `np.float64`, `str`, `bytes`)
    if a value is required, or a value to use if a field is empty or equals `na_value`; as in tf.data, 0 means
    int32 and 0.0 float32. A bad row is an error in its place, and reading continues after it. A header is the first
    line that is not blank.

    Args:
        filenames: Path or URL, a list of these, or a dataset of them.
        record_defaults: A type (value required) or a default value for each column.
        compression_type: "GZIP", "ZLIB", "ZSTD", or None for what the file itself says.
        buffer_size: Number of bytes to read at a time. Default: chosen automatically.
        header: Whether the first line contains column names.
        field_delim: Character between fields.
        use_quote_delim: Whether double quotes enclose fields.
        na_value: Text that stands for a missing value.
        select_cols: Numbers of the columns to read. Default: all.
        exclude_cols: Numbers of the columns not to read.
        num_parallel_reads: Number of files whose rows take turns, or `hr.AUTOTUNE`. Default: one file after another.
            This sets the order, not the number of threads.
        on_error: What to do with bad records: "raise", "skip", or an `hr.Quarantine`.
        missing: "raise" an error for files that cannot be opened, or "skip" them with a warning.
        storage_options: Options of the file system, such as credentials; see `hr.Options`.
        name: Label of the operation in `explain()`, `stats()` and error messages.

    Returns:
        A new dataset.

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
    structure: Nested,
    names: tuple[str, ...] | None,
    header: bool,
    delim: str,
    quotes: bool,
    na: str,
    select: tuple[int, ...] | None,
    exclude: tuple[int, ...] | None,
) -> Csv:
    """Return a format with consistent parts."""
    if not columns:
        raise ValueError("record_defaults must name at least one column")
    if select is not None and exclude is not None:
        raise ValueError("give select_cols or exclude_cols, not both")
    if select is not None and len(select) != len(columns):
        raise ValueError(f"select_cols has {len(select)} entries, record_defaults {len(columns)}")
    return Csv(compression, columns, structure, names, header, delim, quotes, na, select, exclude or ())


def delimiter(field_delim: str) -> str:
    """Return a single character, one byte."""
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


def columns_of(argument: str, defaults: Sequence[object]) -> tuple[CsvColumn, ...]:
    """Return the columns that an argument describes."""
    return tuple(csv_column(f"{argument}[{number}]", default) for number, default in enumerate(defaults))


def csv_column(what: str, default: object) -> CsvColumn:
    """Return one column; `what` names it in an error."""
    try:
        return csv_default_column(default)
    except ValueError as error:
        raise ValueError(f"{what}: {error}") from None
