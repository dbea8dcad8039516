"""Texts cut into pieces, and pieces put together."""

from __future__ import annotations

import string
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from headrace import _native
from headrace.columns import Column, values
from headrace.columns.arrow_text import parts
from headrace.core.types import Array, Component, Tensor, TensorLike
from headrace.plan.spec import TensorSpec
from headrace.text.bytemap import DROP, IDENTITY, changed
from headrace.text.layout import texts_of
from headrace.text.operation import Work, as_bytes_of, check_choice, in_kind, one_row, text_operation, words_in_kind
from headrace.trace.operation import traced_operation

if TYPE_CHECKING:
    import pyarrow as pa

WITHOUT_PUNCTUATION = changed(IDENTITY, string.punctuation, DROP)


@text_operation
def strip(input: TensorLike) -> Tensor:
    """Without white space at both ends; that of ASCII, as in TensorFlow.

    Args:
        input: A text, an array of texts of any shape, or an `hr.Ragged` of texts.

    >>> hr.text.strip([" a b ", "c\\n"])
    array(['a b', 'c'], dtype=object)
    """
    return Work(lambda text: in_kind(_native.text_strip(*parts(text)), text))


@text_operation
def strip_punctuation(input: TensorLike) -> Tensor:
    """Without the 32 punctuation marks of ASCII, wherever they stand.

    Args:
        input: A text, an array of texts of any shape, or an `hr.Ragged` of texts.

    >>> hr.text.strip_punctuation("Well, (that's) it!")
    'Well thats it'
    """
    return Work(lambda text: in_kind(_native.text_map_bytes(*parts(text), WITHOUT_PUNCTUATION), text))


@text_operation
def split(input: TensorLike, sep: str | bytes | None = None, maxsplit: int = -1) -> Tensor:
    """Split texts at ASCII white space, without empty pieces, or at separators, with empty pieces.

    After `maxsplit` cuts the rest is one piece. In a map, rows have different numbers of pieces: batch them by
    `padded_batch` or `ragged_batch`.

    Args:
        input: A text, an array of texts of any shape, or an `hr.Ragged` of texts.
        sep: Text between words. Default: any white space.
        maxsplit: Largest number of splits; -1 for no limit.

    >>> hr.text.split(" to be  or not ")
    array(['to', 'be', 'or', 'not'], dtype=object)
    >>> hr.text.split(["a,,b", ""], sep=",")
    Ragged([['a', '', 'b'], ['']], dtype=object)
    """
    separator, most = b"" if sep is None else as_bytes_of(sep), int(maxsplit)

    def run(text: pa.Array) -> Column:
        return words_in_kind(_native.text_split(*parts(text), separator, max(most, -1)), text)

    return Work(run, gives_rows=True)


@text_operation
def reduce_join(input: TensorLike, separator: str | bytes = "", *, axis: int | None = -1) -> Tensor:
    """Return the pieces along the last axis as one text.

    Args:
        input: A text, an array of texts of any shape, or an `hr.Ragged` of texts.
        separator: Text between the pieces.
        axis: The last axis (-1), or None for all axes: the default of `tf.strings.reduce_join`.

    >>> hr.text.reduce_join(["to", "be"], separator=" ")
    'to be'
    """
    between = as_bytes_of(separator)

    def run(text: pa.Array, cuts: Array) -> Column:
        return in_kind(_native.text_join(*parts(text), cuts, between), text)

    return Work(run, takes_rows=True, axis=axis)


@text_operation
def ngrams(
    data: TensorLike,
    ngram_width: int | Sequence[int],
    separator: str | bytes = " ",
    pad_values: TensorLike = None,
    padding_width: int | None = None,
    preserve_short_sequences: bool = False,
) -> Tensor:
    """Join `ngram_width` neighbors along the last axis; with several widths, all of the first one come first.

    `pad_values`, one or a pair, are added before the first and after the last piece: `padding_width` of them, or one
    fewer than the width. A row that is too short for any width is one n-gram, if `preserve_short_sequences`.

    Args:
        data: Tokens along the last axis.
        ngram_width: Length of the n-grams, or several lengths.
        separator: Text between the pieces.
        pad_values: Text, or pair of texts, to pad with on both sides.
        padding_width: Amount of padding. Default: one less than the n-gram.
        preserve_short_sequences: Whether a sequence that is too short for an n-gram is kept as one.

    >>> hr.text.ngrams(["to", "be", "or"], 2)
    array(['to be', 'be or'], dtype=object)
    """
    widths = [ngram_width] if isinstance(ngram_width, int) else [int(width) for width in ngram_width]
    if not widths or min(widths) < 1:
        raise ValueError(f"ngram_width must be at least 1, not {ngram_width}")
    if padding_width is not None and (padding_width < 1 or pad_values is None):
        raise ValueError("padding_width must be at least 1, and needs pad_values")
    pair = (pad_values, pad_values) if isinstance(pad_values, str | bytes) else pad_values
    left, right = (b"", b"") if pair is None else map(as_bytes_of, pair)
    padding = 0 if pair is None else -1 if padding_width is None else padding_width
    between, keep = as_bytes_of(separator), bool(preserve_short_sequences)

    def run(text: pa.Array, cuts: Array) -> Column:
        made = _native.text_ngrams(*parts(text), cuts, widths, between, left, right, padding, keep)
        return words_in_kind(made, text)

    return Work(run, takes_rows=True, gives_rows=True)


