"""Tables as text: rows of CSV and the like as dicts."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Literal

from headrace.errors import StorageError


def table_rows(path: Path | IO[bytes], *, delimiter: str = ",", quoting: bool = True) -> Iterator[dict[str, str]]:
    """Yield the rows of a table whose first line names the columns."""
    for number, row in enumerate(csv.DictReader(_text(path), delimiter=delimiter, quoting=_quoting(quoting))):
        if None in row or None in row.values():
            where = path if isinstance(path, Path) else getattr(path, "name", "the table")
            raise StorageError(f"{where}: row {number} has another number of columns than the header")
        yield row


def plain_rows(path: Path | IO[bytes], *, delimiter: str = ",") -> Iterator[list[str]]:
    """Yield the rows of a table without a header."""
    yield from csv.reader(_text(path), delimiter=delimiter)


def text_lines(file: IO[bytes], encoding: str = "utf-8") -> Iterator[str]:
    """Yield the lines of a text, without white space around them."""
    with io.TextIOWrapper(file, encoding, newline="\n") as lines:
        for line in lines:
            yield line.strip()


def _quoting(quotes: bool) -> Literal[0, 3]:
    return csv.QUOTE_MINIMAL if quotes else csv.QUOTE_NONE


def _text(path: Path | IO[bytes]) -> Iterator[str]:
    """Yield the lines of a file, which is closed at the end."""
    with io.TextIOWrapper(path.open("rb") if isinstance(path, Path) else path, "utf-8", newline=None) as lines:
        yield from lines
