"""Write the elements as a dataset that TFDS reads."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from headrace.cluster.members import Cluster
from headrace.tfds.feature import FeatureLike

if TYPE_CHECKING:
    from headrace.dataset import Dataset
    from headrace.tfds.feature import FeatureLike


def write_tfds(
    self: Dataset,
    data_dir: str | os.PathLike[str],
    name: str,
    version: str = "1.0.0",
    *,
    split: str = "train",
    features: FeatureLike = None,
    others: Mapping[str, Dataset] | None = None,
    config: str | None = None,
    supervised_keys: object = None,
    description: str = "",
    shuffle: bool = False,
    shards: int | None = None,
    file_format: str = "tfrecord",
    overwrite: bool = False,
    progress: bool | None = None,
    cluster: Cluster | None = None,
) -> str:
    """Write all elements as `DATA_DIR/NAME/VERSION`, which `hr.tfds.load` and TFDS read; returns the folder.

    Elements are dicts. `features` describes them (`hr.tfds.features`); without it, they are inferred from the
    element_spec: arrays of uint8 with three axes and 1, 3 or 4 channels are images only if `features` says so. `others`
    are the datasets of further splits by name. Rows keep their order, and are read back in it, unless `shuffle=True`
    puts them in TFDS's, by the hashes of their numbers. The next run continues one that was killed. With a `cluster`
    its workers make the elements and write the files, which are the same to the byte.

    Args:
        data_dir: Folder for prepared datasets.
        name: Name of the dataset.
        version: Version of the dataset.
        split: Name of the split.
        features: Features of a row. Default: from the elements.
        others: Datasets of further splits, by name.
        config: Name of the configuration.
        supervised_keys: Names of input and label, as a pair.
        description: Description, in words.
        shuffle: Whether to store the rows in random order.
        shards: Number of files. Default: chosen by size.
        file_format: "tfrecord", "array_record" or "parquet".
        overwrite: Whether to replace existing files.
        progress: Whether to show a progress bar. Default: if standard error is a terminal.
        cluster: Workers that do the work; default: this process.

    >>> ds = hr.Dataset.range(5).map(lambda x: {"x": x, "name": str(x)})
    >>> _ = ds.write_tfds(folder, "five")
    >>> hr.tfds.load("five", split="train[-1:]", data_dir=folder)[0]
    {'name': b'4', 'x': np.int64(4)}
    """
    from headrace.tfds.pipelines import write_pipelines

    splits = {split: self, **(others or {})}
    return write_pipelines(
        splits, data_dir, name, version, features=features, config=config,
        supervised_keys=supervised_keys, description=description, shuffle=shuffle, shards=shards,
        file_format=file_format, overwrite=overwrite, progress=progress, cluster=cluster,
    )  # fmt: skip
