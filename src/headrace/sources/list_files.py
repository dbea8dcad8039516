"""Names of files."""

from __future__ import annotations

import glob
import os
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace.records.files import as_path, remote
from headrace.sources.memory import from_tensor_slices

if TYPE_CHECKING:
    from headrace.dataset import Dataset


def list_files(
    file_pattern: Any, shuffle: bool | None = None, seed: int | None = None, name: str | None = None
) -> Dataset:
    """The names of the files that match a pattern, or one of several; shuffled, anew in each epoch, unless told not to.

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     for letter in "cab":
    ...         Path(folder, f"{letter}.txt").touch()
    ...     [Path(n).name for n in hr.Dataset.list_files(f"{folder}/*.txt", shuffle=False)]
    ['a.txt', 'b.txt', 'c.txt']
    """
    if shuffle is False and seed is not None:
        raise ValueError("list_files: a seed only makes sense where files are shuffled")
    names = sorted(matching(file_pattern, all_there=False))
    files = from_tensor_slices(np.array(names, dtype=object), name=name)
    return files if shuffle is False else files.shuffle(len(names), seed=seed)


def matching(file_pattern: Any, *, all_there: bool = True) -> list[str]:
    """The files that match, those of one pattern sorted, patterns in the order given; raises where there are none.

    With `all_there` a plain name must be that of a file, too; tf.data's `list_files` leaves out those that are not.
    """
    many = not isinstance(file_pattern, str | bytes | os.PathLike)
    patterns = [as_path(p) for p in (np.ravel(file_pattern).tolist() if many else [file_pattern])]
    found = {pattern: sorted(_matching(pattern)) for pattern in patterns}
    missing = [pattern for pattern, names in found.items() if not names and not glob.has_magic(pattern)]
    if not any(found.values()) or (missing and all_there):
        said = missing if all_there and missing else patterns
        raise FileNotFoundError(f"no files match {', '.join(map(repr, said)) or 'an empty list of patterns'}")
    return [name for pattern in patterns for name in found[pattern]]


def _matching(pattern: str) -> list[str]:
    if "://" not in pattern:
        return glob.glob(pattern, include_hidden=True)  # noqa: PTH207 - a name stays as relative as its pattern
    system, path = remote(pattern)
    return [system.unstrip_protocol(name) for name in system.glob(path)]
