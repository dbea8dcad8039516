"""Byte maps: tables for kernels that transform a text in one pass."""

from __future__ import annotations

import string

import numpy as np
from numpy.typing import NDArray

ByteMap = NDArray[np.uint16]

DROP, SPACE = 0x100, 0x200

IDENTITY: ByteMap = np.arange(256, dtype=np.uint16)


def changed(table: ByteMap, characters: str, to: str | int) -> ByteMap:
    """Return the table with these characters of ASCII made others, or all marked as DROP or SPACE."""
    made = table.copy()
    codes = np.frombuffer(characters.encode("ascii"), np.uint8)
    made[codes] = np.frombuffer(to.encode("ascii"), np.uint8) if isinstance(to, str) else made[codes] | to
    return made


LOWER = changed(IDENTITY, string.ascii_uppercase, string.ascii_lowercase)
UPPER = changed(IDENTITY, string.ascii_lowercase, string.ascii_uppercase)
WHITE_SPACE = " \t\n\v\f\r"
