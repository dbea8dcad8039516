"""Lines of text to ids or counts, as Keras's layer of this name does it."""

from __future__ import annotations

import string
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace import _native
from headrace.columns import Column, box_text, column_of, values
from headrace.columns.arrow_text import parts
from headrace.core.ragged import Ragged
from headrace.core.types import Component, StrPath, Tensor, TensorLike
from headrace.feature_column.learners import Frequencies
from headrace.feature_column.raw import raw_of
from headrace.plan.spec import TensorSpec
from headrace.preprocessing.adapt import Documents, How, learn
from headrace.preprocessing.lookup import StringLookup
from headrace.text.bytemap import DROP, IDENTITY, LOWER, SPACE, WHITE_SPACE, ByteMap, changed
from headrace.text.layout import Offsets, TextLayout, texts_of
from headrace.text.operation import check_choice, in_kind, one_row, words_in_kind
from headrace.trace.operation import traced_operation

if TYPE_CHECKING:
    import pyarrow as pa

    from headrace.dataset import Dataset

MODES = ("int", "multi_hot", "count", "tf_idf")
STANDARDS: dict[str, ByteMap] = {
    "lower": LOWER,
    "strip_punctuation": changed(IDENTITY, string.punctuation, DROP),
    "lower_and_strip_punctuation": changed(LOWER, string.punctuation, DROP),
}
SPLITS = ("whitespace", "character")


