"""Detect changes of arrays that a dataset shares with its user."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from headrace.core.types import Array, Reduced
from headrace.errors import warn_once

SAMPLES = 61  # places that are compared, evenly spread over an array


class SharedArrays:
    """Samples of arrays that are not copied, to be compared at the start of each pass."""

    __slots__ = ("_arrays", "_changed", "_paths", "_places", "_samples")

    def __init__(self, paths: Sequence[str], arrays: Sequence[Array]) -> None:
        self._paths = list(paths)
        self._arrays = list(arrays)
        self._places = [_places(array) for array in arrays]
        self._samples = [_sample(array, places) for array, places in zip(arrays, self._places, strict=True)]
        self._changed = False

    def __reduce__(self) -> Reduced:
        return SharedArrays, ([], [])  # another process has its own copies

    def warn_if_changed(self, operation: str, site: str) -> None:
        """Warn, once, if an array is no longer what it was when the dataset was made."""
        if self._changed:
            return
        for path, array, places, before in zip(self._paths, self._arrays, self._places, self._samples, strict=True):
            if _sample(array, places) != before:
                self._changed = True
                warn_once(
                    (operation, site, path),
                    f"{operation} ({site}): the array of component{path or ' 0'} was changed after the dataset was "
                    "made. Its elements are views of that array, so this pass gives the changed values (tf.data "
                    "makes a copy): give it array.copy() if that is not meant",
                )
                return


def shared_arrays(paths: Sequence[str], given: Sequence[object], columns: Sequence[object]) -> SharedArrays | None:
    """Return those among the given arrays that the columns are views of, None if there are none."""
    found = [
        (path, value)
        for path, value, column in zip(paths, given, columns, strict=True)
        if isinstance(value, np.ndarray) and value.flags.writeable and value.size and _is_view(column, value)
    ]
    return SharedArrays([path for path, _ in found], [value for _, value in found]) if found else None


def _is_view(column: object, array: Array) -> bool:
    same = isinstance(column, np.ndarray) and column.dtype == array.dtype and not column.dtype.hasobject
    return same and np.may_share_memory(column, array)


def _places(array: Array) -> NDArray[np.int64]:
    return np.linspace(0, array.size - 1, min(SAMPLES, array.size)).astype(np.int64)


def _sample(array: Array, places: NDArray[np.int64]) -> bytes:
    if array.flags.c_contiguous:
        return array.take(places).tobytes()
    return array.flat[places].tobytes()  # take() would copy all of it
