"""Download files: resumed after a fault, verified before they get their name, once per machine at a time.

Until a file is complete and verified it is `.NAME.part` in its final directory, and locked by the process that
downloads it. The part of a process that was killed is resumed by the next one if the checksum of the whole is known.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.core.types import LibraryObject
from headrace.errors import StorageError, TransportError
from headrace.formats.shared.files import open_path
from headrace.remote.faults import LengthError, is_passing
from headrace.remote.redact import show_path
from headrace.remote.transport import ALONE
from headrace.storage.files import HERE, naming, settle
from headrace.storage.locks import HeldLock, lock

if TYPE_CHECKING:
    from headrace.catalogue.sources import SourceFile

OFFLINE = "HEADRACE_OFFLINE"
PIECE_BYTES = 1 << 20
WEB_PAGE_ENDINGS = (".html", ".htm", ".xhtml")

Advance = Callable[[int], object]


def is_offline() -> bool:
    """Return whether the user has forbidden downloads."""
    return os.environ.get(OFFLINE, "").lower() not in ("", "0", "false", "no")


def download(source: SourceFile, target: Path, advance: Advance = lambda _: None) -> None:
    """Fetch a file from the first of its URLs that has it, and give it its name once its checksum is right.

    Args:
        source: the URLs, size and checksum of the file.
        target: the path of the file; a file there with another checksum is replaced.
        advance: called with the number of bytes that have come, negative if some are discarded.

    Raises:
        StorageError: no URL gave the file; it names each of them with its reason.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    with _claimed(target, resumable=source.sha256 is not None) as part:
        if target.exists() and matches(target, source):
            return  # another process has downloaded it meanwhile
        if source.sha256 is None:
            part.clear()  # of whichever version of the file that was
        advance(part.size)
        part.advance = advance
        problems = []
        for url in (source.url, *source.mirrors):
            try:
                _fetch(url, source, part)
            except (OSError, ImportError, ValueError, RuntimeError) as error:
                problems.append(f"{show_path(url)}: {_reason(error)}")
            else:
                part.publish(target)
                return
        raise StorageError("; ".join(problems))


def matches(path: Path, source: SourceFile) -> bool:
    """Return whether a file is the one promised, as far as its checksum or size is known."""
    if source.size is not None and path.stat().st_size != source.size:
        return False
    return source.sha256 is None or sha256_of(path) == source.sha256.lower()


