"""TFDS's features, under its names: what the components of a dataset's rows are.

A feature describes rows. Their layout in records is in `layout.py`, their form in `features.json` in `feature_json.py`.
"""

from __future__ import annotations

import json
from abc import ABC
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import DTypeLike

from headrace.core.extended import named_dtype
from headrace.core.types import DType
from headrace.errors import StorageError, what_there_is
from headrace.tfds.files import Folder, damage_named

Shape: TypeAlias = tuple[int | None, ...]
FEATURES = "features.json"
TEXT = np.dtype(bytes)


class FeatureConnector(ABC):
    """Base of all features."""

    module: ClassVar[str]
    """The module of TFDS that has the class of this name."""
    description: str = ""

    @classmethod
    def from_directory(cls, folder: Folder) -> FeatureConnector:
        """Return the features of a prepared dataset, with the names of their labels."""
        said = folder.read_json(FEATURES)
        if said is None:
            raise StorageError(
                f"{folder} has no {FEATURES}: it was prepared by a TFDS before 4.0, or not to the end; prepare it again"
            )
        from headrace.tfds.feature_json import read_feature

        feature = read_feature(said, folder.file(FEATURES))
        for path, labels in labels_in(feature):
            names = folder.read(labels_file(path))
            if names is not None:
                with damage_named(folder.file(labels_file(path))):
                    labels.names = [line.strip() for line in names.decode().split("\n") if line.strip()]
        return feature

    def children(self) -> Mapping[str, FeatureConnector]:
        """Return the features inside, by name; an inner one without a name as ''."""
        return {}

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash(repr(self))

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    _headrace_constant = True  # a traced function may hold on to it


FeatureLike: TypeAlias = Any
"""A feature, a dict of them, or a dtype."""


def as_feature(value: FeatureLike) -> FeatureConnector:
    """Return a feature; a dict is a FeaturesDict, and a dtype a Scalar."""
    if isinstance(value, FeatureConnector):
        return value
    if isinstance(value, Mapping):
        return FeaturesDict(value)
    try:
        return Tensor(shape=(), dtype=value)
    except TypeError:
        raise TypeError(f"a feature is one of hr.tfds.features, a dict of these or a dtype, not {value!r}") from None


