"""Numbers out of texts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import DTypeLike

from headrace import _native
from headrace.columns.arrow_text import parts
from headrace.columns.kind import Column
from headrace.core.types import Tensor, TensorLike
from headrace.feature_column.raw import NO_SALT
from headrace.text.operation import Work, text_operation

if TYPE_CHECKING:
    import pyarrow as pa

READERS = {np.dtype(name): getattr(_native, f"text_to_{name}") for name in ("int32", "int64", "float32", "float64")}


@text_operation
def to_number(input: TensorLike, out_type: DTypeLike = np.float32) -> Tensor:
    """Return the number that each text says, as int32, int64, float32 or float64; a text that says none is an error.

    Args:
        input: A text, an array of texts of any shape, or an `hr.Ragged` of texts.
        out_type: Data type of the numbers.

    >>> hr.text.to_number([" 1.5", "-2e3"]), hr.text.to_number("42", np.int64)
    (array([ 1.5e+00, -2.0e+03], dtype=float32), np.int64(42))
    """
    dtype = np.dtype(getattr(out_type, "as_numpy_dtype", out_type))
    if dtype not in READERS:
        raise ValueError(f"out_type must be one of {', '.join(map(str, READERS))}, not {dtype}")

    def run(text: pa.Array) -> Column:
        made = np.empty(len(text), dtype)
        wrong = READERS[dtype](*parts(text), made)
        if wrong >= 0:
            raise ValueError(f"{text[wrong].as_py()!r} is no {dtype}")
        return made

    return Work(run, dtype)


@text_operation
def to_hash_bucket_fast(input: TensorLike, num_buckets: int) -> Tensor:
    """Return one of `num_buckets` for each text, by its FarmHash fingerprint, as in TensorFlow.

    Args:
        input: A text, an array of texts of any shape, or an `hr.Ragged` of texts.
        num_buckets: Number of buckets.

    >>> hr.text.to_hash_bucket_fast(["Hello", "TensorFlow"], 3)
    array([0, 2])
    """
    if num_buckets < 1:
        raise ValueError(f"num_buckets must be at least 1, not {num_buckets}")

    def run(text: pa.Array) -> Column:
        hashes, made = np.empty(len(text), np.uint64), np.empty(len(text), np.int64)
        _native.hash_text(*parts(text), NO_SALT, hashes)
        _native.hash_buckets(hashes, num_buckets, 0, made)
        return made

    return Work(run, np.dtype(np.int64))
