"""Sidecar indexes, made ahead of need."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable

from headrace.errors import StorageError
from headrace.formats.shared import index
from headrace.formats.shared.files import as_path
from headrace.formats.shared.format import Format
from headrace.formats.text.format import Lines
from headrace.formats.tfrecord.format import TFRecords
from headrace.remote.redact import show_path

Name = str | bytes | os.PathLike[str]

FORMATS: dict[str, Callable[[], Format]] = {"tfrecord": TFRecords, "text": Lines}


def build_index(paths: Name | Iterable[Name], format: str = "tfrecord") -> list[int]:
    """Write an index for each file that has no fresh one. Return how many records each file has.

    With it the records of uncompressed files are counted, indexed and shuffled without being read first. `format` is
    "tfrecord", whose checksums are verified on the way, or "text". The index of `data/x` is `data/.headrace/x.idx`, or
    a file in the user's cache folder if that cannot be written. Readers with `index=True` make one, too, if there is
    none, and keep it in the cache folder always.

    Args:
        paths: Path or URL, or several of them.
        format: "tfrecord" or "text".

    >>> with hr.io.TFRecordWriter(folder / "words.tfrecord") as writer:
    ...     writer.write_all([b"head", b"race"])
    >>> hr.io.build_index(folder / "words.tfrecord")
    [2]
    >>> hr.TFRecordDataset(folder / "words.tfrecord")[1]
    b'race'
    """
    if format not in FORMATS:
        raise ValueError(f'format must be "tfrecord" or "text", not {format!r}')
    names = [paths] if isinstance(paths, str | bytes | os.PathLike) else paths
    return [_build(as_path(name), FORMATS[format]()) for name in names]


def _build(path: str, form: Format) -> int:
    made = index.index_file(path, form, beside=True)
    if made.place is None:
        raise StorageError(f"the index of {show_path(path)} cannot be written; copy the file to a writable directory")
    return made.count
