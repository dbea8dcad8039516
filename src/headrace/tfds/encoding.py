"""Encode examples of generators into records: many rows at a time, feature by feature."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headrace.columns.arrow_text import pick_text
from headrace.columns.kind import Column
from headrace.core.ragged import Ragged
from headrace.core.types import Array, Component, DType
from headrace.errors import what_there_is
from headrace.execute.budget import cpus
from headrace.io.examples import encode_examples
from headrace.tfds.feature import (
    Audio,
    BBoxFeature,
    ClassLabel,
    FeatureConnector,
    FeaturesDict,
    Image,
    SequenceFeature,
    Shape,
    Tensor,
    TranslationVariableLanguages,
)
from headrace.tfds.images import encode_picture, encode_pictures

if TYPE_CHECKING:
    from headrace.tfds.feature import FeatureLike

MIN_BYTES_FOR_THREADS = 64 << 10  # smaller pictures cost more in waiting for the GIL than threads save


class EncodeError(ValueError):
    """A row does not match its features; `row` is its number among those encoded together."""

    def __init__(self, what: str, row: int) -> None:
        super().__init__(what)
        self.row = row


class FeatureRows(NamedTuple):
    """The values of one feature in all rows, and the sequences around it."""

    path: str
    lengths: Shape
    feature: FeatureLike
    values: list[Component]


def encode_rows(features: FeatureConnector, rows: Sequence[object]) -> Column:
    """Return the rows as records, in Arrow's layout."""
    columns: dict[str, Any] = {}
    absent: dict[str, list[int]] = {}
    for found in feature_rows(features, list(rows)):
        lacking = [i for i, value in enumerate(found.values) if value is None]
        if lacking and not (isinstance(found.feature, Tensor) and found.feature.optional and not found.lengths):
            raise EncodeError(f"feature {found.path!r} is None", lacking[0])
        values = found.values
        if lacking:
            some = next((value for value in values if value is not None), _something(found.feature))
            values = [some if value is None else value for value in values]
        made = encode_feature(found._replace(values=values))
        columns |= made
        if lacking:
            absent |= dict.fromkeys(made, lacking)
    if not absent:
        return encode_examples(columns)
    return _encode_without(columns, absent, len(rows))


def _something(feature: FeatureLike) -> Component:
    """Return a value, if no row has one."""
    shape = [n or 0 for n in feature.shape]
    return b"" if feature.dtype.kind == "S" and not shape else np.zeros(shape, feature.dtype)


def _encode_without(columns: dict[str, Any], absent: Mapping[str, list[int]], count: int) -> Column:
    """Return rows that lack some features: those that lack the same are encoded together."""
    lacks: list[tuple[str, ...]] = [()] * count
    for name, rows in sorted(absent.items()):
        for row in rows:
            lacks[row] = (*lacks[row], name)
    made, order = [], []
    for pattern in sorted(set(lacks)):
        rows_with = np.array([row for row in range(count) if lacks[row] == pattern], np.int64)
        kept = {name: _take(column, rows_with) for name, column in columns.items() if name not in pattern}
        made.append(encode_examples(kept))
        order += rows_with.tolist()
    back = np.empty(count, np.int64)
    back[np.array(order)] = np.arange(count)
    return pick_text(made, back)


def _take(column: Column, rows: NDArray[np.int64]) -> Column:
    if isinstance(column, Ragged):
        return column.take(rows)
    return [column[row] for row in rows.tolist()] if isinstance(column, list) else column[rows]


def feature_rows(feature: FeatureConnector, values: list[Component], path: str = "") -> Iterator[FeatureRows]:
    """Yield the values of each feature, taken out of their dicts."""
    if isinstance(feature, FeaturesDict):
        _check_names(feature, values, path)
        for name, child in feature.items():
            yield from feature_rows(child, [value[name] for value in values], f"{path}/{name}" if path else name)
    elif isinstance(feature, TranslationVariableLanguages):
        yield from _sequence_rows(feature, [_pairs(feature, value, row) for row, value in enumerate(values)], path)
    elif isinstance(feature, SequenceFeature):
        yield from _sequence_rows(feature, values, path)
    else:
        yield FeatureRows(path, (), feature, values)


