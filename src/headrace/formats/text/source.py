"""Lines of text files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from headrace.core.types import FilePatterns
from headrace.formats.shared.kinds import FileFormat, register_format
from headrace.formats.shared.many_files import read_files
from headrace.formats.shared.one_file import Missing
from headrace.formats.shared.unpack import codec
from headrace.formats.text.format import Lines, encoding_name

if TYPE_CHECKING:
    from headrace.dataset import Dataset
    from headrace.formats.shared.quarantine import Quarantine


def TextLineDataset(  # noqa: N802 - as tf.data names it
    filenames: FilePatterns,
    compression_type: str | None = None,
    buffer_size: int | None = None,
    num_parallel_reads: int | None = None,
    name: str | None = None,
    *,
    encoding: str | None = "utf-8",
    on_error: str | Quarantine = "raise",
    missing: Missing = "raise",
    index: bool | str = "auto",
    storage_options: Mapping[str, object] | None = None,
) -> Dataset:
    """Read the lines of files as `str`, or as `bytes` with `encoding=None`.

    `filenames` is a name, a path, a URL that fsspec knows, a list of these, or a dataset of them. With
    `num_parallel_reads` that many files are read at a time, and their lines come in turn. `index=True` makes the lines
    of uncompressed files countable and addressable, by an index that is made once and kept in the user's cache folder;
    `index="beside"` writes it beside the files, as `hr.io.build_index` does.
    A file that cannot be opened is an error whatever `on_error` says; `missing="skip"` leaves it out and logs it.
    `storage_options` are options of the file system of a URL, such as credentials.

    Args:
        filenames: Path or URL, a list of these, or a dataset of them.
        compression_type: "GZIP", "ZLIB", "ZSTD", or None for what the file itself says.
        buffer_size: Number of bytes to read at a time. Default: chosen automatically.
        num_parallel_reads: Number of files whose rows take turns, or `hr.AUTOTUNE`. Default: one file after another.
            This sets the order, not the number of threads.
        name: Label of the operation in `explain()`, `stats()` and error messages.
        encoding: Text encoding; None returns bytes.
        on_error: What to do with bad records: "raise", "skip", or an `hr.Quarantine`.
        missing: "raise" an error for files that cannot be opened, or "skip" them with a warning.
        index: Whether elements can be found by number: True builds an index if needed, False never uses one, "auto"
            uses one that exists.
        storage_options: Options of the file system, such as credentials; see `hr.Options`.

    Returns:
        A new dataset.

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     _ = Path(folder, "poem.txt").write_text("roses\\nviolets\\n")
    ...     list(hr.TextLineDataset(Path(folder, "poem.txt")))
    ['roses', 'violets']
    """
    return read_files(
        "TextLineDataset",
        filenames,
        Lines(codec(compression_type), encoding_name(encoding)),
        buffer_size=buffer_size,
        num_parallel_reads=num_parallel_reads,
        on_error=on_error,
        missing=missing,
        index=index,
        name=name,
        storage_options=storage_options,
    )


register_format(
    FileFormat("text", TextLineDataset, "hr.TextLineDataset", endings=(".txt",), records=Lines, columns=False)
)
