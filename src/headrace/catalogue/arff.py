"""ARFF, the text format of OpenML's tables: dense and sparse rows, quoted names, missing values."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from headrace.errors import StorageError

MISSING = "?"
_QUOTED = re.compile(r"""'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)\"""")
_PLAIN = re.compile(r"[^,\s}'\"][^,\t}]*")
_ESCAPE = re.compile(r"\\(.)")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}
NUMBERS = ("numeric", "real", "integer")


@dataclass(frozen=True)
class ArffAttribute:
    """A column: its name, and the type `numeric`, `real`, `integer`, `string`, `date` or `nominal`.

    Args:
        name: what it is called.
        kind: the type, in lower case.
        values: the values that a nominal column may have.
    """

    name: str
    kind: str
    values: tuple[str, ...] = ()

    @property
    def default(self) -> str:
        """What a sparse row means by leaving the column out."""
        return self.values[0] if self.kind == "nominal" else "0"


@dataclass(frozen=True)
class ArffTable:
    """Return the columns of a file, each with one text a row; None stands for a missing value."""

    attributes: list[ArffAttribute]
    columns: list[list[str | None]]


def read_arff(path: Path) -> ArffTable:
    """Read a file.

    Raises:
        StorageError: the file is not ARFF; it names the line.
    """
    attributes: list[ArffAttribute] = []
    columns: list[list[str | None]] = []
    in_data = False
    with path.open(encoding="utf-8", errors="surrogateescape", newline=None) as file:
        for number, raw in enumerate(file, 1):
            line = raw.strip()
            if not line or line.startswith("%"):
                continue
            try:
                if in_data:
                    row = _row(line, attributes)
                    for column, value in zip(columns, row, strict=True):
                        column.append(value)
                elif line.lower().startswith("@attribute"):
                    attributes.append(_attribute(line[len("@attribute") :].strip()))
                elif line.lower().startswith("@data"):
                    in_data, columns = True, [[] for _ in attributes]
                elif not line.lower().startswith("@relation"):
                    raise ValueError("neither an attribute nor data")
            except ValueError as error:
                raise StorageError(f"{path}, line {number}: {error}: {line[:80]!r}") from None
    if not in_data or not attributes:
        raise StorageError(f"{path} is no ARFF file: it has no @data, or no @attribute before it")
    return ArffTable(attributes, columns)


def _attribute(text: str) -> ArffAttribute:
    quoted = _QUOTED.match(text)
    name = _unquoted(quoted) if quoted else text.split(maxsplit=1)[0] if text else ""
    rest = text[quoted.end() if quoted else len(name) :].strip()
    if rest.startswith("{") and rest.endswith("}"):
        return ArffAttribute(name, "nominal", tuple(value or "" for value in _values(rest[1:-1])))
    kind = rest.split(maxsplit=1)[0].lower() if rest else ""
    if kind not in (*NUMBERS, "string", "date"):
        raise ValueError(f"{rest!r} is no type of a column")
    return ArffAttribute(name, kind)


def _row(line: str, attributes: list[ArffAttribute]) -> list[str | None]:
    if not line.startswith("{"):
        row = list(_values(line))
        if len(row) != len(attributes):
            raise ValueError(f"{len(row)} values for {len(attributes)} columns")
        return row
    if not line.endswith("}"):
        raise ValueError("a sparse row without its end")
    made: list[str | None] = [attribute.default for attribute in attributes]
    for number, value in _pairs(line[1:-1]):
        if number >= len(made):
            raise ValueError(f"a value for column {number} of {len(made)}")
        made[number] = value
    return made


def _pairs(text: str) -> Iterator[tuple[int, str | None]]:
    """Yield the columns and values of a sparse row."""
    at = 0
    while text[at:].strip():
        found = re.compile(r"\s*(\d+)\s+").match(text, at)
        if found is None:
            raise ValueError("a sparse row has a number before each value")
        value, at = _value(text, found.end())
        yield int(found[1]), value


def _values(text: str) -> Iterator[str | None]:
    """Yield the values of a row, or of a nominal type."""
    at = 0
    while True:
        value, at = _value(text, at)
        yield value
        if at > len(text):
            return


def _value(text: str, at: int) -> tuple[str | None, int]:
    """Return the value at a place, and where the next one begins; beyond the end if there is none."""
    while at < len(text) and text[at] in " \t":
        at += 1
    quoted = _QUOTED.match(text, at)
    if quoted:
        value: str | None = _unquoted(quoted)
        at = quoted.end()
    else:
        plain = _PLAIN.match(text, at)
        found = plain[0].strip() if plain else ""
        at = plain.end() if plain else at
        if not found:
            raise ValueError("an empty value")
        value = None if found == MISSING else found
    while at < len(text) and text[at] in " \t":
        at += 1
    if at < len(text) and text[at] != ",":
        raise ValueError(f"a comma was expected before {text[at : at + 20]!r}")
    return value, at + 1


def _unquoted(found: re.Match[str]) -> str:
    return _ESCAPE.sub(
        lambda escape: _ESCAPES.get(escape[1], escape[1]), found[1] if found[1] is not None else found[2]
    )
