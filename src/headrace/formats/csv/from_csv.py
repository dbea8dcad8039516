"""CSV files as dicts, with the types of the columns inferred."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from headrace.core.types import Argument, FilePatterns
from headrace.formats.csv.layout import ColumnOptions, bare_form, layout
from headrace.formats.shared.kinds import FileFormat, name_ending, register_format
from headrace.formats.shared.list_files import first_readable, matching
from headrace.formats.shared.many_files import read_files
from headrace.formats.shared.one_file import Missing
from headrace.remote.transport import ALONE

if TYPE_CHECKING:
    from headrace.dataset import Dataset
    from headrace.formats.shared.quarantine import Quarantine


def from_csv(
    file_pattern: FilePatterns,
    batch_size: int | None = None,
    column_names: Sequence[str] | None = None,
    column_defaults: Sequence[object] | Mapping[str, object] | None = None,
    label_name: str | None = None,
    select_columns: Sequence[int | str] | None = None,
    field_delim: str = ",",
    use_quote_delim: bool = True,
    na_value: str = "",
    header: bool = True,
    num_epochs: int | None = 1,
    shuffle: bool = False,
    shuffle_buffer_size: int = 10_000,
    shuffle_seed: int | None = None,
    *,
    num_parallel_reads: int | None = None,
    num_rows_for_inference: int | None = 100,
    nulls: Mapping[str, object] | None = None,
    compression_type: str | None = None,
    on_error: str | Quarantine = "raise",
    missing: Missing = "raise",
    storage_options: Mapping[str, object] | None = None,
    name: str | None = None,
) -> Dataset:
    """Read the rows of CSV files as dicts; with `label_name`, as pairs (features, label).

    A pair is the dict of the other columns and the label. The arguments are those of tf.data's `make_csv_dataset`, but
    by default rows come once and in order, and one by one unless `batch_size` is given. If `column_defaults` has no
    entry, the type is inferred from the first rows (int32, int64, float32, float64, else str). A missing number is NaN,
    and its column one of floats, if those rows show that some are missing; one that turns up later is an error, unless
    `nulls` has a value for it.

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
        num_parallel_reads: Number of files whose rows take turns, or `hr.AUTOTUNE`. Default: one file after another.
            This sets the order, not the number of threads.
        num_rows_for_inference: Number of rows from which types are inferred; None uses all.
        nulls: Values that replace missing ones, by column.
        compression_type: "GZIP", "ZLIB", "ZSTD", or None for what the file itself says.
        on_error: What to do with bad records: "raise", "skip", or an `hr.Quarantine`.
        missing: "raise" an error for files that cannot be opened, or "skip" them with a warning.
        storage_options: Options of the file system, such as credentials; see `hr.Options`.
        name: Label of the operation in `explain()`, `stats()` and error messages.

    Returns:
        A new dataset.

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     _ = Path(folder, "a.csv").write_text("name,age,paid\\nLee,31,2.5\\nKim,,1\\n")
    ...     for features, label in hr.Dataset.from_csv(f"{folder}/*.csv", label_name="paid"):
    ...         print(features, label)
    {'name': 'Lee', 'age': np.float64(31.0)} 2.5
    {'name': 'Kim', 'age': np.float64(nan)} 1.0
    """
    files = matching(file_pattern, storage_options, keep_missing=missing == "skip")
    form = layout(
        first_readable(files, missing, ALONE.using(storage_options)),
        bare_form(compression_type, header, field_delim, use_quote_delim, na_value),
        ColumnOptions(
            reader="from_csv",
            column_names=column_names,
            column_defaults=column_defaults,
            label_name=label_name,
            select_columns=select_columns,
            rows=num_rows_for_inference,
            nulls=nulls or {},
        ),
        ALONE.using(storage_options),
    )
    ds = read_files(
        "from_csv",
        files,
        form,
        buffer_size=None,
        num_parallel_reads=num_parallel_reads,
        on_error=on_error,
        missing=missing,
        name=name,
        storage_options=storage_options,
    )
    ds = ds.shuffle(shuffle_buffer_size, seed=shuffle_seed) if shuffle else ds
    ds = ds if num_epochs == 1 else ds.repeat(num_epochs)
    return ds if batch_size is None else ds.batch(batch_size, drop_remainder=num_epochs is None)


def _read(files: list[str], **options: Argument) -> Dataset:
    """Read the files. Fields are separated by tabs if the names say so."""
    if all(name_ending(path) == ".tsv" for path in files):
        options["field_delim"] = "\t"
    return from_csv(files, **options)


register_format(FileFormat("CSV", _read, "hr.Dataset.from_csv", endings=(".csv", ".tsv")))
