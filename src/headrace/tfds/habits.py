"""Other names that TFDS programs use: reading options, names of splits, calls without effect."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.core.types import Argument, LibraryObject, Nested
from headrace.options import Options
from headrace.plan.capabilities import require_end
from headrace.tfds.splits import SplitLike, even_splits

if TYPE_CHECKING:
    from headrace.dataset import Dataset
    from headrace.tfds.splits import SplitLike


class Split(str):
    """The name of a split: a string. `Split.TRAIN`, `Split.TEST` and `Split.VALIDATION` are common ones."""

    __slots__ = ()
    ALL: Split
    TEST: Split
    TRAIN: Split
    VALIDATION: Split


for _name in ("all", "test", "train", "validation"):
    setattr(Split, _name.upper(), Split(_name))


@dataclass
class ReadConfig:
    """How a dataset is read, for `read_config=`.

    Args:
        options: An hr.Options for the dataset.
        shuffle_seed: Seed of `shuffle_files`.
        shuffle_reshuffle_each_iteration: Only the default: files are shuffled again in each epoch.
        interleave_cycle_length: 1 reads the files one after another; otherwise TFDS's own order (16).
        interleave_block_length: Only TFDS's own, 16.
        input_context: Not supported: `ds.shard(count, index)`, or `ds.distribute()`.
        skip_prefetch: Ignored: how far to read ahead is found while running.
        try_autocache: Ignored: files that are read again are in the memory of the system.
        num_parallel_calls_for_decode: Ignored.
        num_parallel_calls_for_interleave_files: Ignored.
        add_tfds_id: Not supported.
        enable_ordering_guard: Ignored.
        assert_cardinality: Ignored.
    """

    options: Options | None = None
    try_autocache: bool = True
    add_tfds_id: bool = False
    shuffle_seed: int | None = None
    shuffle_reshuffle_each_iteration: bool | None = None
    interleave_cycle_length: int | None = None
    interleave_block_length: int | None = 16
    input_context: LibraryObject = None
    skip_prefetch: bool = False
    num_parallel_calls_for_decode: int | None = None
    num_parallel_calls_for_interleave_files: int | None = None
    enable_ordering_guard: bool = True
    assert_cardinality: bool = True

    def order(self) -> str:
        """Return "file" or "tfds", as `order=` of `load`. Raise if neither gives this order."""
        if self.add_tfds_id:
            raise ValueError("ReadConfig(add_tfds_id=True) is not supported: ds.enumerate() numbers the rows")
        if self.input_context is not None:
            raise ValueError("ReadConfig(input_context=) is not supported: ds.shard(count, index) says it")
        if self.interleave_cycle_length == 1:
            return "file"
        if self.interleave_cycle_length not in (None, 16) or self.interleave_block_length not in (None, 16):
            raise ValueError(
                "ReadConfig: interleave_cycle_length is 16, TFDS's own, or 1, and interleave_block_length 16"
            )
        return "tfds"


def as_numpy(dataset: object) -> Nested:
    """Return what it is given: elements are NumPy arrays already.

    Args:
        dataset: A dataset, or a structure of datasets; returned as it is.

    >>> list(hr.tfds.as_numpy(hr.Dataset.range(2)))
    [np.int64(0), np.int64(1)]
    """
    return dataset


def as_dataframe(ds: Dataset, ds_info: object = None) -> LibraryObject:  # noqa: ARG001 - as in TFDS
    """Return a pandas DataFrame with a row for each element.

    Args:
        ds: A dataset.
        ds_info: The dataset's `DatasetInfo`.
    """
    import pandas as pd

    node = getattr(ds, "_node", None)
    if node is not None:
        require_end(node, "as_dataframe")
    return pd.DataFrame(list(ds))


def disable_progress_bar() -> None:
    """Do nothing: there is no progress bar."""


def enable_progress_bar() -> None:
    """Do nothing: `ds.progress()` shows one."""


def split_for_jax_process(
    split: SplitLike, *, process_index: int | None = None, process_count: int | None = None, **how: Argument
) -> Nested:
    """Return the part of a split that this process of JAX reads.

    Args:
        split: The name of a split, or a part of one.
        process_index: Which process it is. Default: JAX's.
        process_count: How many there are. Default: JAX's.
        **how: `drop_remainder=` of `even_splits`.
    """
    if process_index is None or process_count is None:
        import jax

        process_index = jax.process_index() if process_index is None else process_index
        process_count = jax.process_count() if process_count is None else process_count
    return even_splits(split, process_count, **how)[process_index]
