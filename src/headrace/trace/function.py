"""A user's function and its traces: how it runs on a block, and why not otherwise."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Hashable, Iterable
from typing import Any
from weakref import WeakSet

import numpy as np

from headrace.columns import Column, in_own_kinds
from headrace.columns.block import Block, element, leaf
from headrace.core.types import AnyFunction, Array, Reduced
from headrace.plan.bound import by_reference, resolved
from headrace.plan.display import ROW_BY_ROW
from headrace.plan.node import function_name
from headrace.plan.spec import Spec
from headrace.trace.errors import OPAQUE, TEXT, Mismatch, MixedText, Resized, VectorisedError
from headrace.trace.fork import Taken
from headrace.trace.graph import Graph, column_spec
from headrace.trace.known import KNOWN
from headrace.trace.mixed_text import text_kind
from headrace.trace.result_shapes import spec_for_any_sizes
from headrace.trace.tracing import trace

MODES = ("auto", "vectorized", "eager")
MIN_GRAPH_ROWS = 3
"""Blocks of fewer rows are not worth the steps of a graph, unless our own operations are among them.

These cost the same for one row as for many. If they were called on rows, they would seem slow, and few rows would come
at a time.
"""


MAX_TRACED_LENGTHS = 16
"""For how many row lengths, if only the rows determine them, a function is traced."""


_functions: WeakSet[Function] = WeakSet()


def _after_fork() -> None:
    for function in list(_functions):
        function.after_fork()


os.register_at_fork(after_in_child=_after_fork)


class Function:
    """`fn` as an operation calls it, traced once for each kind of rows, and again when a captured name changes.

    One that `draws` has a generator as its last argument. `then` are functions that come after it, each called on what
    the one before it gave: `fn` and they are one graph, or none.
    """

    def __init__(
        self,
        fn: AnyFunction,
        mode: str = "auto",
        *,
        draws: bool = False,
        then: tuple[AnyFunction, ...] = (),
    ) -> None:
        if mode not in MODES:
            raise ValueError(f"mode must be one of {', '.join(map(repr, MODES))}, not {mode!r}")
        self.fn = fn
        self.mode = mode
        self.draws = draws
        self.then = then
        self._graphs: dict[Spec, Graph | str] = {}
        self._specs: dict[Any, Spec] = {}
        self._results: dict[Spec, Spec] = {}
        self._fitting: dict[Any, Graph | str] = {}
        self._latest: dict[Spec, Graph] = {}
        self._few = False
        self.text_checked: bool = False
        self.after_fork()
        _functions.add(self)

    def after_fork(self) -> None:
        """Replace the locks in a forked child: the threads that held them do not exist there."""
        self._lock = threading.Lock()
        self._comparing = threading.Lock()

    def __reduce__(self) -> Reduced:
        return _restore, (self.mode, self.draws, *map(by_reference, (self.fn, *self.then)))

    def graph(self, spec: Spec) -> Graph | str:
        """Return the graph for elements of this spec, or why the function runs row by row."""
        if self.mode == "eager":
            return f"{ROW_BY_ROW}as asked for"
        found = self._graphs.get(spec)
        if found is None or (isinstance(found, Graph) and not found.current()):
            with self._lock:
                exact = self.mode == "auto"
                self._graphs[spec] = found = self._traced(spec, exact=exact)
        return found

    def _traced(self, spec: Spec, *, exact: bool) -> Graph | str:
        if self.then:
            return trace(self.fn, spec, exact=exact, draws=self.draws, then=self.then)
        found = KNOWN.get(self.fn, spec, exact=exact, draws=self.draws)
        if found is None:
            found = trace(self.fn, spec, exact=exact, draws=self.draws)
            KNOWN.keep(self.fn, spec, found, exact=exact, draws=self.draws)
        return found

    def spec_of_results(self, spec: Spec) -> Spec:
        """Return the spec of the results for elements of this spec, as far as the function determines it."""
        found = self.graph(spec)
        if isinstance(found, Graph):
            return found.spec
        if self.mode == "eager" or self.then or self.draws or not (OPAQUE in found or TEXT in found):
            return Spec.UNKNOWN
        if spec not in self._results:
            made = trace(self.fn, spec, exact=True, any_text=True) if TEXT in found else None
            known = made.spec if isinstance(made, Graph) else spec_for_any_sizes(self.fn, spec)
            self._results[spec] = known or Spec.UNKNOWN
        return self._results[spec]

    def check(self, spec: Spec) -> None:
        """Raise if the user wants a graph and there is none. Elements of unknown shape must come first."""
        found = self.graph(spec) if self.mode == "vectorized" and spec.known else ""
        if found and isinstance(found, str) and all(s.shape is not None and None not in s.shape for s in spec.leaves):
            raise VectorisedError(f"{function_name(self.fn)} cannot be vectorised: {found.removeprefix(ROW_BY_ROW)}")

    def check_text(self, spec: Spec) -> None:
        """Raise if it would be traced for elements of this spec, but compares bytes with str."""
        if self.mode != "eager" and any(map(text_kind, spec.leaves)):
            found = self.graph(spec)
            if isinstance(found, MixedText):
                raise TypeError(str(found))

    def check_first_rows(self, spec: Spec) -> None:
        """Do so for the spec of the first rows, which may tell more than the plan."""
        if not self.text_checked:
            self.check_text(spec)
            self.text_checked = True

    def remark(self, spec: Spec) -> str:
        """For `explain`: how it runs on elements of this spec, and why."""
        found = self.graph(spec)
        if isinstance(found, Graph):
            return found.summary
        seen = [graph for known, graph in list(self._graphs.items()) if known != spec]
        traced = next((graph for graph in seen if isinstance(graph, Graph)), None)
        if traced is not None:
            return f"{traced.summary}, by the shapes that came"
        if self.mode == "eager" or not _rows_will_tell(spec, found):
            return found
        if seen:
            return str(seen[-1])
        return f"{ROW_BY_ROW}its elements came one or two at a time" if self._few else "decided at the first rows"

    def give_up(self, spec: Spec, reason: str) -> None:
        """Run row by row from here on."""
        self._graphs[spec] = f"{ROW_BY_ROW}{reason}"

    def spec_of(self, block: Block) -> Spec:
        """Return the spec of the rows of a block: the key under which graphs are kept."""
        late = block.late_spec
        key = (block.structure, *[_kind(c) for c in block.columns]) if late is None else (block.structure, late)
        spec = self._specs.get(key)
        if spec is None:
            leaves = tuple(column_spec(c) for c in block.columns) if late is None else (late,)
            spec = self._specs[key] = Spec(block.structure, leaves)
        return spec

    def settled_graph(self, spec: Spec) -> Graph | None:
        """Return the graph for such rows if it was verified against calls and its captured values are unchanged."""
        found = self._graphs.get(spec)
        return found if isinstance(found, Graph) and not any(found.unverified) and found.current() else None

    def columns(
        self, block: Block, rows: Callable[[Block], Iterable[tuple[bool, object]]], *more: Column
    ) -> tuple[Graph, list[Column]] | None:
        """Apply the function to a whole block; None if it must be called row by row.

        `rows` calls the function on each row: the first rows of each kind are computed both ways and compared. `more`
        is the column of the rows' generators, for a function that draws.
        """
        if self.mode == "eager":
            return None
        spec = self.spec_of(block)
        self.check_first_rows(spec)
        if block.rows < MIN_GRAPH_ROWS and self.mode == "auto":
            texts = all(s.dtype is not None and s.dtype.kind in "SU" for s in spec.leaves)
            known = self.graph(spec) if texts else self._graphs.get(spec)  # of few, only our operations gain
            if not isinstance(known, Graph) or not known.operations:
                self._few = True
                return None
        graph = self.graph(spec)
        if isinstance(graph, str):
            self.check(spec)
            return None
        taken: Taken = []
        try:
            graph, made = self._run(graph, spec, block, more, taken)
        except Mismatch:
            self.give_up(spec, "gave rows of other shapes than the first")
            return None
        except Exception:  # calling row by row finds the row that failed, if any
            return None
        if any(graph.unverified) and not self._same_as_calls(graph, spec, block, made, taken, rows):
            return None
        return graph, made

    def _same_as_calls(
        self,
        graph: Graph,
        spec: Spec,
        block: Block,
        made: list[Column],
        taken: Taken,
        rows: Callable[[Block], Iterable[tuple[bool, object]]],
    ) -> bool:
        """Compare the first rows that took each path; of several threads that are given such rows one does."""
        with self._comparing:
            if isinstance(self._graphs.get(spec), str):  # another thread found meanwhile that they differ
                return False
            verified = graph.rows_to_verify(taken, block.rows)
            if not verified:
                return True
            some = np.sort(np.concatenate([rows for _, rows in verified]))
            head = _rows_of(Block(graph.structure, made, block.rows), some)
            if self.mode == "auto" and not _same(head, rows(block.take(some))):
                self.give_up(spec, "gave other values when run on a block")
                return False
            graph.note_verified(verified)
            return True

    def _run(
        self, graph: Graph, spec: Spec, block: Block, more: tuple[Column, ...], taken: Taken
    ) -> tuple[Graph, list[Column]]:
        """Return the result of the graph, or of one for rows of the length that these have, and which it was."""
        latest = self._last_fitted(spec) if graph.sizes else None
        graph = latest if latest is not None and latest.current() else graph
        for _ in graph.sizes:
            try:
                return graph, graph.run([*_arguments(block, graph), *more], block.rows, taken)
            except Resized as other:
                graph = self._latest[spec] = self._resized(spec, {**graph.sizes, other.number: other.size})
        return graph, graph.run([*_arguments(block, graph), *more], block.rows, taken)

    def _last_fitted(self, spec: Spec) -> Graph | None:
        """Return the graph for rows of the length that came last, to this function or to one that does the same."""
        found = self._latest.get(spec)
        if found is None and not self.then:
            known = KNOWN.get(self.fn, spec, exact=self.mode == "auto", draws=self.draws, fitted=True)
            if isinstance(known, Graph):
                self._latest[spec] = self._fitting[spec, *known.sizes.values()] = found = known
        return found

    def _resized(self, spec: Spec, sizes: dict[int, int]) -> Graph:
        key, exact = (spec, *sizes.values()), self.mode == "auto"
        with self._lock:
            found = self._fitting.get(key)
            if found is None or (isinstance(found, Graph) and not found.current()):
                if len(self._fitting) >= MAX_TRACED_LENGTHS:
                    raise ValueError("rows of too many lengths to trace the function for each")
                found = trace(self.fn, spec, exact=exact, draws=self.draws, sizes=sizes, then=self.then)
                self._fitting[key] = found
                if isinstance(found, Graph) and not self.then:
                    KNOWN.keep(self.fn, spec, found, exact=exact, draws=self.draws, fitted=True)
        if isinstance(found, str):
            raise ValueError(found)
        return found


def _restore(mode: str, draws: bool, *functions: object) -> Function:
    fn, *then = map(resolved, functions)
    return Function(fn, mode, draws=draws, then=tuple(then))


def _arguments(block: Block, graph: Graph) -> list[Column]:
    """Return the columns that a graph runs on; those of other packages' kinds are converted, references are not."""
    columns = block.arguments(graph.in_place)
    return [each if i in graph.in_place else in_own_kinds(each) for i, each in enumerate(columns)]


