"""Files that a pass opens next: what their stores say of them, and their first bytes, while others are read."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from headrace.records.ranges import begin_opening, is_asynchronous

if TYPE_CHECKING:
    from headrace.records.ranges import FirstAnswer
    from headrace.records.remote import RemoteFile
    from headrace.records.transport import Transport

ASKED = 32
"""Of so many files to come it is asked what they are."""
FILES = 16
"""So many of them are open at the most, before anybody reads them."""
VALID = 60.0
"""Seconds that an answer counts which came before it was needed."""


class Expected(NamedTuple):
    """Names in the order in which they will be opened, so many of them in turn, and how they are reached."""

    names: Sequence[str]
    places: dict[str, int]
    in_turn: int
    via: Transport


@dataclass
class Begun:
    """A file that was asked about at some time; `file` once it is open."""

    since: float
    future: Future[FirstAnswer]
    file: RemoteFile | None = None

    @property
    def is_fresh(self) -> bool:
        return time.monotonic() - self.since < VALID

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
        """Say that these files will be opened, one after another, and so many be read in turn."""
        if id(names) in self._known or len(names) < 2:
            return
        with self._lock:
            self._known[id(names)] = names  # which keeps its id
            expected = Expected(names, {name: i for i, name in enumerate(names)}, in_turn, via)
            for name in names:
                self._expected.setdefault(name, expected)

    def take(self, path: str) -> Begun | None:
        """What is under way of a file that is opened now."""
        with self._lock:
            begun = self._begun.pop(path, None)
            self._taken.add(path)
        if begun is None or begun.is_fresh:
            return begun
        begun.drop()
        return None

    def begin_next(self, path: str, ranges: int, each: int) -> None:
        """Have up to so many ranges of the files behind this one under way, as far as it is known what they are.

        Those that others read already are passed over; of the next one there are no more than `each`.
        """
        for name, via in self._behind(path, FILES):
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
                    return  # who opens it will ask again
                file = _opened(name, via, begun.future.result())
                if file is None or not self._put(name, begun, file):
                    return
            assert begun.file is not None
            ranges -= begun.file.begin_first(min(ranges, each))

    def _put(self, name: str, begun: Begun, file: RemoteFile) -> bool:
        """Keep an open file, unless somebody has taken what it was made of."""
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
        """Ask what the files behind this one are; those whose turn comes next give their `first` bytes as well."""
        expected = self._expected.get(path)
        for place, (name, via) in enumerate(self._behind(path, ASKED), 1):
            if name in self._begun or "://" not in name:
                continue
            with suppress(Exception):  # who opens it is told
                system, inner = via.system(name)
                if not is_asynchronous(system):
                    return
                with self._lock:
                    if not self._closed and name not in self._begun:
                        bytes_too = first if expected is not None and place < expected.in_turn else 0
                        opening = begin_opening(via, system, inner, first=bytes_too)
                        self._begun[name] = Begun(time.monotonic(), opening)

    def close(self) -> None:
        """Let go of all that is under way."""
        with self._lock:
            begun, self._begun = self._begun, {}
            self._closed = True
        for each in begun.values():
            each.drop()

    def __reduce__(self) -> tuple[Any, ...]:
        return Coming, ()


def _opened(path: str, via: Transport, opening: FirstAnswer) -> RemoteFile | None:
    from headrace.records.remote import RemoteFile

    try:
        return RemoteFile(path, via, opening)
    except OSError:  # who opens it is told
        return None
