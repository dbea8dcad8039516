"""Cut sources into pieces that can be read independently.

A *cut* is a bounded source: a node that gives some consecutive rows of another source and stands for it. A *cutter*
gives the cuts of a source in order, from a place on. It is serial and parses nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, MutableMapping
from typing import Any, NamedTuple

from headrace.execute.context import Context
from headrace.execute.pool import ScanPolicy
from headrace.formats.shared.format import ANY_ROW, PreferredRows
from headrace.physical.batch_bounds import BatchBounds
from headrace.plan.node import Node

CUT_NANOSECONDS = 8_000_000
"""How long the work on one cut should take: many times the Python overhead around it."""
FIRST_CUT_SHARE = 2
"""The first cuts of a pass are this part of the last ones of the pass before."""


class CutSize:
    """How many bytes or rows of a source make one cut: as many as take about `CUT_NANOSECONDS`, few at first.

    The sizes are kept in `found`: the first cuts of the next pass are half as large.
    """

    def __init__(self, policy: ScanPolicy, found: MutableMapping[str, int], key: str) -> None:
        self._policy, self._found = policy, found
        self._bytes_key, self._rows_key = f"{key}/cut bytes", f"{key}/cut rows"
        self.nbytes: int = max(policy.first_cut_bytes, found.get(self._bytes_key, 0) // FIRST_CUT_SHARE)
        self.rows: int = max(policy.first_cut_rows, found.get(self._rows_key, 0) // FIRST_CUT_SHARE)

    def learn(self, cut: Cut, nanoseconds: int) -> None:
        """Learn that a cut took so long."""
        policy, nanoseconds = self._policy, max(1, nanoseconds)
        if cut.nbytes:
            fitting = cut.nbytes * CUT_NANOSECONDS // nanoseconds
            self.nbytes = max(policy.min_cut_bytes, min(fitting, 2 * self.nbytes, policy.max_cut_bytes))
            self._found[self._bytes_key] = self.nbytes
        if cut.rows:
            fitting = cut.rows * CUT_NANOSECONDS // nanoseconds
            self.rows = max(1, min(fitting, 2 * self.rows, policy.max_cut_rows))
            self._found[self._rows_key] = self.rows

    @property
    def max_file_bytes(self) -> int:
        """Return the size of the largest file that one worker may read alone while others would wait for its bytes."""
        return 2 * self._policy.max_cut_bytes

    @property
    def max_bytes_without_cut(self) -> int:
        """Return how many bytes are held in memory to find the next cut in them."""
        return 8 * self._policy.max_cut_bytes


class CutAim:
    """What the next cuts of one scan should be like: about so large, and ending where a batch of its consumer ends."""

    __slots__ = ("_bounds", "_size")

    def __init__(self, size: CutSize, bounds: BatchBounds | None) -> None:
        self._size, self._bounds = size, bounds

    @property
    def nbytes(self) -> int:
        """How many bytes."""
        return self._size.nbytes

    @property
    def rows(self) -> int:
        """How many rows, if these are counted; if possible, up to the end of a batch."""
        rows = self._size.rows
        group, before = self.prefer
        beyond = (before + rows) % group
        return rows - beyond if beyond < rows else rows

    @property
    def counts_rows(self) -> bool:
        """Whether it helps to know how many rows a cut has."""
        return self._bounds is not None

    @property
    def prefer(self) -> PreferredRows:
        """The rows to cut before, counted from the first row of the next cut."""
        before = None if self._bounds is None else self._bounds.next_row()
        return ANY_ROW if self._bounds is None or before is None else PreferredRows(self._bounds.size, before)

    @property
    def max_file_bytes(self) -> int:
        """See CutSize."""
        return self._size.max_file_bytes

    @property
    def max_bytes_without_cut(self) -> int:
        """See CutSize."""
        return self._size.max_bytes_without_cut


class Cut(NamedTuple):
    """A bounded source, and its size in bytes or rows as far as it is known.

    `unit` names what it is a piece of, such as a file: damage may end a unit early, which voids its later cuts.
    """

    source: Node
    nbytes: int = 0
    unit: Hashable | None = None
    in_order: bool = False
    """Whether it must not be opened before all rows before it were taken, because that is observable."""
    release: Callable[[], None] | None = None
    """Called when the cut is no longer needed."""
    held_bytes: int = 0
    """How much memory it holds until it has been read."""
    rows: int = 0
    known_rows: int | None = None
    """How many rows it has, if that is known before it is read."""


Cutter = Callable[[Any, Context, Any, CutAim], Iterator[Cut]]
"""`cutter(node, ctx, place, size)`: the cuts of a source from a place on, which its stream's `halt` gave."""

_cutters: dict[type[Node], Cutter] = {}
_fusing: dict[type[Node], Callable[[Any], Node | None]] = {}


def cuts(kind: type[Node]) -> Callable[[Cutter], Cutter]:
    """Register how sources of this kind are cut."""

    def register(cutter: Cutter) -> Cutter:
        _cutters[kind] = cutter
        return cutter

    return register


def cutter_of(node: Node) -> Cutter | None:
    """Return how this source is cut. None if it must be read in order."""
    return next((_cutters[base] for base in type(node).__mro__ if base in _cutters), None)


def fuses(kind: type[Node]) -> Callable[[Callable[[Any], Node | None]], Callable[[Any], Node | None]]:
    """Register how operations of this kind run inside a cut: the same without threads. None if they cannot."""

    def register(fuse: Callable[[Any], Node | None]) -> Callable[[Any], Node | None]:
        _fusing[kind] = fuse
        return fuse

    return register


def fused(node: Node) -> Node | None:
    """Return the operation as it runs inside a cut. None if it cannot."""
    fuse = next((_fusing[base] for base in type(node).__mro__ if base in _fusing), None)
    return None if fuse is None else fuse(node)
