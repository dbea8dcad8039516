"""Whole files by name: `read_file`, `write_file` and `matching_files`."""

from __future__ import annotations

import os

import numpy as np

from headrace.columns import Column, values
from headrace.core.paths import refuse_shortened_url
from headrace.core.types import Tensor, TensorLike
from headrace.formats.shared.files import as_path, local_path, read_all, remote
from headrace.io import gfile
from headrace.io.binary import bytes_column
from headrace.plan.spec import TensorSpec
from headrace.remote.transport import ALONE
from headrace.trace.operation import traced_operation


def _read_spec(filename: TensorLike, name: str | None = None) -> TensorSpec:  # noqa: ARG001 - as tf.io's
    if not isinstance(filename, TensorSpec) or filename.shape != ():
        raise ValueError(f"it is given {filename} where the name of a file is needed")
    return TensorSpec((), "S")


def read_file_column(rows: Column) -> Column:
    """Return the block form of `read_file`."""
    return bytes_column([read_all(as_path(name), ALONE) for name in values(rows)])


@traced_operation(
    spec=_read_spec,
    block=lambda filename, name=None: read_file_column,  # noqa: ARG005
)
def read_file(filename: TensorLike, name: str | None = None) -> bytes:  # noqa: ARG001 - in its place as in TensorFlow
    """Return the bytes of a file, by its path or URL.

    Args:
        filename: The file's name, as text or bytes.
        name: Ignored.

    >>> _ = (folder / "a.txt").write_text("some text")
    >>> list(hr.Dataset.list_files(str(folder / "*.txt")).map(hr.io.read_file))
    [b'some text']
    """
    content: bytes = next(values(read_file_column([filename])))
    return content


def write_file(filename: TensorLike, contents: bytes | str, name: str | None = None) -> None:  # noqa: ARG001
    """Write bytes or text to a file, by its path or URL; missing directories are created.

    Args:
        filename: Path or URL of the file.
        contents: Bytes or text to write.
        name: Accepted for compatibility with tf.io.

    >>> hr.io.write_file(folder / "new" / "a.bin", b"data")
    >>> hr.io.read_file(str(folder / "new" / "a.bin"))
    b'data'
    """
    refuse_shortened_url(filename, "write_file")
    path, data = as_path(filename), contents.encode() if isinstance(contents, str) else bytes(contents)
    local = local_path(path)
    if local is None:
        system, place = remote(path)
        system.pipe_file(place, data)
        return
    os.makedirs(os.path.dirname(local) or ".", exist_ok=True)  # noqa: PTH103, PTH120 - a name as it was given
    with open(local, "wb") as file:  # noqa: PTH123
        file.write(data)


def matching_files(pattern: TensorLike, name: str | None = None) -> Tensor:  # noqa: ARG001
    """Return the names of the files that match a pattern, or one of several, sorted.

    Args:
        pattern: Glob pattern, or a list of patterns.
        name: Accepted for compatibility with tf.io.

    >>> _ = (folder / "a.txt").write_text("")
    >>> len(hr.io.matching_files(str(folder / "*.txt")))
    1
    """
    patterns = [pattern] if isinstance(pattern, str | bytes | os.PathLike) else list(pattern)
    found = {name for one in patterns for name in gfile.glob(one)}
    return np.array(sorted(found), object)
