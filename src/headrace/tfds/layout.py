"""The layout of features in tf.Examples, and the columns that they become: all rows of a block at a time.

Features inside sequences get the lengths of these, outermost first (None: any length); a sequence itself leaves nothing
else in a record.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import DTypeLike, NDArray

from headrace.columns import Column, box_text
from headrace.columns import values as column_values
from headrace.columns.varied import Varied
from headrace.core.limits import MAX_RECORD_BYTES
from headrace.core.override import override
from headrace.core.ragged import Ragged
from headrace.core.types import AnyFunction, Array, Component, DType, Nested
from headrace.errors import ParseError
from headrace.formats.shared.unpack import DamagedError, unpack_bytes
from headrace.image.codecs import MAX_PIXELS
from headrace.indexed.memory import Memory
from headrace.io.binary import bytes_column
from headrace.io.feature import Feature
from headrace.io.features import FixedLenFeature, FixedLenSequenceFeature
from headrace.plan.datasets import dataset_of
from headrace.plan.spec import DatasetSpec, Spec, TensorSpec
from headrace.plan.structure import Structure, flatten
from headrace.tfds.feature import (
    TEXT,
    Audio,
    DatasetFeature,
    FeatureConnector,
    FeaturesDict,
    Image,
    SequenceFeature,
    Shape,
    Tensor,
    Text,
)
from headrace.tfds.images import decode_pictures

if TYPE_CHECKING:
    from headrace.tfds.feature import FeatureLike

Found: TypeAlias = Mapping[str, Column]
Tree: TypeAlias = Any
"""Dicts of layouts."""


@dataclass(frozen=True)
class FeatureLayout(ABC):
    """The layout of one component: which features of an Example it is made from, and how."""

    key: str
    lengths: Shape

    @abstractmethod
    def stored(self) -> dict[str, Feature]:
        """Return what is read of each record, by name."""

    @abstractmethod
    def column(self, found: Found, rows: int) -> Column:
        """Return the component of all rows, out of what was read."""

    @property
    @abstractmethod
    def spec(self) -> Nested:
        """What a row is."""

    costly = False
    """Whether making a row takes much longer than reading it."""
    _headrace_constant = True


@dataclass(frozen=True)
class Values(FeatureLayout):
    """Numbers or bytes as the Example holds them, in one list a record; of nested sequences, with their lengths."""

    shape: Shape
    dtype: DType
    default: Component = None

    @property
    def full(self) -> Shape:
        """The shape with the sequences around it."""
        return (*self.lengths, *self.shape)

    @property
    def kind(self) -> DTypeLike:
        """As Examples hold it."""
        if self.dtype.kind in "iub":
            return np.int64
        if self.dtype.kind == "S":
            return bytes
        if self.dtype.kind == "f" or self.dtype.name == "bfloat16":
            return np.float32
        raise ValueError(f"feature {self.key!r}: values of {self.dtype} cannot be stored in an Example")

    def stored(self) -> dict[str, Feature]:
        if len(self.lengths) > 1:
            if None in self.shape:
                raise _too_ragged(self.key, self.full)
            lengths = {
                f"{self.key}/ragged_row_lengths_{i}": _any_number(np.int64) for i in range(len(self.lengths) - 1)
            }
            return {f"{self.key}/ragged_flat_values": _any_number(self.kind, self.shape), **lengths}
        if None not in self.full:
            return {self.key: FixedLenFeature(self.full, self.kind, self.default)}  # type: ignore[arg-type]
        if self.full.count(None) > 1:
            raise _too_ragged(self.key, self.full)
        return {self.key: _any_number(self.kind, tuple(n for n in self.full if n is not None))}

    @override
    def column(self, found: Found, rows: int) -> Column:  # the found columns have as many rows
        if len(self.lengths) > 1:
            return self._nested(found)
        column = found[self.key]
        if isinstance(column, Ragged):
            made = Ragged._of(self._cast(column.values), column.offsets)
            return made if self.full[0] is None else self._inner(made)
        return self._cast(column) if isinstance(column, np.ndarray) else column

    def _cast(self, values: Array) -> Array:
        """Return the dtype that was requested."""
        if self.dtype.kind == "S" or values.dtype == self.dtype:
            return values
        if self.dtype == np.uint64:
            return values.view(np.uint64)
        return values != 0 if self.dtype == np.bool_ else values.astype(self.dtype)

    def _inner(self, column: Ragged) -> Column:
        """Handle a ragged axis other than the first."""
        known = int(np.prod([n for n in self.full if n is not None]))
        flat = column.values.reshape(-1)
        sizes = column.row_lengths() * (len(flat) // max(1, len(column.values)) if len(column.values) else 0)
        shapes = np.array([[n if n is not None else 0 for n in self.full]] * len(column), np.int64).reshape(
            -1, len(self.full)
        )
        shapes[:, self.full.index(None)] = sizes // max(1, known)
        if flat.dtype == object:
            cuts = np.cumsum(sizes)[:-1]
            return [part.reshape(s) for part, s in zip(np.split(flat, cuts), shapes.tolist(), strict=True)]
        return Varied(flat, shapes)

    def _nested(self, found: Found) -> Column:
        values = found[f"{self.key}/ragged_flat_values"]
        counts = [found[f"{self.key}/ragged_row_lengths_{i}"] for i in range(len(self.lengths) - 1)]
        self._check(values, counts)
        made: Component = self._cast(values.values)
        for inner in reversed(counts):
            made = Ragged._of(made, _offsets(inner.values))
        nested = Ragged._of(made, counts[0].offsets)
        return nested if None in self.full[1:] else self._regular(nested)

    def _regular(self, nested: Ragged) -> Column:
        """Return rows as arrays, if only the first axis is ragged."""
        shape = [-1 if n is None else n for n in self.full]
        rows = []
        for row in nested:
            while isinstance(row, Ragged):
                row = row.values  # noqa: PLW2901
            rows.append(row.reshape(shape))
        if self.full[0] is None and rows:
            return Ragged.from_rows(rows)
        return np.stack(rows) if rows and None not in self.full else rows

    def _check(self, values: Ragged, counts: list[Ragged]) -> None:
        """Raise unless the lengths of each record add up to its number of values."""
        for outer, inner in zip(counts, [*counts[1:], values], strict=True):
            sums = np.add.reduceat(np.append(outer.values, 0), outer.offsets[:-1]) if len(outer) else np.empty(0)
            sums[outer.row_lengths() == 0] = 0
            if (wrong := sums != inner.row_lengths()).any():
                raise ParseError(
                    f"feature {self.key!r}: the lengths of its rows do not fit its values", int(wrong.argmax())
                )

    @property
    def spec(self) -> TensorSpec:
        return TensorSpec(self.full, self.dtype)


def _any_number(kind: DTypeLike, shape: Any = ()) -> FixedLenSequenceFeature:
    return FixedLenSequenceFeature(shape, kind, allow_missing=True)


def _offsets(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    made = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=made[1:])
    return made


def _too_ragged(key: str, shape: Shape) -> ValueError:
    return ValueError(
        f"feature {key!r} of shape {shape}: more than one axis is of any length, which an Example cannot tell; "
        "write it with encoding='bytes' or 'zlib'"
    )


@dataclass(frozen=True)
class Payload(FeatureLayout):
    """Encoded bytes: pictures, arrays, sound."""

    feature: FeatureLike
    max_pixels: int | None = MAX_PIXELS
    """The limit for a picture whose size the feature leaves open."""

    costly = True

    @property
    def raw(self) -> Values:
        """The bytes themselves."""
        optional = isinstance(self.feature, Tensor) and self.feature.optional
        return Values(self.key, self.lengths, (), TEXT, b"" if optional else None)

    def stored(self) -> dict[str, Feature]:
        return self.raw.stored()

    def column(self, found: Found, rows: int) -> Column:
        raw = self.raw.column(found, rows)
        if not self.lengths:
            return self.make(raw)
        if isinstance(raw, np.ndarray):
            raw = Ragged._of(raw.reshape(-1), np.arange(len(raw) + 1) * raw.shape[1])
        shape = self.feature.shape
        if None not in shape:
            return _around(raw, self.make)
        if len(self.lengths) > 1:
            raise ValueError(f"feature {self.key!r}: pictures of different sizes in nested sequences")
        empty = np.zeros((0, *(n or 0 for n in shape)), self.feature.dtype)
        made = [np.stack(list(column_values(self.make(row)))) if len(row) else empty for row in raw]
        return Varied.from_rows(made) if made else []

    def make(self, stored: object) -> Column:
        """Return what the bytes of several rows stand for."""
        feature = self.feature
        if isinstance(feature, Image):
            return decode_pictures(bytes_column(stored), feature.shape, feature.dtype, self.max_pixels)
        data = (stored if isinstance(stored, np.ndarray) else box_text(stored)).tolist()
        if isinstance(feature, Audio) and feature.lazy_decode:
            return _one_column([_samples(each, feature) for each in data], feature.shape, feature.dtype)
        return _one_column([_array(each, feature, feature.shape) for each in data], feature.shape, feature.dtype)

    @property
    def spec(self) -> TensorSpec:
        return TensorSpec((*self.lengths, *self.feature.shape), self.feature.dtype)


def _around(raw: Ragged, make: AnyFunction) -> Ragged:
    """Return the same sequences of something else."""
    values = raw.values
    return Ragged._of(_around(values, make) if isinstance(values, Ragged) else make(values), raw.offsets)


def _one_column(rows: list[Array], shape: Shape, dtype: DType) -> Column:
    if None not in shape:
        return np.stack(rows) if rows else np.empty((0, *shape), dtype)
    return Varied.from_rows(rows) if rows else []


def _array(data: bytes, feature: Tensor, shape: Sequence[int]) -> Array:
    if feature.encoding == "zlib":
        known = None if any(n is None or int(n) < 0 for n in shape) else math.prod(map(int, shape))
        most = MAX_RECORD_BYTES if known is None else known * feature.dtype.itemsize
        try:
            data = unpack_bytes(data, "ZLIB", most)
        except DamagedError as error:
            raise ValueError(f"an array that cannot be decompressed: {error}") from None
    flat = np.frombuffer(data, feature.dtype.newbyteorder("<")).astype(feature.dtype)
    return flat.reshape([-1 if n is None else int(n) for n in shape])


def _samples(data: bytes, feature: Audio) -> Array:
    """Return the samples of a WAV file."""
    import io
    import wave

    if data[:4] != b"RIFF":
        raise ValueError(
            f"sound of format {feature.file_format or 'unknown'} is not decoded here, only WAV: load it with "
            "decoders={...: hr.tfds.decode.SkipDecoding()} and decode it in map"
        )
    with wave.open(io.BytesIO(data)) as file:
        frames = file.readframes(file.getnframes())
        width, channels = file.getsampwidth(), file.getnchannels()
    if width == 1:
        samples = np.frombuffer(frames, np.uint8).astype(np.int64) - 128
    else:
        samples = np.frombuffer(frames, np.dtype(f"<i{width}"))
    return samples.reshape((-1, channels) if len(feature.shape) > 1 else -1).astype(feature.dtype)


@dataclass(frozen=True)
class ShapedPayload(FeatureLayout):
    """An array with more than one axis of any length: its bytes, and its shape."""

    feature: Tensor

    @property
    def parts(self) -> tuple[Values, Values]:
        """The bytes and the shape."""
        rank = len(self.feature.shape)
        return (
            Values(f"{self.key}/value", self.lengths, (), TEXT),
            Values(f"{self.key}/shape", self.lengths, (rank,), np.dtype(np.int64)),
        )

    def stored(self) -> dict[str, Feature]:
        if len(self.lengths) > 1:
            raise _too_ragged(self.key, (*self.lengths, *self.feature.shape))
        return {name: feature for part in self.parts for name, feature in part.stored().items()}

    def column(self, found: Found, rows: int) -> Column:
        values, shapes = (part.column(found, rows) for part in self.parts)
        if not self.lengths:
            made = [_array(v, self.feature, s) for v, s in zip(box_text(values), shapes, strict=True)]
        else:
            empty = np.zeros((0, *(n or 0 for n in self.feature.shape)), self.feature.dtype)
            made = [
                np.stack([_array(v, self.feature, s) for v, s in zip(row, each, strict=True)]) if len(row) else empty
                for row, each in zip(values, shapes, strict=True)
            ]
        return Varied.from_rows(made) if made else []

    @property
    def spec(self) -> TensorSpec:
        return TensorSpec((*self.lengths, *self.feature.shape), self.feature.dtype)


@dataclass(frozen=True)
class InnerDataset(FeatureLayout):
    """A dataset in each row: the columns of its features, which are one sequence each in the record."""

    inner: Tree
    outer: tuple[Values, ...]
    """The same as sequences of what is in the record."""

    costly = True

    def stored(self) -> dict[str, Feature]:
        return {name: feature for raw in self.outer for name, feature in raw.stored().items()}

    def column(self, found: Found, rows: int) -> Column:
        columns = {raw.key: raw.column(found, rows) for raw in self.outer}
        made = []
        for row in range(rows):
            own = {key: _inner_rows(column[row]) for key, column in columns.items()}
            made.append(self._dataset(own))
        return made

    def _dataset(self, own: dict[str, Column]) -> Nested:
        structure, layouts = flat_layouts(self.inner)
        counts = {len(column) for column in own.values()}
        if len(counts) != 1:
            raise ValueError(f"feature {self.key!r}: the parts of its dataset differ in length: {sorted(counts)}")
        rows = counts.pop()
        columns = [layout.column(own, rows) for layout in layouts]
        return dataset_of(Memory(Spec.of_signature(tree_spec(self.inner)), rows, structure, columns, "tfds"))

    @property
    def spec(self) -> DatasetSpec:
        return DatasetSpec(Spec.of_signature(tree_spec(self.inner)))


def _inner_rows(column: Column) -> Column:
    """Return the rows of one sequence as if they were records."""
    if isinstance(column, np.ndarray) and column.dtype == object and column.ndim == 1:
        import pyarrow as pa

        return pa.array(column.tolist(), pa.large_binary())
    return column


def tree_spec(tree: Tree) -> Nested:
    """Return the specs of a tree of layouts."""
    return map_layouts(tree, lambda layout: layout.spec)


def map_layouts(tree: Tree, change: Callable[[FeatureLayout], object]) -> Nested:
    """Return the same dicts and tuples with something else for each layout."""
    if isinstance(tree, dict):
        return {name: map_layouts(part, change) for name, part in tree.items()}
    return tuple(map_layouts(part, change) for part in tree) if isinstance(tree, tuple) else change(tree)


def flat_layouts(tree: Tree) -> tuple[Structure, list[FeatureLayout]]:
    """Return the structure of a tree, and its layouts in the order in which elements have their components."""
    found: list[FeatureLayout] = []

    def number(layout: FeatureLayout) -> int:
        found.append(layout)
        return len(found) - 1

    structure, order = flatten(map_layouts(tree, number))
    return structure, [found[i] for i in order]


def layout_tree(
    feature: FeatureConnector,
    path: str = "",
    lengths: Shape = (),
    *,
    skip: object = None,
    max_pixels: int | None = MAX_PIXELS,
) -> Tree:
    """Return the layouts of a feature, in dicts if it has several; `skip` names those whose bytes are wanted."""
    inner = partial(layout_tree, max_pixels=max_pixels)
    if isinstance(feature, FeaturesDict):
        inside = skip if isinstance(skip, Mapping) else {}
        return {
            name: inner(child, f"{path}/{name}" if path else name, lengths, skip=inside.get(name))
            for name, child in feature.items()
        }
    if isinstance(feature, DatasetFeature):
        return _inner_dataset(feature, path, lengths, inner(feature.feature, path, (), skip=skip))
    if isinstance(feature, SequenceFeature):
        return inner(feature.feature, path, (*lengths, feature.length), skip=skip)
    if isinstance(feature, Image):
        return Values(path, lengths, (), TEXT) if skip else Payload(path, lengths, feature, max_pixels)
    assert isinstance(feature, Tensor), feature
    return _tensor_layout(feature, path, lengths, skip=bool(skip))


def _tensor_layout(feature: Tensor, path: str, lengths: Shape, *, skip: bool) -> FeatureLayout:
    lazy = isinstance(feature, Audio) and feature.lazy_decode
    if lazy or feature.encoding != "none":
        if feature.shape.count(None) > 1 and not lazy:
            shaped = ShapedPayload(path, lengths, feature)
            return shaped.parts[0] if skip else shaped
        payload = Payload(path, lengths, feature)
        return payload.raw if skip else payload
    return Values(path, lengths, feature.shape, feature.dtype, _default(feature) if not lengths else None)


def _default(feature: Tensor) -> Component:
    """Return what TFDS has in the place of a value that a row lacks. That text may be lacking it does not
    write down.
    """
    if isinstance(feature, Text):
        return b""
    if not feature.optional:
        return None
    kind = feature.dtype.kind
    least: Component = b"" if kind == "S" else False if kind == "b" else None
    if least is None:
        least = np.iinfo(feature.dtype).min if kind in "iu" else np.finfo(feature.dtype).min
    if None in feature.shape:
        return None
    value = int(least) if kind in "iub" else least
    return (
        value if not feature.shape else np.full([n for n in feature.shape if n is not None], value, np.object_).tolist()
    )


def _inner_dataset(feature: DatasetFeature, path: str, lengths: Shape, inner: Tree) -> InnerDataset:
    if lengths:
        raise ValueError(f"feature {path!r}: a dataset within a sequence cannot be read")
    outer = []
    for layout in flat_layouts(inner)[1]:
        for raw in _raw_parts(layout):
            outer.append(Values(raw.key, (feature.length, *raw.lengths), raw.shape, raw.dtype))
    return InnerDataset(path, (), inner, tuple(outer))


def _raw_parts(layout: FeatureLayout) -> list[Values]:
    if isinstance(layout, Values):
        return [layout]
    if isinstance(layout, Payload):
        return [layout.raw]
    if isinstance(layout, ShapedPayload):
        return list(layout.parts)
    raise ValueError(f"feature {layout.key!r}: a dataset within a dataset within a dataset cannot be read")
