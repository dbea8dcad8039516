"""What flat_map's function makes of any window: found by one call, then applied to many windows at a time."""

from __future__ import annotations

import dis
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from types import CodeType, FunctionType
from typing import Protocol

import numpy as np

from headrace.columns.block import Block
from headrace.core.keys import ROOT, keyed_seeds
from headrace.core.types import Component, UserFunction
from headrace.execute.context import Context
from headrace.indexed.memory import Memory
from headrace.ops.shared.calls import rows_as_arguments
from headrace.ops.shared.row_slices import RowSlices
from headrace.plan.capabilities import provides
from headrace.plan.cardinality import UNKNOWN, Cardinality
from headrace.plan.datasets import dataset_of, is_dataset
from headrace.plan.node import Node, rebuild
from headrace.plan.prepared import Prepared
from headrace.plan.spec import DatasetSpec, LeafSpec, Probe, Spec
from headrace.plan.structure import LEAF, Structure

READERS = frozenset({"TFRecordDataset", "TextLineDataset", "FixedLengthRecordDataset", "CsvDataset"})
"""Readers that know what their elements look like before they open a file."""

SOURCES = frozenset({"from_tensor_slices", "from_tensors", "range"})
"""Methods that make a `Dataset` from values."""

BUILDS = READERS | SOURCES | frozenset({
    "Dataset", "batch", "enumerate", "filter", "flat_map", "interleave", "map", "padded_batch", "prefetch",
    "ragged_batch", "repeat", "shard", "shuffle", "skip", "take", "unbatch", "zip",
})  # fmt: skip
"""Attributes that a function may use if it is called once for all rows: they only make datasets."""

STEPS = frozenset({
    "BINARY_SUBSCR", "BUILD_CONST_KEY_MAP", "BUILD_LIST", "BUILD_MAP", "BUILD_STRING", "BUILD_TUPLE", "CACHE", "CALL",
    "CALL_FUNCTION_EX", "CALL_KW", "CONVERT_VALUE", "COPY", "COPY_FREE_VARS", "FORMAT_SIMPLE", "FORMAT_VALUE",
    "FORMAT_WITH_SPEC", "KW_NAMES", "LIST_EXTEND", "LOAD_ATTR", "LOAD_CLOSURE", "LOAD_CONST", "LOAD_DEREF", "LOAD_FAST",
    "LOAD_FAST_BORROW", "LOAD_FAST_BORROW_LOAD_FAST_BORROW", "LOAD_FAST_LOAD_FAST", "LOAD_GLOBAL", "LOAD_METHOD",
    "LOAD_SMALL_INT", "MAKE_CELL", "MAKE_FUNCTION", "NOP", "POP_TOP", "PRECALL", "PUSH_NULL", "RESUME", "RETURN_VALUE",
    "SET_FUNCTION_ATTRIBUTE", "STORE_FAST", "SWAP",
})  # fmt: skip
"""The instructions of such a function: no branches, no stores except to its own variables, no imports."""

OPERATORS = frozenset({"[]", "+"})
"""The allowed `BINARY_OP`s: a subscript, as in Python 3.14, and concatenated file names."""

LOOP_STEPS = frozenset({
    "END_FOR", "FOR_ITER", "GET_ITER", "JUMP_BACKWARD", "LIST_APPEND", "LOAD_FAST_AND_CLEAR", "MAP_ADD", "POP_ITER",
    "RERAISE", "RETURN_GENERATOR", "STORE_FAST_LOAD_FAST", "STORE_FAST_STORE_FAST", "UNPACK_SEQUENCE", "YIELD_VALUE",
})  # fmt: skip
"""What comprehensions consist of besides."""

COMPREHENSIONS = frozenset({"<dictcomp>", "<genexpr>", "<listcomp>"})
WALKS = frozenset({"items", "keys", "values"})
COLLECTIONS = {"dict": dict, "list": list, "tuple": tuple}


