"""`hr.text`: functions of text under tf.strings' names, on single texts, arrays and whole columns.

It knows columns, tracing and vocabularies. It knows no source and no trainer.
"""

from typing import TYPE_CHECKING

from headrace.core.types import Attribute
from headrace.text.case import lower, upper
from headrace.text.characters import bytes_split, length, unicode_decode, unicode_split
from headrace.text.conversations import chat
from headrace.text.numbers import to_hash_bucket_fast, to_number
from headrace.text.pieces import join, ngrams, reduce_join, split, strip, strip_punctuation, substr
from headrace.text.regex import regex_full_match, regex_replace
from headrace.text.tokenizers import Tokenizer
from headrace.text.tokens import tokenize
from headrace.text.vectorization import TextVectorization
from headrace.text.vocabulary import Vocabulary, lookup

__all__ = [
    "TextVectorization",
    "Tokenizer",
    "Vocabulary",
    "bytes_split",
    "chat",
    "join",
    "length",
    "lookup",
    "lower",
    "ngrams",
    "reduce_join",
    "regex_full_match",
    "regex_replace",
    "split",
    "strip",
    "strip_punctuation",
    "substr",
    "to_hash_bucket_fast",
    "to_number",
    "tokenize",
    "unicode_decode",
    "unicode_split",
    "upper",
]


if not TYPE_CHECKING:  # a type checker should still know which names there are

    def __getattr__(name: str) -> Attribute:
        from headrace.names import found

        return found("hr.text", name)
