"""Datasets whose columns are in memory, read as those on disk are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from headrace.columns.kind import Column
from headrace.core.types import Nested
from headrace.dataset import Dataset
from headrace.tfds.builder import SplitBuilder
from headrace.tfds.decode import PartialDecoding, choose_features, choose_keys
from headrace.tfds.info import DatasetInfo
from headrace.tfds.splits import SplitLike, as_split

if TYPE_CHECKING:
    from headrace.tfds.splits import SplitLike


class InMemoryBuilder(SplitBuilder):
    """A dataset of one split, `train`.

    Args:
        info: what is known of it.
        columns: its features by name, each with as many values as there are rows.
    """

    def __init__(self, info: DatasetInfo, columns: Mapping[str, object]) -> None:
        self.info = info
        self._columns = dict(columns)

    def read_split(
        self,
        split: SplitLike,
        *,
        decoders: Nested,
        keys: object,
        shuffle_files: bool,
        seed: int | None,
        order: str,
        max_pixels: int | None,
    ) -> Dataset:
        """Return rows of the arrays; they have but one order, and are no files of pictures."""
        del order, max_pixels
        columns: dict[str, Column] = self._columns
        if isinstance(decoders, PartialDecoding):
            chosen: Any = choose_features(self.info.features, decoders.features)
            columns = {name: columns[name] for name in chosen}
        elif decoders:
            raise ValueError(f"{self.info.name} is in memory: there is nothing to decode")
        if keys is not None:
            columns = choose_keys(columns, keys)
        ds = Dataset.from_tensor_slices(columns)
        parts = [ds[rows.start : rows.stop] for rows in as_split(split).ranges(self.info.splits.lengths)]
        made: Dataset = parts[0]
        for part in parts[1:]:
            made = made.concatenate(part)
        return made.shuffle(seed=seed) if shuffle_files else made