class FeaturesDict(FeatureConnector, Mapping[str, FeatureConnector]):
    """Features by name.

    >>> hr.tfds.features.FeaturesDict({"x": np.int64, "name": hr.tfds.features.Text()})
    FeaturesDict({'name': Text(), 'x': int64})
    """

    module = "features_dict"

    def __init__(self, features: Mapping[str, FeatureLike]) -> None:
        self._features = {name: as_feature(feature) for name, feature in features.items()}

    def children(self) -> Mapping[str, FeatureConnector]:
        """Return all of them."""
        return self._features

    def __getitem__(self, name: str) -> FeatureConnector:
        try:
            return self._features[name]
        except KeyError:
            raise KeyError(f"no feature {name!r}: {what_there_is(name, self._features)}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._features)

    def __len__(self) -> int:
        return len(self._features)

    def __eq__(self, other: object) -> bool:  # a Mapping would compare items
        return FeatureConnector.__eq__(self, other)

    def __hash__(self) -> int:
        return FeatureConnector.__hash__(self)

    def __repr__(self) -> str:
        inside = ", ".join(f"{name!r}: {_brief(feature)}" for name, feature in sorted(self._features.items()))
        return f"{type(self).__name__}({{{inside}}})"


class Tensor(FeatureConnector):
    """An array; None in its shape stands for a size that differs from row to row.

    `encoding` is "none", "bytes" or "zlib": the last two store the bytes as they are, which keeps every bit, and lets
    more than one size differ. Rows may lack an `optional` one.

    >>> hr.tfds.features.Tensor(shape=(None, 3), dtype=np.float32)
    Tensor(shape=(None, 3), dtype=float32)
    """

    module = "tensor_feature"

    def __init__(
        self,
        *,
        shape: Sequence[int | None],
        dtype: DTypeLike,
        encoding: str = "none",
        optional: bool = False,
        minimum: float | None = None,
        maximum: float | None = None,
        doc: str = "",
    ) -> None:
        self.shape: Shape = tuple(shape)
        self.dtype: DType = as_dtype(dtype)
        self.encoding: str = str(getattr(encoding, "value", encoding) or "none").lower()
        self.optional = optional
        self.minimum: float | None = minimum
        self.maximum: float | None = maximum
        self.description = doc
        if self.encoding not in ("none", "bytes", "zlib"):
            raise ValueError(f'the encoding of a Tensor is "none", "bytes" or "zlib", not {encoding!r}')
        if self.encoding != "none" and self.dtype.kind == "S":
            raise ValueError("text has no encoding: a Tensor of bytes is stored as it is")

    def __repr__(self) -> str:
        encoding = f", encoding={self.encoding!r}" if self.encoding != "none" else ""
        optional = ", optional=True" if self.optional else ""
        return f"{type(self).__name__}(shape={self.shape}, dtype={dtype_text(self.dtype)}{encoding}{optional})"


class Scalar(Tensor):
    """One number, or bytes."""

    module = "scalar"

    def __init__(self, dtype: DTypeLike, *, optional: bool = False, doc: str = "") -> None:
        super().__init__(shape=(), dtype=dtype, optional=optional, doc=doc)


class Text(Tensor):
    """Text, which is read as UTF-8 bytes."""

    module = "text_feature"

    def __init__(self, *, optional: bool = False, doc: str = "") -> None:
        super().__init__(shape=(), dtype=TEXT, optional=optional, doc=doc)

    def __repr__(self) -> str:
        return "Text(optional=True)" if self.optional else "Text()"


class BBoxFeature(Tensor):
    """A box: ymin, xmin, ymax, xmax as parts of the image's sides, unless `bbox_format` says otherwise."""

    module = "bounding_boxes"

    def __init__(self, *, bbox_format: str | None = "REL_YXYX", doc: str = "") -> None:
        super().__init__(shape=(4,), dtype=np.float32, doc=doc)
        self.bbox_format = bbox_format

    def __repr__(self) -> str:
        return "BBoxFeature()"


class ClassLabel(Tensor):
    """One of several classes as its number; -1 if it has none.

    >>> label = hr.tfds.features.ClassLabel(names=["cat", "dog"])
    >>> label.str2int("dog"), label.int2str(0), label.num_classes
    (1, 'cat', 2)
    """

    module = "class_label_feature"

    def __init__(self, *, num_classes: int | None = None, names: Sequence[str] | None = None, doc: str = "") -> None:
        super().__init__(shape=(), dtype=np.int64, doc=doc)
        self._names: list[str] | None = None
        self.num_classes = num_classes
        if names is not None:
            self.names = names

    @property
    def names(self) -> list[str]:
        """Return the names of the classes; their numbers, if they have no names."""
        return self._names if self._names is not None else [str(i) for i in range(self.num_classes or 0)]

    @names.setter
    def names(self, names: Sequence[str]) -> None:
        if len(set(names)) < len(names):
            raise ValueError(f"two classes have one name: {list(names)}")
        if self.num_classes not in (None, len(names)):
            raise ValueError(f"{len(names)} names for {self.num_classes} classes")
        self._names, self.num_classes = list(names), len(names)

    @property
    def named(self) -> bool:
        """Whether the classes have names."""
        return self._names is not None

    def str2int(self, name: str) -> int:
        """Return the number of a class."""
        try:
            return self.names.index(name)
        except ValueError:
            raise ValueError(f"there is no class {name!r}: {what_there_is(name, self.names)}") from None

    def int2str(self, number: int) -> str:
        """Return the name of a class."""
        if not 0 <= number < (self.num_classes or 0):
            raise ValueError(f"class {number} of {self.num_classes}")
        return self.names[number]

    def __repr__(self) -> str:
        return f"ClassLabel(num_classes={self.num_classes})"


class Image(FeatureConnector):
    """A picture: height, width and channels of uint8, uint16, or, with one channel, float32.

    Arrays are written as PNG, or as `encoding_format` says; bytes and files of pictures as they are.

    >>> hr.tfds.features.Image(shape=(28, 28, 1))
    Image(shape=(28, 28, 1), dtype=uint8)
    """

    module = "image_feature"

    def __init__(
        self,
        *,
        shape: Sequence[int | None] | None = None,
        dtype: DTypeLike = np.uint8,
        encoding_format: str | None = None,
        use_colormap: bool = False,
        doc: str = "",
    ) -> None:
        self.shape: Shape = tuple(shape or (None, None, 3))
        self.dtype: DType = as_dtype(dtype or np.uint8)
        self.encoding_format: str | None = encoding_format or None
        self.use_colormap = use_colormap
        self.description = doc
        if self.dtype not in (np.uint8, np.uint16, np.float32):
            raise ValueError(f"images are of uint8, uint16 or float32, not {self.dtype}")
        if self.encoding_format not in (None, "png", "jpeg"):
            raise ValueError(f'images are written as "png" or "jpeg", not {encoding_format!r}')
        if self.encoding_format == "jpeg" and self.dtype != np.uint8:
            raise ValueError(f"a JPEG holds uint8, not {self.dtype}")
        if self.dtype == np.float32 and self.shape[-1] != 1:
            raise ValueError(f"an image of float32 has one channel, not shape {self.shape}")

    def __repr__(self) -> str:
        return f"{type(self).__name__}(shape={self.shape}, dtype={dtype_text(self.dtype)})"


class LabeledImage(Image):
    """A picture whose values are classes."""

    module = "labeled_image"

    def __init__(
        self,
        *,
        labels: Sequence[str] | int | None = None,
        shape: Sequence[int | None] | None = None,
        dtype: DTypeLike = np.uint8,
        encoding_format: str | None = None,
        doc: str = "",
    ) -> None:
        super().__init__(
            shape=shape or (None, None, 1), dtype=dtype, encoding_format=encoding_format, use_colormap=True, doc=doc
        )
        count = labels if isinstance(labels, int) else None
        self.label: ClassLabel = ClassLabel(num_classes=count, names=None if isinstance(labels, int) else labels)

    @property
    def names(self) -> list[str]:
        """The names of the classes."""
        return self.label.names

    @property
    def num_classes(self) -> int | None:
        """Return how many classes there are."""
        return self.label.num_classes


class SequenceFeature(FeatureConnector):
    """Any number of the same, or `length` of them; of a dict, each of its features becomes a sequence.

    >>> hr.tfds.features.Sequence({"word": hr.tfds.features.Text(), "at": np.int64})
    Sequence({'at': int64, 'word': Text()})
    """

    module = "sequence_feature"

    def __init__(self, feature: FeatureLike, length: int | None = None, *, doc: str = "") -> None:
        self.feature: FeatureConnector = as_feature(feature)
        self.length = length
        self.description = doc

    def children(self) -> Mapping[str, FeatureConnector]:
        """Return the one."""
        return {"": self.feature}

    def __getitem__(self, name: str) -> FeatureConnector:
        return self.feature[name]  # type: ignore[index,no-any-return]

    def __repr__(self) -> str:
        inside = _brief(self.feature)
        inside = inside[len("FeaturesDict(") : -1] if inside.startswith("FeaturesDict(") else inside
        length = f", length={self.length}" if self.length is not None else ""
        return f"{type(self).__name__.removesuffix('Feature')}({inside}{length})"


class DatasetFeature(SequenceFeature):
    """A dataset in each row."""

    module = "dataset_feature"


class Video(SequenceFeature):
    """Pictures one after another."""

    module = "video_feature"

    def __init__(
        self,
        shape: Sequence[int | None] | None = None,
        encoding_format: str | None = "png",
        *,
        dtype: DTypeLike = np.uint8,
        use_colormap: bool = False,
        ffmpeg_extra_args: Sequence[str] = (),
        doc: str = "",
    ) -> None:
        frame = tuple(shape[1:]) if shape else None
        image = Image(shape=frame, dtype=dtype, encoding_format=encoding_format, use_colormap=use_colormap)
        super().__init__(image, shape[0] if shape else None, doc=doc)
        self.ffmpeg_extra_args: tuple[str, ...] = tuple(ffmpeg_extra_args)

    @property
    def shape(self) -> Shape:
        """Frames, height, width, channels."""
        frame: Image = self.feature  # type: ignore[assignment]
        return (self.length, *frame.shape)

    def __repr__(self) -> str:
        return f"Video(shape={self.shape})"


class Audio(Tensor):
    """Sound as its samples; with `lazy_decode` the rows hold the file, which is decoded when it is read."""

    module = "audio_feature"

    def __init__(
        self,
        *,
        file_format: str | None = None,
        shape: Sequence[int | None] = (None,),
        dtype: DTypeLike = np.int64,
        sample_rate: int | None = None,
        encoding: str = "none",
        lazy_decode: bool = False,
        doc: str = "",
    ) -> None:
        super().__init__(shape=shape, dtype=dtype, encoding=encoding, doc=doc)
        self.file_format: str | None = file_format or None
        self.sample_rate = sample_rate
        self.lazy_decode = lazy_decode


class Translation(FeaturesDict):
    """The same text in several languages."""

    module = "translation_feature"

    def __init__(self, languages: Sequence[str], *, doc: str = "") -> None:
        super().__init__({language: Text() for language in languages})
        self.description = doc

    @property
    def languages(self) -> list[str]:
        """Their codes."""
        return sorted(self._features)


class TranslationVariableLanguages(SequenceFeature):
    """The same text in whichever languages there are: pairs of a language and a text, in order."""

    module = "translation_feature"

    def __init__(self, languages: Sequence[str] | None = None, *, doc: str = "") -> None:
        super().__init__({"language": Text(), "translation": Text()}, doc=doc)
        self.languages: list[str] | None = sorted(languages) if languages else None


def as_dtype(dtype: DTypeLike) -> DType:
    """Return a dtype by any of its names; that of text is bytes."""
    dtype = getattr(dtype, "as_numpy_dtype", dtype)
    if dtype in ("string", "object", "str", "bytes") or dtype in (str, bytes, object):
        return TEXT
    if dtype == "bfloat16":
        import ml_dtypes

        made: DType = np.dtype(ml_dtypes.bfloat16)
        return made
    found = named_dtype(dtype) if isinstance(dtype, str) else np.dtype(dtype)
    return TEXT if found.kind in "SUO" else found


def dtype_text(dtype: DType) -> str:
    """Return the dtype as TFDS writes it."""
    return "string" if dtype.kind == "S" else dtype.name


def labels_file(path: Sequence[str]) -> str:
    """Return the file with the names of the labels of a feature."""
    return "-".join(part.replace("/", ".") for part in path) + ".labels.txt"


def labels_in(feature: FeatureConnector, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], ClassLabel]]:
    """Yield every set of labels, with the names on the way to it."""
    if isinstance(feature, ClassLabel):
        yield path, feature
    elif isinstance(feature, LabeledImage):
        yield path, feature.label
    for name, child in feature.children().items():
        yield from labels_in(child, (*path, name) if name else path)


def _brief(feature: FeatureConnector) -> str:
    plain = type(feature) is Tensor and feature.shape == () and not feature.optional and feature.encoding == "none"
    return dtype_text(feature.dtype) if plain and isinstance(feature, Tensor) else repr(feature)


def canonical(feature: FeatureConnector) -> str:
    """Return a canonical text of a feature, for comparisons."""
    from headrace.tfds.feature_json import write_feature

    return json.dumps(write_feature(feature), sort_keys=True)
