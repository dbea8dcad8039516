"""Apply a function of arrays to batches of elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.dataset import Dataset
    from headrace.ops.shared.arguments import Mode


def map_batches(
    self: Dataset,
    map_func: Callable[..., object],
    batch_size: int,
    num_parallel_calls: int | None = None,
    *,
    mode: Mode = "eager",
    name: str | None = None,
) -> Dataset:
    """Call `map_func` with arrays of up to `batch_size` elements and split the results into elements again.

    It is `batch(batch_size).map(map_func).unbatch()`: for functions that are vectorised by hand.

    Args:
        map_func: Function of arrays of up to `batch_size` elements.
        batch_size: Largest number of elements per call.
        num_parallel_calls: Number of concurrent calls of a Python function, or `hr.AUTOTUNE`. Default: one at a time.
            Functions that are vectorised use all cores in any case.
        mode: How to call the function: "auto", "vectorized" (on blocks), "eager" (on each element) or "process".
        name: Label of the operation in `explain()`, `stats()` and error messages.

    Returns:
        A new dataset.

    >>> list(hr.Dataset.range(5).map_batches(lambda x: x - x.max(), 3))
    [np.int64(-2), np.int64(-1), np.int64(0), np.int64(-1), np.int64(0)]
    """
    batches = self.batch(batch_size)
    return batches.map(map_func, num_parallel_calls, mode=mode, name=name).unbatch()
