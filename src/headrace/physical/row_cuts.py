"""Cuts of sources whose rows can be read by number."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from headrace.core.override import override
from headrace.execute.context import Context
from headrace.execute.registry import opens
from headrace.execute.stream import END, Made, RowRange, Stream
from headrace.formats.shared.file_names import FileNames
from headrace.formats.shared.files import local_path
from headrace.indexed.numbered import Numbered
from headrace.ops.cache import Cache
from headrace.ops.shared.gather import RowsByNumber
from headrace.ops.zip import Zip
from headrace.physical.cuts import Cut, CutAim, cuts, fused
from headrace.plan.cardinality import Cardinality
from headrace.plan.marks import At, Position
from headrace.plan.node import Node, Written, walk
from headrace.plan.spec import Spec
from headrace.sources.map_style import MapStyle
from headrace.sources.sql.dense import DenseRows


@dataclass(frozen=True, eq=False)
class RowsCut(Node):
    """The rows from `first` to before `stop` of a source."""

    source: Written
    first: int
    stop: int

    @property
    def operation(self) -> str:
        return self.source.operation

    @property
    def spec(self) -> Spec:
        return self.source.spec

    @property
    def cardinality(self) -> Cardinality:
        return Cardinality(self.stop - self.first)

    def label(self, *, for_state: bool = False) -> str:
        return self.source.label(for_state=for_state)


@opens(RowsCut)
class RowsCutStream(Stream):
    """The source from the first row on, as far as the cut goes."""

    @override
    def __init__(self, node: RowsCut, ctx: Context, at: At) -> None:  # rows are counted from the first
        place = {ctx.prepared.number(node.source): Position(node.first, node.first, None, rooted=False)}
        self._input = ctx.open(node.source, place)
        self._left = node.stop - node.first

    def pull(self, want: int) -> Made:
        item = self._input.pull(min(want, self._left)) if self._left else END
        if item is not END:
            self._left -= item.rows
        return item

    def skip(self, count: int, *, replay: bool = False) -> int:
        done = self._input.skip(min(count, self._left), replay=replay)
        self._left -= done
        return done


@cuts(Numbered)
@cuts(MapStyle)
@cuts(RowsByNumber)
@cuts(Zip)
@cuts(Cache)
def cut_rows(node: Node, _ctx: Context, place: RowRange, size: CutAim) -> Iterator[Cut]:
    """Runs of rows."""
    first, end = place
    while first < end:
        stop = min(end, first + size.rows)
        yield Cut(
            RowsCut(node, first, stop, site=node.site, stands_for=node), rows=stop - first, known_rows=stop - first
        )
        first = stop


def opens_anywhere(node: Node) -> bool:
    """Return whether opening it at any row takes no time and reads nothing from a store or a database."""
    if isinstance(node, Zip):
        return all(map(opens_anywhere, node.branches))
    if isinstance(node, RowsByNumber):
        return node.addressable and not node.in_large_lots and not any(map(_far_away, walk(node)))
    if isinstance(node, Numbered | MapStyle):
        return node.pure and not _far_away(node)
    return node.one_to_one and node.pure and fused(node) is not None and all(map(opens_anywhere, node.inputs))


def _far_away(node: Node) -> bool:
    """Return whether workers would wait for a store or a database: these are read ahead in other ways."""
    if isinstance(node, FileNames):
        return bool(node.names) and local_path(node.names[0]) is None
    return isinstance(node, DenseRows)
