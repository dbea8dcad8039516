"""Lines of text files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from headrace.records.kinds import FileFormat, register_format
from headrace.records.text import Lines, encoding_name
from headrace.records.unpack import codec
from headrace.sources.files import read_files
from headrace.sources.one_file import Missing

if TYPE_CHECKING:
    from headrace.dataset import Dataset


def TextLineDataset(  # noqa: N802 - as tf.data names it
    filenames: Any,
    compression_type: str | None = None,
    buffer_size: int | None = None,
    num_parallel_reads: int | None = None,
    name: str | None = None,
    *,
    encoding: str | None = "utf-8",
    on_error: Any = "raise",
    missing: Missing = "raise",
    index: bool | str = "auto",
    storage_options: Mapping[str, Any] | None = None,
) -> Dataset:
    """The lines of files as `str`, or as `bytes` with `encoding=None`.

    `filenames` is a name, a path, a URL that fsspec knows, a list of these, or a dataset of them. With
    `num_parallel_reads` so many files are read at a time, and their lines come in turn. `index=True` makes the lines
    of uncompressed files countable and addressable, by an index that is made once and kept (`hr.io.build_index`).
    A file that cannot be opened is an error whatever `on_error` says; `missing="skip"` leaves it out and logs it.
    `storage_options` is what the file system of a URL is told, such as credentials.

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
