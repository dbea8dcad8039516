"""Texts to tokens inside elements, for `map`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from headrace.core.types import Nested
from headrace.text.tokenizers import Tokenizer


def tokenize(
    tokenizer: object,
    field: str | None = None,
    *,
    out: str = "tokens",
    max_length: int | None = None,
    dtype: DTypeLike = np.int32,
    add_special_tokens: bool = True,
) -> Callable[[Any], Any]:
    """Return a function for `map` that turns text into tokens, whole blocks at a time on all cores.

    Args:
        tokenizer: A tokenizer of `tokenizers`, `transformers`, `sentencepiece` or `tiktoken`, the name of a file, or an
            `hr.text.Tokenizer`.
        field: The component with the text, for elements that are dicts; it is replaced by the tokens.
        out: What the component with the tokens is called.
        max_length: The most tokens of a text; others are cut off. By default all stay: see `pack` and `chunk`.
        dtype: The dtype of tokens.
        add_special_tokens: Whether tokenizers of Hugging Face add theirs.

    Returns:
        A function that takes a text, or a dict with one, and returns its tokens, or the dict with them.

    >>> import tokenizers
    >>> model = tokenizers.models.WordLevel({"to": 0, "be": 1, "[UNK]": 2}, unk_token="[UNK]")
    >>> library = tokenizers.Tokenizer(model)
    >>> library.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    >>> rows = hr.Dataset.from_tensor_slices({"text": ["to be", "be or"], "id": [7, 8]})
    >>> list(rows.map(hr.text.tokenize(library, "text")))[0]
    {'id': np.int64(7), 'tokens': array([0, 1], dtype=int32)}
    """
    made = (
        tokenizer if isinstance(tokenizer, Tokenizer) else Tokenizer(tokenizer, add_special_tokens=add_special_tokens)
    )
    if max_length is not None and max_length < 1:
        raise ValueError(f"max_length must be at least 1, not {max_length}")
    most = max_length
    kind = np.dtype(dtype)

    def tokens_of_text(text: object) -> Nested:
        tokens = made(text)
        if most is not None:
            tokens = tokens[:most]
        return tokens.astype(kind)

    def tokens_of_field(element: Nested) -> Nested:
        others = {name: value for name, value in element.items() if name != field}
        return {**others, out: tokens_of_text(element[field])}

    return tokens_of_text if field is None else tokens_of_field
