"""One part: an Arrow file of some thousand rows, and a page that says what is in it and what it should look like.

The page comes last, so a part without one was never finished. Checksums cover every byte, a batch of rows at a time,
and are compared before the rows are given out.
"""

from __future__ import annotations

import mmap
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from headrace import _native
from headrace.block import Block, Failure, Ids, Indices, Item, source_ids
from headrace.errors import ElementError, StorageError
from headrace.plan.structure import Structure
from headrace.storage.columns import How, decoded, encoded
from headrace.storage.files import read_page, whole, write_page
from headrace.storage.structures import plain_structure, structure_of

if TYPE_CHECKING:
    import pyarrow as pa

PAGE = ".json"
DATA = ".arrow"


@dataclass
class _Run:
    """Rows that are stored in the same way, and so go into one file; failures go anywhere."""

    schema: pa.Schema | None = None
    structure: Any = None
    how: list[How] = field(default_factory=list)
    entries: list[tuple[Item, list[pa.Array]]] = field(default_factory=list)

    def takes(self, schema: pa.Schema, structure: Any, how: list[How]) -> bool:
        """Whether such rows fit in; the first ones decide."""
        if self.schema is None:
            self.schema, self.structure, self.how = schema, structure, how
        return bool(self.schema.equals(schema)) and (self.structure, self.how) == (structure, how)


def write_parts(directory: Path, start: int, items: Iterable[Item], compression: str | None, notes: Any) -> list[Part]:
    """Write rows from number `start` on: one part, or several where their columns differ in kind.

    `notes`, whatever JSON can hold, go to the page of the last.
    """
    runs = _runs(items)
    made: list[Part] = []
    for run in runs:
        made.append(_write(directory, start, run, compression, notes if run is runs[-1] else None))
        start += made[-1].rows
    return made


def _runs(items: Iterable[Item]) -> list[_Run]:
    import pyarrow as pa

    runs = [_Run()]
    for item in items:
        arrays: list[pa.Array] = []
        if isinstance(item, Block):
            try:
                pairs = [encoded(column) for column in item.columns]
            except StorageError as error:
                raise StorageError(f"elements {item.structure} cannot be stored: {error}") from error
            arrays = [array for array, _ in pairs] + _id_arrays(item.ids)
            names = [path or "value" for path in item.structure.paths] + ["headrace ids"]
            schema = pa.schema([pa.field(n, a.type) for n, a in zip(names, arrays, strict=False)])
            kind = (schema, plain_structure(item.structure), [how for _, how in pairs])
            if not runs[-1].takes(*kind):
                runs.append(_Run())
                runs[-1].takes(*kind)
        runs[-1].entries.append((item, arrays))
    return runs


def _write(directory: Path, start: int, run: _Run, compression: str | None, notes: Any) -> Part:
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    schema = run.schema or pa.schema([])
    options = pa.ipc.IpcWriteOptions(compression=compression)
    items: list[Any] = []
    cuts: list[int] = []
    with pa.ipc.new_file(sink, schema, options=options) as writer:
        for item, arrays in run.entries:
            if isinstance(item, Failure):
                items.append(_plain_error(item.error))
                continue
            items.append({"rows": item.rows, "ids": None if len(arrays) > len(item.columns) else _run_of_ids(item.ids)})
            if arrays:  # elements without components are only counted
                cuts.append(sink.tell())
                writer.write_batch(pa.record_batch(arrays, schema=schema))
        cuts.append(sink.tell())
    data = sink.getvalue()
    cuts.append(data.size)
    path = directory / f"{start:012}{DATA}"
    with whole(path) as file:
        file.write(data)
    page = {
        "cuts": cuts,
        "crcs": [checksum(data[a:b]) for a, b in zip([0, *cuts], cuts, strict=False)],
        "structure": run.structure,
        "how": run.how,
        "items": items,
        "notes": notes,
    }
    write_page(path.with_suffix(PAGE), page)
    return Part(path)


def checksum(data: pa.Buffer | memoryview) -> int:
    """CRC32C of these bytes."""
    return _native.crc32c(memoryview(data))


def _run_of_ids(ids: Ids | None) -> list[int] | None:
    """The first of ids that count up on one path, None for others."""
    if ids is None or not ids.size:
        return None
    path, first = ids[0].tolist()
    return [path, first] if (ids == source_ids(path, np.arange(first, first + len(ids)))).all() else None


def _id_arrays(ids: Ids | None) -> list[pa.Array]:
    if ids is None or _run_of_ids(ids) is not None:
        return []
    return [encoded(ids)[0]]


