"""Rows that `save` has written."""

from __future__ import annotations

import hashlib
import os
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from headrace.columns import Indices
from headrace.columns.block import Block, gathered
from headrace.core.paths import local_only
from headrace.core.types import Component, Nested
from headrace.errors import SpecError, StorageError
from headrace.execute.context import Context
from headrace.execute.registry import fetches, opens
from headrace.execute.stream import Stream
from headrace.indexed.memory import from_tensors
from headrace.indexed.numbered import Numbered, NumberedStream
from headrace.indexed.range import range as number_range
from headrace.plan.cardinality import Cardinality
from headrace.plan.datasets import dataset_of, is_dataset
from headrace.plan.marks import At
from headrace.plan.node import TUNING, stack_level, user_site
from headrace.plan.spec import Spec
from headrace.storage.files import await_writer
from headrace.storage.parts import StoredPart
from headrace.storage.saved import read_saved
from headrace.storage.structures import Types, kinds

if TYPE_CHECKING:
    from headrace.dataset import Dataset

ReaderFunc = Callable[["Dataset"], "Dataset"]


def load(
    path: str | os.PathLike[str],
    element_spec: Nested = None,
    compression: str | None = None,  # noqa: ARG001 - the files say how they are compressed
    reader_func: ReaderFunc | None = None,
    wait: bool = False,
    *,
    types: Iterable[type] = (),
) -> Dataset:
    """Load the dataset that `save` wrote to `path`.

    `reader_func` gets a dataset of datasets, one for each shard, and makes one of them; without it shards take turns.
    With `wait`, a dataset that is being saved right now is waited for.

    Elements that were namedtuples, dataclasses or of other classes are so again if `types`, or `element_spec`, has the
    class; else namedtuples come as tuples and all others as dicts, and a warning names the class. No module is imported
    because a file names it.

    Args:
        path: Folder that `save` wrote.
        element_spec: Structure, shapes and dtypes of the elements.
        compression: Accepted for compatibility with tf.data; the files say it themselves.
        reader_func: Function that turns a dataset of shards into a dataset of elements.
        wait: Whether to wait for a writer that is still at work, instead of raising an error.
        types: Further classes that elements of the stored rows may have.

    Returns:
        A new dataset.

    >>> hr.Dataset.range(3).save(folder / "numbers")
    >>> list(hr.Dataset.load(folder / "numbers"))
    [np.int64(0), np.int64(1), np.int64(2)]
    """
    place = local_only(path, "Dataset.load", "copy the saved folder to this machine first").absolute()
    if wait:
        try:
            await_writer(place)
        except FileNotFoundError:
            raise StorageError(f"nothing was saved to {place}, and no process is saving to it") from None
    expected = Spec.UNKNOWN if element_spec is None else Spec.of_signature(element_spec)
    known = Types([*(() if expected.structure is None else kinds(expected.structure)), *types], plainly=True)
    saved = read_saved(place, known)
    if known.unknown:
        _say_unknown(place, known.unknown)
    if (why := expected.mismatch(saved.spec)) is not None:
        raise SpecError(f"{place} holds other elements than element_spec says: {why}")
    node = Stored(saved.spec, PartList(saved.parts), str(place), tagged=saved.sharded, site=user_site())
    if not saved.spec.known and saved.parts:
        node = replace(node, elements=_found_spec(node))
    if not saved.sharded:
        one = dataset_of(node)
        return one if reader_func is None else reader_func(from_tensors(0).map(lambda _: one))
    return read_shards(node, reader_func)


def _found_spec(node: Stored) -> Spec:
    """Infer the spec from the first element."""
    if node.mixed:
        return Spec.UNKNOWN
    first = node.rows_between(0, 1)
    return Spec.of_leaves(first.structure, next(first.leaves())).without_sizes()


def _say_unknown(place: Path, names: set[str]) -> None:
    short = ", ".join(sorted(name.rpartition(":")[2] for name in names))
    warnings.warn(
        f"{place} holds elements of class {', '.join(sorted(names))}, which come as plain tuples and dicts: "
        f"load(path, types=[{short}]) has them as they were",
        stacklevel=stack_level(),
    )


def read_shards(node: Stored, reader_func: ReaderFunc | None) -> Dataset:
    """Return the shards of stored rows as `reader_func` puts them together; without one they take turns."""
    shards = node.shards()
    if reader_func is None:
        return dataset_of(replace(node, numbers=in_turn([s.numbers for s in shards if s.numbers is not None])))
    made = reader_func(number_range(len(shards)).map(lambda i: dataset_of(shards[i])))
    if not is_dataset(made):
        raise TypeError(f"reader_func must return a Dataset, not {made!r}")
    return made