@dataclass(frozen=True, eq=False)
class TextVectorization:
    """Standardize texts, split them into words, join n-grams, and look them up, like Keras's layer of this name.

    A text gives the ids of its words (`output_mode="int"`; cut or filled up to `output_sequence_length`), or a vector
    of the vocabulary's size: which words it has ("multi_hot"), how often ("count"), or weighted by how rare they are
    ("tf_idf"). An array of texts gives an array, filled up with 0 to the longest, or an hr.Ragged if `ragged`. The
    vocabulary is given, or taken from data by `adapt`. `standardize` and `split` may be functions of an array of
    texts, made of those of hr.text; they run row by row.

    Args:
        max_tokens: Largest size of the vocabulary.
        standardize: How to clean texts: the name of a method, a function, or None.
        split: How to split texts: "whitespace", "character", a function, or None.
        ngrams: Longest n-grams to make, or a list of lengths.
        output_mode: Form of the output, such as "int", "one_hot", "multi_hot" or "count".
        output_sequence_length: Length to pad or cut to. Default: the longest.
        pad_to_max_tokens: Whether outputs always have `max_tokens` columns.
        vocabulary: Tokens in order, or the path of a file with one token a line.
        idf_weights: Inverse document frequencies, for the output mode "tf_idf".
        sparse: Accepted for compatibility with Keras; only False is supported.
        ragged: Whether to return an `hr.Ragged` instead of padding.
        encoding: Encoding of bytes.
        name: Accepted for compatibility with Keras.

    >>> layer = hr.text.TextVectorization(vocabulary=["to", "be", "or", "not"])
    >>> layer("To be, or not to BE?")
    array([2, 3, 4, 5, 2, 3])
    >>> layer(["to do", "be"])
    array([[2, 1],
           [3, 0]])
    """

    max_tokens: int | None = None
    standardize: str | Callable[[Any], Any] | None = "lower_and_strip_punctuation"
    split: str | Callable[[Any], Any] | None = "whitespace"
    ngrams: int | Sequence[int] | None = None
    output_mode: str = "int"
    output_sequence_length: int | None = None
    pad_to_max_tokens: bool = False
    vocabulary: TensorLike = field(default=None, repr=False)
    idf_weights: TensorLike = field(default=None, repr=False)
    sparse: bool = False
    ragged: bool = False
    encoding: str = "utf-8"
    name: str | None = None
    lookup: StringLookup = field(init=False, repr=False)

    def __post_init__(self) -> None:
        own: dict[str, Any] = {"output_mode": {"tf-idf": "tf_idf", "binary": "multi_hot"}.get(self.output_mode)}
        own["output_mode"] = check_choice("output_mode", own["output_mode"] or self.output_mode, MODES)
        if isinstance(self.standardize, str):
            check_choice("standardize", self.standardize, tuple(STANDARDS))
        if isinstance(self.split, str):
            check_choice("split", self.split, SPLITS)
        if isinstance(self.ngrams, int):
            if self.ngrams < 1:
                raise ValueError(f"TextVectorization: ngrams must be at least 1, not {self.ngrams}")
            own["ngrams"] = tuple(range(1, self.ngrams + 1))
        elif self.ngrams is not None:
            own["ngrams"] = tuple(int(width) for width in self.ngrams)
        if own["output_mode"] != "int" and (self.ragged or self.output_sequence_length is not None):
            raise ValueError("TextVectorization: ragged and output_sequence_length need output_mode='int'")
        if self.output_sequence_length is not None and self.output_sequence_length < 1:
            raise ValueError("TextVectorization: output_sequence_length must be at least 1")
        for key, value in own.items():
            object.__setattr__(self, key, value)
        found = StringLookup(
            self.max_tokens,
            mask_token="",
            vocabulary=self.vocabulary,
            idf_weights=self.idf_weights,
            output_mode=self.output_mode,
            pad_to_max_tokens=self.pad_to_max_tokens,
            sparse=self.sparse,
            encoding=self.encoding,
        )
        object.__setattr__(self, "lookup", found)

    @property
    def _headrace_constant(self) -> bool:
        """Whether a traced function may hold it: not if it calls functions of unknown purity."""
        return not callable(self.standardize) and not callable(self.split)

    def __call__(self, inputs: TensorLike) -> Tensor:
        """Return what the layer makes of a text, or of an array of them."""
        return vectorize(inputs, self)

    def vocabulary_size(self) -> int:
        """Return how many ids there are."""
        return self.lookup.vocabulary_size()

    def get_vocabulary(self, include_special_tokens: bool = True) -> list[Component]:
        """Return the tokens in the order of their ids."""
        return self.lookup.get_vocabulary(include_special_tokens)

    def adapt(
        self,
        data: Dataset | TensorLike,
        steps: int | None = None,
        *,
        state: StrPath | None = None,
        save_every: float = 30.0,
        progress: bool | None = None,
    ) -> TextVectorization:
        """Return the layer with the words of `data`, texts or batches of them, as its vocabulary by frequency.

        `steps`, `state`, `save_every` and `progress`: see `hr.preprocessing.StringLookup.adapt`.

        >>> lines = hr.Dataset.from_tensor_slices(["To be, or not to be", "to do!"])
        >>> hr.text.TextVectorization(max_tokens=4).adapt(lines).get_vocabulary()
        ['', '[UNK]', 'to', 'be']
        """
        counts, spread = Frequencies(), Documents()

        def take(column: Column, axes: int) -> None:
            del axes
            words, cuts, _ = self._words_in(column)
            raw = raw_of(words)
            counts.take(raw)
            if self.output_mode == "tf_idf":
                spread.take_documents(raw, cuts)

        learn(self, data, [counts, spread], take, How(steps, state, save_every, progress))
        found = self.lookup.with_counts(counts, spread)
        made = replace(self, vocabulary=None, idf_weights=None)
        object.__setattr__(made, "lookup", found)
        return made

    def _words_in(self, column: Column) -> tuple[pa.Array, Offsets, TextLayout]:
        """Return the words of all texts of a column, the offsets of each text's words, and the layout of the texts."""
        text, layout = texts_of(column)
        if self.split is None:
            if not layout.axes:
                layout = TextLayout(layout.rows, (1,))
            layout, cuts = layout.without_last()
            words = self._standardised(text)
        elif self.split == "whitespace" and not callable(self.standardize):
            table = changed(STANDARDS.get(self.standardize or "", IDENTITY), WHITE_SPACE, SPACE)
            words, cuts = words_in_kind(_native.text_map_words(*parts(text), table), text)
        else:
            words, cuts = self._split(self._standardised(text))
        if self.ngrams is not None:
            widths = list(self.ngrams)  # type: ignore[arg-type]
            made = _native.text_ngrams(*parts(words), cuts, widths, b" ", b"", b"", 0, False)
            words, cuts = words_in_kind(made, words)
        return words, cuts, layout

    def _standardised(self, text: pa.Array) -> pa.Array:
        if callable(self.standardize):
            return _called(self.standardize, text, 1)[0]
        if self.standardize is None:
            return text
        return in_kind(_native.text_map_bytes(*parts(text), STANDARDS[self.standardize]), text)

    def _split(self, text: pa.Array) -> tuple[pa.Array, Offsets]:
        if callable(self.split):
            return _called(self.split, text, 2)
        if self.split == "whitespace":
            return words_in_kind(_native.text_split(*parts(text), b"", -1), text)
        return words_in_kind(_native.text_characters(*parts(text), 0, 0xFFFD)[1], text)

    def on_column(self, column: Column) -> Column:
        """Return what comes of all rows."""
        words, cuts, layout = self._words_in(column)
        ids = Ragged._of(self.lookup.results([raw_of(words)]), np.ascontiguousarray(cuts))
        if self.output_mode != "int":
            return layout.lay(self.lookup.to_output(ids, 1))
        length = self.output_sequence_length
        ids = ids if length is None else ids[:, :length]
        if not layout.axes:
            return ids if length is None else ids.to_padded(0, length)
        if self.ragged:
            return layout.lay(ids)
        if not isinstance(layout.axes[0], int) or len(layout.axes) > 1:
            raise ValueError("TextVectorization takes texts, or arrays of them with one axis")
        size = layout.axes[0]
        return column_of([ids[i * size : (i + 1) * size].to_padded(0, length) for i in range(layout.rows)])

    def spec(self, given: TensorSpec) -> TensorSpec:
        """Return what comes of such an element."""
        if given.dtype is None or given.dtype.kind not in "US" or given.shape is None:
            raise TypeError(f"not text: {given}")
        shape = given.shape if self.split is not None else given.shape[:-1]
        if self.output_mode != "int":
            depth = self.lookup.spec((None,)).shape
            return TensorSpec((*shape, *(depth or ())), np.float32)
        length = None if self.ragged and shape else self.output_sequence_length
        return TensorSpec((*shape, length), np.int64)


def _called(fn: Callable[[Any], object], text: pa.Array, axes: int) -> tuple[pa.Array, Offsets]:
    """Return what a user's function makes of an array of texts, as the kernels take it."""
    made, layout = texts_of(one_row(fn(box_text(text))))
    if len(layout.axes) != axes or (axes == 1 and layout.axes[0] != len(text)):
        raise ValueError(f"TextVectorization: {fn} gave something else than a text, or a row of them, for each text")
    return made, layout.without_last()[1] if axes > 1 else np.empty(0, np.int64)


def _vectorize_spec(inputs: TensorSpec, layer: TextVectorization) -> TensorSpec:
    return layer.spec(inputs)


def _vectorize_block(inputs: TensorSpec, layer: TextVectorization) -> Callable[[Column], Column]:
    return layer.on_column


@traced_operation(spec=_vectorize_spec, block=_vectorize_block)
def vectorize(inputs: TensorLike, layer: TextVectorization) -> Tensor:
    """Return what the layer makes of one element."""
    return next(iter(values(layer.on_column(one_row(inputs)))))
