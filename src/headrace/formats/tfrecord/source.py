"""Records of TFRecord files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from headrace.core.types import FilePatterns
from headrace.formats.shared.format import Bad, ScanHints
from headrace.formats.shared.kinds import FileFormat, register_format
from headrace.formats.shared.many_files import read_files
from headrace.formats.shared.one_file import Missing
from headrace.formats.shared.unpack import codec
from headrace.formats.tfrecord.format import TFRecords

if TYPE_CHECKING:
    from headrace.dataset import Dataset
    from headrace.formats.shared.quarantine import Quarantine


def TFRecordDataset(  # noqa: N802 - as tf.data names it
    filenames: FilePatterns,
    compression_type: str | None = None,
    buffer_size: int | None = None,
    num_parallel_reads: int | None = None,
    name: str | None = None,
    *,
    on_error: str | Quarantine = "raise",
    missing: Missing = "raise",
    index: bool | str = "auto",
    storage_options: Mapping[str, object] | None = None,
) -> Dataset[bytes]:
    """Read the records of TFRecord files as `bytes`; every checksum is verified.

    `filenames` is a name, a path, a URL that fsspec knows, a list of these, or a dataset of them. With
    `num_parallel_reads` that many files are read at a time, and their records come in turn. A damaged record is an
    error in its place, and the rest of its file is passed over; with `on_error="skip"` or `hr.Quarantine(folder)`
    it is left out and reading goes on at the next good one. A file that cannot be opened is a FileNotFoundError or
    PermissionError in its place, whatever `on_error` says; with `missing="skip"` it is left out and logged.
    `index=True` makes the records of uncompressed files countable and addressable (`len(ds)`, `ds[i]`, `shuffle()`
    of everything), by an index that is made once and kept in the user's cache folder; `index="beside"` writes it
    beside the files, as `hr.io.build_index` does; the default is to use one that is there.

    Args:
        filenames: Path or URL, a list of these, or a dataset of them.
        compression_type: "GZIP", "ZLIB", "ZSTD", or None for what the file itself says.
        buffer_size: Number of bytes to read at a time. Default: chosen automatically.
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
    >>> record = bytes.fromhex("020000000000000078270b34") + b"hi" + bytes.fromhex("13d60856")
    >>> with TemporaryDirectory() as folder:
    ...     _ = Path(folder, "data.tfrecord").write_bytes(record * 2)
    ...     list(hr.TFRecordDataset(Path(folder, "data.tfrecord")))
    [b'hi', b'hi']
    """
    return read_files(
        "TFRecordDataset",
        filenames,
        TFRecords(codec(compression_type)),
        buffer_size=buffer_size,
        num_parallel_reads=num_parallel_reads,
        on_error=on_error,
        missing=missing,
        index=index,
        name=name,
        storage_options=storage_options,
    )


def _begins(head: bytes) -> bool:
    """Return whether the length of the first record, which has a checksum, is right."""
    if len(head) < 12:
        return False
    found = TFRecords().scan(np.frombuffer(head, np.uint8), ScanHints(first=True, final=False)).parts[:1]
    return not (found and isinstance(found[0], Bad) and found[0].lost)


register_format(
    FileFormat(
        "TFRecord",
        TFRecordDataset,
        "hr.TFRecordDataset",
        endings=(".tfrecord", ".tfrecords"),
        matches=_begins,
        records=TFRecords,
        columns=False,
    )
)
