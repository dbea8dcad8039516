"""Write the elements to files that `Dataset.load` reads."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from headrace.core.paths import local_only
from headrace.core.types import JsonObject
from headrace.iterator import Iterator
from headrace.ops.snapshot import arrow_codec, tagging
from headrace.plan.capabilities import require_end
from headrace.storage.rows import in_parts
from headrace.storage.saved import generation, publish
from headrace.storage.shelf import Shelf
from headrace.storage.structures import Types, plain_spec

if TYPE_CHECKING:
    from headrace.dataset import Dataset

SAVE_REMEDY = (
    "save to a local folder and copy it there, or write files with write_tfrecord, write_parquet or write_webdataset, "
    "which take URLs"
)


def save(
    self: Dataset,
    path: str | os.PathLike[str],
    compression: str | None = None,
    shard_func: Callable[..., object] | None = None,
    checkpoint_args: JsonObject | None = None,
) -> None:
    """Write all elements to the directory `path`, to be read by `Dataset.load`. It holds what it held until then.

    `compression` is None, "LZ4" or "ZSTD"; tf.data's "SNAPPY" and "GZIP" are taken as these. `shard_func` gives each
    element the number of its shard, for `load`'s `reader_func`.

    Args:
        path: Folder to write.
        compression: Compression of the files; None writes them uncompressed.
        shard_func: Function of one element that returns the number of its shard.
        checkpoint_args: Accepted for compatibility with tf.data; must be None.

    >>> hr.Dataset.range(5).batch(2).save(folder / "batches")
    >>> hr.Dataset.load(folder / "batches")[1]
    array([2, 3])
    """
    if checkpoint_args is not None:
        raise ValueError("save takes no checkpoints; cache(filename) and snapshot go on after a crash by themselves")
    place = local_only(path, "save", SAVE_REMEDY).absolute()
    require_end(self._node, "save")
    dataset = self if shard_func is None else tagging(self, shard_func)
    with generation(place) as made, Iterator(dataset._node, dataset._epochs) as it:
        shelf = Shelf(made, Types(plainly=True))
        try:
            shelf.acquire()
            for items in in_parts(it.blocks()):
                shelf.add(items, arrow_codec(compression), None)
            shelf.finish()
        finally:
            shelf.release()
        publish(place, made, spec=plain_spec(self._node.spec), sharded=shard_func is not None)
