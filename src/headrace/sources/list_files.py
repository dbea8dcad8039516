"""Names of files."""

from __future__ import annotations

import glob
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace.records.files import as_path
from headrace.records.redact import shown
from headrace.records.remote import matching_names
from headrace.records.transport import ALONE, Transport
from headrace.sources.memory import from_tensor_slices

if TYPE_CHECKING:
    from headrace.dataset import Dataset


def list_files(
    file_pattern: Any,
    shuffle: bool | None = None,
    seed: int | None = None,
    name: str | None = None,
    *,
    storage_options: Mapping[str, Any] | None = None,
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
    names = matching(file_pattern, storage_options)
    files = from_tensor_slices(np.array(names, dtype=object), name=name)
    return files if shuffle is False else files.shuffle(len(names), seed=seed)


def matching(
    file_pattern: Any, storage_options: Mapping[str, Any] | None = None, *, in_turn: bool = False
) -> list[str]:
    """The files that match, sorted; raises where there are none.

    With `in_turn` those of each pattern are sorted, and the patterns keep their order.
    """
    many = not isinstance(file_pattern, str | bytes | os.PathLike)
    patterns = [as_path(p) for p in (np.ravel(file_pattern).tolist() if many else [file_pattern])]
    via = ALONE.using(storage_options)
    names = [name for pattern in patterns for name in sorted(_matching(pattern, via))]
    if not names:
        asked = ", ".join(repr(shown(pattern)) for pattern in patterns)
        raise FileNotFoundError(f"no files match {asked or 'an empty list of patterns'}")
    return names if in_turn else sorted(names)


def _matching(pattern: str, via: Transport) -> list[str]:
    if "://" not in pattern:
        return glob.glob(pattern, include_hidden=True)  # noqa: PTH207 - a name stays as relative as its pattern
    return matching_names(pattern, via)
