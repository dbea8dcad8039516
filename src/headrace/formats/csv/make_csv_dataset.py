"""CSV files as tf.data's `make_csv_dataset` reads them."""

from __future__ import annotations

import codecs
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from headrace.core.types import FilePatterns
from headrace.formats.csv.layout import ColumnOptions, bare_form, layout
from headrace.formats.shared.list_files import matching
from headrace.formats.shared.many_files import read_files
from headrace.indexed.memory import from_tensor_slices
from headrace.options import AUTOTUNE, Options
from headrace.remote.transport import ALONE

if TYPE_CHECKING:
    from headrace.dataset import Dataset


def make_csv_dataset(
    file_pattern: FilePatterns,
    batch_size: int,
    column_names: Sequence[str] | None = None,
    column_defaults: Sequence[object] | Mapping[str, object] | None = None,
    label_name: str | None = None,
    select_columns: Sequence[int | str] | None = None,
    field_delim: str = ",",
    use_quote_delim: bool = True,
    na_value: str = "",
    header: bool = True,
    num_epochs: int | None = None,
    shuffle: bool = True,
    shuffle_buffer_size: int = 10_000,
    shuffle_seed: int | None = None,
    prefetch_buffer_size: int | None = None,
    num_parallel_reads: int | None = None,
    sloppy: bool = False,
    num_rows_for_inference: int | None = 100,
    compression_type: str | None = None,
    ignore_errors: bool = False,
    encoding: str = "utf-8",
    *,
    storage_options: Mapping[str, object] | None = None,
) -> Dataset:
    """Read CSV files in batches of dicts, by default shuffled and repeated forever, like tf.data's function.

    As there, 0 or "" replaces missing values in a column whose type was inferred; `Dataset.from_csv` keeps missing
    numbers apart from zeros.

    Args:
        file_pattern: Path, URL or glob pattern, or a list of these.
        batch_size: Number of elements in a batch.
        column_names: Names of the columns. Default: those of the header.
        column_defaults: A type or a default value for each column, as a list or by name. Default: inferred.
        label_name: Column that becomes the label; elements are then pairs (features, label).
        select_columns: Columns to read, by name or number. Default: all.
        field_delim: Character between fields.
        use_quote_delim: Whether double quotes enclose fields.
        na_value: Text that stands for a missing value.
        header: Whether the first line contains column names.
        num_epochs: Number of times to go through the data; None repeats forever.
        shuffle: Whether to shuffle.
        shuffle_buffer_size: Number of rows in the shuffle buffer.
        shuffle_seed: Seed of the shuffle.
        prefetch_buffer_size: Number of batches to prepare ahead.
        num_parallel_reads: Number of files whose rows take turns, or `hr.AUTOTUNE`. Default: one file after another.
            This sets the order, not the number of threads.
        sloppy: Whether the order may change for speed.
        num_rows_for_inference: Number of rows from which types are inferred; None uses all.
        compression_type: "GZIP", "ZLIB", "ZSTD", or None for what the file itself says.
        ignore_errors: Whether to leave out rows that cannot be read.
        encoding: Text encoding; None returns bytes.
        storage_options: Options of the file system, such as credentials; see `hr.Options`.

    Returns:
        A new dataset.

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     _ = Path(folder, "a.csv").write_text("x,y\\n1,a\\n,b\\n3,c\\n")
    ...     batches = hr.make_csv_dataset(f"{folder}/*.csv", 2, label_name="y", num_epochs=1, shuffle=False)
    ...     for features, label in batches:
    ...         print(features, label)
    {'x': array([1, 0], dtype=int32)} ['a' 'b']
    {'x': array([3], dtype=int32)} ['c']
    """
    if codecs.lookup(encoding).name not in ("utf-8", "ascii"):
        raise ValueError(
            f"make_csv_dataset reads UTF-8, not {encoding}; convert the files, or ask for bytes as defaults"
        )
    files = matching(file_pattern, storage_options)
    form = layout(
        files[0],
        bare_form(compression_type, header, field_delim, use_quote_delim, na_value),
        ColumnOptions(
            reader="make_csv_dataset",
            column_names=column_names,
            column_defaults=column_defaults,
            label_name=label_name,
            select_columns=select_columns,
            rows=num_rows_for_inference,
            nulls={},
            zero=True,
        ),
        ALONE.using(storage_options),
    )
    names = from_tensor_slices(np.array(files, dtype=object))
    rows = read_files(
        "make_csv_dataset",
        names.shuffle(len(files), seed=shuffle_seed) if shuffle else names,
        form,
        buffer_size=None,
        num_parallel_reads=None if num_parallel_reads in (None, 1) else num_parallel_reads,
        on_error="raise",
        name=None,
        storage_options=storage_options,
    )
    rows = rows.with_options(Options(deterministic=False)) if sloppy else rows
    rows = rows.ignore_errors() if ignore_errors else rows
    rows = rows.shuffle(shuffle_buffer_size, seed=shuffle_seed) if shuffle else rows
    rows = rows if num_epochs == 1 else rows.repeat(num_epochs)
    batches = rows.batch(batch_size, drop_remainder=num_epochs is None)
    return batches.prefetch(AUTOTUNE if prefetch_buffer_size is None else prefetch_buffer_size)
