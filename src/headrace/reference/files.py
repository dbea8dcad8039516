"""What readers of several files mean."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace

from headrace.formats.shared.many_files import Files
from headrace.ops.flat_map import FlatMap
from headrace.ops.interleave import Interleave
from headrace.plan.node import Node
from headrace.reference.base import Place, Row, rows


@rows.register
def _(node: Files, at: Place) -> Iterator[Row]:
    def one(name: object) -> SimpleNamespace:
        return SimpleNamespace(_node=node.fn(name))

    alike: Node = FlatMap(node.input, one, node.seed, site=node.site)
    if node.cycle_length is not None:
        alike = Interleave(node.input, one, node.cycle_length, 1, node.seed, None, site=node.site)
    return rows(alike, at)
