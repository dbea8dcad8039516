"""Indexes that readers make on the way: files in the user's cache folder, which has a bound."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from headrace.core.owned_file import read_bytes
from headrace.core.paths import local_path
from headrace.remote.disk_cache import DiskCache

SUFFIX = ".idx"
MAX_CACHE_BYTES = 1 << 30
"""The indexes in the cache folder take at most this much; the least recently used ones go first."""


def index_cache() -> Path | None:
    """Return the folder of indexes made on the way; None for a user without a home."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")  # noqa: PTH111 - Path's may raise
    return None if cache.startswith("~") else Path(cache, "headrace", "indexes")


def cached_path(path: str, form: str) -> Path | None:
    """Return where the index of this file is kept.

    The name is a hash of the absolute path or URL and the format: a file is looked up without being opened, and no
    secret of a URL can be read from the name. The index itself holds the identity of the file that it belongs to.

    Args:
        path: Path or URL of the file.
        form: Name of the format of its records.
    """
    folder, local = index_cache(), local_path(path)
    if folder is None:
        return None
    where = path if local is None else str(Path(local).absolute())
    return folder / (hashlib.blake2b(os.fsencode(f"{form} {where}"), digest_size=16).hexdigest() + SUFFIX)


def keep_index(place: Path, parts: Sequence[bytes]) -> bool:
    """Add an index to the cache folder; returns False if it is larger than the whole cache may be.

    Raises:
        OSError: the folder cannot be written.
    """
    place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    DiskCache(str(place.parent), MAX_CACHE_BYTES, SUFFIX).add(place, *parts)
    return place.exists()


def read_index(place: Path) -> bytes:
    """Return the bytes of an index in the cache folder, and mark it as used.

    Raises:
        OSError: there is none, or it cannot be read.
    """
    data = read_bytes(place)
    with suppress(OSError):  # a read-only disk: its age is then that of its making
        os.utime(place, (time.time(), place.stat().st_mtime))  # many systems do not note each access
    return data
