"""Records of one length."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from headrace.core.types import FilePatterns
from headrace.formats.fixed.format import FixedLength
from headrace.formats.shared.many_files import read_files
from headrace.formats.shared.one_file import Missing
from headrace.formats.shared.unpack import codec
from headrace.ops.shared.arguments import integer, positive

if TYPE_CHECKING:
    from headrace.dataset import Dataset
    from headrace.formats.shared.quarantine import Quarantine


def FixedLengthRecordDataset(  # noqa: N802 - as tf.data names it
    filenames: FilePatterns,
    record_bytes: int,
    header_bytes: int | None = None,
    footer_bytes: int | None = None,
    buffer_size: int | None = None,
    compression_type: str | None = None,
    num_parallel_reads: int | None = None,
    name: str | None = None,
    *,
    on_error: str | Quarantine = "raise",
    missing: Missing = "raise",
    index: bool | str = "auto",
    storage_options: Mapping[str, object] | None = None,
) -> Dataset[bytes]:
    """Return the records of files in which each has `record_bytes` bytes, between a header and a footer.

    Args:
        filenames: Path or URL, a list of these, or a dataset of them.
        record_bytes: Length of a record in bytes.
        header_bytes: Number of bytes to skip at the beginning of each file.
        footer_bytes: Number of bytes to ignore at the end of each file.
        buffer_size: Number of bytes to read at a time. Default: chosen automatically.
        compression_type: "GZIP", "ZLIB", "ZSTD", or None for what the file itself says.
        num_parallel_reads: Number of files whose rows take turns, or `hr.AUTOTUNE`. Default: one file after another.
            This sets the order, not the number of threads.
        name: Label of the operation in `explain()`, `stats()` and error messages.
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
    ...     _ = Path(folder, "data").write_bytes(b"HEADaabbcc")
    ...     list(hr.FixedLengthRecordDataset(Path(folder, "data"), 2, header_bytes=4))
    [b'aa', b'bb', b'cc']
    """
    form = FixedLength(
        codec(compression_type),
        positive("record_bytes", record_bytes),
        _at_least_none("header_bytes", header_bytes),
        _at_least_none("footer_bytes", footer_bytes),
    )
    return read_files(
        "FixedLengthRecordDataset",
        filenames,
        form,
        buffer_size=buffer_size,
        num_parallel_reads=num_parallel_reads,
        on_error=on_error,
        missing=missing,
        index=index,
        name=name,
        storage_options=storage_options,
    )


def _at_least_none(argument: str, value: int | None) -> int:
    number = integer(argument, value or 0)
    if number < 0:
        raise ValueError(f"{argument} must not be negative, not {number}")
    return number
