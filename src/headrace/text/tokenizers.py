"""Tokenizers of other libraries, on whole columns."""

from __future__ import annotations

import errno
import os
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace.columns.kind import Column
from headrace.core.paths import local_only
from headrace.core.ragged import Ragged
from headrace.core.types import Array, LibraryObject, Tensor, TensorLike
from headrace.execute.budget import cpus
from headrace.text.operation import Work, as_strings, text_operation

if TYPE_CHECKING:
    import pyarrow as pa

Encode = Callable[[list[str]], Sequence[Sequence[int]]]
Decode = Callable[[list[int]], str]


@dataclass(frozen=True, eq=False)
class Tokenizer:
    """Texts to ids by a tokenizer of Hugging Face's `tokenizers`, of `sentencepiece`, or of `tiktoken`.

    It is given as that library's object (or one of `transformers` that has such a one), or as the name of a file
    (`tokenizer.json`, `spm.model`) or of an encoding of tiktoken. In a map it gets all texts of a block at once, and
    the library's threads work on them. `add_special_tokens` is for those of Hugging Face.

    Args:
        tokenizer: Tokenizer of another library, its file, or the name of an encoding.
        add_special_tokens: Whether to add special tokens, for tokenizers of Hugging Face.

    >>> import tokenizers
    >>> model = tokenizers.models.WordLevel({"to": 0, "be": 1, "[UNK]": 2}, unk_token="[UNK]")
    >>> library = tokenizers.Tokenizer(model)
    >>> library.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    >>> tokenizer = hr.text.Tokenizer(library)
    >>> list(hr.Dataset.from_tensor_slices(["to be", "be"]).map(tokenizer).padded_batch(2, padding_values=-1))
    [array([[ 0,  1],
           [ 1, -1]])]
    """

    tokenizer: LibraryObject
    add_special_tokens: bool = field(default=True, kw_only=True)

    _headrace_constant = True

    def __post_init__(self) -> None:
        given = self.tokenizer
        object.__setattr__(self, "tokenizer", _opened(given) if isinstance(given, str | Path) else given)
        _methods(self.tokenizer, special=self.add_special_tokens)

    def __call__(self, input: TensorLike) -> Tensor:
        """Return the ids of a text; of an array of texts, an hr.Ragged."""
        return tokenize(input, self)

    def encode_rows(self, rows: list[str]) -> tuple[Array, Array]:
        """Return the ids of all texts, and the offsets of each."""
        found = _methods(self.tokenizer, special=self.add_special_tokens)[0](rows)
        lengths = [len(ids) for ids in found]
        cuts = np.zeros(len(rows) + 1, np.int64)
        np.cumsum(lengths, out=cuts[1:])
        ids = array("q")
        for row in found:
            ids.fromlist(row if isinstance(row, list) else list(row))  # half the time of an iterator over all of them
        return np.frombuffer(ids, np.int64) if ids else np.empty(0, np.int64), cuts

    def decode(self, ids: TensorLike) -> Tensor:
        """Return the text that ids stand for; of an hr.Ragged or an array of rows, an array of texts."""
        if isinstance(ids, Ragged) or np.ndim(ids) > 1:
            made = np.empty(len(ids), object)
            made[:] = [self.decode(row) for row in ids]
            return made
        return _methods(self.tokenizer, special=self.add_special_tokens)[1](np.asarray(ids, np.int64).tolist())


@text_operation
def tokenize(input: TensorLike, tokenizer: Tokenizer) -> Tensor:
    """Return the ids that a tokenizer gives of each text: `tokenizer(input)`."""

    def run(text: pa.Array) -> Column:
        rows = as_strings(text)
        try:
            return tokenizer.encode_rows(rows.to_pylist())
        except UnicodeDecodeError as error:
            raise ValueError(f"a text is no UTF-8, which tokenizers need: {error}") from None

    return Work(run, np.dtype(np.int64), gives_rows=True)


def _methods(tokenizer: LibraryObject, *, special: bool) -> tuple[Encode, Decode]:
    """Return how the library encodes many texts, and decodes one."""
    library = type(tokenizer).__module__.partition(".")[0]
    if library == "transformers" and hasattr(tokenizer, "backend_tokenizer"):
        return _methods(tokenizer.backend_tokenizer, special=special)
    if library == "tokenizers":
        fast = getattr(tokenizer, "encode_batch_fast", tokenizer.encode_batch)
        return (
            lambda rows: [each.ids for each in fast(rows, add_special_tokens=special)],
            lambda ids: str(tokenizer.decode(ids)),
        )
    if library == "sentencepiece":
        return (
            lambda rows: tokenizer.encode(rows, out_type=int, num_threads=cpus()),
            lambda ids: str(tokenizer.decode(ids)),
        )
    if library == "tiktoken":
        return lambda rows: tokenizer.encode_ordinary_batch(rows, num_threads=cpus()), tokenizer.decode
    found = type(tokenizer).__name__
    raise TypeError(f"hr.text.Tokenizer takes a tokenizer of tokenizers, sentencepiece or tiktoken, not {found}")


def _opened(name: str | Path) -> LibraryObject:
    """Return the tokenizer in a file, or the encoding of tiktoken that is called so."""
    ending = local_only(name, "hr.text.Tokenizer", "copy the file to this machine first").suffix
    library = {".json": "tokenizers", ".model": "sentencepiece"}.get(ending, "tiktoken")
    try:
        if library == "tokenizers":
            from tokenizers import Tokenizer

            open_file: Callable[[str], Any] = Tokenizer.from_file
        elif library == "sentencepiece":
            from sentencepiece import SentencePieceProcessor

            open_file = SentencePieceProcessor
        else:
            from tiktoken import get_encoding

            return get_encoding(str(name))
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            f"{name} needs the package {library}: pip install 'headrace[tokenizers]'", name=library
        ) from None
    if not Path(name).exists():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(name))
    try:
        return open_file(str(name))
    except Exception as error:  # the libraries raise a plain Exception or RuntimeError, without the name of the file
        raise ValueError(f"{name} is not a tokenizer that the package {library} can read: {error}") from error
