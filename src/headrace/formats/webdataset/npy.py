"""Read arrays in NumPy's format from untrusted bytes."""

import io
import math
import re
from tokenize import TokenError

import numpy as np
from numpy.lib import format as npy

from headrace.errors import NONSENSE, ParseError

MAX_HEADER_BYTES = 10_000  # NumPy's own limit
TEXT = rb"""'(?:[^'\\\n]|\\['"\\]|\\x[0-9a-f]{2})*' | "(?:[^"\\\n]|\\['"\\]|\\x[0-9a-f]{2})*\""""
HEADER = re.compile(rb"(?: [\ \n{}()\[\],:] | (?<!\w)(?:\d+L?|True|False)(?!\w) | %b )*+" % TEXT, re.VERBOSE)
LONG_INTEGER = re.compile(rb"(%b) | (?<=\d)L" % TEXT, re.VERBOSE)


def read_array(content: bytes) -> np.ndarray:
    """Read a `.npy` file. The size in its header is compared with the bytes there are before memory is allocated.

    >>> file = io.BytesIO()
    >>> np.save(file, np.arange(3))
    >>> read_array(file.getvalue())
    array([0, 1, 2])
    """
    try:
        file = io.BytesIO(content)
        version = npy.read_magic(file)
        size, read = (2, npy.read_array_header_1_0) if version == (1, 0) else (4, npy.read_array_header_2_0)
        length = file.read(size)
        header = _plain(file.read(min(int.from_bytes(length, "little"), MAX_HEADER_BYTES + 1)))
        shape, by_columns, dtype = read(io.BytesIO(length + header))
        count, left = math.prod(shape), len(content) - file.tell()
        if dtype.hasobject or min(shape, default=0) < 0 or count * dtype.itemsize > left:
            raise ValueError(f"{left} bytes do not hold an array of {dtype} with shape {shape}")
        flat = np.frombuffer(content, dtype, count, file.tell()) if count else np.empty(0, dtype)
        return flat.reshape(shape, order="F" if by_columns else "C").copy()
    except (*NONSENSE, EOFError, SyntaxError, TokenError) as error:  # a header is a literal of Python
        raise ParseError(f"an array that cannot be read: {error}") from None


def _plain(header: bytes) -> bytes:
    """Return a header without Python 2's `L`, of the same length. Refuse anything else that causes warnings."""
    if not HEADER.fullmatch(header):
        raise ValueError("its header is not a literal of numbers, texts and booleans")
    header = header.replace(b"\n", b" ")  # NumPy takes an indented line for Python 2's, too
    return LONG_INTEGER.sub(lambda found: found[1] or b" ", header) if b"L" in header else header