def _sequence_rows(feature: SequenceFeature, values: list[Component], path: str) -> Iterator[FeatureRows]:
    inner = feature.feature
    values = [value if isinstance(value, Mapping | np.ndarray) else list(value) for value in values]
    if not isinstance(inner, FeaturesDict):
        for row, value in enumerate(values):
            if feature.length is not None and len(value) != feature.length:
                raise EncodeError(f"feature {path!r} has {len(value)} parts, but {feature.length} were promised", row)
        flat = [part for value in values for part in value]
        ends = np.cumsum([0, *map(len, values)])
        for found in feature_rows(inner, flat, path):
            cut = [found.values[a:b] for a, b in pairwise(ends.tolist())]
            yield found._replace(values=cut, lengths=(feature.length, *found.lengths))
        return
    for name, child in inner.items():
        parts = [_column(value, name, path, row) for row, value in enumerate(values)]
        yield from _sequence_rows(SequenceFeature(child, feature.length), parts, f"{path}/{name}" if path else name)


def _column(value: Component, name: str, path: str, row: int) -> Column:
    """Return one feature of a sequence of dicts, or of a dict of sequences."""
    try:
        return value[name] if isinstance(value, Mapping) else [part[name] for part in value]
    except (KeyError, TypeError):
        raise EncodeError(f"feature {path!r} lacks {name!r}", row) from None


def _check_names(feature: FeaturesDict, values: list[Component], path: str) -> None:
    wanted = feature.children().keys()  # of a plain dict, which compares at once
    for row, value in enumerate(values):
        if not isinstance(value, Mapping):
            where = f"feature {path!r}" if path else "an example"
            raise EncodeError(f"{where} is a dict of {', '.join(wanted)}, not {value!r:.80}", row)
        if value.keys() != wanted:
            wrong = sorted(set(value) ^ set(wanted))[0]
            said = "is not among its features" if wrong in value else "is missing"
            raise EncodeError(f"{f'{path}/{wrong}'.strip('/')!r} {said}: {what_there_is(wrong, wanted)}", row)


def _pairs(feature: TranslationVariableLanguages, value: object, row: int) -> Component:
    if not isinstance(value, Mapping):
        return value
    unknown = set(value) - set(feature.languages or value)
    if unknown:
        raise EncodeError(f"language {sorted(unknown)[0]!r} is none of {', '.join(feature.languages or [])}", row)
    pairs = [(k, text) for k, said in value.items() for text in ([said] if isinstance(said, str | bytes) else said)]
    return [{"language": language, "translation": text} for language, text in sorted(pairs)]


def encode_feature(rows: FeatureRows) -> dict[str, Any]:
    """Return the columns that one feature becomes, by the names that they have in records."""
    feature, lengths = rows.feature, rows.lengths
    if not lengths:
        return _plain(rows.path, feature, rows.values)
    flat, counts = rows.values, []
    for _ in lengths:
        counts.append(np.array([len(value) for value in flat], np.int64))
        flat = [part for value in flat for part in value]
    made = _plain(rows.path, feature, flat)
    inner = counts[1:]
    if not inner:
        return {name: _cut(column, counts[0]) for name, column in made.items()}
    outer = counts[0]
    nested: dict[str, Any] = {}
    for level, each in enumerate(inner):
        nested[f"{rows.path}/ragged_row_lengths_{level}"] = Ragged._of(each, _offsets(outer))
        outer = _sums(each, outer)
    return nested | {f"{name}/ragged_flat_values": _cut(column, outer) for name, column in made.items()}


