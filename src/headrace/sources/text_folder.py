"""Folders of texts, a sub-folder a class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np

from headrace.columns import Column, text_column, values
from headrace.core.types import Component, Nested, StrPath
from headrace.errors import ParseError
from headrace.formats.shared.files import read_all
from headrace.io.binary import bytes_column
from headrace.options import AUTOTUNE
from headrace.plan.spec import TensorSpec
from headrace.remote.redact import show_path
from headrace.remote.transport import ALONE
from headrace.sources.folder_files import dataset_of_files, find_files, split_numbers
from headrace.trace.operation import traced_operation


@traced_operation(
    spec=lambda path, encoding="utf-8", **_: TensorSpec((), np.str_ if encoding else "S"),  # noqa: ARG005
    block=lambda path, *how, **named: lambda rows: load_text_column(rows, *how, **named),  # noqa: ARG005
)
def load_text(
    path: StrPath, encoding: str | None = "utf-8", *, storage_options: Mapping[str, object] | None = None
) -> Component:
    """Return a whole file as text, or with `encoding=None` as bytes."""
    return next(values(load_text_column([str(path)], encoding, storage_options=storage_options)))


def load_text_column(
    paths: Column, encoding: str | None = "utf-8", *, storage_options: Mapping[str, object] | None = None
) -> Column:
    """Return the block form of `load_text`."""
    names = [str(path) for path in values(paths)]
    via = ALONE.using(storage_options)
    contents = [read_all(name, via) for name in names]
    if encoding is None:
        return bytes_column(contents)
    made = []
    for row, (name, content) in enumerate(zip(names, contents, strict=True)):
        try:
            made.append(content.decode(encoding))
        except UnicodeDecodeError as error:
            raise ParseError(f"{show_path(name)} is not {encoding}: {error}; encoding=None gives bytes", row) from None
    return text_column(made)


def from_text_folder(
    path: StrPath,
    validation_split: float | None = None,
    subset: str | None = None,
    seed: int | None = None,
    *,
    labels: bool = True,
    class_names: Sequence[str] | None = None,
    encoding: str | None = "utf-8",
    endings: Sequence[str] = (".txt",),
    num_parallel_calls: int | None = AUTOTUNE,
    storage_options: Mapping[str, object] | None = None,
    name: str | None = None,
) -> Nested:
    """Read texts and labels from a folder with one sub-folder for each class.

    All else is as for `from_image_folder`.

    Args:
        path: Folder with one sub-folder for each class.
        validation_split: Share of the elements, between 0 and 1, that is set aside for validation.
        subset: "training", "validation" or "both"; used together with `validation_split`.
        seed: Seed of the split.
        labels: Whether elements are pairs (text, label) instead of texts.
        class_names: Names of the classes, which are sub-folders. Default: all, sorted.
        encoding: Text encoding; None returns bytes.
        endings: Endings of the files to read.
        num_parallel_calls: Number of concurrent calls of a Python function, or `hr.AUTOTUNE`. Default: one at a time.
            Functions that are vectorised use all cores in any case.
        storage_options: Options of the file system, such as credentials; see `hr.Options`.
        name: Label of the operation in `explain()`, `stats()` and error messages.

    >>> for kind, text in [("good", "I liked it."), ("bad", "I left.")]:
    ...     (folder / kind).mkdir()
    ...     _ = (folder / kind / "1.txt").write_text(text)
    >>> list(hr.Dataset.from_text_folder(folder))
    [('I left.', np.int64(0)), ('I liked it.', np.int64(1))]
    """
    found = find_files(path, tuple(endings), labels=labels, class_names=class_names, storage_options=storage_options)
    options = None if storage_options is None else dict(storage_options)
    read = partial(load_text, encoding=encoding, storage_options=options)
    made = [
        dataset_of_files(found.some(numbers), read, "from_text_folder", num_parallel_calls, name)
        for numbers in split_numbers(len(found.names), validation_split, subset, seed)
    ]
    return tuple(made) if len(made) > 1 else made[0]
