"""Keys of rows that were read: the position of each, and whether re-read rows are the same."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np

from headrace import _native
from headrace.columns.arrow_text import parts
from headrace.core.types import JsonValue, Reduced
from headrace.errors import StateError
from headrace.plan.marks import OwnMark

if TYPE_CHECKING:
    import pyarrow as pa

Mark = int | str
SALT = np.array([0x9E3779B97F4A7C15, 0xD1B54A32D192ED03], np.uint64)


def mark_of_key(key: int | str) -> Mark:
    """Return a key as a mark: text gets a prefix, because an empty text is the start of a part."""
    return key if isinstance(key, int) else f"={key}"


@dataclass(frozen=True, slots=True)
class Spot:
    """A mark of a source, as states hold it."""

    mark: Mark

    def to_json(self) -> Mark:
        """Return the number or text itself."""
        return self.mark

    @classmethod
    def from_json(cls, data: JsonValue) -> Self:
        """Return what `to_json` gave; raises StateError for anything else."""
        if type(data) not in (int, str):
            raise StateError(f"the state is damaged: {data!r:.80} is no mark of a source")
        return cls(data)


@dataclass(frozen=True, slots=True)
class SeenRows:
    """A summary of rows after a mark: the mark of the last, how many there are, and the sum of their hashes."""

    last: Mark
    rows: int
    total: int

    def to_json(self) -> list[JsonValue]:
        """Return it as JSON values."""
        return [self.last, self.rows, self.total]

    @classmethod
    def from_json(cls, data: JsonValue) -> Self:
        """Return what `to_json` gave; raises StateError for anything else."""
        match data:
            case [int() | str(), int(), int()]:
                return cls(*data)
        raise StateError(f"the state is damaged: {data!r:.80} tells of no rows")

    def and_then(self, other: SeenRows | None) -> SeenRows:
        """Return the summary of these rows and those after them."""
        if other is None:
            return self
        return SeenRows(other.last, self.rows + other.rows, (self.total + other.total) % 2**64)


def seen_rows(keys: pa.Array) -> SeenRows | None:
    """Return the summary of rows with these keys, None if there are none."""
    if not len(keys):
        return None
    import pyarrow as pa

    hashes = np.empty(len(keys), np.uint64)
    if pa.types.is_integer(keys.type):
        _native.hash_numbers(keys.to_numpy().astype(np.int64), SALT, hashes)
    else:
        _native.hash_text(*parts(keys.cast(pa.large_string())), SALT, hashes)
    return SeenRows(mark_of_key(keys[-1].as_py()), len(keys), int(hashes.sum(dtype=np.uint64)))


class KeyRun:
    """The keys of rows that were read together, and those that were read next: kept while a mark knows of them."""

    __slots__ = ("_seen", "following", "keys", "rest")

    def __init__(self, keys: pa.Array, rest: SeenRows | None = None) -> None:
        import pyarrow as pa

        self.keys: pa.Array = pa.concat_arrays([keys])  # a copy, or all columns would stay that came with them
        self.rest: SeenRows | None = rest
        self.following: KeyRun | None = None
        self._seen: SeenRows | None = None

    def seen_after(self, start: int) -> SeenRows | None:
        """Return what is known of all rows read but the first."""
        later, run = self.rest, self.following
        runs = []
        while run is not None:
            runs.append(run)
            run = run.following
        for each in reversed(runs):
            later = each.seen.and_then(later)
        here = seen_rows(self.keys.slice(start))
        return later if here is None else here.and_then(later)

    @property
    def seen(self) -> SeenRows:
        """What is known of the rows of this run."""
        if self._seen is None:
            self._seen = seen_rows(self.keys)
        assert self._seen is not None, "a run has rows"
        return self._seen


@dataclass(slots=True)
class PartMark(OwnMark):
    """Where a source continues, how many rows of the part come before, and what it must yield again, if anything."""

    spot: Spot
    number: int
    seen: SeenRows | None = None

    @classmethod
    def from_json(cls, data: object) -> Self:
        """Return what `to_json` gave; a state may have been taken before there was anything to give again."""
        told = [*data, None] if isinstance(data, list) and len(data) == 2 else data
        return super(PartMark, cls).from_json(told)


class KeyedMark(PartMark):
    """A mark that knows the keys of the rows after it, as far as they were read, and so the position of each."""

    __slots__ = ("_run", "_start")

    def __init__(self, spot: Spot, number: int, run: KeyRun, start: int = 0) -> None:
        super().__init__(spot, number)
        self._run, self._start = run, start

    def advance(self, rows: int) -> KeyedMark | None:
        run: KeyRun | None = self._run
        row = self._start + rows
        while run is not None and row > len(run.keys):
            row -= len(run.keys)
            run = run.following
        if run is None:
            return None
        return KeyedMark(Spot(mark_of_key(run.keys[row - 1].as_py())), self.number + rows, run, row)

    def witness(self) -> PartMark:
        return PartMark(self.spot, self.number, self._run.seen_after(self._start))

    def __reduce__(self) -> Reduced:
        rest = self._run.seen_after(len(self._run.keys))
        return _restored_mark, (self.spot, self.number, self._run.keys.slice(self._start), rest)


def _restored_mark(spot: Spot, number: int, keys: pa.Array, rest: SeenRows | None) -> KeyedMark:
    return KeyedMark(spot, number, KeyRun(keys, rest))