def _sums(lengths: NDArray[np.int64], counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the sums of runs of these lengths."""
    return np.diff(_offsets(lengths)[_offsets(counts)])


def _offsets(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])


def _cut(column: Column, counts: NDArray[np.int64]) -> Ragged:
    """Return a column in runs, one for each row."""
    if isinstance(column, Ragged):
        return Ragged._of(column.values, column.offsets[_offsets(counts)])
    if isinstance(column, list):
        flat = np.empty(len(column), object)
        flat[:] = column
        column = flat
    return Ragged._of(column, _offsets(counts))


def _plain(path: str, feature: FeatureLike, values: list[Component]) -> dict[str, Any]:
    if isinstance(feature, Image):
        return {path: _pictures(values, feature, path)}
    if isinstance(feature, ClassLabel):
        return {path: _labels(values, feature, path)}
    if isinstance(feature, Audio) and feature.lazy_decode:
        return {path: [_file(value, path, row) for row, value in enumerate(values)]}
    if feature.dtype.kind == "S" and feature.shape == ():
        return {path: [_text(value, path, row) for row, value in enumerate(values)]}
    if isinstance(feature, BBoxFeature):
        values = [_box(value) for value in values]
    if feature.shape == () and feature.encoding == "none":
        return {path: _stored(_scalars(values, feature, path))}
    arrays = [_array(value, feature, path, row) for row, value in enumerate(values)]
    if feature.encoding == "none":
        return {path: _dense_or_ragged(arrays, feature)}
    data = [np.ascontiguousarray(a, a.dtype.newbyteorder("<")).tobytes() for a in arrays]
    data = [zlib.compress(d) for d in data] if feature.encoding == "zlib" else data
    if feature.shape.count(None) < 2:
        return {path: data}
    shapes = np.array([a.shape for a in arrays], np.int64).reshape(len(arrays), len(feature.shape))
    return {f"{path}/value": data, f"{path}/shape": shapes}


def _dense_or_ragged(arrays: list[Array], feature: Tensor) -> Column:
    if feature.shape.count(None) > 1:
        raise ValueError(f"a Tensor of shape {feature.shape} needs encoding='bytes' or 'zlib'")
    if feature.dtype.kind == "S":
        flat = [[_bytes(v) for v in a.ravel().tolist()] for a in arrays]
        return Ragged.from_rows([_objects(row) for row in flat], object)
    if None in feature.shape or not arrays:
        return Ragged.from_rows([_stored(a).ravel() for a in arrays], _stored(np.empty(0, feature.dtype)).dtype)
    return _stored(np.stack(arrays)).reshape(len(arrays), -1)


def _objects(values: list[Component]) -> Array:
    made = np.empty(len(values), object)
    made[:] = values
    return made


def _stored(values: Array) -> Array:
    """Convert to a dtype that an Example can hold."""
    if values.dtype == np.uint64:
        return values.view(np.int64)
    return values.astype(np.int64 if values.dtype.kind in "iub" else np.float32)


def _scalars(values: list[Component], feature: Tensor, path: str) -> Array:
    """Return numbers of one dtype; those that do not fit are an error."""
    try:
        found = np.asarray(values)
        if found.ndim != 1 or found.dtype.kind not in "biuf" or not _fits(found.dtype, feature.dtype):
            raise ValueError("not plain numbers")
        return np.array(values, feature.dtype) if found.dtype != feature.dtype else found
    except (TypeError, ValueError, OverflowError):
        return np.array([_array(v, feature, path, row)[()] for row, v in enumerate(values)], feature.dtype)


def _fits(given: DType, wanted: DType) -> bool:
    order = "biuf"
    return order.index(given.kind) <= (3 if wanted.kind == "f" or wanted.name == "bfloat16" else order.index("u")) and (
        wanted.kind != "b" or given.kind == "b"
    )


def _array(value: Component, feature: Tensor, path: str, row: int) -> Array:
    """Return a value as an array of the feature's dtype and shape."""
    try:
        if feature.dtype.kind == "S":
            made = np.array(value, object)
        else:
            given = np.asarray(value)
            if given.size and (given.dtype.kind not in "biuf" or not _fits(given.dtype, feature.dtype)):
                raise TypeError(f"{given.dtype} is no {feature.dtype}")
            made = np.array(value, feature.dtype)
            if given.dtype.kind in "iu" and feature.dtype.kind in "iu" and not np.array_equal(made, given):
                raise OverflowError(f"{given.max()} does not fit")
    except (TypeError, ValueError, OverflowError) as error:
        raise EncodeError(f"feature {path!r} is {feature}, not {value!r:.80}: {error}", row) from None
    if len(made.shape) != len(feature.shape) or any(
        n not in (None, m) for n, m in zip(feature.shape, made.shape, strict=True)
    ):
        raise EncodeError(f"feature {path!r} has the shape {made.shape}, but {feature.shape} was promised", row)
    return made


def _box(value: Component) -> Component:
    """Return a box of TFDS's, or four numbers."""
    return [value.ymin, value.xmin, value.ymax, value.xmax] if hasattr(value, "ymin") else value


def _labels(values: list[Component], feature: ClassLabel, path: str) -> Array:
    count = feature.num_classes
    if count is not None and all(type(value) is int for value in values):
        known = np.array(values, np.int64)
        if known.min(initial=0) >= -1 and known.max(initial=-1) < count:
            return known
    numbers = {name: number for number, name in enumerate(feature.names)}
    made = np.empty(len(values), np.int64)
    for row, value in enumerate(values):
        name = value.decode() if isinstance(value, bytes) else value
        if isinstance(name, str):
            if name not in numbers:
                raise EncodeError(f"feature {path!r}: no class {name!r}, {what_there_is(name, feature.names)}", row)
            made[row] = numbers[name]
        else:
            if count is None or not -1 <= int(name) < count:
                raise EncodeError(f"feature {path!r}: class {name} of {count}", row)
            made[row] = name
    return made


def _bytes(value: object) -> bytes:
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bytes | bytearray | np.bytes_):
        return bytes(value)
    raise TypeError(f"{value!r:.80} is no text")


