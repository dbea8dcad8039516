"""One part: an Arrow file of some thousand rows, and a page that describes and verifies it.

The page is written last, so a part without one is incomplete. Checksums cover every byte, one batch of rows at a time,
and are verified before the rows are returned. A page that contradicts the file is rejected.
"""

from __future__ import annotations

import os
import threading
import weakref
from bisect import bisect_right
from functools import cached_property
from itertools import accumulate, pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from headrace import _native
from headrace.columns import Indices, Notes
from headrace.columns.block import Block, Failure, Ids, Item, source_ids
from headrace.core.owned_file import OwnedFile
from headrace.core.types import JsonObject, JsonValue
from headrace.errors import NONSENSE, ElementError, StorageError
from headrace.storage.columns import decoded
from headrace.storage.files import read_page
from headrace.storage.structures import StoredLayout, Types, structure_of

if TYPE_CHECKING:
    import pyarrow as pa

PAGE = ".json"
DATA = ".arrow"
MAX_CACHED_BATCHES = 2
"""How many batches are cached: near the end of one, reading threads are in two of them."""
MAX_EMPTY_ROWS = 1 << 26
"""The most elements without components in one item: nothing else verifies their number."""


def checksum(data: pa.Buffer | memoryview) -> int:
    """CRC32C of these bytes."""
    return _native.crc32c(memoryview(data))


