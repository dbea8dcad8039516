"""Ids by the position of a value in a list or a file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from headrace import _native
from headrace.core.types import Argument, Component, Reduced, StrPath
from headrace.errors import refuse_arguments
from headrace.feature_column.categorical import DTYPES, KeyedIds, bucket_numbers
from headrace.feature_column.column import categorical_raw, check_integer, incomplete, key_of, text_or_integers
from headrace.feature_column.ids import RowIds
from headrace.feature_column.learnable import FrequentValues
from headrace.feature_column.learners import Frequencies
from headrace.feature_column.raw import Inputs, Ints, Raw
from headrace.remote.redact import show_path
from headrace.remote.transport import ALONE

Entries = tuple[bytes, ...] | tuple[int, ...]


class VocabularyTable:
    """The position of each value in a list."""

    def __init__(self, entries: Entries) -> None:
        self._entries = entries
        if entries and isinstance(entries[0], bytes):
            joined = _native.join_bytes(list(entries))
            assert joined is not None
            self._text = _native.TextTable(*joined)
        else:
            numbers = np.array(entries, np.int64)
            self._order = np.argsort(numbers, kind="stable")
            self._sorted = numbers[self._order]

    def __reduce__(self) -> Reduced:
        return VocabularyTable, (self._entries,)

    def places(self, raw: Raw) -> Ints:
        """Return the place of each value, -1 for those that are not in the list."""
        if raw.text is not None:
            made = np.empty(raw.size, np.int64)
            self._text.find(*raw.text, raw.hashes(), made)
            return made
        return self._places_of_integers(raw)

    def ids(self, raw: Raw, start: int, unknown: int, buckets: int) -> Ints:
        """For text, `start` and its place; for what is not in the list `unknown`, or one of `buckets` from there on."""
        assert raw.text is not None
        made = np.empty(raw.size, np.int64)
        self._text.ids(*raw.text, start, unknown, buckets, made)
        return made

    def _places_of_integers(self, raw: Raw) -> Ints:
        values = raw.integers
        at = np.minimum(np.searchsorted(self._sorted, values), len(self._sorted) - 1)
        return np.where(self._sorted[at] == values, self._order[at], -1)


@dataclass(frozen=True)
class VocabularyCategoricalColumn(KeyedIds):
    """Ids by the position in a vocabulary: see `categorical_column_with_vocabulary_list`."""

    key: str
    vocabulary: Entries | FrequentValues = field(repr=False)
    dtype: str
    default_value: int
    num_oov_buckets: int
    table: VocabularyTable | None = field(repr=False, compare=False)

    @property
    def entries(self) -> Entries:
        """The vocabulary, if it is known."""
        if isinstance(self.vocabulary, FrequentValues):
            raise incomplete(self.name, "its vocabulary is")
        return self.vocabulary

    @property
    def num_buckets(self) -> int:
        """A place for each entry, and those for what is not among them."""
        return len(self.entries) + self.num_oov_buckets

    def learner(self) -> Frequencies | None:
        """Return how often each value occurs, if the vocabulary is to be made of it."""
        return Frequencies() if isinstance(self.vocabulary, FrequentValues) else None

    def feed(self, learner: Frequencies, inputs: Inputs) -> None:
        """Pass all values to the learner, except missing ones."""
        raw = categorical_raw(inputs, self.key, self.dtype, self.name)
        learner.take(raw, raw.missing())

    def complete(self, learner: Frequencies) -> VocabularyCategoricalColumn:
        """Add a vocabulary."""
        asked = self.vocabulary
        assert isinstance(asked, FrequentValues)
        entries = learner.most_frequent(asked.limit, asked.min_count)
        if not entries:
            often = f" that occurs {asked.min_count} times" if asked.min_count > 1 else ""
            raise ValueError(f"column {self.name!r}: there is no value{often} in the data to make a vocabulary of")
        return vocabulary_column(self.key, entries, DTYPES[self.dtype], self.default_value, self.num_oov_buckets)

    def _ids(self, inputs: Inputs) -> RowIds:
        entries, table = self.entries, self.table
        assert table is not None
        raw = categorical_raw(inputs, self.key, self.dtype, self.name)
        made = table.places(raw)
        if self.num_oov_buckets:
            unknown = np.flatnonzero(made < 0)
            made[unknown] = bucket_numbers(raw.hashes()[unknown], self.num_oov_buckets, len(entries))
        elif self.default_value != -1:
            made[made < 0] = self.default_value
        return RowIds.like(raw, made, raw.missing())


def vocabulary_column(
    key: str,
    entries: Sequence[Any] | FrequentValues,
    dtype: DTypeLike | None,
    default_value: Component,
    num_oov_buckets: int,
) -> VocabularyCategoricalColumn:
    """Return a column of checked entries."""
    oov = check_integer(key, "num_oov_buckets", num_oov_buckets, 0)
    default = -1 if default_value is None else check_integer(key, "default_value", default_value, -(2**62))
    if oov and default != -1:
        raise ValueError(f"column {key!r}: say default_value or num_oov_buckets, not both")
    if isinstance(entries, FrequentValues):
        kind = text_or_integers(key, bytes if dtype is None else dtype)
        return VocabularyCategoricalColumn(key, entries, kind, default, oov, None)
    if not entries:
        raise ValueError(f"column {key!r}: the vocabulary is empty")
    if default >= len(entries):
        raise ValueError(f"column {key!r}: default_value {default} is no place of {len(entries)} entries")
    kind = text_or_integers(key, dtype) if dtype is not None else _kind(key, entries)
    made = tuple(_entry(key, entry, kind) for entry in entries)
    seen: dict[Any, int] = {}
    for place, entry in enumerate(made):
        if seen.setdefault(entry, place) != place:
            raise ValueError(
                f"column {key!r}: {entry!r} is in the vocabulary twice, as entry {seen[entry]} and {place}: keep one"
            )
    return VocabularyCategoricalColumn(key, made, kind, default, oov, VocabularyTable(made))


def _kind(key: str, entries: Sequence[object]) -> str:
    kinds = {"string" if isinstance(entry, str | bytes) else "int64" for entry in entries}
    if len(kinds) > 1:
        raise ValueError(f"column {key!r}: the vocabulary mixes text and numbers")
    return kinds.pop()


def _entry(key: str, entry: object, kind: str) -> Component:
    if kind == "string" and isinstance(entry, str | bytes):
        return entry.encode() if isinstance(entry, str) else bytes(entry)
    if kind == "int64" and hasattr(entry, "__index__") and not isinstance(entry, bool):
        return int(entry)
    raise TypeError(f"column {key!r}: the entry {entry!r} of the vocabulary is no {kind}")


_OF_FILES = ("vocabulary_file", "vocabulary_size", "file_format")


def categorical_column_with_vocabulary_list(
    key: str,
    vocabulary_list: Sequence[Any] | FrequentValues = (),
    dtype: DTypeLike | None = None,
    default_value: int = -1,
    num_oov_buckets: int = 0,
    **unknown: Argument,
) -> VocabularyCategoricalColumn:
    """RowIds by the place in a list, of text or of integers; `hr.most_frequent()` leaves the list to `layer.adapt`.

    Other values have no id, or `default_value`, or one of `num_oov_buckets` beyond the list, by their hash.

    Args:
        key: Name of the feature or column.
        vocabulary_list: The values in order, or `hr.most_frequent(n)`.
        dtype: Data type.
        default_value: Id of unknown values if there are no buckets.
        num_oov_buckets: Number of ids for values that are not in the vocabulary.
        **unknown: Other names are refused with an error that says what to write.

    >>> size = hr.feature_column.categorical_column_with_vocabulary_list("size", ["S", "M", "L"], num_oov_buckets=1)
    >>> layer = hr.feature_column.DenseFeatures([hr.feature_column.indicator_column(size)])
    >>> layer({"size": ["M", "XXL"]})
    array([[0., 1., 0., 0.],
           [0., 0., 0., 1.]], dtype=float32)
    """
    hint = "categorical_column_with_vocabulary_file takes a file"
    refuse_arguments("categorical_column_with_vocabulary_list", unknown, dict.fromkeys(_OF_FILES, hint))
    entries = vocabulary_list if isinstance(vocabulary_list, FrequentValues) else list(vocabulary_list)
    return vocabulary_column(key_of(key), entries, dtype, default_value, num_oov_buckets)


def categorical_column_with_vocabulary_file(
    key: str,
    vocabulary_file: StrPath,
    vocabulary_size: int | None = None,
    dtype: DTypeLike = bytes,
    default_value: int | None = None,
    num_oov_buckets: int = 0,
    file_format: str | None = None,
) -> VocabularyCategoricalColumn:
    """Like `categorical_column_with_vocabulary_list`, with one entry per line of a file.

    The first `vocabulary_size` lines count. The file is read now: the column holds its entries.
    `file_format="tfrecord_gzip"` says that it has records.

    Args:
        key: Name of the feature or column.
        vocabulary_file: Path or URL of a file with one value a line.
        vocabulary_size: Number of lines to use. Default: all.
        dtype: Data type.
        default_value: Value to use if one is missing.
        num_oov_buckets: Number of ids for values that are not in the vocabulary.
        file_format: Format of the files.
    """
    key, shown = key_of(key), show_path(str(vocabulary_file))
    lines = _records(key, vocabulary_file) if file_format == "tfrecord_gzip" else _lines(vocabulary_file)
    if file_format not in (None, "text", "tfrecord_gzip"):
        raise ValueError(f"column {key!r}: file_format must be 'text' or 'tfrecord_gzip', not {file_format!r}")
    if vocabulary_size is not None:
        count = check_integer(key, "vocabulary_size", vocabulary_size, 1)
        if len(lines) < count:
            raise ValueError(f"column {key!r}: {shown} has {len(lines)} lines, but {count} are required")
        lines = lines[:count]
    if b"" in lines:
        raise ValueError(f"column {key!r}: line {lines.index(b'') + 1} of {shown} is empty: take it out")
    entries: list[Component] = lines
    if text_or_integers(key, dtype) == "int64":
        try:
            entries = [int(line) for line in lines]
        except ValueError as error:
            raise ValueError(f"column {key!r}: {shown} is not all of integers: {error}") from None
    return vocabulary_column(key, entries, dtype, default_value, num_oov_buckets)


def _lines(path: StrPath) -> list[bytes]:
    import fsspec

    with ALONE.hiding(str(path)), fsspec.open(str(path), "rb") as file:
        content: bytes = file.read().replace(b"\r", b"")  # as TensorFlow reads lines
    return content.removesuffix(b"\n").split(b"\n") if content else []


def _records(key: str, path: StrPath) -> list[bytes]:
    import gzip

    import fsspec

    with ALONE.hiding(str(path)), fsspec.open(str(path), "rb") as file:
        content = gzip.decompress(file.read())
    values, offsets, consumed, problem = _native.unframe(content, 0, 2**62, 2**62)
    if problem or consumed != len(content):
        raise ValueError(
            f"column {key!r}: {show_path(str(path))} is no intact TFRecord file: damage at byte {consumed}"
        )
    return [bytes(values[a:b]) for a, b in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)]
