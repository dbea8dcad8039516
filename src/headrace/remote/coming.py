"""Files that a pass opens next: fetch their metadata and first bytes while others are read."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from headrace.core.types import Reduced
from headrace.remote.ranges import begin_opening, is_asynchronous

if TYPE_CHECKING:
    from headrace.remote.objects import RemoteFile
    from headrace.remote.ranges import FirstAnswer
    from headrace.remote.transport import Transport

METADATA_AHEAD = 32
"""How many upcoming files to request metadata for."""
MAX_OPEN_AHEAD = 16
"""How many upcoming files are open at most before a reader takes them."""
VALID_SECONDS = 60.0
"""How long an answer that came early is valid."""


class Expected(NamedTuple):
    """Names in the order in which they will be opened, how many are interleaved, and their transport."""

    names: Sequence[str]
    places: dict[str, int]
    in_turn: int
    via: Transport


@dataclass
class Begun:
    """A file whose metadata was requested at some time; `file` once it is open."""

    since: float
    future: Future[FirstAnswer]
    file: RemoteFile | None = None

    @property
    def is_fresh(self) -> bool:
        return time.monotonic() - self.since < VALID_SECONDS

    def drop(self) -> None:
        self.future.cancel()
        if self.file is not None:
            self.file.close()


class Coming:
    """The files to come of one pass."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[int, Sequence[str]] = {}
        self._expected: dict[str, Expected] = {}
        self._begun: dict[str, Begun] = {}
        self._taken: set[str] = set()
        self._closed = False

    def expect(self, names: Sequence[str], via: Transport, in_turn: int) -> None:
        """Announce that these files will be opened in order, `in_turn` of them interleaved."""
        if id(names) in self._known or len(names) < 2:
            return
        with self._lock:
            self._known[id(names)] = names  # which keeps its id
            expected = Expected(names, {name: i for i, name in enumerate(names)}, in_turn, via)
            for name in names:
                self._expected.setdefault(name, expected)

    def take(self, path: str) -> Begun | None:
        """Return what is in progress of a file that is opened now."""
        with self._lock:
            begun = self._begun.pop(path, None)
            self._taken.add(path)
        if begun is None or begun.is_fresh:
            return begun
        begun.drop()
        return None

    def begin_next(self, path: str, ranges: int, each: int) -> None:
        """Request up to `ranges` ranges of the files after this one, as far as their metadata is known.

        Files that another reader has opened are skipped. The next file gets at most `each` ranges.
        """
        for name, via in self._behind(path, MAX_OPEN_AHEAD):
            if ranges <= 0:
                return
            with self._lock:
                begun = self._begun.get(name)
                is_taken = name in self._taken
            if begun is None and is_taken:
                continue
            if begun is None or not begun.is_fresh or not begun.future.done():
                return
            if begun.file is None:
                if begun.future.cancelled() or begun.future.exception() is not None:
                    return  # the reader that opens it asks again
                file = _opened(name, via, begun.future.result())
                if file is None or not self._put(name, begun, file):
                    return
            assert begun.file is not None
            ranges -= begun.file.begin_first(min(ranges, each))

    def _put(self, name: str, begun: Begun, file: RemoteFile) -> bool:
        """Keep an open file, unless a reader has taken the request it was made from."""
        with self._lock:
            if self._begun.get(name) is begun and begun.file is None and not self._closed:
                begun.file = file
                return True
        file.close()
        return False

    def _behind(self, path: str, count: int) -> list[tuple[str, Transport]]:
        expected = self._expected.get(path)
        if expected is None:
            return []
        place = expected.places[path] + 1
        return [(name, expected.via) for name in expected.names[place : place + count]]

    def ask_after(self, path: str, first: int) -> None:
        """Request the metadata of the files after this one, and the `first` bytes of those that are next."""
        expected = self._expected.get(path)
        for place, (name, via) in enumerate(self._behind(path, METADATA_AHEAD), 1):
            if name in self._begun or "://" not in name:
                continue
            with suppress(Exception):  # the reader that opens the file gets the error
                system, inner = via.system(name)
                if not is_asynchronous(system):
                    return
                with self._lock:
                    if not self._closed and name not in self._begun:
                        bytes_too = first if expected is not None and place < expected.in_turn else 0
                        opening = begin_opening(via, system, inner, first=bytes_too)
                        self._begun[name] = Begun(time.monotonic(), opening)

    def close(self) -> None:
        """Let go of all that is in progress."""
        with self._lock:
            begun, self._begun = self._begun, {}
            self._closed = True
        for each in begun.values():
            each.drop()

    def __reduce__(self) -> Reduced:
        return Coming, ()


def _opened(path: str, via: Transport, opening: FirstAnswer) -> RemoteFile | None:
    from headrace.remote.objects import RemoteFile

    try:
        return RemoteFile(path, via, opening)
    except OSError:  # the reader that opens the file gets the error
        return None
