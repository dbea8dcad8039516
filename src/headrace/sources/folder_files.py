"""Files in directories named after their classes, and their split into training and validation."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headrace.core.types import StrPath
from headrace.errors import what_there_is
from headrace.formats.shared.file_names import NAME, FileNames, listing
from headrace.formats.shared.files import as_path, local_path
from headrace.formats.shared.list_files import matching
from headrace.indexed.memory import from_tensor_slices
from headrace.ops.zip import zip as zip_datasets
from headrace.plan.datasets import dataset_of
from headrace.plan.node import user_site
from headrace.remote.redact import show_path

if TYPE_CHECKING:
    from headrace.dataset import Dataset

SUBSETS = ("training", "validation", "both")


class FolderFiles(NamedTuple):
    """Names of files in sorted order, the numbers of their classes, and what these are called."""

    names: list[str]
    labels: NDArray[np.int64] | None
    classes: tuple[str, ...]

    def some(self, numbers: NDArray[np.int64]) -> FolderFiles:
        """Return those with these numbers."""
        labels = None if self.labels is None else self.labels[numbers]
        return FolderFiles([self.names[i] for i in numbers.tolist()], labels, self.classes)


def find_files(
    path: StrPath,
    endings: tuple[str, ...],
    *,
    labels: bool,
    class_names: Sequence[str] | None,
    storage_options: Mapping[str, object] | None,
) -> FolderFiles:
    """Return the files below a folder that end so; with `labels`, those in its sub-folders, which are the classes."""
    folder = as_path(path).rstrip("/") or "/"
    inner = _files_below(folder, storage_options)
    wanted = [name for name in inner if name.lower().endswith(endings) and not name.rpartition("/")[2].startswith(".")]
    if not labels:
        return _checked(FolderFiles([f"{folder}/{name}" for name in wanted], None, ()), folder, endings)
    there = sorted({name.partition("/")[0] for name in inner if "/" in name and not name.startswith(".")})
    classes = tuple(there if class_names is None else class_names)
    for name in classes:
        if name not in there:
            raise ValueError(f"{show_path(folder)} has no folder for the class {name!r}: {what_there_is(name, there)}")
    number = {name: i for i, name in enumerate(classes)}
    chosen = sorted(
        (number[kind], name) for name in wanted if (kind := name.partition("/")[0]) in number and "/" in name
    )
    names = [f"{folder}/{name}" for _, name in chosen]
    if not names and wanted and not classes:
        raise FileNotFoundError(
            f"{show_path(folder)} has {len(wanted)} such files, and no sub-folder for a class: labels=False reads them "
            "without labels"
        )
    return _checked(FolderFiles(names, np.array([i for i, _ in chosen], np.int64), classes), folder, endings)


def _checked(found: FolderFiles, folder: str, endings: tuple[str, ...]) -> FolderFiles:
    if not found.names:
        where = "in its sub-folders, one for each class" if found.labels is not None else "below it"
        raise FileNotFoundError(f"{show_path(folder)} has no files that end in {', '.join(endings)} {where}")
    return found


def _files_below(folder: str, storage_options: Mapping[str, object] | None) -> list[str]:
    """Return the names of all files, from the folder on."""
    local = local_path(folder)
    if local is None:
        start = _path_in_store(folder) + "/"
        names = map(_path_in_store, matching(f"{folder}/**", storage_options, all_there=False))
        return sorted(name.removeprefix(start) for name in names if name.startswith(start))
    if not os.path.isdir(local):  # noqa: PTH112 - a name stays as relative as it was given
        raise NotADirectoryError(f"{show_path(folder)} is no folder")
    found = []
    for base, _, files in os.walk(local, followlinks=True):
        inner = os.path.relpath(base, local).replace(os.sep, "/")
        found += [name if inner == "." else f"{inner}/{name}" for name in files]
    return sorted(found)


def _path_in_store(url: str) -> str:
    return url.partition("://")[2].strip("/")


def split_numbers(
    count: int, validation_split: float | None, subset: str | None, seed: int | None
) -> list[NDArray[np.int64]]:
    """Return the numbers of the files of a subset, or of both, in order; the same files as Keras chooses
    for the seed.
    """
    if validation_split is None:
        if subset is not None:
            raise ValueError(f"subset={subset!r} says which part is wanted, and validation_split how large: give both")
        return [np.arange(count)]
    if not 0 < validation_split < 1:
        raise ValueError(f"validation_split must be between 0 and 1, not {validation_split}")
    if subset not in (None, *SUBSETS):
        raise ValueError(f"subset is one of {', '.join(map(repr, SUBSETS))}, not {subset!r}")
    order = np.arange(count)
    np.random.RandomState(0 if seed is None else seed).shuffle(order)
    held_out = int(validation_split * count)
    if not 0 < held_out < count:
        raise ValueError(f"validation_split={validation_split} of {count} files leaves one part without any")
    parts = {"training": np.sort(order[:-held_out]), "validation": np.sort(order[-held_out:])}
    return list(parts.values()) if subset in (None, "both") else [parts[subset]]


def dataset_of_files(
    found: FolderFiles, read: Callable[[Any], object], origin: str, threads: int | None, name: str | None
) -> Dataset:
    """Return what `read` makes of each file's name, with the file's label if there are labels."""
    node = FileNames(
        NAME, len(found.names), found.names, listing(found.names), origin, found.classes, site=user_site(), name=name
    )
    files = dataset_of(node)
    if found.labels is None:
        return files.map(read, num_parallel_calls=threads)
    pairs = zip_datasets(files, from_tensor_slices(found.labels))
    return pairs.map(lambda path, label: (read(path), label), num_parallel_calls=threads)