def _text(value: object, path: str, row: int) -> bytes:
    try:
        return _bytes(value.item() if isinstance(value, np.ndarray) and value.ndim == 0 else value)
    except TypeError as error:
        raise EncodeError(f"feature {path!r}: {error}", row) from None


def _file(value: object, path: str, row: int) -> bytes:
    """Return the bytes of a file, by its path, open, or as they are."""
    if isinstance(value, bytes):
        return value
    if isinstance(value, str | os.PathLike):
        try:
            return Path(value).read_bytes()
        except OSError as error:
            raise EncodeError(f"feature {path!r}: {error}", row) from error
    if hasattr(value, "read"):
        data: bytes = value.read()
        return data
    raise EncodeError(f"feature {path!r} takes bytes, a path or a file, not {type(value).__name__}", row)


def _pictures(values: list[Component], feature: Image, path: str) -> list[bytes]:
    """The bytes of pictures; arrays are compressed on all CPUs."""
    if _are_alike(values, feature):
        return encode_pictures(values)
    large = len(values) > 1 and isinstance(values[0], np.ndarray) and values[0].nbytes >= MIN_BYTES_FOR_THREADS
    width = cpus() if large else 1
    made: list[bytes] = [b""] * len(values)

    def encode_every(first: int) -> None:
        for row in range(first, len(values), width):
            made[row] = _picture(values[row], feature, path, row)

    if width == 1:
        encode_every(0)
        return made
    with ThreadPoolExecutor(width, "headrace-build") as pool:
        runs = [pool.submit(encode_every, first) for first in range(width)]
    failed = [error for run in runs if (error := run.exception()) is not None]
    if failed:
        raise min(failed, key=lambda error: error.row if isinstance(error, EncodeError) else -1)
    return made


def _are_alike(values: list[Component], feature: Image) -> bool:
    """Whether all are arrays of one shape of uint8, as the feature says, to be written as PNG."""
    first = values[0] if values else None
    if not isinstance(first, np.ndarray) or first.dtype != np.uint8 or feature.dtype != np.uint8:
        return False
    fits = first.ndim == 3 == len(feature.shape) and all(
        n in (None, m) for n, m in zip(feature.shape, first.shape, strict=True)
    )
    if not fits or not first.size or first.nbytes >= MIN_BYTES_FOR_THREADS or first.shape[2] not in (1, 2, 3, 4):
        return False
    return feature.encoding_format in (None, "png") and all(
        isinstance(value, np.ndarray) and value.dtype == np.uint8 and value.shape == first.shape for value in values
    )


def _picture(value: object, feature: Image, path: str, row: int) -> bytes:
    """Return the bytes of a picture: as they are, or of an array."""
    if hasattr(value, "save") and hasattr(value, "mode"):  # one of Pillow's
        value = np.asarray(value)
        value = value[:, :, None] if value.ndim == 2 else value
    if not isinstance(value, np.ndarray):
        return _file(value, path, row)
    fits = len(value.shape) == len(feature.shape) and all(
        n in (None, m) for n, m in zip(feature.shape, value.shape, strict=True)
    )
    if value.dtype != feature.dtype or not fits:
        raise EncodeError(f"feature {path!r} is {feature}, not an array {value.dtype}{list(value.shape)}", row)
    return encode_picture(value, feature.encoding_format)
