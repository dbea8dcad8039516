"""Infer the types of CSV columns by tf.data's rule, by which a plain number has 32 bits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from headrace.core.types import Component, DType
from headrace.plan.dtypes import numpy_dtype

KINDS: Final = {"int32": 0, "int64": 1, "float32": 2, "float64": 3, "str": 4, "bytes": 4}
PYTHON: Final = {int: "int32", float: "float32", str: "str", bytes: "bytes"}


@dataclass(frozen=True)
class CsvColumn:
    """The kind of a column, one of KINDS, and the value for an empty field, if it may be empty."""

    kind: str
    default: Component = None


def csv_default_column(default: object, *, by_name: bool = True) -> CsvColumn:
    """Return a column as `record_defaults` describes it: a type, or a value to fall back on, which may stand in a list.

    A Python number is an int32 or a float32, an integer that does not fit an int64; NumPy's keep their types. With
    `by_name` the name of a type is that type. Raises ValueError.
    """
    if isinstance(default, type) and default in PYTHON:
        return CsvColumn(PYTHON[default])
    if isinstance(default, type | np.dtype) or hasattr(default, "as_numpy_dtype"):
        return CsvColumn(_kind(numpy_dtype(default)))
    if by_name and isinstance(default, str) and default in (*KINDS, "string"):
        return CsvColumn("str" if default == "string" else default)
    if isinstance(default, list | tuple):
        if len(default) > 1 or (default and isinstance(default[0], list | tuple)):
            raise ValueError(f"one value is expected, not {default!r}")
        return _of_value(default[0]) if default else CsvColumn("float32")
    if isinstance(default, str | bytes | int | float) or not hasattr(default, "__array__"):
        return _of_value(default)
    array = np.asarray(default)
    if array.ndim > 1 or array.size > 1:
        raise ValueError(f"one value is expected, not {default!r}")
    if not array.size:
        return CsvColumn(_kind(array.dtype))
    return _of_value(array.ravel()[0])


def _of_value(value: object) -> CsvColumn:
    if isinstance(value, str):
        return CsvColumn("str", value.encode())
    if isinstance(value, bytes):
        return CsvColumn("bytes", bytes(value))
    if isinstance(value, np.generic):
        return CsvColumn(_kind(value.dtype), value.item())
    if isinstance(value, int) and not isinstance(value, bool) and -(2**63) <= value < 2**63:
        return CsvColumn("int32" if -(2**31) <= value < 2**31 else "int64", value)
    if isinstance(value, float):
        if float(np.finfo(np.float32).max) < abs(value) < float("inf"):
            raise ValueError(f"{value} does not fit into float32; write np.float64({value})")
        return CsvColumn("float32", value)
    raise ValueError(f"a column of CSV cannot hold {value!r}")


def _kind(dtype: DType) -> str:
    name = {"U": "str", "S": "bytes", "O": "bytes"}.get(dtype.kind, dtype.name)
    if name not in KINDS:
        raise ValueError(f"a column of CSV is one of {', '.join(KINDS)}, not {dtype}")
    return name
