"""Bytes and characters of texts, one by one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from headrace import _native
from headrace.columns.arrow_text import binary, parts
from headrace.columns.kind import Column
from headrace.core.types import Tensor, TensorLike
from headrace.text.operation import Work, check_choice, text_operation, words_in_kind

if TYPE_CHECKING:
    import pyarrow as pa

ERRORS = ("replace", "ignore", "strict")
ENCODINGS = ("UTF-8", "utf-8")


@text_operation
def length(input: TensorLike, unit: str = "BYTE") -> Tensor:
    """Return how many bytes each text has, or how many characters with `unit="UTF8_CHAR"`.

    Args:
        input: A text, an array of texts of any shape, or an `hr.Ragged` of texts.
        unit: "BYTE" or "UTF8_CHAR".

    >>> hr.text.length(["für", ""]), hr.text.length("für", unit="UTF8_CHAR")
    (array([4, 0], dtype=int32), np.int32(3))
    """
    characters = check_choice("unit", unit, ("BYTE", "UTF8_CHAR")) == "UTF8_CHAR"

    def run(text: pa.Array) -> Column:
        values, cuts = parts(text)
        if not characters:
            return np.diff(cuts).astype(np.int32)
        made = np.empty(len(text), np.int32)
        _native.text_count_characters(values, cuts, made)
        return made

    return Work(run, np.dtype(np.int32))


@text_operation
def bytes_split(input: TensorLike) -> Tensor:
    """Return the bytes of each text, one by one.

    Args:
        input: A text, an array of texts of any shape, or an `hr.Ragged` of texts.

    >>> hr.text.bytes_split("né")
    array([b'n', b'\\xc3', b'\\xa9'], dtype=object)
    """

    def run(text: pa.Array) -> Column:
        values, cuts = parts(text)
        content = values[cuts[0] : cuts[-1]]
        return binary(content, np.arange(len(content) + 1)), cuts - cuts[0]

    return Work(run, np.dtype(bytes), gives_rows=True)


@text_operation
def unicode_split(
    input: TensorLike, input_encoding: str = "UTF-8", errors: str = "replace", replacement_char: int = 0xFFFD
) -> Tensor:
    """Return the characters of each text, one by one.

    Args:
        input: A text, an array of texts of any shape, or an `hr.Ragged` of texts.
        input_encoding: Encoding of the texts.
        errors: What to do with invalid bytes: "replace", "ignore" or "strict".
        replacement_char: Code point that replaces invalid bytes.

    >>> hr.text.unicode_split("né")
    array(['n', 'é'], dtype=object)
    """
    check_choice("input_encoding", input_encoding, ENCODINGS)
    malformed = ERRORS.index(check_choice("errors", errors, ERRORS))

    def run(text: pa.Array) -> Column:
        refused, made = _native.text_characters(*parts(text), malformed, replacement_char)
        _check_well_formed(text, refused)
        return words_in_kind(made, text)

    return Work(run, gives_rows=True)


@text_operation
def unicode_decode(
    input: TensorLike,
    input_encoding: str = "UTF-8",
    errors: str = "replace",
    replacement_char: int = 0xFFFD,
    replace_control_characters: bool = False,
) -> Tensor:
    """Return the numbers of the characters of each text.

    What is no UTF-8 is replaced, left out (`errors="ignore"`), or an error (`"strict"`).

    Args:
        input: A text, an array of texts of any shape, or an `hr.Ragged` of texts.
        input_encoding: Encoding of the texts.
        errors: What to do with invalid bytes: "replace", "ignore" or "strict".
        replacement_char: Code point that replaces invalid bytes.
        replace_control_characters: Whether control characters are replaced, too.

    >>> hr.text.unicode_decode("né")
    array([110, 233], dtype=int32)
    """
    check_choice("input_encoding", input_encoding, ENCODINGS)
    malformed = ERRORS.index(check_choice("errors", errors, ERRORS))
    control = bool(replace_control_characters)

    def run(text: pa.Array) -> Column:
        refused, codes, rows = _native.text_decode(*parts(text), malformed, replacement_char, control)
        _check_well_formed(text, refused)
        return codes, rows

    return Work(run, np.dtype(np.int32), gives_rows=True)


def _check_well_formed(text: pa.Array, refused: int) -> None:
    if refused >= 0:
        raise ValueError(f"{text[refused].as_py()!r} is no UTF-8: errors='replace' or 'ignore' go on")