def only_builds(fn: object, *, loops: bool = False) -> bool:
    """Whether all that a function does is to make datasets of its arguments and of constants, so that calls show not.

    Args:
        fn: the function.
        loops: whether comprehensions are allowed, because arguments are structures of datasets.

    >>> only_builds(lambda w: w.batch(5)), only_builds(lambda w: print(w))
    (True, False)
    """
    if isinstance(fn, partial):
        return only_builds(fn.func, loops=loops) and all(_constant(v) for v in (*fn.args, *fn.keywords.values()))
    if _makes(fn):
        return True
    if not isinstance(fn, FunctionType) or fn.__code__.co_flags & _RUNS_LATER:
        return False
    steps = _steps(fn.__code__, loops=loops)
    allowed = STEPS | LOOP_STEPS if loops else STEPS
    if any(s.opname not in allowed and not (s.opname == "BINARY_OP" and s.argrepr in OPERATORS) for s in steps):
        return False
    used = {str(s.argval) for s in steps if s.opname in ("LOAD_ATTR", "LOAD_METHOD")}
    named = {str(s.argval) for s in steps if s.opname == "LOAD_GLOBAL"}
    called = {str(s.argval) for s in steps if s.opname == "LOAD_GLOBAL" and (s.arg or 0) & 1}
    passes = all(s.opname != "PUSH_NULL" for s in steps)  # what is not named is not called, only handed to operations
    if not passes and any(s.opname == "MAKE_FUNCTION" for s in steps):
        return False
    if loops:
        used -= WALKS
        collections = {name for name in named if name in COLLECTIONS and name not in fn.__globals__}
        named, called = named - collections, called - collections
    try:
        held = [cell.cell_contents for cell in fn.__closure__ or ()]
        values = {name: fn.__globals__[name] for name in named}
    except (KeyError, ValueError):  # a builtin, or not assigned yet
        return False
    held += [*(fn.__defaults__ or ()), *(fn.__kwdefaults__ or {}).values()]
    held += [value for name, value in values.items() if name not in called]
    fine = all(_constant(values[name]) for name in called)
    return used <= BUILDS and fine and all(_constant(v) or (passes and isinstance(v, FunctionType)) for v in held)


def _steps(code: CodeType, *, loops: bool) -> list[dis.Instruction]:
    """Return the steps of a function; with `loops`, also those of its comprehensions."""
    steps = list(dis.get_instructions(code))
    parts = [c for c in code.co_consts if loops and isinstance(c, CodeType) and c.co_name in COMPREHENSIONS]
    return steps + [step for part in parts for step in _steps(part, loops=loops)]


_RUNS_LATER = 0x20 | 0x80 | 0x200
"""Code of a generator or a coroutine."""


def _constant(value: object) -> bool:
    if isinstance(value, tuple):
        return type(value) is tuple and all(_constant(v) for v in value)
    ours = sys.modules["headrace"]
    if _makes(value):
        return True
    return value is None or type(value) in (bool, int, float, str, bytes) or value is ours or value is ours.Dataset


def _makes(value: object) -> bool:
    """Return whether it is a function of ours that makes a dataset."""
    ours = sys.modules["headrace"]
    homes = [(ours, READERS), (ours.Dataset, SOURCES)]
    return any(value is getattr(home, name) for home, names in homes for name in names)


def _plain(structure: Structure) -> bool:
    """Return whether elements are made of tuples and dicts: a user's own class may do anything when it is made."""
    return structure.kind in (None, tuple, dict) and all(_plain(child) for child in structure.children)


@dataclass(frozen=True, eq=False)
class Unread(Node):
    """A stand-in for a component of a window while a function is called once. It has no rows."""

    component: int
    rows: int
    elements: Spec = Spec.UNKNOWN

    @property
    def spec(self) -> Spec:
        return self.elements

    @property
    def cardinality(self) -> Cardinality:
        return Cardinality(self.rows)


def ask_once(fn: Callable[..., object], structure: Structure | None, components: list[Component]) -> Node | None:
    """Call a function once on stand-ins. Return what it builds on them; None if it must see each row."""
    loops = all(isinstance(c, Unread) for c in components)
    if structure is None or not only_builds(fn, loops=loops) or not _plain(structure):
        return None
    columns: list[Component] = [[dataset_of(c) if isinstance(c, Unread) else c] for c in components]
    try:
        with keyed_seeds(ROOT):
            made = fn(*next(rows_as_arguments(Block(structure, columns, 1))))
    except Exception:  # it is raised again for each row
        return None
    return made._node if is_dataset(made) else None


