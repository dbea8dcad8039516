"""Rows of Parquet files and of Arrow's own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from headrace.core.types import Argument, FilePatterns
from headrace.errors import SpecError
from headrace.formats.shared.kinds import FileFormat, register_format
from headrace.formats.shared.list_files import first_readable, matching
from headrace.formats.shared.many_files import read_files
from headrace.formats.shared.one_file import Missing
from headrace.formats.tables.choice import Choice
from headrace.formats.tables.groups import ArrowGroups, Groups, ParquetGroups
from headrace.formats.tables.ipc import MAGIC, SCHEMA, FlatTable
from headrace.formats.tables.rows import TableRows, Tables, rows_in_files
from headrace.formats.tables.tables import table_spec
from headrace.remote.redact import show_path
from headrace.remote.transport import ALONE, StorageOptions, Transport

if TYPE_CHECKING:
    from headrace.dataset import Dataset
    from headrace.formats.shared.quarantine import Quarantine


def ParquetDataset(  # noqa: N802 - as tf.data's readers are named
    file_pattern: FilePatterns,
    columns: Sequence[str] | None = None,
    filter: object = None,
    *,
    exclude: Sequence[str] | None = None,
    cast: Mapping[str, object] | None = None,
    nulls: Mapping[str, object] | None = None,
    num_parallel_reads: int | None = None,
    on_error: str | Quarantine = "raise",
    missing: Missing = "raise",
    index: bool | str = "auto",
    storage_options: Mapping[str, object] | None = None,
    name: str | None = None,
) -> Dataset:
    """Read the Parquet files that match one or more patterns, as dicts.

    `filter` is an expression of pyarrow's (`pc.field("age") > 30`) or a list of conditions (`[("age", ">", 30)]`).
    Without one, `len(ds)` comes from the files' footers, and rows can be read by number: `ds[i]`, `shuffle()` of
    everything. `index="auto"` reads all footers on demand, if there are not too many; True always, False never.

    Columns of lists become arrays or an hr.Ragged, structs nested dicts, lists of structs and maps dicts of lists.
    `columns` or `exclude` choose the columns, `cast={"price": np.float64, "note": object}` their types; a field of a
    column is called `column.field`. A missing float is NaN; any other missing value needs a replacement in `nulls`. A
    row that cannot be read is one error, a damaged row group an error for each of its rows: `on_error` leaves these
    out, and `missing="skip"` files that cannot be opened.

    Args:
        file_pattern: Path, URL or glob pattern, or a list of these.
        columns: Names of the columns to read. Default: all.
        filter: Condition on rows: a `pyarrow.compute` expression, or a list such as `[("age", ">", 30)]`.
        exclude: Names of the columns not to read.
        cast: Types to convert columns to, by column.
        nulls: Values that replace missing ones, by column.
        num_parallel_reads: Number of files whose rows take turns, or `hr.AUTOTUNE`. Default: one file after another.
            This sets the order, not the number of threads.
        on_error: What to do with bad records: "raise", "skip", or an `hr.Quarantine`.
        missing: "raise" an error for files that cannot be opened, or "skip" them with a warning.
        index: Whether elements can be found by number: True builds an index if needed, False never uses one, "auto"
            uses one that exists.
        storage_options: Options of the file system, such as credentials; see `hr.Options`.
        name: Label of the operation in `explain()`, `stats()` and error messages.

    Returns:
        A new dataset.

    >>> import pyarrow as pa, pyarrow.parquet as pq
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     pq.write_table(pa.table({"x": [1, 2, 3], "s": ["a", "b", "c"]}), f"{folder}/t.parquet")
    ...     list(hr.ParquetDataset(f"{folder}/*.parquet", filter=[("x", ">", 1)]))
    [{'x': np.int64(2), 's': 'b'}, {'x': np.int64(3), 's': 'c'}]
    """
    import pyarrow.parquet as pq

    kept = pq.filters_to_expression(filter) if isinstance(filter, list) else filter
    choice = Choice.of(columns, exclude, cast, nulls)
    return read_tables(
        "ParquetDataset",
        ParquetGroups,
        file_pattern,
        choice,
        kept=kept,
        num_parallel_reads=num_parallel_reads,
        on_error=on_error,
        missing=missing,
        index=index,
        name=name,
        storage_options=storage_options,
    )


def ArrowDataset(  # noqa: N802 - as tf.data's readers are named
    file_pattern: FilePatterns,
    columns: Sequence[str] | None = None,
    *,
    exclude: Sequence[str] | None = None,
    cast: Mapping[str, object] | None = None,
    nulls: Mapping[str, object] | None = None,
    num_parallel_reads: int | None = None,
    on_error: str | Quarantine = "raise",
    missing: Missing = "raise",
    index: bool | str = "auto",
    storage_options: Mapping[str, object] | None = None,
    name: str | None = None,
) -> Dataset:
    """Return the rows of files and streams in Arrow's IPC format (Feather) as dicts; arguments are `ParquetDataset`'s.

    Args:
        file_pattern: Path, URL or glob pattern, or a list of these.
        columns: Names of the columns to read. Default: all.
        exclude: Names of the columns not to read.
        cast: Types to convert columns to, by column.
        nulls: Values that replace missing ones, by column.
        num_parallel_reads: Number of files whose rows take turns, or `hr.AUTOTUNE`. Default: one file after another.
            This sets the order, not the number of threads.
        on_error: What to do with bad records: "raise", "skip", or an `hr.Quarantine`.
        missing: "raise" an error for files that cannot be opened, or "skip" them with a warning.
        index: Whether elements can be found by number: True builds an index if needed, False never uses one, "auto"
            uses one that exists.
        storage_options: Options of the file system, such as credentials; see `hr.Options`.
        name: Label of the operation in `explain()`, `stats()` and error messages.

    Returns:
        A new dataset.

    >>> import pyarrow as pa, pyarrow.feather as feather
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     feather.write_feather(pa.table({"x": [1.5, None]}), f"{folder}/t.arrow")
    ...     list(hr.ArrowDataset(f"{folder}/t.arrow"))
    [{'x': np.float64(1.5)}, {'x': np.float64(nan)}]
    """
    choice = Choice.of(columns, exclude, cast, nulls)
    return read_tables(
        "ArrowDataset",
        ArrowGroups,
        file_pattern,
        choice,
        num_parallel_reads=num_parallel_reads,
        on_error=on_error,
        missing=missing,
        index=index,
        name=name,
        storage_options=storage_options,
    )


def _open_first(groups: type[Groups], path: str, choice: Choice, kept: object, via: Transport) -> Groups:
    """Open a file whose columns must be known before anything is read. Name it in an OSError, because Arrow does not;
    `_naming` does so in other errors.
    """
    import pyarrow as pa

    try:
        return groups(path, choice, kept, via)
    except (pa.ArrowException, OSError) as error:
        if show_path(path) in str(error):
            raise
        if isinstance(error, OSError):
            raise OSError(f"{show_path(path)} cannot be read: {error}") from error
        raise ValueError(f"cannot be read: {error}") from error


@contextmanager
def _naming(where: str) -> Iterator[None]:
    """Name the file in errors about its columns."""
    try:
        yield
    except (SpecError, ValueError) as error:
        if type(error) not in (SpecError, ValueError):
            raise
        raise type(error)(f"{where}: {error}") from None


def read_tables(
    reader: str,
    groups: type[Groups],
    filenames: FilePatterns,
    choice: Choice,
    *,
    kept: object = None,
    missing: Missing = "raise",
    index: bool | str = "auto",
    storage_options: StorageOptions | None = None,
    **options: Argument,
) -> Dataset:
    """Return a dataset of the rows of these files of tables; `options` are those of `read_files`."""
    files = matching(filenames, storage_options, keep_missing=missing == "skip")
    via = ALONE.using(storage_options)
    shown = first_readable(files, missing, via)
    with (
        _naming(f"{reader}: {show_path(shown)}"),
        closing(_open_first(groups, shown, choice, kept, via)) as first,
    ):
        choice.check(first.schema)
        form = Tables(groups, table_spec(first.schema, choice), choice, kept)
    return read_files(
        reader,
        files,
        form,
        missing=missing,
        counts=rows_in_files(reader, files, form, index, via),
        storage_options=storage_options,
        child=TableRows,
        **options,
    )


def _is_arrow(head: bytes) -> bool:
    """Return whether it is an IPC file, or a stream whose first message is a schema."""
    try:
        stream = head.startswith(b"\xff\xff\xff\xff") and FlatTable.root(head[8:]).number(1, "<B") == SCHEMA
        return head.startswith(MAGIC) or stream
    except ValueError:
        return False


register_format(FileFormat("Parquet", ParquetDataset, "hr.ParquetDataset", endings=(".parquet",), magic=(b"PAR1",)))
register_format(
    FileFormat(
        "Arrow",
        ArrowDataset,
        "hr.ArrowDataset",
        endings=(".arrow", ".arrows", ".feather"),
        magic=(MAGIC, b"\xff\xff\xff\xff"),
        matches=_is_arrow,
    )
)