@text_operation
def substr(input: TensorLike, pos: int, len: int, unit: str = "BYTE") -> Tensor:
    """Cut a part of each text: from `pos`, counted from the end if negative, at most `len` bytes or `unit="UTF8_CHAR"`.

    A text that has no such place is an error; so is a str that would be cut within a character.

    Args:
        input: A text, an array of texts of any shape, or an `hr.Ragged` of texts.
        pos: Start of the piece; negative numbers count from the end.
        len: Length of the piece.
        unit: "BYTE" or "UTF8_CHAR".

    >>> hr.text.substr("Müller", 1, 3, unit="UTF8_CHAR")
    'üll'
    """
    if len < 0:
        raise ValueError(f"len must be at least 0, not {len}")
    characters = check_choice("unit", unit, ("BYTE", "UTF8_CHAR")) == "UTF8_CHAR"

    def run(text: pa.Array) -> pa.Array:
        row, problem, made = _native.text_cut(*parts(text), pos, len, characters, "string" in str(text.type))
        if row >= 0:
            found = text[row].as_py()
            if problem == 1:
                raise ValueError(f"pos {pos} is no place of {found!r}")
            raise ValueError(f"{found!r} is cut within a character: say unit='UTF8_CHAR', or take bytes")
        return in_kind(made, text)

    return Work(run)


def _join_spec(inputs: Sequence[object], separator: str | bytes = "") -> TensorSpec:
    as_bytes_of(separator)
    shapes = {each.shape for each in inputs if isinstance(each, TensorSpec)}
    kinds = {np.dtype(getattr(each, "dtype", None) or type(each)).kind for each in inputs}
    if len(shapes) > 1 or None in shapes or not kinds <= {"U", "S"}:
        raise TypeError(f"join takes texts of one shape, not {list(inputs)}")
    return TensorSpec(shapes.pop(), bytes if "S" in kinds else str)


def _join_block(inputs: Sequence[object], separator: str | bytes = "") -> Callable[..., Column]:
    constants = [None if isinstance(each, TensorSpec) else each for each in inputs]
    return lambda *columns: _join_columns(constants, list(columns), separator)


@traced_operation(spec=_join_spec, block=_join_block)
def join(inputs: Sequence[object], separator: str | bytes = "") -> Tensor:
    """Return texts, or arrays of them of one shape, put together place by place; single texts go with all places.

    What comes of str alone is str, else bytes.

    Args:
        inputs: Arrays of texts of one shape.
        separator: Text between the pieces.

    >>> hr.text.join([["a", "b"], "-", ["x", "y"]])
    array(['a-x', 'b-y'], dtype=object)
    """
    single = [isinstance(each, str | bytes) for each in inputs]
    constants = [each if alone and not all(single) else None for each, alone in zip(inputs, single, strict=True)]
    columns = [one_row(each) for each, alone in zip(inputs, single, strict=True) if all(single) or not alone]
    return next(iter(values(_join_columns(constants, columns, separator))))


def _join_columns(constants: list[Component], columns: list[Column], separator: str | bytes) -> Column:
    """Join element by element; a None among the constants stands for the next column."""
    import pyarrow as pa
    import pyarrow.compute as pc

    given = [texts_of(column) for column in columns]
    layout = given[0][1]
    if any(not _same_layout(layout, other) for _, other in given):
        raise ValueError("join takes texts of one shape")
    kind = pa.large_binary()
    found = iter([text.view(kind) for text, _ in given])
    flat = [next(found) if each is None else pa.scalar(as_bytes_of(each), kind) for each in constants]
    made = pc.binary_join_element_wise(*flat, pa.scalar(as_bytes_of(separator), kind))
    plain = all(text.type == pa.large_string() for text, _ in given) and bytes not in map(type, constants)
    return layout.lay(made.view(pa.large_string()) if plain else made)


def _same_layout(one: Column, other: Column) -> bool:
    axes = zip(one.axes, other.axes, strict=False)
    return one.rows == other.rows and len(one.axes) == len(other.axes) and all(np.array_equal(*pair) for pair in axes)