def _plain_error(error: ElementError) -> dict[str, Any]:
    return {
        "error": list(map(str, error.args)),
        "operation": error.operation,
        "ordinal": int(error.ordinal),
        "site": error.site,
        "provenance": error.provenance,
    }


class Part:
    """A part that was written. Rows are checked when they are read, and share memory with the file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.start = int(path.stem)
        page = read_page(path.with_suffix(PAGE))
        try:
            self._cuts: list[int] = page["cuts"]
            self._crcs: list[int] = page["crcs"]
            self._items: list[dict[str, Any]] = page["items"]
            self._plain, self._how, self.notes = page["structure"], page["how"], page["notes"]
            counts = [item.get("rows", 1) for item in self._items]
        except (KeyError, AttributeError) as error:
            raise StorageError(f"{path.with_suffix(PAGE)} is no page of a part") from error
        self._starts: list[int] = [0, *accumulate(counts)]
        self._batches: list[int] = [0, *accumulate("rows" in item for item in self._items)]
        self._last: tuple[int, Item] | None = None
        self._checked: set[int] = set()
        size = path.stat().st_size if path.exists() else None
        if size != self._cuts[-1]:
            is_now = "is missing" if size is None else f"has {size} bytes"
            raise StorageError(f"{path} {is_now}; it was written with {self._cuts[-1]}")

    @property
    def rows(self) -> int:
        """How many rows there are, failures included."""
        return self._starts[-1]

    def pull(self, offset: int, want: int) -> Item:
        """Rows from the part's row `offset` on, at most `want`, at least one."""
        index = bisect_right(self._starts, offset) - 1
        item = self._item(index)
        first = offset - self._starts[index]
        return item.slice(first, min(item.rows, first + want))

    @property
    def starts(self) -> list[int]:
        """The first row of each batch."""
        return self._starts[:-1]

    def take(self, batch: int, rows: Indices) -> Block:
        """Rows of one batch, by their numbers in it. What is read in pieces is checked once."""
        item = self._item(batch, again=False)
        if isinstance(item, Failure):
            raise item.error.copy()
        return item.take(rows)

    def column(self, number: int) -> NDArray[Any]:
        """All rows of one dense component."""
        blocks = [b for b in (self._read(i) for i in range(len(self._items))) if isinstance(b, Block)]
        return np.concatenate([np.asarray(b.columns[number]) for b in blocks])

    def _item(self, index: int, *, again: bool = True) -> Item:
        """A batch, checked `again` where it has been before. The last one is kept."""
        last = self._last
        if last is None or last[0] != index:
            self._last = last = (index, self._read(index, again=again))
        return last[1]

    def _read(self, index: int, *, again: bool = True) -> Item:
        told = self._items[index]
        if "error" in told:
            return Failure(_error(told))
        structure = self._structure
        if not structure.leaves:
            return Block(structure, [], told["rows"], None, self._ids(told, []))
        number = self._batches[index]
        if again or number not in self._checked:
            self._check(number + 1)
            self._checked.add(number)
        columns = self._reader.get_batch(number).columns
        made = [decoded(array, how) for array, how in zip(columns, self._how, strict=False)]
        return Block(structure, made, told["rows"], None, self._ids(told, columns[len(made) :]))

    def _ids(self, told: dict[str, Any], columns: list[pa.Array]) -> Ids | None:
        if columns:
            ids: Ids = np.asarray(decoded(columns[0], _ID_COLUMN))
            return ids
        if told["ids"] is None:
            return None
        path, first = told["ids"]
        return source_ids(path, np.arange(first, first + told["rows"]))

    @cached_property
    def _structure(self) -> Structure:
        return structure_of(self._plain)

    @cached_property
    def _data(self) -> memoryview:
        with self.path.open("rb") as file:
            return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))

    @cached_property
    def _reader(self) -> pa.RecordBatchFileReader:
        import pyarrow as pa

        self._check(0)
        self._check(len(self._crcs) - 1)
        return pa.ipc.open_file(pa.py_buffer(self._data))

    def _check(self, number: int) -> None:
        begin, end = ([0, *self._cuts])[number : number + 2]
        if checksum(self._data[begin:end]) != self._crcs[number]:
            raise StorageError(f"{self.path} is damaged between bytes {begin} and {end}: the checksum does not match")


_ID_COLUMN: How = {"kind": "dense", "dtype": "<u8", "shape": [2]}


def _error(told: dict[str, Any]) -> ElementError:
    made = ElementError("", operation=told["operation"], ordinal=told["ordinal"], site=told["site"])
    made.provenance = told["provenance"]
    made.args = tuple(told["error"])
    return made
