"""Folders of images, a sub-folder a class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from headrace.core.types import Nested, StrPath
from headrace.image.codecs import MAX_PIXELS
from headrace.image.load import load_image
from headrace.image.resize import two_sizes
from headrace.options import AUTOTUNE
from headrace.sources.folder_files import dataset_of_files, find_files, split_numbers

ENDINGS = (".bmp", ".gif", ".jpeg", ".jpg", ".png", ".webp")


def from_image_folder(
    path: StrPath,
    image_size: Sequence[int] | None = None,
    validation_split: float | None = None,
    subset: str | None = None,
    seed: int | None = None,
    *,
    labels: bool = True,
    class_names: Sequence[str] | None = None,
    channels: int = 3,
    fast: bool = False,
    max_pixels: int | None = MAX_PIXELS,
    num_parallel_calls: int | None = AUTOTUNE,
    storage_options: Mapping[str, object] | None = None,
    name: str | None = None,
) -> Nested:
    """Read images and labels from a folder with one sub-folder for each class.

    Labels number the subdirectories in sorted order, or in that of `class_names`; `ds.class_names` lists their names.
    Without `labels`, elements are the images below the folder. Images are uint8, each of its own size, or float32 of
    one `image_size`, (height, width); with `fast`, JPEGs are then decoded at a smaller scale if that still covers it.

    With a `validation_split`, a part from 0 to 1, there are two datasets, for training and for validation; `subset`
    "training" or "validation" gives one of them. Files are chosen by the `seed`, as Keras chooses them. Rows can be
    taken by number, and shuffling moves names: `ds.shuffle()` reads no image before it is needed.

    Args:
        path: Folder with one sub-folder for each class.
        image_size: Height and width to resize to. Default: images keep their sizes.
        validation_split: Share of the elements, between 0 and 1, that is set aside for validation.
        subset: "training", "validation" or "both"; used together with `validation_split`.
        seed: Seed of the split.
        labels: Whether elements are pairs (image, label) instead of images.
        class_names: Names of the classes, which are sub-folders. Default: all, sorted.
        channels: Number of color channels; 0 keeps those of the file.
        fast: Whether JPEG files may be decoded at a reduced scale, which changes pixels slightly.
        max_pixels: Largest number of pixels to accept in one image; None accepts any.
        num_parallel_calls: Number of concurrent calls of a Python function, or `hr.AUTOTUNE`. Default: one at a time.
            Functions that are vectorised use all cores in any case.
        storage_options: Options of the file system, such as credentials; see `hr.Options`.
        name: Label of the operation in `explain()`, `stats()` and error messages.

    >>> for i, kind in enumerate(["cat", "dog", "cat"]):
    ...     (folder / kind).mkdir(exist_ok=True)
    ...     _ = (folder / kind / f"{i}.png").write_bytes(hr.image.encode_png(np.full((4, 6, 3), i, np.uint8)))
    >>> ds = hr.Dataset.from_image_folder(folder, image_size=(2, 2))
    >>> ds.class_names, [int(label) for _, label in ds]
    (['cat', 'dog'], [0, 0, 1])
    >>> ds.batch(3).element_spec
    (TensorSpec(shape=(None, 2, 2, 3), dtype=float32), TensorSpec(shape=(None,), dtype=int64))
    """
    size = None if image_size is None else two_sizes(image_size)
    found = find_files(path, ENDINGS, labels=labels, class_names=class_names, storage_options=storage_options)
    options = None if storage_options is None else dict(storage_options)
    read = partial(load_image, size=size, channels=channels, fast=fast, max_pixels=max_pixels, storage_options=options)
    made = [
        dataset_of_files(found.some(numbers), read, "from_image_folder", num_parallel_calls, name)
        for numbers in split_numbers(len(found.names), validation_split, subset, seed)
    ]
    return tuple(made) if len(made) > 1 else made[0]