def sha256_of(path: Path) -> str:
    """Return the checksum of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _reason(error: Exception) -> str:
    if isinstance(error, FileNotFoundError):
        return "there is no such file (any more)"
    said = str(error)
    return said.partition(": ")[2] if isinstance(error, TransportError) and ": " in said else said


class _Part:
    """The bytes that are here so far, in a file that this process has locked."""

    def __init__(self, path: Path, held: HeldLock) -> None:
        self.path = path
        self.advance: Advance = lambda _: None
        self.tag: str | None = None
        self._held = held
        self.size = os.fstat(held.fileno()).st_size
        self.pieced = self.size > 0  # whether the bytes may be of different files
        self.published = False

    def write(self, data: Any) -> None:
        """Append bytes."""
        view = memoryview(data)
        with naming(self.path):
            while view:
                written = os.pwrite(self._held.fileno(), view, self.size)
                self.size += written
                view = view[written:]
        self.advance(len(data))

    def clear(self) -> None:
        """Discard all bytes."""
        os.ftruncate(self._held.fileno(), 0)
        self.advance(-self.size)
        self.size, self.pieced = 0, False

    def sha256(self) -> str:
        """Return the checksum of what is here."""
        return sha256_of(self.path)

    def publish(self, target: Path) -> None:
        """Give it its name."""
        with naming(target):
            os.fsync(self._held.fileno())
        self.path.replace(target)
        settle(target.parent)
        self.published = True


@contextmanager
def _claimed(target: Path, *, resumable: bool) -> Iterator[_Part]:
    """Yield the part of a file, which no other process writes to meanwhile; what the next one can resume stays."""
    path = target.with_name(f".{target.name}.part")
    while True:
        held = HeldLock.with_flags(path, os.O_RDWR | os.O_CREAT | HERE, "rb+")
        lock(held.fileno(), wait=True)
        try:
            if os.path.samestat(os.fstat(held.fileno()), path.stat()):
                break
        except FileNotFoundError:
            pass
        held.release()  # its writer has published or removed it
    part = _Part(path, held)
    try:
        yield part
    finally:
        if not part.published and not (resumable and part.size):
            path.unlink(missing_ok=True)
        held.release()


def _fetch(url: str, source: SourceFile, part: _Part) -> None:
    """Fetch all bytes of a URL into the part; wrong bytes of several connections are fetched once more."""
    wrong: str | None = None
    for _ in range(2):
        if source.size is None or part.size < source.size:
            ALONE.attempt(url, lambda: _copy_on(url, source, part))
        wrong = _mismatch(source, part)
        if wrong is None:
            return
        pieced = part.pieced
        part.clear()
        if not pieced:  # so it is what this URL has
            break
    raise TransportError(f"{show_path(url)}: {wrong}")


def _mismatch(source: SourceFile, part: _Part) -> str | None:
    """Return what is wrong with the bytes that have come."""
    if source.size is not None and part.size != source.size:
        return f"it has {part.size:,} bytes, and {source.size:,} were expected"
    if source.sha256 is not None and (found := part.sha256()) != source.sha256.lower():
        return f"checksum mismatch: its SHA-256 is {found}, and {source.sha256} was expected"
    return None


def _copy_on(url: str, source: SourceFile, part: _Part) -> None:
    """Append what is missing, also over several connections, as long as each of them brings something."""
    while True:
        before = part.size
        part.pieced = before > 0
        try:
            if url.startswith(("http://", "https://")) and not source.storage_options:
                _copy_http(url, source, part)
            else:
                _copy_store(url, source, part)
            return
        except TransportError:  # it has been asked often enough, or will not help to ask again
            raise
        except Exception as error:
            if part.size <= before or not is_passing(error):
                raise


def _copy_http(url: str, source: SourceFile, part: _Part) -> None:
    """By the standard library, which knows the usual variables of proxies and certificates."""
    from urllib.error import HTTPError
    from urllib.request import Request, build_opener

    if part.size and source.sha256 is None and part.tag is None:
        part.clear()  # it is unknown whether the rest would be of the same file
    headers = {"User-Agent": "headrace", "Accept-Encoding": "identity"}
    if part.size:
        headers["Range"] = f"bytes={part.size}-"
        if source.sha256 is None:
            headers["If-Range"] = str(part.tag)
    request = Request(url, headers=headers)
    for name, value in source.headers.items():
        request.add_unredirected_header(name, value)
    try:
        answer = build_opener().open(request, timeout=ALONE.timeout)  # with the variables of now
    except HTTPError as error:
        error.close()
        if error.code == 416 and part.size:  # more than there is: the part is of another file
            part.clear()
            raise LengthError("the server has fewer bytes than are here") from None
        raise
    with closing(answer):
        _check_answer(url, source, answer)
        if part.size and answer.status != 206:
            part.clear()  # the server gives nothing but the whole
        part.tag = _strong_tag(answer.headers.get("ETag"))
        length = answer.headers.get("Content-Length")
        total = None if length is None else part.size + int(length)
        if source.size is not None and total is not None and total != source.size:
            raise TransportError(f"{show_path(url)}: the server has {total:,} bytes, not {source.size:,}")
        while data := answer.read1(PIECE_BYTES):
            part.write(data)
            if source.size is not None and part.size > source.size:
                raise TransportError(f"{show_path(url)}: more than {source.size:,} bytes came")
    if total is not None and part.size < total:
        raise LengthError(f"the connection ended after {part.size:,} of {total:,} bytes")


def _check_answer(url: str, source: SourceFile, answer: LibraryObject) -> None:
    """Raise if a web page came in place of a file."""
    if "text/html" in answer.headers.get("Content-Type", "") and not source.name.endswith(WEB_PAGE_ENDINGS):
        raise TransportError(
            f"{show_path(url)}: the server answers with a web page, perhaps a login or a warning: open the URL in a "
            "browser"
        )


def _strong_tag(tag: str | None) -> str | None:
    return tag if tag and not tag.startswith("W/") else None


def _copy_store(url: str, source: SourceFile, part: _Part) -> None:
    """From any file system that fsspec knows, which asks again by itself."""
    import numpy as np

    if source.sha256 is None:
        part.clear()
    piece = np.empty(PIECE_BYTES, np.uint8)
    file = open_path(url, ALONE.using(source.storage_options))
    try:
        while got := file.read_into(piece, part.size):
            part.write(piece[:got])
    finally:
        file.close()
