"""Verify a dataset's directory against its metadata."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from headrace.errors import HeadraceError
from headrace.tfds.builder import ReadOnlyBuilder
from headrace.tfds.files import Folder


def problems_in(builder: ReadOnlyBuilder, advance: Callable[[int], object] = lambda _: None) -> Iterator[str]:
    """Yield what is wrong: files that are missing or have other lengths, and rows that cannot be read."""
    info = builder.info
    there = Folder(info.data_dir).names()
    for name, split in info.splits.items():
        missing = [file for file in split.filenames(info.name, info.file_format) if file not in there]
        for file in missing:
            yield f"split {name!r}: {file} is missing"
        if not missing:
            yield from _bad_rows(builder, name, advance)


def _bad_rows(builder: ReadOnlyBuilder, split: str, advance: Callable[[int], object]) -> Iterator[str]:
    try:
        ds = builder.as_dataset(split, order="file")
    except (HeadraceError, ValueError) as error:
        yield f"split {split!r}: {error}"
        return
    with ds.iterator() as rows:
        for _ in range(len(ds)):
            try:
                next(rows)
            except StopIteration:
                yield f"split {split!r} ends before its {len(ds)} rows"
                return
            except HeadraceError as error:
                yield f"split {split!r}: {' '.join(str(error).split())}"
                if not rows.state():
                    return
            advance(1)
