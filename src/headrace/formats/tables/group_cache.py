"""Groups of rows that were decoded for one row, kept for the next."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any

from headrace.columns import column_bytes
from headrace.execute.run import Pass
from headrace.formats.tables.pieces import ColumnPiece, Piece

BUDGET_FRACTION = 8
"""Cached groups take 1/BUDGET_FRACTION of the pass's memory budget; the last one is kept however large it is."""


class KeptGroups:
    """The groups of one pass that were read last."""

    def __init__(self, room: int) -> None:
        self._room = room
        self._used = 0
        self._groups: OrderedDict[Any, tuple[list[Piece], int]] = OrderedDict()
        self._reading: dict[Any, threading.Lock] = {}
        self._lock = threading.Lock()

    @classmethod
    def of(cls, run: Pass) -> KeptGroups:
        """Return those of a pass."""
        found: KeptGroups | None = run.shared.get(cls)
        return found or run.shared.setdefault(cls, cls(run.memory.limit // BUDGET_FRACTION))

    def get(self, key: Hashable, read: Callable[[], list[Piece]]) -> list[Piece]:
        """Return a group, read if it is not kept. If several threads ask for it, one of them reads it."""
        found = self._find(key)
        if found is not None:
            return found
        with self._lock:
            reading = self._reading.setdefault(key, threading.Lock())
        with reading:
            found = self._find(key)
            if found is None:
                found = read()
                self._keep(key, found)
        with self._lock:
            self._reading.pop(key, None)
        return found

    def _find(self, key: Hashable) -> list[Piece] | None:
        with self._lock:
            if key not in self._groups:
                return None
            self._groups.move_to_end(key)
            return self._groups[key][0]

    def _keep(self, key: Hashable, pieces: list[Piece]) -> None:
        size = sum(column_bytes(c) for piece in pieces if isinstance(piece, ColumnPiece) for c in piece.columns)
        with self._lock:
            if key not in self._groups:
                self._groups[key] = pieces, size
                self._used += size
            while self._used > self._room and len(self._groups) > 1:
                _, (_, freed) = self._groups.popitem(last=False)
                self._used -= freed