class StoredPart:
    """A part that was written. Rows are checked when they are read, and share memory with the file."""

    def __init__(self, path: Path, types: Types) -> None:
        self.notes: JsonValue
        self.path = path
        self.start: int = int(path.stem)
        self._types = types
        page = read_page(path.with_suffix(PAGE))
        try:
            self._items = [_checked_item(item) for item in page["items"]]
            self._cuts, self._crcs = _checked_cuts(page["cuts"], page["crcs"])
            self._plain, self._how, self.notes = page["structure"], list(page["how"]), page["notes"]
        except NONSENSE as error:
            raise StorageError(f"{path.with_suffix(PAGE)} is no page of a part: {error}") from None
        counts = [item.get("rows", 1) for item in self._items]
        self._starts: list[int] = [0, *accumulate(counts)]
        self._batches: list[int] = [0, *accumulate("rows" in item for item in self._items)]
        self._checked: set[int] = set()
        self._start()
        size = path.stat().st_size if path.exists() else None
        if size != self._cuts[-1]:
            is_now = "is missing" if size is None else f"has {size} bytes"
            raise StorageError(f"{path} {is_now}; it was written with {self._cuts[-1]}")

    def _start(self) -> None:
        """Reset the state of reading in this process."""
        self._kept: tuple[tuple[int, Item], ...] = ()
        self._reading = threading.Lock()
        _all_parts.add(self)

    def after_fork(self) -> None:
        """In the child of a fork: the thread that held the lock is not here."""
        self._reading = threading.Lock()

    def __getstate__(self) -> JsonObject:
        return {name: value for name, value in vars(self).items() if name not in _OPENED}

    def __setstate__(self, state: JsonObject) -> None:
        vars(self).update(state)
        self._start()

    @property
    def checksums(self) -> list[int]:
        """Those of all its bytes."""
        return self._crcs

    @property
    def failures(self) -> bool:
        """Whether there are elements among its rows that could not be made."""
        return any("error" in item for item in self._items)

    @property
    def has_elements(self) -> bool:
        """Whether not all of its rows are failures."""
        return self._batches[-1] > 0

    @property
    def rows(self) -> int:
        """Return how many rows there are, failures included."""
        return self._starts[-1]

    def pull(self, offset: int, want: int) -> Item:
        """Return rows from the part's row `offset` on, at most `want`, at least one."""
        index = bisect_right(self._starts, offset) - 1
        item = self._item(index)
        first = offset - self._starts[index]
        return item.slice(first, min(item.rows, first + want))

    @property
    def starts(self) -> list[int]:
        """The first row of each batch."""
        return self._starts[:-1]

    def take(self, batch: int, rows: Indices) -> Block:
        """Return rows of one batch, by their numbers in it. What is read in pieces is checked once."""
        item = self._item(batch, again=False)
        if isinstance(item, Failure):
            raise item.error.copy()
        return item.take(rows)

    def column(self, number: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Return all rows of one component, which is an integer, and which of them are not failures."""
        values, made = np.zeros(self.rows, np.int64), np.zeros(self.rows, np.bool_)
        for start, index in zip(self._starts, range(len(self._items)), strict=False):
            item = self._read(index)
            if isinstance(item, Failure):
                continue
            column = np.asarray(item.columns[number])
            if column.ndim != 1 or column.dtype.kind not in "iu":
                raise StorageError(f"{self.path} is damaged: the numbers of shards are no numbers")
            values[start : start + item.rows] = column
            made[start : start + item.rows] = True
        return values, made

    def _item(self, index: int, *, again: bool = True) -> Item:
        """Return a batch, verified `again` if it was before. The last ones are cached."""
        found = self._find(index)
        if found is None:
            with self._reading:  # several threads that read on from one batch to the next read that once
                found = self._find(index)
                if found is None:
                    found = self._read(index, again=again)
                    self._kept = ((index, found), *self._kept[: MAX_CACHED_BATCHES - 1])
        self._check_size()
        return found

    def _find(self, index: int) -> Item | None:
        return next((item for number, item in self._kept if number == index), None)

    def _read(self, index: int, *, again: bool = True) -> Item:
        entry = self._items[index]
        if "error" in entry:
            return Failure(_error(entry))
        structure, order = self.layout
        if not structure.leaves:
            return Block(structure, [], _empty_rows(entry["rows"]), None, self._ids(entry, []))
        number = self._batches[index]
        fresh = again or number not in self._checked
        if fresh:
            self._check(number + 1)
        try:
            batch = self._reader.get_batch(number)
            if fresh:
                batch.validate(full=True)  # check its internal offsets: the checksum only shows what was written
            if batch.num_rows != entry["rows"]:
                raise ValueError(f"{batch.num_rows} rows, but the page says {entry['rows']}")
            columns = batch.columns
            made = [decoded(array, how) for array, how in zip(columns, self._how, strict=False)]
            block = Block(
                structure,
                made if order is None else [made[i] for i in order],
                entry["rows"],
                None,
                self._ids(entry, columns[len(made) :]),
            )
        except _nonsense() as error:
            raise self._damaged(error) from None
        self._checked.add(number)
        return block

    def _ids(self, entry: JsonObject, columns: list[pa.Array]) -> Ids | None:
        if columns:
            ids: Ids = np.asarray(decoded(columns[0], _ID_COLUMN))
            return ids
        if entry["ids"] is None:
            return None
        path, first = entry["ids"]
        return source_ids(path, np.arange(first, first + entry["rows"]))

    @cached_property
    def layout(self) -> StoredLayout:
        """What its elements look like."""
        try:
            made = structure_of(self._plain, self._types)
        except StorageError as error:
            raise StorageError(f"{self.path.with_suffix(PAGE)}: {error}") from None
        batches = self._batches[-1] if made.structure.leaves else 0
        if len(self._how) != made.structure.leaves or len(self._cuts) != batches + 2:
            raise StorageError(f"{self.path.with_suffix(PAGE)} is no page of a part: it does not fit together")
        return made

    @cached_property
    def _map(self) -> _native.MappedFile:
        with OwnedFile(self.path) as file:
            return _native.MappedFile(file.fileno(), self._cuts[-1])

    @cached_property
    def _reader(self) -> pa.RecordBatchFileReader:
        import pyarrow as pa

        self._check(0)
        self._check(len(self._crcs) - 1)
        try:
            reader = pa.ipc.open_file(pa.py_buffer(self._map.data))
            columns = len(reader.schema) - len(self._how)
            if reader.num_record_batches != len(self._cuts) - 2 or columns not in (0, 1):
                raise ValueError(f"{reader.num_record_batches} batches of {len(reader.schema)} columns")
        except _nonsense() as error:
            raise self._damaged(error) from None
        return reader

    def _check(self, number: int) -> None:
        begin, end = ([0, *self._cuts])[number : number + 2]
        matches = checksum(self._map.data[begin:end].data) == self._crcs[number]
        self._check_size()
        if not matches:
            raise StorageError(f"{self.path} is damaged between bytes {begin} and {end}: the checksum does not match")

    def _check_size(self) -> None:
        """Raise if the file has shrunk: its mapping then reads as zeros."""
        if "_map" in self.__dict__ and not self._map.intact:
            raise StorageError(f"{self.path} has become shorter since it was opened")

    def _damaged(self, error: BaseException) -> StorageError:
        return StorageError(f"{self.path} is damaged: it does not hold what its page says ({error})")


_OPENED = {"_kept", "_reading", "_map", "_reader"}
"""Attributes that a part has only in the process that reads it."""
_all_parts: weakref.WeakSet[StoredPart] = weakref.WeakSet()


def _after_fork() -> None:
    for part in _all_parts:
        part.after_fork()


os.register_at_fork(after_in_child=_after_fork)

_ID_COLUMN: Notes = {"kind": "dense", "dtype": "<u8", "shape": [2]}


def _nonsense() -> tuple[type[BaseException], ...]:
    """Return the exceptions that a file with wrong contents may raise."""
    import pyarrow as pa

    return *NONSENSE, MemoryError, OSError, pa.ArrowException


def _checked_cuts(cuts: JsonValue, crcs: JsonValue) -> tuple[list[int], list[int]]:
    numbers = [*cuts, *crcs]
    if any(type(n) is not int or n < 0 for n in numbers) or len(cuts) != len(crcs) or len(cuts) < 2:
        raise ValueError("cuts and checksums are no numbers")
    if any(a > b for a, b in pairwise(cuts)):
        raise ValueError("cuts do not rise")
    return list(cuts), list(crcs)


def _checked_item(item: JsonValue) -> JsonObject:
    if "error" in item:
        texts = [*item["error"], item["operation"], item["site"] or "", item["provenance"] or ""]
        fine = type(item["ordinal"]) is int and all(isinstance(text, str) for text in texts)
    else:
        ids = item["ids"]
        numbers = [item["rows"], *([] if ids is None else ids)]
        fine = (ids is None or (len(ids) == 2 and ids[1] < 2**62)) and 0 < item["rows"] < 2**48
        fine = fine and all(type(n) is int and 0 <= n < 2**64 for n in numbers)
    if not fine:
        raise ValueError(f"an item {str(item)[:80]}")
    return dict(item)


def _empty_rows(rows: int) -> int:
    if rows > MAX_EMPTY_ROWS:
        raise StorageError(f"{rows} elements without components cannot be")
    return rows


def _error(entry: JsonObject) -> ElementError:
    made = ElementError("", operation=entry["operation"], ordinal=entry["ordinal"], site=entry["site"])
    made.provenance = entry["provenance"]
    made.args = tuple(entry["error"])
    return made
