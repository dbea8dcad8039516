"""Keras's functions that make datasets of folders and series: its arguments, file order and validation split."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from headrace.core.types import Array, Component, Nested, StrPath, TensorLike
from headrace.formats.shared.file_names import NAME, FileNames, listing
from headrace.formats.shared.files import as_path
from headrace.image.decode import decode_image
from headrace.image.geometry import crop_to_bounding_box
from headrace.image.resize import resize, resize_with_pad, two_sizes
from headrace.indexed.memory import from_tensor_slices
from headrace.io.files import read_file
from headrace.io.gfile import isdir, listdir, walk
from headrace.ops.zip import zip as zip_datasets
from headrace.options import AUTOTUNE
from headrace.plan.datasets import dataset_of
from headrace.plan.node import user_site

if TYPE_CHECKING:
    from headrace.dataset import Dataset

IMAGE_ENDINGS = (".bmp", ".gif", ".jpeg", ".jpg", ".png")
CHANNELS = {"rgb": 3, "rgba": 4, "grayscale": 1}
MAX_SEED = 1_000_000


def image_dataset_from_directory(
    directory: StrPath,
    labels: object = "inferred",
    label_mode: str | None = "int",
    class_names: Sequence[str] | None = None,
    color_mode: str = "rgb",
    batch_size: int | None = 32,
    image_size: Sequence[int] | None = (256, 256),
    shuffle: bool = True,
    seed: int | None = None,
    validation_split: float | None = None,
    subset: str | None = None,
    interpolation: str = "bilinear",
    follow_links: bool = False,
    crop_to_aspect_ratio: bool = False,
    pad_to_aspect_ratio: bool = False,
    data_format: str | None = None,
    format: str = "tf",  # noqa: ARG001 - as in Keras
    verbose: bool = True,  # noqa: ARG001 - nothing is printed
) -> Nested:
    """Make batches of images, and of labels, of the files below a folder, as Keras's function of that name does.

    Files come in Keras's order and are split as Keras splits them. With `shuffle`, the files of a split are the same
    as Keras's for that `seed`; their order in each epoch is drawn by headrace. `hr.Dataset.from_image_folder` is a
    shorter way for new programs.

    Args:
        directory: Folder or URL; with `labels="inferred"` each of its sub-folders is a class.
        labels: "inferred", None for none, or a list with a number for each file in sorted order.
        label_mode: "int" (int32), "binary" (float32, one column), "categorical" (float32, one-hot), or None.
        class_names: Names of the sub-folders, in the order that labels count them. Default: sorted.
        color_mode: "rgb", "rgba" or "grayscale".
        batch_size: Images in a batch; None for single ones.
        image_size: (height, width) of the images.
        shuffle: Whether to shuffle; False gives the order of the names.
        seed: Seed of the shuffle and of the split.
        validation_split: The part of the files to hold out, between 0 and 1.
        subset: "training", "validation" or "both" (a list of the two datasets).
        interpolation: A method of `hr.image.resize`.
        follow_links: Whether to follow links to folders.
        crop_to_aspect_ratio: Whether to cut images to the aspect ratio of `image_size` first.
        pad_to_aspect_ratio: Whether to fill them up to it instead, with zeros.
        data_format: "channels_last" (the default) or "channels_first".
        format: Ignored.
        verbose: Ignored: nothing is printed.

    Returns:
        A dataset of float32 images, or of pairs of images and labels. `ds.class_names` has the names of the classes,
        `ds.file_paths` the files.

    >>> for i, kind in enumerate(["cat", "dog"]):
    ...     (folder / kind).mkdir()
    ...     _ = (folder / kind / "1.png").write_bytes(hr.image.encode_png(np.full((4, 6, 3), i, np.uint8)))
    >>> ds = hr.image_dataset_from_directory(folder, image_size=(2, 2), shuffle=False)
    >>> [(images.shape, labels) for images, labels in ds]
    [((2, 2, 2, 3), array([0, 1], dtype=int32))]
    """
    if color_mode not in CHANNELS:
        raise ValueError(f"color_mode is 'rgb', 'rgba' or 'grayscale', not {color_mode!r}")
    if data_format not in (None, "channels_last", "channels_first"):
        raise ValueError(f"data_format is 'channels_last' or 'channels_first', not {data_format!r}")
    if crop_to_aspect_ratio and pad_to_aspect_ratio:
        raise ValueError("crop_to_aspect_ratio or pad_to_aspect_ratio, not both")
    size = two_sizes((image_size, image_size) if isinstance(image_size, int) else image_size)
    sized = _resize_cropped if crop_to_aspect_ratio else _resize_padded if pad_to_aspect_ratio else _resize
    load = partial(
        _load_image,
        sized=partial(sized, size=size, method=interpolation.lower()),
        channels=CHANNELS[color_mode],
        first=data_format == "channels_first",
    )
    chosen = _Labels(labels, label_mode, class_names)
    files = _find(directory, IMAGE_ENDINGS, chosen, _Order(shuffle, seed, validation_split, subset), follow_links)
    return _datasets(files, load, batch_size, "image_dataset_from_directory")


def text_dataset_from_directory(
    directory: StrPath,
    labels: object = "inferred",
    label_mode: str | None = "int",
    class_names: Sequence[str] | None = None,
    batch_size: int | None = 32,
    max_length: int | None = None,
    shuffle: bool = True,
    seed: int | None = None,
    validation_split: float | None = None,
    subset: str | None = None,
    follow_links: bool = False,
    format: str = "tf",  # noqa: ARG001 - as in Keras
    verbose: bool = True,  # noqa: ARG001 - nothing is printed
) -> Nested:
    """Make batches of texts, and of labels, of the `.txt` files below a folder, as Keras's function of that name does.

    Texts are bytes. All else is as for `image_dataset_from_directory`.

    Args:
        directory: Folder or URL; with `labels="inferred"` each of its sub-folders is a class.
        labels: "inferred", None for none, or a list with a number for each file in sorted order.
        label_mode: "int" (int32), "binary" (float32, one column), "categorical" (float32, one-hot), or None.
        class_names: Names of the sub-folders, in the order that labels count them. Default: sorted.
        batch_size: Texts in a batch; None for single ones.
        max_length: The most bytes of a text; what is longer is cut off.
        shuffle: Whether to shuffle; False gives the order of the names.
        seed: Seed of the shuffle and of the split.
        validation_split: The part of the files to hold out, between 0 and 1.
        subset: "training", "validation" or "both" (a list of the two datasets).
        follow_links: Whether to follow links to folders.
        format: Ignored.
        verbose: Ignored: nothing is printed.

    >>> for kind, text in [("good", "I liked it."), ("bad", "I left.")]:
    ...     (folder / kind).mkdir()
    ...     _ = (folder / kind / "1.txt").write_text(text)
    >>> list(hr.text_dataset_from_directory(folder, shuffle=False))
    [(array([b'I left.', b'I liked it.'], dtype=object), array([0, 1], dtype=int32))]
    """
    chosen = _Labels(labels, label_mode, class_names)
    files = _find(directory, (".txt",), chosen, _Order(shuffle, seed, validation_split, subset), follow_links)
    return _datasets(files, partial(_load_text, length=max_length), batch_size, "text_dataset_from_directory")


def timeseries_dataset_from_array(
    data: TensorLike,
    targets: TensorLike,
    sequence_length: int,
    sequence_stride: int = 1,
    sampling_rate: int = 1,
    batch_size: int | None = 128,
    shuffle: bool = False,
    seed: int | None = None,
    start_index: int | None = None,
    end_index: int | None = None,
    format: str = "tf",  # noqa: ARG001 - as in Keras
) -> Dataset:
    """Make batches of windows over a series, as Keras's function of that name does.

    Args:
        data: Array whose first axis is time.
        targets: For each step the target of the window that begins there; None for windows alone.
        sequence_length: Steps in a window.
        sequence_stride: Steps between the beginnings of windows.
        sampling_rate: Steps between those of a window.
        batch_size: Windows in a batch; None for single ones.
        shuffle: Whether to shuffle the windows.
        seed: Seed of the shuffle.
        start_index: First step to use. Default: the first.
        end_index: First step not to use. Default: the end.
        format: Ignored.

    Returns:
        A new dataset.

    >>> ds = hr.timeseries_dataset_from_array(np.arange(6), np.arange(6) * 10, sequence_length=3, batch_size=2)
    >>> for windows, targets in ds:
    ...     print(windows.tolist(), targets)
    [[0, 1, 2], [1, 2, 3]] [ 0 10]
    [[2, 3, 4], [3, 4, 5]] [20 30]
    """
    for name, value in (("sequence_stride", sequence_stride), ("sampling_rate", sampling_rate)):
        if not 0 < value < len(data):
            raise ValueError(f"{name} must be from 1 to below the length of the data, {len(data)}, not {value}")
    start, end = start_index or 0, len(data) if end_index is None else end_index
    if not 0 <= start < end <= len(data):
        raise ValueError(f"start_index={start_index} and end_index={end_index} bound no part of {len(data)} steps")
    count = end - start - (sequence_length - 1) * sampling_rate
    count = count if targets is None else min(count, len(targets))
    starts = np.arange(0, max(count, 0), sequence_stride)
    if shuffle:
        seed = np.random.randint(MAX_SEED) if seed is None else seed
        np.random.RandomState(seed).shuffle(starts)
    series = np.asarray(data)[start:end]
    goals = None if targets is None else np.asarray(targets)[start:end]
    steps = np.arange(sequence_length) * sampling_rate

    def window(first: int) -> Nested:
        taken = series[first + steps]
        return taken if goals is None else (taken, goals[first])

    ds = from_tensor_slices(starts).map(window)
    ds = ds.shuffle(1024 if batch_size is None else batch_size * 8, seed) if shuffle else ds
    return ds if batch_size is None else ds.batch(batch_size)


def _load_image(path: object, sized: Callable[[Any], Any], channels: int, first: bool) -> Component:
    image = sized(decode_image(read_file(path), channels))
    return image.transpose(2, 0, 1) if first else image


def _resize(image: object, size: tuple[int, int], method: str) -> Component:
    return resize(image, size, method)


def _resize_padded(image: object, size: tuple[int, int], method: str) -> Component:
    return resize_with_pad(image, *size, method)


def _resize_cropped(image: Array, size: tuple[int, int], method: str) -> Component:
    """Keras's smart_resize: the largest part in the middle that has the aspect ratio."""
    (height, width), (rows, columns) = image.shape[:2], size
    high = min(height, int(width * rows / columns))
    wide = min(width, int(height * columns / rows))
    cut = crop_to_bounding_box(image, (height - high) // 2, (width - wide) // 2, high, wide)
    return resize(cut, size, method)


def _load_text(path: StrPath, length: int | None) -> Component:
    text = read_file(path)
    return text if length is None else text[:length]


class _Labels:
    """Options for labels."""

    def __init__(self, labels: object, mode: str | None, class_names: Sequence[str] | None) -> None:
        if mode not in ("int", "categorical", "binary", None):
            raise ValueError(f"label_mode is 'int', 'categorical', 'binary' or None, not {mode!r}")
        if class_names is not None and labels != "inferred":
            raise ValueError('class_names are for labels="inferred"')
        self.given: TensorLike = None if mode is None else labels
        self.mode = None if labels is None else mode
        self.class_names = class_names

    def encoded(self, numbers: NDArray[np.int32], classes: int) -> Array:
        if self.mode == "binary":
            if classes != 2:
                raise ValueError(f'label_mode="binary" needs two classes, and there are {classes}')
            return numbers.astype(np.float32)[:, None]
        if self.mode == "categorical":
            return np.eye(classes, dtype=np.float32)[numbers]
        return numbers


class _Order:
    """Options for the order of files, and for the subset."""

    def __init__(self, shuffle: bool, seed: int | None, held_out: float | None, subset: str | None) -> None:
        if held_out is not None and not 0 < held_out < 1:
            raise ValueError(f"validation_split must be between 0 and 1, not {held_out}")
        if (held_out is None) != (subset is None):
            raise ValueError("validation_split and subset are given together, or neither")
        if subset not in (None, "training", "validation", "both"):
            raise ValueError(f"subset is 'training', 'validation' or 'both', not {subset!r}")
        if held_out and shuffle and seed is None:
            raise ValueError("a validation_split of shuffled files needs a seed: the two parts would overlap")
        self.shuffle = shuffle
        self.seed = np.random.randint(MAX_SEED) if seed is None and shuffle else seed
        self.held_out = held_out
        self.subset = subset

    def parts(self, count: int) -> list[tuple[NDArray[np.int64], bool]]:
        """Return the numbers of the files of each part, and whether it is shuffled in each epoch."""
        order = np.arange(count)
        if self.shuffle:
            np.random.RandomState(self.seed).shuffle(order)
        if self.held_out is None:
            return [(order, self.shuffle)]
        held = int(self.held_out * count)
        if not 0 < held < count:
            raise ValueError(f"validation_split={self.held_out} of {count} files leaves one part without any")
        training, validation = (order[:-held], self.shuffle), (order[-held:], self.shuffle)
        if self.subset == "both":
            return [training, (order[-held:], False)]
        return [training if self.subset == "training" else validation]


class _Files:
    """Files with their labels, in Keras's order."""

    def __init__(self, names: list[str], labels: Array | None, classes: Sequence[str], order: _Order) -> None:
        self.names, self.labels, self.classes, self.order = names, labels, classes, order


def _find(directory: StrPath, endings: tuple[str, ...], labels: _Labels, order: _Order, follow_links: bool) -> _Files:
    """Return the files below a folder, those of a class together, each folder's own files before those of its
    sub-folders.
    """
    folder = as_path(directory).rstrip("/") or "/"
    inferred = labels.given == "inferred"
    there = [n for n in listdir(folder) if not n.startswith(".") and isdir(f"{folder}/{n}")] if inferred else [""]
    classes = list(there if labels.class_names is None else labels.class_names)
    missing = [name for name in classes if name not in there]
    if missing:
        raise ValueError(f"{folder} has no folder for the class {missing[0]!r}: there are {', '.join(there)}")
    names: list[str] = []
    numbers: list[int] = []
    for number, kind in enumerate(classes):
        top = f"{folder}/{kind}" if kind else folder
        below = os.walk(top, followlinks=True) if follow_links else walk(top)
        for base, _, files in sorted(below, key=lambda found: found[0]):
            found = [f"{base.rstrip('/')}/{name}" for name in sorted(files) if name.lower().endswith(endings)]
            names += found
            numbers += [number] * len(found)
    if not names:
        raise FileNotFoundError(f"{folder} has no files that end in {', '.join(endings)}")
    if labels.mode is None:
        return _Files(names, None, (), order)
    if not inferred:
        if len(labels.given) != len(names):
            raise ValueError(f"{len(labels.given)} labels for {len(names)} files in {folder}")
        numbers, classes = list(labels.given), [str(label) for label in sorted(set(labels.given))]
    return _Files(names, labels.encoded(np.array(numbers, np.int32), len(classes)), classes, order)


def _datasets(files: _Files, load: Callable[[Any], object], batch_size: int | None, origin: str) -> Nested:
    made = []
    for numbers, shuffled in files.order.parts(len(files.names)):
        names = [files.names[i] for i in numbers.tolist()]
        node = FileNames(NAME, len(names), names, listing(names), origin, tuple(files.classes), site=user_site())
        ds = dataset_of(node)
        if files.labels is not None:
            ds = zip_datasets(ds, from_tensor_slices(files.labels[numbers]))
        if shuffled:
            ds = ds.shuffle(1024 if batch_size is None else batch_size * 8, files.order.seed)
        read = load if files.labels is None else partial(_with_label, load)
        ds = ds.map(read, num_parallel_calls=AUTOTUNE)
        made.append((ds if batch_size is None else ds.batch(batch_size)).prefetch(AUTOTUNE))
    return made if len(made) > 1 else made[0]


def _with_label(load: Callable[[Any], object], path: StrPath, label: object) -> Nested:
    return load(path), label
