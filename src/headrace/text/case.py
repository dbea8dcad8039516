"""Letters, small and capital."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from headrace import _native
from headrace.columns.arrow_text import parts
from headrace.core.types import Tensor, TensorLike
from headrace.text.bytemap import LOWER, UPPER
from headrace.text.operation import Work, check_choice, in_kind, text_operation

if TYPE_CHECKING:
    import pyarrow as pa

SIGMA = 0x3A3
"""The only letter that becomes another one at the end of a word."""
CASED = 0x1E960
"""From here on there are no letters of two cases."""


@text_operation
def lower(input: TensorLike, encoding: str = "") -> Tensor:
    """Capital letters made small: those of ASCII, or with `encoding="utf-8"` all of Unicode.

    Args:
        input: A text, an array of texts of any shape, or an `hr.Ragged` of texts.
        encoding: "" for ASCII, "utf-8" for all of Unicode.

    >>> hr.text.lower("Ärger IST"), hr.text.lower("Ärger IST", encoding="utf-8")
    ('Ärger ist', 'ärger ist')
    """
    if _of_unicode(encoding):
        return Work(lambda text: _map_all(text, "lower"))
    return Work(lambda text: in_kind(_native.text_map_bytes(*parts(text), LOWER), text))


@text_operation
def upper(input: TensorLike, encoding: str = "") -> Tensor:
    """Small letters made capital: those of ASCII, or with `encoding="utf-8"` all of Unicode.

    Args:
        input: A text, an array of texts of any shape, or an `hr.Ragged` of texts.
        encoding: "" for ASCII, "utf-8" for all of Unicode.

    >>> hr.text.upper(["straße"]), hr.text.upper("straße", encoding="utf-8")
    (array(['STRAßE'], dtype=object), 'STRASSE')
    """
    if _of_unicode(encoding):
        return Work(lambda text: _map_all(text, "upper"))
    return Work(lambda text: in_kind(_native.text_map_bytes(*parts(text), UPPER), text))


def _of_unicode(encoding: str) -> bool:
    return bool(check_choice("encoding", encoding, ("", "utf-8")))


def _map_all(text: pa.Array, method: str) -> pa.Array:
    special = SIGMA if method == "lower" else 0xFFFFFFFF
    made, noted = _native.text_map_characters(*parts(text), *_table(method), special)
    if not len(noted):
        return in_kind(made, text)
    rows = in_kind(made, text).to_pylist()
    for row in noted.tolist():
        value = text[row].as_py()
        mapped = value.lower() if isinstance(value, str) else value.decode("utf-8", "replace").lower().encode()
        rows[row] = mapped
    import pyarrow as pa

    return pa.array(rows, text.type)


@cache
def _table(method: str) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return what each character becomes, in UTF-8, and its offset."""
    surrogates = range(0xD800, 0xE000)
    mapped = [b"" if code in surrogates else getattr(chr(code), method)().encode() for code in range(CASED)]
    cuts = np.zeros(CASED + 1, np.int64)
    np.cumsum([len(each) for each in mapped], out=cuts[1:])
    return np.frombuffer(b"".join(mapped), np.uint8), cuts
