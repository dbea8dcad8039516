"""Files that are written whole or not at all, pages of JSON that know their own checksum, and who may write."""

from __future__ import annotations

import contextlib
import json
import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from headrace.errors import StorageError
from headrace.storage.locks import lock

TEMPORARY = ".tmp"
LOCK = "lock"


def unfinished(path: str | Path) -> str:
    """What a file is called until it is whole."""
    return f"{path}.{os.getpid()}{TEMPORARY}"


@contextlib.contextmanager
def whole(path: Path) -> Iterator[BinaryIO]:
    """A file under a temporary name, which gets its own once it is complete and on the disk."""
    temporary = Path(unfinished(path))
    try:
        with temporary.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    settle(path.parent)


def settle(directory: Path) -> None:
    """Have the names in a directory outlive a loss of power."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def locked(directory: Path) -> int | None:
    """A file descriptor that has this process alone write to a directory until it is closed; None if another does."""
    directory.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(directory / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        lock(descriptor)
    except OSError as error:
        os.close(descriptor)
        if isinstance(error, BlockingIOError):
            return None
        raise
    return descriptor


def write_page(path: Path, content: dict[str, Any]) -> None:
    """Write a page of JSON with its checksum."""
    with whole(path) as file:
        file.write(_sealed(json.dumps(content, separators=(",", ":")).encode()))


def _sealed(page: bytes) -> bytes:
    return b'{"crc":%d,"page":%s}\n' % (zlib.crc32(page), page)


def read_page(path: Path) -> dict[str, Any]:
    """Read a page back; a damaged one is refused."""
    try:
        text = path.read_bytes()
    except OSError as error:
        raise StorageError(f"{path} cannot be read: {error.strerror}") from error
    page = text.partition(b'"page":')[2][:-2]
    if text != _sealed(page):
        raise StorageError(f"{path} is damaged: its checksum does not match")
    content: dict[str, Any] = json.loads(page)
    return content