def in_turn(shards: list[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Return one of each, then the next of each that has one."""
    if not shards:
        return np.empty(0, np.int64)
    turns = np.concatenate([np.arange(len(shard)) for shard in shards])
    return np.concatenate(shards)[np.argsort(turns, kind="stable")]


class PartList(Sequence[StoredPart]):
    """Parts, identified by content: a state belongs to the rows, not to their location."""

    def __init__(self, parts: Sequence[StoredPart]) -> None:
        self._parts = tuple(parts)

    def __getitem__(self, number: Any) -> Component:
        return self._parts[number]

    def __len__(self) -> int:
        return len(self._parts)

    def __str__(self) -> str:
        digest = hashlib.blake2b(repr([part.checksums for part in self._parts]).encode(), digest_size=6)
        return f"{len(self)} #{digest.hexdigest()}"


@dataclass(frozen=True, eq=False)
class Stored(Numbered):
    """Rows of parts, or those of a `shard`, by `numbers`. With `tagged` each was stored as (element, shard)."""

    elements: Spec
    parts: PartList
    path: str = field(metadata=TUNING)
    shard: int | None = None
    tagged: bool = field(default=False, repr=False)
    numbers: NDArray[np.int64] | None = field(default=None, repr=False)

    @property
    def operation(self) -> str:
        return "load"

    @property
    def spec(self) -> Spec:
        return self.elements

    @property
    def cardinality(self) -> Cardinality:
        return Cardinality(self._stored if self.numbers is None else len(self.numbers))

    @property
    def _stored(self) -> int:
        return self.parts[-1].start + self.parts[-1].rows if self.parts else 0

    def shards(self) -> list[Stored]:
        """One node a shard, in the order of their numbers. A failure is in the shard of the row before it."""
        if not self.parts:
            return []
        values, made = map(np.concatenate, zip(*(part.column(-1) for part in self.parts), strict=True))
        numbers = np.flatnonzero(made)
        before = np.searchsorted(numbers, np.arange(len(made)), "right") - 1
        tags = values[numbers[np.maximum(before, 0)]] if len(numbers) else values
        return [
            Stored(self.elements, self.parts, self.path, tag, tagged=True, numbers=np.flatnonzero(tags == tag))
            for tag in np.unique(tags).tolist()
        ]

    def rows_at(self, indices: Indices) -> Block:
        """Return rows by number."""
        numbers = indices if self.numbers is None else self.numbers[indices]
        if self.mixed and len(indices) > 1:  # a caller that asks again, one by one, gets them
            raise self.error(SpecError("the elements differ in structure"), int(indices[0]))
        return self._untagged(gathered(self._starts, numbers, self._taken))

    def rows_between(self, start: int, stop: int) -> Block:
        """Return rows from `start` to `stop` or to the end of a batch, as views of the files."""
        if self.numbers is not None:
            return self.rows_at(np.arange(start, stop))
        part, _ = self._batches[int(np.searchsorted(self._starts, start, "right")) - 1]
        item = part.pull(start - part.start, stop - start)
        assert isinstance(item, Block)  # a save does not get past a failure, and a page that says so is refused
        return self._untagged(item)

    def _taken(self, number: int, rows: Indices) -> Block:
        part, batch = self._batches[number]
        return part.take(batch, rows)

    @cached_property
    def mixed(self) -> bool:
        """Whether not all elements have the same structure."""
        layouts = [part.layout for part in self.parts if part.has_elements]
        return any(layout != layouts[0] for layout in layouts)

    @cached_property
    def _batches(self) -> list[tuple[StoredPart, int]]:
        return [(part, batch) for part in self.parts for batch in range(len(part.starts))]

    @cached_property
    def _starts(self) -> Indices:
        """The number of each batch's first row."""
        return np.array([part.start + start for part in self.parts for start in part.starts], np.int64)

    def _untagged(self, block: Block) -> Block:
        if not self.tagged:
            return block
        return Block(block.structure.children[0], block.columns[:-1], block.rows)


@opens(Stored)
def open_stored(node: Stored, ctx: Context, _at: At) -> Stream:
    """Return the rows as views of the files."""

    def read(start: int, stop: int) -> Block:
        block = node.rows_between(start, stop)
        block.ids = ctx.ids_between(start, start + block.rows)
        return block

    return NumberedStream(node, read)


@fetches(Stored)
def fetch_stored(node: Stored, ctx: Context, indices: Indices) -> Block:
    """Return rows, copied."""
    block = node.rows_at(indices)
    block.ids = ctx.ids(indices)
    return block