class BuildingFunction:
    """The datasets that a function builds on its arguments: their specs, and whether reading is observable."""

    def __init__(self, fn: UserFunction) -> None:
        self._fn = fn
        self._made: dict[Spec, tuple[Node | None, list[Component]]] = {}

    def spec(self, rows: Spec) -> Spec:
        """Return the spec of the datasets it builds on rows of this spec."""
        made = self._asked(rows)
        sized = all(isinstance(s, DatasetSpec) or (s.shape is not None and None not in s.shape) for s in rows.leaves)
        return Spec.UNKNOWN if made is None or not sized else made.spec

    def pure(self, rows: Spec) -> bool:
        """Return whether it is unobservable when the function is called and when the rows of its datasets are made."""
        made = self._asked(rows)
        return made is not None and made.pure and not any(isinstance(leaf, DatasetSpec) for leaf in rows.leaves)

    def slices(self, rows: Spec) -> RowSlices | None:
        """Return the slices, if slicing is all it does to rows of this spec."""
        made = self._asked(rows)
        return (
            None if made is None or rows.structure is None else RowSlices.of(made, rows.structure, self._made[rows][1])
        )

    def _asked(self, rows: Spec) -> Node | None:
        """Return what it builds on rows that stand for all of this spec; each spec is tried once."""
        if rows not in self._made:
            stands = [_stand_in(i, leaf) for i, leaf in enumerate(rows.leaves)]
            vague = any(stand is None for stand in stands)
            self._made[rows] = (None if vague else ask_once(self._fn, rows.structure, stands), stands)
        return self._made[rows][0]


class BuildingNode(Node):
    """An operation whose function builds a dataset from each row."""

    input: Node
    fn: UserFunction
    probe: Probe

    @property
    def spec(self) -> Spec:
        return self.probe.spec or self._spec_it_builds

    @cached_property
    def tentative(self) -> bool:
        return not self.probe.promised and (self.input.tentative or not self._spec_it_builds.complete)

    @property
    def _spec_it_builds(self) -> Spec:
        return self.building.spec(self.input.spec)

    @cached_property
    def building(self) -> BuildingFunction:
        """What is known of these datasets before there are rows."""
        return BuildingFunction(self.fn)


def _stand_in(number: int, leaf: LeafSpec) -> Component:
    """Return a component of this spec with the smallest value and size; None if the spec is too vague."""
    if isinstance(leaf, DatasetSpec):
        return Unread(number, UNKNOWN, leaf.elements) if leaf.shape == () else None
    if leaf.dtype is None or leaf.shape is None:
        return None
    if leaf.dtype.kind in "US":
        name = "headrace-unread"
        return None if leaf.shape else name if leaf.dtype.kind == "U" else name.encode()
    return None if leaf.dtype.kind == "O" else np.zeros([1 if n is None else n for n in leaf.shape], leaf.dtype)[()]


@dataclass(frozen=True)
class Template:
    """The result for a window of `size` elements of this structure: `rows` rows of `plan`, which reads Unread nodes."""

    structure: Structure
    size: int
    plan: Node
    rows: int

    most = None

    @classmethod
    def of(cls, fn: Callable[..., object], structure: Structure, size: int) -> Template | None:
        """Return the template of a function on windows, None if each window must be handled by itself."""
        made = ask_once(fn, structure, [Unread(i, size) for i in range(structure.leaves)])
        laid = None if made is None else end_to_end(made)
        return None if laid is None else cls(structure, size, *laid)

    def fill(self, ctx: Context, windows: Block) -> Block | None:
        """Return the rows of many windows in order; None if they must be handled one by one."""
        dense = [c for c in windows.columns if isinstance(c, np.ndarray)]
        if len(dense) < len(windows.columns) or windows.structure != self.structure:
            return None
        count = windows.rows * self.size
        sources = [Memory(Spec.UNKNOWN, count, LEAF, [c.reshape(count, *c.shape[2:])], "window") for c in dense]
        plan = rebuild(self.plan, lambda node: sources[node.component] if isinstance(node, Unread) else node)
        rows = ctx._replace(prepared=Prepared.of(plan)).open(plan, slot=1)
        try:
            made = rows.pull(windows.rows * self.rows)
        finally:
            rows.close()
        return made if isinstance(made, Block) and made.rows == windows.rows * self.rows else None


class WorksEndToEnd(Protocol):
    """A node that can be applied to many runs of rows at a time."""

    def end_to_end(self, runs: tuple[int, ...]) -> tuple[Node, int] | None:
        """Return a node that does to concatenated runs what this one does to each run, and its rows per run.

        `runs` are the lengths of a run in each input. Return None if there is no such node.
        """


def end_to_end(node: Node) -> tuple[Node, int] | None:
    """Return a plan for many concatenated windows, and how many rows it makes of each."""
    if isinstance(node, Unread):
        return node, node.rows
    inputs = [end_to_end(child) for child in node.inputs]
    known = [laid for laid in inputs if laid is not None]
    if not inputs or len(known) < len(inputs):
        return None
    made = node.end_to_end(tuple(rows for _, rows in known)) if provides(node, WorksEndToEnd) else None
    return None if made is None else (made[0].with_inputs(tuple(child for child, _ in known)), made[1])