def _rows_of(block: Block, some: Array) -> Block:
    """Return rows to be looked at, by their numbers; those that follow one another are not copied."""
    start, stop = int(some[0]), int(some[-1]) + 1
    return block.slice(start, stop) if stop - start == len(some) else block.take(some)


def _rows_will_tell(spec: Spec, reason: str) -> bool:
    """Return whether a function that cannot be traced for this spec may be traced for the exact spec of the rows."""
    if spec.structure is None:
        return True
    numbers = [s for s in spec.leaves if s.dtype is None or s.dtype.kind not in "USO"]
    vague = any(s.dtype is None or s.shape is None or None in s.shape for s in numbers)
    return vague and OPAQUE in reason


def _kind(column: Column) -> Hashable:
    return (column.dtype, column.shape[1:]) if isinstance(column, np.ndarray) else column_spec(column)


def _same(head: Block, called: Iterable[tuple[bool, object]]) -> bool:
    """Return whether rows of a block are, to the bit, what calling the function gives."""
    for ours, (fine, value) in zip(head.leaves(), called, strict=True):
        if not fine:
            return False
        structure, leaves = element(value)
        if structure != head.structure:
            return False
        if not all(_same_leaf(leaf(a), b) for a, b in zip(ours, leaves, strict=True)):
            return False
    return True


def _same_leaf(a: object, b: object) -> bool:
    if not isinstance(b, np.ndarray | np.generic):
        return type(a) is type(b) and bool(a == b)
    if type(a) is not type(b) or a.dtype != b.dtype or a.shape != b.shape:
        return False
    if b.dtype.hasobject:
        return bool(np.array_equal(a, b))
    if b.dtype.char in "gG":
        return bool(np.array_equal(a, b, equal_nan=True))
    return np.array_equal(_bits(a), _bits(b))


def _bits(value: object) -> Array:
    return np.ascontiguousarray(value).reshape(-1).view(np.uint8)
