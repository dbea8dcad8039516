"""Rows filled up to a common shape, one by one: for kinds that cannot do it all at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from headrace.columns.kind import Column
    from headrace.plan.spec import Shape


def pad_rows(rows: list[Any], size: int, shape: Shape, filler: Any) -> Column | str:
    """Every `size` rows filled up and stacked, or why they cannot be."""
    from headrace.columns import column_of, stack

    if all(not isinstance(row, np.ndarray) for row in rows):
        return stack(column_of(rows), size)
    batches: list[NDArray[Any]] = []
    for start in range(0, len(rows), size):
        batch = _pad([np.asarray(row) for row in rows[start : start + size]], shape, filler)
        if isinstance(batch, str):
            return batch
        batches.append(batch)
    return column_of(batches)


def _pad(rows: list[NDArray[Any]], shape: Shape, filler: Any) -> NDArray[Any] | str:
    first = rows[0]
    for row in rows:
        if row.ndim != first.ndim:
            return f"elements of {first.ndim} and of {row.ndim} axes"
        if row.dtype != first.dtype:
            return f"elements of dtype {first.dtype} and of {row.dtype}"
    sizes = [max(axis) for axis in zip(*(row.shape for row in rows), strict=True)]
    if shape is not None:
        if len(shape) != first.ndim:
            return f"an element of shape {first.shape} does not fit into {shape}"
        wanted = [n if t is None else t for n, t in zip(sizes, shape, strict=True)]
        if any(n > t for n, t in zip(sizes, wanted, strict=True)):
            return f"an element of shape {tuple(sizes)} does not fit into {shape}"
        sizes = wanted
    example = next((row.flat[0] for row in rows if row.size), "")
    out = np.full((len(rows), *sizes), default_filler(first.dtype, example) if filler is None else filler, first.dtype)
    for place, row in zip(out, rows, strict=True):
        place[tuple(slice(n) for n in row.shape)] = row
    return out


def default_filler(dtype: np.dtype[Any], example: Any = "") -> Any:
    """What rows are filled up with where nobody says: 0, or empty text of the kind that the `example` is."""
    if dtype.kind == "O":
        return b"" if isinstance(example, bytes) else ""
    return np.zeros((), dtype)[()]
