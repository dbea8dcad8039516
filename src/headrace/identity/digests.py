"""Digests, and how they are put together."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterable
from typing import NamedTuple

PYTHON = sys.implementation.cache_tag or "unknown"
"""Code can be compared if this is the same."""


class Digest(NamedTuple):
    """The digest of a value: of its code, empty if there is none, and of its values."""

    code: bytes
    values: bytes

    def __str__(self) -> str:
        return f"{self.code.hex()}-{self.values.hex()}"


def hash_parts(*parts: bytes) -> bytes:
    """Return one digest of these parts that includes their boundaries."""
    made = hashlib.blake2b(digest_size=8)
    for part in parts:
        made.update(len(part).to_bytes(8, "little"))
        made.update(part)
    return made.digest()


def spelt(*parts: str) -> Digest:
    """Something that text says all of."""
    return Digest(b"", hash_parts(*(part.encode("utf-8", "backslashreplace") for part in parts)))


def join_digests(what: str, parts: Iterable[Digest]) -> Digest:
    """Several, in this order."""
    parts = list(parts)
    code = hash_parts(*(part.code for part in parts)) if any(part.code for part in parts) else b""
    return Digest(code, hash_parts(what.encode("utf-8", "backslashreplace"), *(part.values for part in parts)))


def join_unordered(what: str, parts: Iterable[Digest]) -> Digest:
    """Several, in whichever order."""
    return join_digests(what, sorted(parts, key=lambda part: (part.values, part.code)))


def digest_difference(was: str, now: str, *, same_python: bool) -> str | None:
    """Return what differs between two digests as text, None if nothing does."""
    (code, values), (code_now, values_now) = was.split("-"), now.split("-")
    if same_python and code != code_now:
        return "its code" if values == values_now else "its code and what it holds"
    return None if values == values_now else "what it holds"
