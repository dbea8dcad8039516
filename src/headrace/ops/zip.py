"""Zip datasets."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headrace.columns import Column, Indices
from headrace.columns.block import Block, Failure, Item
from headrace.execute.context import Context
from headrace.execute.inputs import Input
from headrace.execute.registry import fetches, opens
from headrace.execute.stream import END, Made, Pending, RowRange, Stream
from headrace.plan.cardinality import Cardinality, smallest
from headrace.plan.datasets import dataset_of, is_dataset
from headrace.plan.marks import At, Joint
from headrace.plan.node import Node, places, user_site
from headrace.plan.spec import Spec
from headrace.plan.structure import Structure, flatten

if TYPE_CHECKING:
    from headrace.dataset import Dataset


def zip(*args: object, datasets: object = None, name: str | None = None) -> Dataset:
    """Combine elements of several datasets into tuples, or another structure.

    Args:
        *args: Datasets, or one nested structure of datasets.
        datasets: The same, by keyword.
        name: Label of the operation in `explain()`, `stats()` and error messages.

    Returns:
        A new dataset.

    >>> a, b = hr.Dataset.range(3), hr.Dataset.range(10, 12)
    >>> list(hr.Dataset.zip(a, b))
    [(np.int64(0), np.int64(10)), (np.int64(1), np.int64(11))]
    >>> next(iter(hr.Dataset.zip({"x": a, "y": b})))
    {'x': np.int64(0), 'y': np.int64(10)}
    """
    if bool(args) == (datasets is not None):
        raise TypeError("zip takes datasets, or a structure of them, in one way: zip(a, b), zip((a, b)) or datasets=")
    given = datasets if datasets is not None else args[0] if len(args) == 1 else args
    structure, leaves = flatten(given)
    for i, path in enumerate(structure.paths):
        found = leaves[i]
        if not is_dataset(found):
            hint = "; put the datasets into a tuple" if isinstance(found, list) else ""
            raise TypeError(f"zip takes Datasets in tuples or dicts; argument{path} is {found!r}{hint}")
    nodes = tuple(leaf._node for leaf in leaves)
    if not nodes:
        raise TypeError("zip needs at least one dataset")
    return dataset_of(Zip(nodes, structure, places(nodes), site=user_site(), name=name))


@dataclass(frozen=True, eq=False)
class Zip(Node):
    """Row i of every input together; the shortest ends it."""

    branches: tuple[Node, ...]
    structure: Structure
    places: tuple[int, ...] = field(repr=False)

    @property
    def spec(self) -> Spec:
        specs = [node.spec for node in self.branches]
        if not all(s.known for s in specs):
            return Spec.UNKNOWN
        nested = nest(self.structure, [s.structure for s in specs if s.structure is not None])
        return Spec(nested, tuple(leaf for s in specs for leaf in s.leaves))

    @property
    def cardinality(self) -> Cardinality:
        return smallest(node.cardinality for node in self.branches)

    @property
    def indexable(self) -> bool:
        return all(node.indexable for node in self.branches)

    @property
    def numbered(self) -> bool:
        return all(node.numbered for node in self.branches)

    def end_to_end(self, runs: tuple[int, ...]) -> tuple[Node, int] | None:
        return (self, runs[0]) if len(set(runs)) == 1 else None


def nest(outer: Structure, inner: list[Structure]) -> Structure:
    """Return the structure `outer` with its leaves replaced."""
    rest = iter(inner)

    def build(at: Structure) -> Structure:
        if at.kind is None:
            return next(rest)
        return Structure(at.kind, at.keys, tuple(build(child) for child in at.children), at.written)

    return build(outer)


def beside(structure: Structure, parts: list[Block]) -> Block:
    """Return blocks of the same number of rows as one; the rows have the ids of the first."""
    columns: list[Column] = [column for part in parts for column in part.columns]
    return Block(nest(structure, [p.structure for p in parts]), columns, parts[0].rows, None, parts[0].ids)


@fetches(Zip)
def fetch_zipped(node: Zip, ctx: Context, indices: Indices) -> Block:
    """Return the rows of every branch."""
    parts = [branch_context(ctx, node.places[i]).fetch(child, indices) for i, child in enumerate(node.branches)]
    return beside(node.structure, parts)


def branch_context(ctx: Context, place: int) -> Context:
    """Return the context in which one of several inputs is opened; see `places`."""
    return ctx.branch(place) if place else ctx


@opens(Zip)
class ZipStream(Stream):
    """Keep what one input gave beyond the others. Inputs whose reading is observable are read last, and no further."""

    def __init__(self, node: Zip, ctx: Context, at: At) -> None:
        self._structure = node.structure
        self._inputs: list[Input] = [
            branch_context(ctx, node.places[i]).open(child, at.inputs, slot=i) for i, child in enumerate(node.branches)
        ]
        self._waiting = [Pending() for _ in self._inputs]
        shown = [not child.pure for child in node.branches]
        self._one_by_one = sum(shown) > 1
        self._order = sorted(range(len(shown)), key=lambda i: shown[i])
        self._pure = not any(shown)
        self._over = False
        self._rows = node.cardinality
        self._next = 0

    def pull(self, want: int) -> Made:
        if self._over:
            return END
        rows = 1 if self._one_by_one else want
        heads: dict[int, Item] = {}
        for i in self._order:
            waiting = self._waiting[i]
            item = waiting.pull(rows) if waiting else self._inputs[i].pull(rows)
            if item is END:
                self._over = True
                rows = 1  # as one element at a time would do: the others have read one more
                continue
            heads[i] = item
            rows = min(rows, item.rows)
        if self._over:
            return END
        self._next += rows
        return self._together([self._cut(i, heads[i], rows) for i in range(len(self._inputs))])

    def halt(self) -> RowRange | None:
        """See Stream. Only a zip that is opened at its first row, and finds others by skipping, can be halted."""
        if not self._rows.known:
            return None
        self._over = True
        return RowRange(self._next, int(self._rows))

    def _cut(self, i: int, item: Item, rows: int) -> Item:
        if item.rows == rows:
            return item
        self._waiting[i].put_back(item.slice(rows, item.rows))
        return item.slice(0, rows)

    def _together(self, parts: list[Item]) -> Item:
        mark = Joint(part.mark for part in parts)
        blocks = []
        for part in parts:
            if isinstance(part, Failure):
                return Failure(part.error, mark)
            blocks.append(part)
        whole = beside(self._structure, blocks)
        whole.mark = mark
        return whole

    def skip(self, count: int, *, replay: bool = False) -> int:
        if self._over or any(self._waiting) or not (self._pure or replay):
            return 0
        done = min(source.skip(count, replay=replay) for source in self._inputs)
        self._next += done
        return done
