"""Regular expressions: RE2's, as in TensorFlow, by Arrow's kernels on whole columns."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from headrace import _native
from headrace.columns.arrow_text import parts
from headrace.columns.kind import Column
from headrace.core.types import AnyFunction, Tensor, TensorLike
from headrace.text.bytemap import DROP, IDENTITY, ByteMap, changed
from headrace.text.operation import Work, as_strings, in_kind, text_operation

if TYPE_CHECKING:
    import pyarrow as pa

Run = AnyFunction
ONE_CLASS = re.compile(r"\[(?!\^|\])((?:[^\[\]\\\x80-\U0010ffff]|\\[^a-zA-Z0-9\x80-\U0010ffff])+)\](\+?)")
"""A pattern that is one class of characters of ASCII, each of which may be escaped if it is no letter."""


@text_operation
def regex_replace(input: TensorLike, pattern: str, rewrite: str, replace_global: bool = True) -> Tensor:
    """Return each part of a text that fits the pattern as `rewrite` says, or only the first one.

    The pattern is one of RE2, in which `\\\\1` to `\\\\9` of `rewrite` are groups and `\\\\0` is the whole part.

    Args:
        input: A text, an array of texts of any shape, or an `hr.Ragged` of texts.
        pattern: RE2 pattern.
        rewrite: Replacement; `\\1` stands for the first group.
        replace_global: Whether to replace all matches, or the first one only.

    >>> hr.text.regex_replace("a1 b22", "[0-9]+", "#")
    'a# b#'
    >>> hr.text.regex_replace("John Smith", r"(\\w+) (\\w+)", r"\\2, \\1")
    'Smith, John'
    """
    return Work(_replacer(_as_str(pattern), _as_str(rewrite), bool(replace_global)))


@text_operation
def regex_full_match(input: TensorLike, pattern: str) -> Tensor:
    """Return whether the pattern, one of RE2, fits all of a text.

    Args:
        input: A text, an array of texts of any shape, or an `hr.Ragged` of texts.
        pattern: RE2 pattern.

    >>> hr.text.regex_full_match(["2026-11", "2026"], "[0-9]+-[0-9]+")
    array([ True, False])
    """
    return Work(_matcher(_as_str(pattern)), np.dtype(bool))


def _as_str(pattern: str | bytes) -> str:
    return pattern.decode() if isinstance(pattern, bytes) else pattern


@lru_cache
def _replacer(pattern: str, rewrite: str, everywhere: bool) -> Run:
    import pyarrow.compute as pc

    table = byte_table(pattern, rewrite) if everywhere else None
    if table is not None:
        return lambda text: in_kind(_native.text_map_bytes(*parts(text), table), text)
    if not everywhere:  # the first place alone, together with all before it
        _check(pattern, rewrite)
        pattern, rewrite = rf"\A((?s:\C*?))({pattern})", rf"\1{_shifted(rewrite)}"
    _check(pattern, rewrite)

    def run(text: pa.Array) -> pa.Array:
        made = pc.replace_substring_regex(as_strings(text), pattern=pattern, replacement=rewrite)
        return made.view(text.type)

    return run


@lru_cache
def _matcher(pattern: str) -> Run:
    import pyarrow.compute as pc

    _check(pattern, "")
    whole = rf"\A(?:{pattern})\z"

    def run(text: pa.Array) -> Column:
        return pc.match_substring_regex(as_strings(text), pattern=whole).to_numpy(zero_copy_only=False)

    return run


def _check(pattern: str, rewrite: str) -> None:
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        pc.replace_substring_regex(pa.array([""], pa.large_string()), pattern=pattern, replacement=rewrite)
    except pa.ArrowInvalid as error:
        raise ValueError(f"the pattern {pattern!r} with the rewrite {rewrite!r}: {error}") from None


def _shifted(rewrite: str) -> str:
    """Return the rewrite for a pattern inside another group, with shifted group numbers."""

    def shift(found: re.Match[str]) -> str:
        number = int(found[1]) + 2
        if number > 9:
            raise ValueError(f"rewrite {rewrite!r}: with replace_global=False groups up to \\7 can be used")
        return f"\\{number}"

    return re.sub(r"(?<!\\)\\(\d)", shift, rewrite)


def byte_table(pattern: str, rewrite: str) -> ByteMap | None:
    """Return what a pattern does to each byte, if it is that simple."""
    found = ONE_CLASS.fullmatch(pattern)
    if found is None or "[:" in pattern or not (rewrite == "" or (len(rewrite) == 1 and not found[2])):
        return None
    if rewrite and (rewrite == "\\" or ord(rewrite) > 127):
        return None
    characters = _characters(found[1])
    if characters is None:
        return None
    return changed(IDENTITY, characters, DROP if not rewrite else rewrite * len(characters))


def _characters(body: str) -> str | None:
    """Return the characters of a class, None for one that RE2 would not take."""
    each = re.findall(r"\\.|.", body, re.DOTALL)
    made = ""
    at = 0
    while at < len(each):
        first = each[at][-1]
        if at + 2 < len(each) and each[at + 1] == "-":
            last = each[at + 2][-1]
            if ord(last) < ord(first):
                return None
            made += "".join(map(chr, range(ord(first), ord(last) + 1)))
            at += 3
        else:
            made += first
            at += 1
    return "".join(dict.fromkeys(made))
