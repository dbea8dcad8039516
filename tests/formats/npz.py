"""A format of another package: `.npz` archives with a row of each array an element. Only `headrace.extend` is used."""

from collections.abc import Iterator
from copy import copy
from typing import Any

import numpy as np
import pyarrow as pa

import headrace as hr
from headrace import extend

ROWS_PER_GROUP = 1000


class NpzGroups(extend.Groups):
    """The arrays of an archive, in groups of rows."""

    def __init__(self, path: str, choice: extend.Choice, kept: Any, via: extend.Transport) -> None:
        self.path = path
        self._file = extend.arrow_file(path, via)
        try:
            with np.load(self._file, allow_pickle=False) as archive:
                self._arrays = {name: archive[name] for name in archive.files}
            lengths = {len(array) for array in self._arrays.values()}
            if len(lengths) > 1:
                raise ValueError(f"its arrays have {sorted(lengths)} rows")
            self._rows = max(lengths, default=0)
            self.count = -(-self._rows // ROWS_PER_GROUP)
            self.schema = pa.schema([(name, column(array[:0]).type) for name, array in self._arrays.items()])
            self.names = [self.schema.names[i] for i in choice.numbers(self.schema)]
        except BaseException:
            self.close()
            raise

    def count_group(self, group: int) -> tuple[int, int]:
        start = group * ROWS_PER_GROUP
        rows = min(ROWS_PER_GROUP, self._rows - start)
        return rows, sum(array[start : start + rows].nbytes for array in self._arrays.values())

    def batches(self, group: int) -> Iterator[pa.RecordBatch]:
        start = group * ROWS_PER_GROUP
        parts = [column(self._arrays[name][start : start + ROWS_PER_GROUP]) for name in self.names]
        yield pa.RecordBatch.from_arrays(parts, self.names)

    def again(self) -> "NpzGroups":
        return copy(self)

    def close(self) -> None:
        self._file.close()


def column(array: np.ndarray) -> pa.Array:
    """Return an array as Arrow's: lists of a fixed size for each further axis."""
    made = pa.array(np.ascontiguousarray(array).reshape(-1))
    for size in array.shape[:0:-1]:
        made = pa.FixedSizeListArray.from_arrays(made, size)
    return made


def NpzDataset(filenames: Any, columns: list[str] | None = None, **options: Any) -> hr.Dataset:
    """The rows of `.npz` archives as dicts; `options` are those of every reader."""
    return extend.read_tables(
        "NpzDataset", NpzGroups, filenames, extend.Choice.of(columns, None, None, None), **options
    )
