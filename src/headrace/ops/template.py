"""What flat_map's function makes of any window, found by asking it once; then done to many windows at a time."""

from __future__ import annotations

import dis
import sys
from collections.abc import Callable
from dataclasses import dataclass
from types import FunctionType
from typing import Any

import numpy as np

from headrace.block import Block
from headrace.execute.context import Context
from headrace.keys import ROOT, keyed_seeds
from headrace.ops.calls import arguments
from headrace.plan.cardinality import UNKNOWN, Cardinality
from headrace.plan.node import Node, rebuilt
from headrace.plan.prepared import Prepared
from headrace.plan.spec import DatasetSpec, Spec
from headrace.plan.structure import LEAF, Structure
from headrace.sources.memory import Memory

BUILDS = frozenset({"Dataset", "batch", "zip"})
"""Attributes that a function may use which is called once for all windows: they make datasets, and do nothing else."""

STEPS = frozenset({
    "BINARY_SUBSCR", "BUILD_CONST_KEY_MAP", "BUILD_MAP", "BUILD_TUPLE", "CACHE", "CALL", "CALL_FUNCTION_EX", "CALL_KW",
    "COPY", "COPY_FREE_VARS", "KW_NAMES", "LOAD_ATTR", "LOAD_CONST", "LOAD_DEREF", "LOAD_FAST", "LOAD_FAST_BORROW",
    "LOAD_FAST_BORROW_LOAD_FAST_BORROW", "LOAD_FAST_LOAD_FAST", "LOAD_GLOBAL", "LOAD_METHOD", "LOAD_SMALL_INT", "NOP",
    "POP_TOP", "PRECALL", "PUSH_NULL", "RESUME", "RETURN_VALUE", "STORE_FAST", "SWAP",
})  # fmt: skip
"""What such a function may consist of: no branches, no stores to anything but its own variables, no imports."""


def only_builds(fn: Any) -> bool:
    """Whether all that a function does is to make datasets of its arguments and of constants, so that calls show not.

    >>> only_builds(lambda w: w.batch(5)), only_builds(lambda w: print(w))
    (True, False)
    """
    if not isinstance(fn, FunctionType) or fn.__code__.co_flags & _RUNS_LATER:
        return False
    code = fn.__code__
    steps = list(dis.get_instructions(code))
    if any(s.opname not in STEPS and s.opname != "BINARY_OP" for s in steps):
        return False
    if any(s.opname == "BINARY_OP" and s.argrepr != "[]" for s in steps):  # how Python 3.14 spells a subscript
        return False
    used = {str(s.argval) for s in steps if s.opname in ("LOAD_ATTR", "LOAD_METHOD")}
    named = {str(s.argval) for s in steps if s.opname == "LOAD_GLOBAL"}
    try:
        values = [cell.cell_contents for cell in fn.__closure__ or ()] + [fn.__globals__[name] for name in named]
    except (KeyError, ValueError):  # a builtin, or not assigned yet
        return False
    values += [*(fn.__defaults__ or ()), *(fn.__kwdefaults__ or {}).values()]
    return used <= BUILDS and all(_constant(v) for v in values)


_RUNS_LATER = 0x20 | 0x80 | 0x200
"""Code of a generator or a coroutine."""


def _constant(value: Any) -> bool:
    if isinstance(value, tuple):
        return type(value) is tuple and all(_constant(v) for v in value)
    ours = sys.modules["headrace"]
    return value is None or type(value) in (bool, int, float, str, bytes) or value is ours or value is ours.Dataset


def _plain(structure: Structure) -> bool:
    """Whether elements are made of tuples and dicts: a user's own class may do anything when it is made."""
    return structure.kind in (None, tuple, dict) and all(_plain(child) for child in structure.children)


@dataclass(frozen=True, eq=False)
class Unread(Node):
    """Stands for a component of a window while a function is asked what it makes of it. There are no rows to read."""

    component: int
    rows: int
    elements: Spec = Spec.UNKNOWN

    @property
    def spec(self) -> Spec:
        return self.elements

    @property
    def cardinality(self) -> Cardinality:
        return Cardinality(self.rows)


def ask_once(fn: Callable[..., Any], structure: Structure, components: list[Unread]) -> Node | None:
    """What a function makes of datasets, if all that it does is to build on them; None where it must see each."""
    from headrace.dataset import Dataset

    if not only_builds(fn) or not _plain(structure):
        return None
    columns: list[Any] = [[Dataset(component)] for component in components]
    try:
        with keyed_seeds(ROOT):
            made = fn(*next(arguments(Block(structure, columns, 1))))
    except Exception:  # it is raised again where it belongs: for each window
        return None
    return made._node if isinstance(made, Dataset) else None


class BuildingFunction:
    """The datasets that a function builds on those which its arguments are: what their elements look like."""

    def __init__(self, fn: Callable[..., Any]) -> None:
        self._fn = fn
        self._specs: dict[Spec, Spec] = {}

    def spec(self, windows: Spec) -> Spec:
        """Of arguments of this spec; each kind is asked for once."""
        if windows not in self._specs:
            self._specs[windows] = self._found(windows)
        return self._specs[windows]

    def _found(self, windows: Spec) -> Spec:
        known = [leaf.elements for leaf in windows.leaves if isinstance(leaf, DatasetSpec) and leaf.shape == ()]
        if windows.structure is None or not known or len(known) < len(windows.leaves):
            return Spec.UNKNOWN
        components = [Unread(i, UNKNOWN, elements) for i, elements in enumerate(known)]
        node = ask_once(self._fn, windows.structure, components)
        return Spec.UNKNOWN if node is None else node.spec


@dataclass(frozen=True)
class Template:
    """What becomes of a window of `size` elements of this structure: `rows` rows of `plan`, which reads Unread ones."""

    structure: Structure
    size: int
    plan: Node
    rows: int

    @classmethod
    def of(cls, fn: Callable[..., Any], structure: Structure, size: int) -> Template | None:
        """The template of a function on windows, None where each window must be looked at by itself."""
        made = ask_once(fn, structure, [Unread(i, size) for i in range(structure.leaves)])
        laid = None if made is None else end_to_end(made)
        return None if laid is None else cls(structure, size, *laid)

    def fill(self, ctx: Context, windows: Block) -> Block | None:
        """The rows of many windows, one window after the other; None where they must be looked at one by one."""
        dense = [c for c in windows.columns if isinstance(c, np.ndarray)]
        if len(dense) < len(windows.columns) or windows.structure != self.structure:
            return None
        count = windows.rows * self.size
        sources = [Memory(Spec.UNKNOWN, count, LEAF, [c.reshape(count, *c.shape[2:])], "window") for c in dense]
        plan = rebuilt(self.plan, lambda node: sources[node.component] if isinstance(node, Unread) else node)
        rows = ctx._replace(prepared=Prepared.of(plan)).open(plan, slot=1)
        try:
            made = rows.pull(windows.rows * self.rows)
        finally:
            rows.close()
        return made if isinstance(made, Block) and made.rows == windows.rows * self.rows else None


def end_to_end(node: Node) -> tuple[Node, int] | None:
    """A plan for many windows laid end to end, and how many rows it makes of each."""
    if isinstance(node, Unread):
        return node, node.rows
    inputs = [end_to_end(child) for child in node.inputs]
    known = [laid for laid in inputs if laid is not None]
    if not inputs or len(known) < len(inputs):
        return None
    made = node.end_to_end(tuple(rows for _, rows in known))
    return None if made is None else (made[0].with_inputs(tuple(child for child, _ in known)), made[1])
