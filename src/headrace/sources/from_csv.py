"""CSV files as dicts, with the types of the columns inferred."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from headrace.records.kinds import FileFormat, name_ending, register_format
from headrace.records.transport import ALONE
from headrace.sources.csv_layout import ColumnOptions, bare_form, layout
from headrace.sources.files import read_files
from headrace.sources.list_files import first_readable, matching
from headrace.sources.one_file import Missing

if TYPE_CHECKING:
    from headrace.dataset import Dataset


def from_csv(
    file_pattern: Any,
    batch_size: int | None = None,
    column_names: Sequence[str] | None = None,
    column_defaults: Sequence[Any] | Mapping[str, Any] | None = None,
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
    nulls: Mapping[str, Any] | None = None,
    compression_type: str | None = None,
    on_error: Any = "raise",
    missing: Missing = "raise",
    storage_options: Mapping[str, Any] | None = None,
    name: str | None = None,
) -> Dataset:
    """The rows of the CSV files that match a pattern, or several in turn, as dicts; with `label_name`, as pairs.

    A pair is the dict of the other columns and the label. The arguments are those of tf.data's `make_csv_dataset`, but
    rows come once and in order unless told otherwise, and one by one unless `batch_size` is given. Where
    `column_defaults` says nothing, the first rows tell the types (int32, int64, float32, float64, else str). A missing
    number is NaN, and its column one of floats, if those rows show that some are missing; one that turns up later is
    an error, unless `nulls` says what stands for it.

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


def _read(files: list[str], **options: Any) -> Dataset:
    """Fields are parted by tabs where names say so."""
    if all(name_ending(path) == ".tsv" for path in files):
        options["field_delim"] = "\t"
    return from_csv(files, **options)


register_format(FileFormat("CSV", _read, "hr.Dataset.from_csv", endings=(".csv", ".tsv")))
