"""Write the elements as a dataset that TFDS reads."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from headrace.cluster.members import Cluster

if TYPE_CHECKING:
    from headrace.dataset import Dataset


def write_tfds(
    self: Dataset,
    data_dir: str | os.PathLike[str],
    name: str,
    version: str = "1.0.0",
    *,
    split: str = "train",
    features: Any = None,
    others: Mapping[str, Dataset] | None = None,
    config: str | None = None,
    supervised_keys: Any = None,
    description: str = "",
    shuffle: bool = False,
    shards: int | None = None,
    file_format: str = "tfrecord",
    overwrite: bool = False,
    progress: bool | None = None,
    cluster: Cluster | None = None,
) -> str:
    """Write all elements as `DATA_DIR/NAME/VERSION`, which `hr.tfds.load` and TFDS read; returns the folder.

    Elements are dicts. `features` says what they hold (`hr.tfds.features`); where it is not given, the element_spec
    tells: arrays of uint8 with three axes and 1, 3 or 4 channels are images only if `features` says so. `others` are
    the datasets of further splits by name. Rows keep their order, and are read back in it, unless `shuffle=True` puts
    them in TFDS's, by the hashes of their numbers. A run that was killed is gone on with by the next one. With a
    `cluster` its workers make the elements and write the files, which are the same to the byte.

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
