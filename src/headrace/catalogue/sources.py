"""The files that a dataset is made from: their locations and checksums."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event

from headrace.catalogue.download import OFFLINE, Advance, download, is_offline, matches, sha256_of
from headrace.errors import StorageError
from headrace.execute.stages.channel import Cancelled
from headrace.formats.shared.files import local_path
from headrace.ops.progress import bytes_bars
from headrace.plan.display import bytes_text
from headrace.remote.redact import show_name, show_path

log: logging.Logger = logging.getLogger("headrace")

MAX_PARALLEL_DOWNLOADS = 4


@dataclass(frozen=True)
class SourceFile:
    """A file by path or URL, with the SHA-256 of its content; `note` says how to get it by hand.

    Args:
        url: path or URL of the file.
        sha256: the checksum of the file; without it nothing is verified but the size.
        note: how to get the file by hand, for error messages.
        storage_options: options of the URL's file system, such as credentials.
        size: how many bytes it has.
        mirrors: other URLs of the same file, which are tried in order.
        filename: what the file is called on this machine; by default the last part of the URL.
        headers: further headers for a web server, such as credentials; they are shown nowhere, and not sent on to
            another server.

    >>> hr.catalogue.SourceFile("https://example.com/points.csv", sha256="ab12…", note="ask the authors for it").name
    'points.csv'
    """

    url: str
    sha256: str | None = None
    note: str = ""
    storage_options: Mapping[str, object] | None = None
    size: int | None = None
    mirrors: tuple[str, ...] = ()
    filename: str = ""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)

    def __repr__(self) -> str:
        shown = {"sha256": self.sha256, "note": self.note, "size": self.size, "filename": self.filename}
        said = [f"{name}={value!r}" for name, value in shown.items() if value]
        if self.mirrors:
            said.append(f"mirrors={tuple(map(show_path, self.mirrors))!r}")
        return f"SourceFile({', '.join([repr(show_path(self.url)), *said])})"

    @property
    def name(self) -> str:
        """The file's own name, without query and secrets of the URL."""
        return self.filename or show_name(self.url)


def fetch_sources(
    sources: Mapping[str, SourceFile], folder: Path, *, title: str = "", progress: bool | None = None
) -> dict[str, Path]:
    """Return local paths of all files, verified; remote ones are downloaded into the directory, several at a time.

    Args:
        sources: the files by their keys.
        folder: the directory of downloads, and of files that the user puts there by hand.
        title: what they are for, for the line that announces how much will be downloaded.
        progress: whether to show bars; None shows them if standard error is a terminal.
    """
    missing = [each for each in sources.values() if is_missing(each, folder)]
    if not missing or is_offline():
        return {key: fetch_source(source, folder) for key, source in sources.items()}
    sizes = [each.size for each in missing]
    total = f"{bytes_text(sum(size or 0 for size in sizes))}{' or more' if None in sizes else ''}"
    log.info("%s: downloading %s (%d files) to %s", title, total, len(missing), folder)
    stopped = Event()

    def fetch(source: SourceFile, advance: Advance) -> Path:
        def advance_or_stop(more: int) -> None:
            if stopped.is_set():
                raise Cancelled
            advance(more)

        return fetch_source(source, folder, advance_or_stop)

    with (
        bytes_bars(f"{title}: {total} to {folder}", progress) as bar,
        ThreadPoolExecutor(MAX_PARALLEL_DOWNLOADS, "headrace-download") as pool,
    ):
        jobs = {key: pool.submit(fetch, each, bar(each.name, each.size)) for key, each in sources.items()}
        try:
            wait(jobs.values(), return_when=FIRST_EXCEPTION)
            return {key: job.result() for key, job in jobs.items() if job.done()}
        finally:
            stopped.set()
            pool.shutdown(wait=False, cancel_futures=True)


def is_missing(source: SourceFile, folder: Path) -> bool:
    """Return whether a file would have to be downloaded."""
    return local_path(source.url) is None and not (folder / source.name).exists()


def fetch_source(source: SourceFile, folder: Path, advance: Advance = lambda _: None) -> Path:
    """Return the file on this machine, verified; one that is elsewhere is downloaded into the folder first."""
    here = local_path(source.url)
    by_hand = folder / source.name
    if here is not None and Path(here).expanduser().exists():
        return _checked(Path(here).expanduser(), source)
    if by_hand.exists():
        if matches(by_hand, source):
            return by_hand
        if here is not None or is_offline():  # else it is downloaded again
            raise _wrong(by_hand, source)
    if here is not None:
        raise StorageError(f"{show_path(source.url)} is not there: put it at {by_hand}{_note(source)}")
    said = f"{source.name}{f' ({bytes_text(source.size)})' if source.size is not None else ''}"
    if is_offline():
        raise StorageError(
            f"{said} is not downloaded, because {OFFLINE} is set: unset it, or put {show_path(source.url)} at "
            f"{by_hand}{_note(source)}"
        )
    try:
        download(source, by_hand, advance)
    except StorageError as error:
        raise StorageError(
            f"{said} cannot be downloaded: {error}. Put it at {by_hand} by hand{_note(source)}"
        ) from error
    return by_hand


def remove_sources(sources: Sequence[SourceFile], folder: Path) -> int:
    """Remove downloads, and parts of them. Return how many bytes there were."""
    freed = 0
    for source in sources:
        for path in (folder / source.name, folder / f".{source.name}.part"):
            if path.exists():
                freed += path.stat().st_size
                path.unlink()
    return freed


def _note(source: SourceFile) -> str:
    return f" ({source.note})" if source.note else ""


def _checked(path: Path, source: SourceFile) -> Path:
    if not matches(path, source):
        raise _wrong(path, source)
    return path


def _wrong(path: Path, source: SourceFile) -> StorageError:
    size = path.stat().st_size
    if source.size not in (None, size):
        what = f"it has {size:,} bytes, but {source.size:,} were promised"
    else:
        what = f"its SHA-256 is {sha256_of(path)}, but {source.sha256} was promised"
    return StorageError(f"{path} is not the file that it should be: {what}{_note(source)}")
