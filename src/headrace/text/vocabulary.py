"""Vocabularies: a list of tokens, and texts as indices into it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from headrace.columns.objects import boxes
from headrace.core.paths import local_only
from headrace.core.ragged import Ragged
from headrace.core.types import StrPath, Tensor, TensorLike
from headrace.feature_column.learners import Frequencies
from headrace.feature_column.raw import Raw
from headrace.feature_column.vocabulary import VocabularyTable, _lines
from headrace.plan.spec import TensorSpec
from headrace.preprocessing.adapt import How, flat_raw, learn
from headrace.preprocessing.base import PreprocessingLayer
from headrace.storage.files import whole_file

if TYPE_CHECKING:
    from headrace.cluster.members import Cluster
    from headrace.dataset import Dataset


@dataclass(frozen=True, eq=False)
class Vocabulary(PreprocessingLayer):
    """Map texts of any shape to their indices in a list of tokens, with tf.lookup's ids for unknown texts.

    Unknown texts have one of `num_oov_buckets` ids after the list, by their fingerprint; or, if there are none, the
    `default_value`. The words of lines come out as rows of different lengths, ready for `padded_batch`.

    Args:
        tokens: The tokens; their position is their id.
        num_oov_buckets: Number of ids for values that are not in the vocabulary.
        default_value: Id of unknown tokens if there are no buckets.

    >>> words = hr.text.Vocabulary(["[PAD]", "to", "be", "or"])
    >>> words(hr.text.split("to be or not to be"))
    array([1, 2, 3, 4, 1, 2])
    >>> words.tokens_of([1, 2, 4])
    array(['to', 'be', '[UNK]'], dtype=object)
    """

    tokens: Sequence[Any] = field(repr=False)
    num_oov_buckets: int = field(default=1, kw_only=True)
    default_value: int = field(default=-1, kw_only=True)
    table: VocabularyTable = field(init=False, repr=False)

    def __repr__(self) -> str:
        rest = f"num_oov_buckets={self.num_oov_buckets}, default_value={self.default_value}"
        return f"{type(self).__name__}({len(self.tokens):,} tokens, {rest})"

    def __post_init__(self) -> None:
        if isinstance(self.tokens, str | bytes):
            raise TypeError(
                f"Vocabulary takes a list of tokens, not {self.tokens!r:.80}: Vocabulary.from_file reads a file"
            )
        given = tuple(self.tokens)
        kinds = set(map(type, given))
        readable = kinds == {str}
        made = given if kinds == {bytes} else tuple([t.encode() for t in given] if readable else map(_token, given))
        if not made:
            raise ValueError("Vocabulary: there are no tokens")
        if len(set(made)) < len(made):
            twice = [token for token, count in Counter(made).items() if count > 1]
            raise ValueError(f"Vocabulary: {_readable(twice[0])!r} is in the list twice: keep one")
        if self.num_oov_buckets < 0:
            raise ValueError(f"Vocabulary: num_oov_buckets must be at least 0, not {self.num_oov_buckets}")
        if self.num_oov_buckets and self.default_value != -1:
            raise ValueError("Vocabulary: say default_value or num_oov_buckets, not both: num_oov_buckets=0")
        object.__setattr__(self, "tokens", given if readable else _all_readable(made))
        object.__setattr__(self, "table", VocabularyTable(made))

    @classmethod
    def from_file(cls, path: StrPath, *, num_oov_buckets: int = 1, default_value: int = -1) -> Vocabulary:
        """Read a file with one token per line, as `save` writes it."""
        return cls(_lines(path), num_oov_buckets=num_oov_buckets, default_value=default_value)

    @classmethod
    def adapt(
        cls,
        data: Dataset | TensorLike,
        max_tokens: int | None = None,
        *,
        min_count: int = 1,
        special_tokens: Iterable[str] = (),
        num_oov_buckets: int = 1,
        default_value: int = -1,
        state: StrPath | None = None,
        save_every: float = 30.0,
        progress: bool | None = None,
        cluster: Cluster | None = None,
    ) -> Vocabulary:
        """Collect the most frequent texts of a dataset or array in one pass; of equals the greater first, as in Keras.

        `special_tokens` come first, whether they occur or not, and count among `max_tokens`. With `state`, the name of
        a file, an interrupted or killed pass continues from there when it is called again: the counts are saved every
        `save_every` seconds. A bar is shown on a terminal, or as `progress` says. With a `cluster` its workers count,
        each the texts of some elements: the vocabulary is the same.

        >>> lines = hr.Dataset.from_tensor_slices(["to be or not to be", "to do"])
        >>> hr.text.Vocabulary.adapt(lines.map(hr.text.split), 3, special_tokens=["[PAD]"]).tokens
        ('[PAD]', 'to', 'be')
        """
        special = [_token(token) for token in special_tokens]
        room = None if max_tokens is None else max_tokens - len(special)
        if room is not None and room < 1:
            raise ValueError(f"Vocabulary: max_tokens={max_tokens} leaves no room beside {len(special)} special tokens")
        counts = Frequencies()

        def take(column: object, axes: int) -> None:
            del axes
            raw = flat_raw(column)
            if raw.text is None and raw.size:
                raise TypeError(f"Vocabulary.adapt counts texts, not {raw.kind}: take hr.preprocessing.IntegerLookup")
            if raw.text is not None:
                counts.take(raw)

        learn(cls, data, [counts], take, How(None, state, save_every, progress, cluster))
        found = counts.most_frequent(room, min_count, tuple(special))
        if not found:
            raise ValueError("Vocabulary: there is no text in the data to make a vocabulary of")
        return cls([*special, *found], num_oov_buckets=num_oov_buckets, default_value=default_value)

    def save(self, path: StrPath) -> None:
        """Write a file with one token a line; it is there whole, or not at all."""
        content = [_token(token) for token in self.tokens]
        wrong = [token for token in content if b"\n" in token or b"\r" in token]
        if wrong:
            raise ValueError(f"Vocabulary: the token {_readable(wrong[0])!r} holds the end of a line")
        with whole_file(local_only(path, "Vocabulary.save")) as file:
            file.write(b"".join(token + b"\n" for token in content))

    def __len__(self) -> int:
        """Return how many ids there are."""
        return len(self.tokens) + self.num_oov_buckets

    def tokens_of(self, ids: TensorLike, unknown: str = "[UNK]") -> Tensor:
        """Return the tokens that have these ids, `unknown` for ids of none; of an array or Ragged, in its shape."""
        if isinstance(ids, Ragged):
            return Ragged(self.tokens_of(ids.values, unknown), ids.offsets)
        places = np.asarray(ids)
        outside = (places < 0) | (places >= len(self.tokens))
        made = boxes([*self.tokens, unknown])[np.where(outside, len(self.tokens), places)]
        return made if places.ndim else made.item() if isinstance(made, np.ndarray) else made

    def results(self, raws: list[Raw]) -> NDArray[np.int64]:
        """Return the id of each text."""
        (raw,) = raws
        if raw.text is None and raw.size:
            raise TypeError(f"Vocabulary has ids for texts, not for {raw.kind}")
        if raw.text is None:
            return np.empty(0, np.int64)
        unknown = len(self.tokens) if self.num_oov_buckets else self.default_value
        return self.table.ids(raw, 0, unknown, self.num_oov_buckets)

    def spec(self, shape: tuple[int | None, ...]) -> TensorSpec:
        """Return an id for each text."""
        return TensorSpec(shape, np.int64)


def lookup(input: TensorLike, vocabulary: Vocabulary) -> Tensor:
    """Return the ids of texts in a vocabulary: `vocabulary(input)`.

    Args:
        input: A text, an array of texts of any shape, or an `hr.Ragged` of texts.
        vocabulary: The vocabulary.

    >>> hr.text.lookup(["b", "x"], hr.text.Vocabulary(["a", "b"]))
    array([1, 2])
    """
    return vocabulary(input)


def _token(value: object) -> bytes:
    if not isinstance(value, str | bytes):
        raise TypeError(f"Vocabulary: {value!r} is no text")
    return value.encode() if isinstance(value, str) else bytes(value)


def _all_readable(tokens: tuple[bytes, ...]) -> tuple[str | bytes, ...]:
    try:
        return tuple(map(bytes.decode, tokens))
    except UnicodeDecodeError:
        return tuple(map(_readable, tokens))


def _readable(token: bytes) -> str | bytes:
    try:
        return token.decode()
    except UnicodeDecodeError:
        return token
