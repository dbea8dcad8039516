"""Names of files."""

from __future__ import annotations

import glob
import os
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace.records.files import as_path, local_path, remote
from headrace.sources.memory import from_tensor_slices
from headrace.storage.files import TEMPORARY
from headrace.storage.swaps import SWAP, finish_swaps_near

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
    names = matching(file_pattern)
    files = from_tensor_slices(np.array(names, dtype=object), name=name)
    return files if shuffle is False else files.shuffle(len(names), seed=seed)


def matching(file_pattern: Any) -> list[str]:
    """The files that match, in order; raises where there are none."""
    many = not isinstance(file_pattern, str | bytes | os.PathLike)
    patterns = [as_path(p) for p in (np.ravel(file_pattern).tolist() if many else [file_pattern])]
    names = sorted(name for pattern in patterns for name in _matching(pattern))
    if not names:
        raise FileNotFoundError(f"no files match {', '.join(map(repr, patterns)) or 'an empty list of patterns'}")
    return names


def _matching(pattern: str) -> list[str]:
    local = local_path(pattern)
    if local is not None:
        finish_swaps_near(local)
    if "://" not in pattern:
        found = glob.glob(pattern, include_hidden=True)  # noqa: PTH207 - a name stays as relative as its pattern
        return [name for name in found if not name.endswith((TEMPORARY, SWAP))]
    system, path = remote(pattern)
    return [system.unstrip_protocol(name) for name in system.glob(path)]
