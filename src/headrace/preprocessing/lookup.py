"""Values to their places in a vocabulary, with room for others before it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from headrace.feature_column.categorical import bucket_numbers
from headrace.feature_column.raw import Raw, is_single, plain_column, raw_of
from headrace.feature_column.vocabulary import VocabularyTable, _lines
from headrace.plan.spec import TensorSpec
from headrace.preprocessing.base import PreprocessingLayer, encode, encoded_spec, mode_of
from headrace.ragged import Ragged
from headrace.text import binary

L = TypeVar("L", bound="Lookup")


@dataclass(frozen=True)
class Lookup(PreprocessingLayer):
    """What both kinds of lookup share."""

    max_tokens: int | None = None
    num_oov_indices: int = 1
    mask_token: Any = None
    oov_token: Any = None
    vocabulary: Any = field(default=None, repr=False)
    output_mode: str = "int"
    pad_to_max_tokens: bool = False
    table: VocabularyTable | None = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        mode_of(self.output_mode)
        name = type(self).__name__
        if self.num_oov_indices < 0:
            raise ValueError(f"{name}: num_oov_indices must be at least 0, not {self.num_oov_indices}")
        if self.max_tokens is not None and self.max_tokens <= 1:
            raise ValueError(f"{name}: max_tokens must be greater than 1, not {self.max_tokens}")
        if self.vocabulary is None:
            return
        given = _lines(self.vocabulary) if isinstance(self.vocabulary, str) else list(self.vocabulary)
        tokens = [self._token(value) for value in given]
        special = [self._token(self.mask_token)] if self.mask_token is not None and self.output_mode == "int" else []
        special += [self._token(self.oov_token)] * self.num_oov_indices
        if tokens[: len(special)] == special:
            tokens = tokens[len(special) :]
        twice = [token for token, count in Counter(tokens).items() if count > 1]
        if twice:
            raise ValueError(f"{name}: {twice[0]!r} is in the vocabulary twice: keep one")
        reserved = [token for token in tokens if token in special]
        if reserved:
            raise ValueError(f"{name}: {reserved[0]!r} stands for values that are masked or unknown: take it out")
        if self.max_tokens is not None and self._start + len(tokens) > self.max_tokens:
            raise ValueError(f"{name}: {self._start + len(tokens)} tokens are more than max_tokens, {self.max_tokens}")
        object.__setattr__(self, "vocabulary", tuple(tokens))
        object.__setattr__(self, "table", VocabularyTable(tuple(tokens)))

    def _token(self, value: Any) -> Any:
        raise NotImplementedError

    def _unknown(self, raw: Raw) -> NDArray[np.int64]:
        raise NotImplementedError

    @property
    def _start(self) -> int:
        return self._first_unknown + self.num_oov_indices

    @property
    def _first_unknown(self) -> int:
        return int(self.mask_token is not None and self.output_mode == "int")

    def vocabulary_size(self) -> int:
        """How many ids there are."""
        return self._start + len(self._tokens())

    def get_vocabulary(self, include_special_tokens: bool = True) -> list[Any]:
        """The tokens in the order of their ids; text as str where it is UTF-8."""
        tokens = [_readable(token) for token in self._tokens()]
        if not include_special_tokens:
            return tokens
        mask = [self.mask_token] * self._first_unknown
        return [*mask, *[self.oov_token] * self.num_oov_indices, *tokens]

    def _tokens(self) -> tuple[Any, ...]:
        if self.table is None:
            raise ValueError(f"{type(self).__name__} has no vocabulary: give one, or take one from data by adapt(data)")
        return tuple(self.vocabulary)

    def results(self, raws: list[Raw]) -> NDArray[np.int64]:
        """The id of each value."""
        self._tokens()
        assert self.table is not None
        (raw,) = raws
        if raw.size and (raw.text is None) == isinstance(self, StringLookup):
            raise TypeError(f"{type(self).__name__} has other values than {raw.kind}")
        places = self.table.places(raw)
        unknown = np.flatnonzero(places < 0)
        made = places + self._start
        if self.num_oov_indices == 1:
            made[unknown] = self._first_unknown
        elif self.num_oov_indices > 1:
            made[unknown] = self._first_unknown + self._unknown(raw)[unknown]
        if self.mask_token is not None:
            masked = VocabularyTable((self._token(self.mask_token),)).places(raw) >= 0
            made = np.where(masked, 0 if self.output_mode == "int" else -1, made)
            unknown = unknown[~masked[unknown]]
        if not self.num_oov_indices and len(unknown):
            raise ValueError(
                f"{type(self).__name__}: a value is not in the vocabulary: num_oov_indices=1 gives it an id"
            )
        return made

    def to_output(self, made: Any, axes: int) -> Any:
        """By `output_mode`."""
        return encode(made, axes, self.output_mode, self._depth)

    def spec(self, shape: tuple[int | None, ...]) -> TensorSpec:
        """By `output_mode`."""
        return encoded_spec(shape, self.output_mode, self._depth)

    @property
    def _depth(self) -> int:
        return self.max_tokens if self.pad_to_max_tokens and self.max_tokens else self.vocabulary_size()

    def adapt(self: L, data: Any) -> L:
        """The layer with the values of `data`, an array or a dataset, as its vocabulary: the most frequent first.

        Of values that are equally frequent the greater comes first, as in Keras.

        >>> layer = hr.preprocessing.StringLookup().adapt(["b", "a", "b", "c"])
        >>> layer.get_vocabulary()
        ['[UNK]', 'b', 'c', 'a']
        """
        counts: Counter[Any] = Counter()
        for batch in data if hasattr(data, "element_spec") else [data]:
            counts.update(_flat_values(batch))
        special = {self._token(token) for token in (self.mask_token, self.oov_token) if token is not None}
        found = [(count, token) for token, count in counts.items() if token not in special]
        tokens = [token for _, token in sorted(found, reverse=True)]
        if self.max_tokens is not None:
            tokens = tokens[: self.max_tokens - self._start]
        return replace(self, vocabulary=tokens)


def _flat_values(batch: Any) -> list[Any]:
    """The values of an array of any shape: bytes, or integers."""
    column = plain_column([batch] if is_single(batch) else batch)
    while isinstance(column, Ragged):
        column = column.values
    raw = raw_of(column.reshape(-1) if isinstance(column, np.ndarray) else column)
    if raw.text is not None:
        values: list[Any] = binary(*raw.text).to_pylist()
        return values
    integers: list[Any] = raw.integers.tolist()
    return integers


def _readable(token: Any) -> Any:
    try:
        return token.decode() if isinstance(token, bytes) else token
    except UnicodeDecodeError:
        return token


@dataclass(frozen=True)
class StringLookup(Lookup):
    """Text to ids, as Keras's layer of this name: unknown values first, then the vocabulary.

    >>> hr.preprocessing.StringLookup(vocabulary=["a", "b"])(np.array([["a", "x"], ["b", "b"]]))
    array([[1, 0],
           [2, 2]])
    """

    oov_token: Any = "[UNK]"

    def _token(self, value: Any) -> bytes:
        if not isinstance(value, str | bytes):
            raise TypeError(f"StringLookup: {value!r} is no text")
        return value.encode() if isinstance(value, str) else value

    def _unknown(self, raw: Raw) -> NDArray[np.int64]:
        return bucket_numbers(raw.hashes(), self.num_oov_indices)


@dataclass(frozen=True)
class IntegerLookup(Lookup):
    """Integers to ids, as Keras's layer of this name; unknown values by their rest modulo `num_oov_indices`.

    >>> hr.preprocessing.IntegerLookup(vocabulary=[12, 36])([36, 7, 12])
    array([2, 0, 1])
    """

    oov_token: Any = -1

    def _token(self, value: Any) -> int:
        if isinstance(value, bool) or not hasattr(value, "__index__"):
            if isinstance(value, bytes):
                return int(value)
            raise TypeError(f"IntegerLookup: {value!r} is no integer")
        return int(value)

    def _unknown(self, raw: Raw) -> NDArray[np.int64]:
        return np.asarray(raw.integers % self.num_oov_indices)
