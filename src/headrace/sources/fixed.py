"""Records of one length."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from headrace.ops.arguments import integer, positive
from headrace.records.fixed import FixedLength
from headrace.records.unpack import codec
from headrace.sources.files import read_files
from headrace.sources.one_file import Missing

if TYPE_CHECKING:
    from headrace.dataset import Dataset


def FixedLengthRecordDataset(  # noqa: N802 - as tf.data names it
    filenames: Any,
    record_bytes: int,
    header_bytes: int | None = None,
    footer_bytes: int | None = None,
    buffer_size: int | None = None,
    compression_type: str | None = None,
    num_parallel_reads: int | None = None,
    name: str | None = None,
    *,
    on_error: Any = "raise",
    missing: Missing = "raise",
    index: bool | str = "auto",
    storage_options: Mapping[str, Any] | None = None,
) -> Dataset:
    """The records of files in which each has `record_bytes` bytes, between a header and a footer.

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
