"""Look up values in a vocabulary, with ids for unknown values before it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from headrace.columns.kind import Column
from headrace.core.types import Array, Component, Nested, StrPath, TensorLike
from headrace.feature_column.categorical import bucket_numbers
from headrace.feature_column.learners import Frequencies
from headrace.feature_column.raw import Raw
from headrace.feature_column.vocabulary import VocabularyTable, _lines
from headrace.plan.spec import TensorSpec
from headrace.preprocessing.adapt import Documents, How, documents, flat_raw, learn
from headrace.preprocessing.base import MODES, PreprocessingLayer, encode, encoded_spec, settle_options
from headrace.preprocessing.hashing import salt_words, salted_hashes

if TYPE_CHECKING:
    from headrace.dataset import Dataset

L = TypeVar("L", bound="Lookup")


@dataclass(frozen=True)
class Lookup(PreprocessingLayer):
    """The base of both lookups."""

    max_tokens: int | None = None
    num_oov_indices: int = 1
    mask_token: Component = None
    oov_token: Component = None
    vocabulary: TensorLike = field(default=None, repr=False)
    idf_weights: TensorLike = field(default=None, repr=False, kw_only=True, compare=False)
    invert: bool = field(default=False, kw_only=True)
    output_mode: str = field(default="int", kw_only=True)
    pad_to_max_tokens: bool = field(default=False, kw_only=True)
    sparse: bool = field(default=False, kw_only=True)
    salt: Nested = field(default=None, kw_only=True)
    name: str | None = field(default=None, kw_only=True)
    table: VocabularyTable | None = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        settle_options(self, known=(*MODES, "tf_idf"))
        name = type(self).__name__
        if self.num_oov_indices < 0:
            raise ValueError(f"{name}: num_oov_indices must be at least 0, not {self.num_oov_indices}")
        if self.max_tokens is not None and self.max_tokens <= 1:
            raise ValueError(f"{name}: max_tokens must be greater than 1, not {self.max_tokens}")
        if self.pad_to_max_tokens and self.max_tokens is None:
            raise ValueError(f"{name}: pad_to_max_tokens needs max_tokens")
        if self.invert and self.output_mode != "int":
            raise ValueError(f"{name}: invert gives tokens, not vectors: leave output_mode={self.output_mode!r} out")
        if self.idf_weights is not None and self.output_mode != "tf_idf":
            raise ValueError(f"{name}: idf_weights needs output_mode='tf_idf'")
        object.__setattr__(self, "salt", salt_words(self.salt, name))
        if self.vocabulary is not None:
            self._settle_vocabulary(name)

    def _settle_vocabulary(self, name: str) -> None:
        given = _lines(self.vocabulary) if isinstance(self.vocabulary, str) else list(self.vocabulary)
        tokens = [self._token(value) for value in given]
        if not tokens:
            raise ValueError(f"{name}: the vocabulary is empty")
        special = [self._token(self.mask_token)] if self._first_unknown else []
        special += [self._token(self.oov_token)] * self.num_oov_indices if self.oov_token is not None else []
        at_start = bool(special) and tokens[: len(special)] == special
        if at_start:
            tokens = tokens[len(special) :]
        twice = [token for token, count in Counter(tokens).items() if count > 1]
        if twice:
            raise ValueError(f"{name}: {twice[0]!r} is in the vocabulary twice: keep one")
        reserved = {self._token(self.mask_token)} if self.mask_token is not None else set()
        reserved |= {self._token(self.oov_token)} if self.invert and self.oov_token is not None else set()
        wrong = [token for token in tokens if token in reserved]
        if wrong:
            raise ValueError(f"{name}: {wrong[0]!r} stands for values that are masked or unknown: take it out")
        if self.max_tokens is not None and self._start + len(tokens) > self.max_tokens:
            raise ValueError(f"{name}: {self._start + len(tokens)} tokens are more than max_tokens, {self.max_tokens}")
        if self.output_mode == "tf_idf":
            self._settle_weights(name, len(given), 0 if at_start else self._start)
        object.__setattr__(self, "vocabulary", tuple(tokens))
        object.__setattr__(self, "table", VocabularyTable(tuple(tokens)))

    def _settle_weights(self, name: str, count: int, missing: int) -> None:
        if self.idf_weights is None:
            raise ValueError(
                f"{name}: a vocabulary for output_mode='tf_idf' needs idf_weights, or adapt(data) for both"
            )
        weights = np.asarray(self.idf_weights, np.float32)
        if weights.shape != (count,):
            raise ValueError(f"{name}: idf_weights must be one for each of {count} tokens, not {weights.shape}")
        object.__setattr__(self, "idf_weights", np.concatenate([np.repeat(weights.mean(), missing), weights]))

    def _token(self, value: object) -> Component:
        raise NotImplementedError

    def _unknown(self, raw: Raw) -> NDArray[np.int64]:
        raise NotImplementedError

    def _readable(self, token: object) -> Component:
        return token

    @property
    def _start(self) -> int:
        return self._first_unknown + self.num_oov_indices

    @property
    def _first_unknown(self) -> int:
        return int(self.mask_token is not None and self.output_mode == "int")

    def vocabulary_size(self) -> int:
        """Return how many ids there are."""
        return self._start + len(self._tokens())

    def get_vocabulary(self, include_special_tokens: bool = True) -> list[Any]:
        """Return the tokens in the order of their ids; text as str if possible."""
        tokens = [self._readable(token) for token in self._tokens()]
        if not include_special_tokens:
            return tokens
        mask = [self.mask_token] * self._first_unknown
        return [*mask, *[self.oov_token] * self.num_oov_indices, *tokens]

    def _tokens(self) -> tuple[Any, ...]:
        if self.table is None:
            raise ValueError(f"{type(self).__name__} has no vocabulary: give one, or take one from data by adapt(data)")
        return tuple(self.vocabulary)

    def results(self, raws: list[Raw]) -> Array:
        """Return the id of each value, or the value of each id."""
        self._tokens()
        assert self.table is not None
        (raw,) = raws
        if self.invert:
            return self._inverted(raw)
        if raw.size and (raw.text is None) == isinstance(self, StringLookup):
            raise TypeError(f"{type(self).__name__} has other values than {raw.kind}")
        made = self._ids(raw, self.table)
        masked = None if self.mask_token is None else self._masked(raw)
        if not self.num_oov_indices and bool(((made < 0) if masked is None else (made < 0) & ~masked).any()):
            raise ValueError(
                f"{type(self).__name__}: a value is not in the vocabulary: num_oov_indices=1 gives it an id"
            )
        return made if masked is None else np.where(masked, 0 if self.output_mode == "int" else -1, made)

    def _ids(self, raw: Raw, table: VocabularyTable) -> NDArray[np.int64]:
        """Without a mask; values that have no id get -1."""
        many = self.num_oov_indices > 1
        if raw.text is not None and (self.salt is None or not many):
            unknown = self._first_unknown if self.num_oov_indices else -1
            return table.ids(raw, self._start, unknown, self.num_oov_indices if many else 0)
        places = table.places(raw)
        unknown_ids = self._first_unknown + self._unknown(raw) if many else self._first_unknown
        return np.where(places >= 0, places + self._start, unknown_ids if self.num_oov_indices else -1)

    def _masked(self, raw: Raw) -> NDArray[np.bool_]:
        token = self._token(self.mask_token)
        if token == b"" and raw.text is not None:
            return np.asarray(np.diff(raw.text[1]) == 0)
        return VocabularyTable((token,)).places(raw) >= 0

    def _inverted(self, raw: Raw) -> Array:
        if raw.numbers is None:
            raise TypeError(f"{type(self).__name__}: invert takes ids, not text")
        tokens = [*self.get_vocabulary(), self.oov_token]
        ids = raw.integers
        outside = (ids < 0) | (ids >= len(tokens))
        made = np.empty(len(tokens), np.int64 if isinstance(self, IntegerLookup) else object)
        made[:] = tokens
        return np.asarray(made[np.where(outside, len(tokens) - 1, ids)])

    def to_output(self, made: Column, axes: int) -> Column:
        """By `output_mode`."""
        if self.output_mode != "tf_idf":
            return encode(made, axes, self.output_mode, self._depth)
        weights = np.zeros(self._depth, np.float32)
        weights[: len(self.idf_weights)] = self.idf_weights
        return encode(made, axes, "count", self._depth) * weights

    def spec(self, shape: tuple[int | None, ...]) -> TensorSpec:
        """By `output_mode`."""
        if self.invert:
            return TensorSpec(shape, np.int64 if isinstance(self, IntegerLookup) else str)
        return encoded_spec(shape, self.output_mode, self._depth)

    @property
    def _depth(self) -> int:
        return self.max_tokens if self.pad_to_max_tokens and self.max_tokens else self.vocabulary_size()

    def adapt(
        self: L,
        data: Dataset | TensorLike,
        steps: int | None = None,
        *,
        state: StrPath | None = None,
        save_every: float = 30.0,
        progress: bool | None = None,
    ) -> L:
        """Return the layer with the values of `data`, an array or a dataset, as its vocabulary by frequency.

        Of values that are equally frequent the greater comes first, as in Keras. Of a dataset the first `steps`
        elements count. With `state`, the name of a file, an interrupted or killed pass continues from there when it is
        called again: the state is saved every `save_every` seconds. A bar is shown on a terminal, or as `progress`
        says.

        >>> layer = hr.preprocessing.StringLookup().adapt(["b", "a", "b", "c"])
        >>> layer.get_vocabulary()
        ['[UNK]', 'b', 'c', 'a']
        """
        counts, spread = Frequencies(), Documents()
        weighted = self.output_mode == "tf_idf"

        def take(column: Column, axes: int) -> None:
            raw = flat_raw(column)
            if raw.size and (raw.text is None) == isinstance(self, StringLookup):
                raise TypeError(f"{type(self).__name__} has other values than {raw.kind}")
            counts.take(raw)
            if weighted:
                spread.take_documents(raw, documents(column, axes))

        learn(self, data, [counts, spread], take, How(steps, state, save_every, progress))
        return self.with_counts(counts, spread)

    def with_counts(self: L, counts: Frequencies, spread: Documents) -> L:
        """Return the layer with the most frequent values as its vocabulary, weighted by their document frequencies."""
        special = tuple(self._token(token) for token in (self.mask_token, self.oov_token) if token is not None)
        limit = None if self.max_tokens is None else self.max_tokens - self._start
        tokens = counts.most_frequent(limit, without=special)
        if not tokens:
            raise ValueError(f"{type(self).__name__}: there is no value in the data to make a vocabulary of")
        weights = None
        if self.output_mode == "tf_idf":
            weights = np.log(1 + np.float32(spread.number) / (1 + spread.counts_of(tokens)))
        return replace(self, vocabulary=tokens, idf_weights=weights)


@dataclass(frozen=True)
class StringLookup(Lookup):
    """Text to ids, as Keras's layer of this name: unknown values first, then the vocabulary.

    Args:
        max_tokens: Largest size of the vocabulary.
        num_oov_indices: Number of ids for unknown values.
        mask_token: Token that stands for padding.
        oov_token: Token that stands for unknown values.
        vocabulary: Tokens in order, or the path of a file with one token a line.
        idf_weights: Inverse document frequencies, for the output mode "tf_idf".
        invert: Whether to compute the inverse.
        output_mode: Form of the output, such as "int", "one_hot", "multi_hot" or "count".
        pad_to_max_tokens: Whether outputs always have `max_tokens` columns.
        sparse: Accepted for compatibility with Keras; only False is supported.
        salt: Number or pair of numbers that changes the hash.
        name: Accepted for compatibility with Keras.
        encoding: Text encoding; None returns bytes.

    >>> hr.preprocessing.StringLookup(vocabulary=["a", "b"])(np.array([["a", "x"], ["b", "b"]]))
    array([[1, 0],
           [2, 2]])
    """

    oov_token: Component = "[UNK]"
    encoding: str = field(default="utf-8", kw_only=True)
    """How `get_vocabulary` and `invert` read bytes."""

    def _readable(self, token: Component) -> Component:
        try:
            return token.decode(self.encoding)
        except UnicodeDecodeError:
            return token

    def _token(self, value: object) -> bytes:
        if not isinstance(value, str | bytes):
            raise TypeError(f"StringLookup: {value!r} is no text")
        return value.encode() if isinstance(value, str) else value

    def _unknown(self, raw: Raw) -> NDArray[np.int64]:
        return bucket_numbers(salted_hashes(raw, self.salt), self.num_oov_indices)


@dataclass(frozen=True)
class IntegerLookup(Lookup):
    """Integers to ids, as Keras's layer of this name; unknown values by their rest modulo `num_oov_indices`.

    Args:
        max_tokens: Largest size of the vocabulary.
        num_oov_indices: Number of ids for unknown values.
        mask_token: Token that stands for padding.
        oov_token: Token that stands for unknown values.
        vocabulary: Tokens in order, or the path of a file with one token a line.
        idf_weights: Inverse document frequencies, for the output mode "tf_idf".
        invert: Whether to compute the inverse.
        output_mode: Form of the output, such as "int", "one_hot", "multi_hot" or "count".
        pad_to_max_tokens: Whether outputs always have `max_tokens` columns.
        sparse: Accepted for compatibility with Keras; only False is supported.
        salt: Number or pair of numbers that changes the hash.
        name: Accepted for compatibility with Keras.
        vocabulary_dtype: Data type of the vocabulary.
        oov_method: How unknown values get their id.

    >>> hr.preprocessing.IntegerLookup(vocabulary=[12, 36])([36, 7, 12])
    array([2, 0, 1])
    """

    oov_token: Component = -1
    vocabulary_dtype: str = field(default="int64", kw_only=True)
    oov_method: str = field(default="floormod", kw_only=True)
    """How several indices for unknown values are dealt out: by the rest, or by "farmhash"."""

    def __post_init__(self) -> None:
        if self.vocabulary_dtype != "int64":
            raise ValueError(f"IntegerLookup: vocabulary_dtype must be 'int64', not {self.vocabulary_dtype!r}")
        if self.oov_method not in ("floormod", "farmhash"):
            raise ValueError(f"IntegerLookup: oov_method must be 'floormod' or 'farmhash', not {self.oov_method!r}")
        if self.salt is not None and self.oov_method != "farmhash":
            raise ValueError("IntegerLookup: salt needs oov_method='farmhash'")
        super().__post_init__()

    def _token(self, value: object) -> int:
        if isinstance(value, bool) or not hasattr(value, "__index__"):
            if isinstance(value, bytes):
                return int(value)
            raise TypeError(f"IntegerLookup: {value!r} is no integer")
        return int(value)

    def _unknown(self, raw: Raw) -> NDArray[np.int64]:
        if self.oov_method == "farmhash":
            return bucket_numbers(salted_hashes(raw, self.salt), self.num_oov_indices)
        return np.asarray(raw.integers % self.num_oov_indices)
