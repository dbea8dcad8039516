"""Dtypes that NumPy itself lacks and ml_dtypes adds: bfloat16, the float8 formats, small integers."""

from __future__ import annotations

import re

import numpy as np

from headrace.core.types import Array, DType

REGISTERED = 2
"""`dtype.isbuiltin` of dtypes that a library has registered."""
NAME = re.compile(r"[<>=|]?[A-Za-z]\w*(\[\w+\])?|\?", re.ASCII)
"""One dtype. NumPy also takes lists such as "3i4, f4", parses them as Python, and raises SyntaxError for some."""


def is_extended(dtype: DType) -> bool:
    """Return whether a dtype is one of ml_dtypes, which NumPy's codes cannot name.

    >>> is_extended(np.dtype(np.float32))
    False
    """
    return dtype.isbuiltin == REGISTERED


def dtype_code(dtype: DType) -> str:
    """Return the text that `dtype_of` reads: NumPy's own code, or the name of an extended dtype."""
    return dtype.name if is_extended(dtype) else dtype.str


def named_dtype(name: str) -> DType:
    """Return the dtype of one name or code, which may come from a file.

    Raises:
        TypeError: if there is none.

    >>> named_dtype("<i4")
    dtype('int32')
    """
    if not NAME.fullmatch(name):
        raise TypeError(f"data type {name[:80]!r} not understood")
    found: DType = np.dtype(name)
    return found


def dtype_of(code: str) -> DType:
    """Return the dtype of a code.

    Raises:
        TypeError: if there is none.
    """
    try:
        return named_dtype(code)
    except TypeError:
        try:
            import ml_dtypes

            found: DType = np.dtype(getattr(ml_dtypes, code))
        except ImportError:
            raise TypeError(f"dtype {code} is of ml_dtypes: pip install ml_dtypes") from None
        except (AttributeError, TypeError):
            raise TypeError(f"data type {code!r} not understood") from None
    return found


def bits(array: Array) -> Array:
    """Return an array over the same memory whose elements are unsigned integers."""
    return array.view(np.dtype(f"u{array.dtype.itemsize}"))
