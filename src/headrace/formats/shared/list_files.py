"""Names of files."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from headrace.core.types import FilePatterns
from headrace.errors import TransportError, is_unopenable
from headrace.formats.shared.file_names import NAME, FileNames, listing
from headrace.formats.shared.files import as_path, file_identity, local_path
from headrace.formats.shared.index_cache import SUFFIX
from headrace.formats.shared.kinds import file_kind, known_formats
from headrace.formats.shared.one_file import Missing
from headrace.formats.shared.sidecar import FOLDER, is_sidecar
from headrace.plan.datasets import dataset_of
from headrace.plan.node import user_site
from headrace.remote.objects import matching_names
from headrace.remote.redact import show_path
from headrace.remote.transport import ALONE, NO_BUCKET, Transport
from headrace.storage.files import TEMPORARY
from headrace.storage.swaps import SWAP, finish_swaps_near

if TYPE_CHECKING:
    from headrace.dataset import Dataset


def list_files(
    file_pattern: FilePatterns,
    shuffle: bool | None = None,
    seed: int | None = None,
    name: str | None = None,
    *,
    format: str | None = None,
    storage_options: Mapping[str, object] | None = None,
) -> Dataset:
    """Return the names of the files that match a pattern, shuffled in each epoch by default.

    A file or directory whose name contains brackets, `*` or `?` is found under its literal name. Index files of
    headrace are left out. `format="Parquet"` leaves out files of other formats, judging by their first bytes and their
    names: "Arrow", "CSV", "JSON lines", "Parquet", "TFRecord", "text", and formats of plugins.

    Args:
        file_pattern: Glob pattern, or a list of patterns.
        shuffle: Whether to shuffle the names in each epoch. Default: True.
        seed: Seed of the random draws. Default: `hr.set_random_seed`'s, else another one in each run.
        name: Label of the operation in `explain()`, `stats()` and error messages.
        format: Format the files must have; others are refused.
        storage_options: Options of the file system, such as credentials; see `hr.Options`.

    Returns:
        A new dataset.

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     for letter in "cab":
    ...         Path(folder, f"{letter}.txt").touch()
    ...     [Path(n).name for n in hr.Dataset.list_files(f"{folder}/*.txt", shuffle=False)]
    ['a.txt', 'b.txt', 'c.txt']
    """
    if shuffle is False and seed is not None:
        raise ValueError("list_files: a seed only makes sense if files are shuffled")
    names = sorted(matching(file_pattern, storage_options, all_there=False))
    if format is not None:
        names = _of_format(names, format, ALONE.using(storage_options))
    files = dataset_of(FileNames(NAME, len(names), names, listing(names), "list_files", site=user_site(), name=name))
    return files if shuffle is False else files.shuffle(len(names), seed=seed)


def _of_format(names: list[str], format: str, via: Transport) -> list[str]:
    known = known_formats()
    if format not in known:
        raise ValueError(f"list_files: there is no format {format!r}, but {', '.join(sorted(known))}")
    return [name for name in names if _format_name(name, via) == format]


def _format_name(name: str, via: Transport) -> str | None:
    try:
        return file_kind(name, via).format
    except (ValueError, IsADirectoryError):  # of no format that is known, or a folder
        return None


def matching(
    file_pattern: FilePatterns,
    storage_options: Mapping[str, object] | None = None,
    *,
    all_there: bool = True,
    keep_missing: bool = False,
) -> list[str]:
    """Return the files that match, sorted within one pattern, patterns in the order given. Raise if there are none.

    With `all_there` a plain name must be that of a file, too; tf.data's `list_files` leaves out those that are not.
    With `keep_missing` such names stay in the list, for the reader of the files to handle.
    """
    many = not isinstance(file_pattern, str | bytes | os.PathLike)
    patterns = [as_path(p) for p in (np.ravel(np.asarray(file_pattern)).tolist() if many else [file_pattern])]
    via = ALONE.using(storage_options)
    try:
        found = {pattern: sorted(_matching(pattern, via)) for pattern in patterns}
    except (OSError, TransportError) as error:
        if storage_options is None and any("://" in pattern for pattern in patterns):
            error.add_note(
                "Files that match are looked up when the reader is made, before with_options: give the reader itself "
                "storage_options=, e.g. {'key': …, 'secret': …, 'endpoint_url': …}."
            )
        raise
    missing = [pattern for pattern, names in found.items() if not names and not glob.has_magic(pattern)]
    if keep_missing and any(found.values()):
        found |= {name: [name] for name in missing}
        missing = []
    if not any(found.values()) or (missing and all_there):
        said = missing if all_there and missing else patterns
        bucket = next(filter(None, map(via.missing_bucket, said)), None)
        raise FileNotFoundError(
            f"no files match {', '.join(repr(show_path(pattern)) for pattern in said) or 'an empty list of patterns'}"
            + (f": {NO_BUCKET.format(bucket)}" if bucket else "")
        )
    return [name for pattern in patterns for name in found[pattern]]


def readable_files(names: Sequence[str], missing: Missing, via: Transport) -> Iterator[str]:
    """Yield the files to look into before anything is read: with `missing="skip"`, those that can be opened."""
    for name in names:
        try:
            if missing == "skip":
                file_identity(name, via)
        except OSError as error:
            if not is_unopenable(error):
                raise
            continue
        yield name


def first_readable(names: Sequence[str], missing: Missing, via: Transport) -> str:
    """Return the first file to look into; raises FileNotFoundError if none can be opened."""
    found = next(readable_files(names, missing, via), None)
    if found is None:
        raise FileNotFoundError(f"none of {len(names)} files can be opened, the first is {show_path(names[0])}")
    return found


def _matching(pattern: str, via: Transport) -> list[str]:
    local = local_path(pattern)
    if local is not None:
        finish_swaps_near(local)
    if "://" not in pattern:
        found = glob.glob(_literal(pattern), include_hidden=True)  # noqa: PTH207 - a name stays as relative as its pattern
        return [name for name in found if not _is_ours(name, pattern) and not is_sidecar(name)]
    names = matching_names(pattern, via)
    beside = {name + SUFFIX for name in names}  # a store needs a request per file, so only the first is checked
    return [name for name in names if not _is_ours(name, pattern) and not (name in beside and is_sidecar(name, via))]


def _literal(pattern: str) -> str:
    """Return the pattern, with names that exist literally escaped: a folder `runs[1]`, a file `what?.txt`."""
    parts = pattern.split("/")
    exist = [not glob.has_magic(part) or os.path.lexists("/".join(parts[: i + 1])) for i, part in enumerate(parts)]
    written = exist.index(False) if False in exist else len(parts)
    return "/".join([*map(glob.escape, parts[:written]), *parts[written:]])


def _is_ours(name: str, pattern: str) -> bool:
    """Return whether the name is that of a file that headrace put beside the data, such as an index."""
    folders = name.split("/")
    return (FOLDER in folders and FOLDER not in pattern.split("/")) or name.endswith((TEMPORARY, SWAP))
