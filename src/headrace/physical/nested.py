"""Plans that an operation opens while it runs, one for each row of its input or for each file."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from headrace.formats.shared.many_files import Files
from headrace.ops.flat_map import FlatMap
from headrace.ops.group_by_window import GroupByWindow
from headrace.ops.interleave import Interleave
from headrace.ops.shared.gather import RowsByNumber
from headrace.ops.shuffle.scanned_rows import can_scan
from headrace.ops.snapshot import Snapshot
from headrace.plan.access import is_brief
from headrace.plan.display import ROW_BY_ROW
from headrace.plan.node import Node, function_name
from headrace.sources.parts import Parts


class Nested(NamedTuple):
    """Plans that are opened while another one runs, for `explain`."""

    title: str
    """Which plans these are."""
    plan: Node | None = None
    """One that stands for all of them; None if it depends on the rows."""
    remark: str = ""


Describe = Callable[[Any], Nested | None]
_nested: dict[type[Node], Describe] = {}


def opens_plans(kind: type[Node]) -> Callable[[Describe], Describe]:
    """Register which plans an operation of this kind opens while it runs."""

    def register(describe: Describe) -> Describe:
        _nested[kind] = describe
        return describe

    return register


def nested_plans(node: Node) -> Nested | None:
    """Return the plans that this operation opens while it runs. None if it only reads its inputs."""
    describe = next((_nested[base] for base in type(node).__mro__ if base in _nested), None)
    return None if describe is None else describe(node)


@opens_plans(RowsByNumber)
def _of_rows_by_number(node: RowsByNumber) -> Nested | None:
    if not node.in_large_lots or not can_scan(node.input):
        return None
    return Nested("all rows of the input at once, unless few are wanted", node.input)


@opens_plans(FlatMap)
def _of_flat_map(node: FlatMap) -> Nested:
    what = f"for each row, the dataset that {function_name(node.fn)} returns"
    return Nested(what, None, "" if node.template is not None else f"{ROW_BY_ROW}one dataset after another")


@opens_plans(Interleave)
def _of_interleave(node: Interleave) -> Nested:
    what = f"for each row, the dataset that {function_name(node.fn)} returns"
    ahead = "" if node.num_parallel_calls is None else ", read ahead by threads"
    return Nested(what, None, f"{node.cycle_length} at a time{ahead}")


@opens_plans(GroupByWindow)
def _of_windows(node: GroupByWindow) -> Nested:
    what = f"for each window, the dataset that {function_name(node.reduce_func)} returns"
    return Nested(what, None, f"{ROW_BY_ROW}one window after another")


@opens_plans(Snapshot)
def _of_snapshot(_node: Snapshot) -> Nested:
    return Nested("the rows of its files, once these are whole")


@opens_plans(Parts)
def _of_parts(node: Parts) -> Nested:
    turns = "one after another" if node.cycle_length == 1 else f"{node.cycle_length} in turn"
    return Nested("for each part of the source", node.fn(0), turns)


@opens_plans(Files)
def _of_files(node: Files) -> Nested:
    if node.files is None:
        return Nested("for each file, its records")
    names = node.files.names
    turns = "one after another" if node.cycle_length is None else f"{min(node.cycle_length, len(names))} in turn"
    first = next((child for name in names if not is_brief(child := node.fn(name))), None)
    one = first if first is not None else node.fn(names[0]) if names else None
    return Nested(f"for each of {len(names):,} files", one, turns)
