"""A traced function: its graph for rows of one kind, run on whole blocks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import Any

import numpy as np

from headrace.arrow_text import FRESH, Bytes, take_over
from headrace.block import leaf
from headrace.columns import Column, Varied, copy_in_order, kind_of
from headrace.plan.spec import DatasetSpec, LeafSpec, Spec, TensorSpec, leaf_spec
from headrace.plan.structure import Structure, flatten
from headrace.trace.capture import Capture, Guard
from headrace.trace.decisions import MOST_PATHS
from headrace.trace.draws import TracedGenerator
from headrace.trace.errors import Mismatch, Untraceable, describe_error, is_raised_by_user
from headrace.trace.fork import Piece, Segment, Taken, join_pieces
from headrace.trace.paths import Path, all_steps, grow_tree, slots_done_again
from headrace.trace.recorder import Recorder
from headrace.trace.rules import chooser
from headrace.trace.rules.elementwise import EXACT
from headrace.trace.sizes import Sizes, fit_sizes, is_settled
from headrace.trace.symbols import Symbol
from headrace.trace.values import KINDS, Fresh, Kernel, Step, Value, Values, do_steps, dummy, leaves, map_arguments

TO_VERIFY = 8
"""So many rows of each path are made both ways and compared."""


@dataclass(eq=False)
class Graph:
    """What a function does, as steps on columns."""

    structure: Structure
    spec: Spec
    outputs: tuple[Any, ...]
    """For each component of the result a slot, or a constant in a tuple."""
    steps: list[Step]
    template: Values
    captured: list[tuple[Value, np.ndarray[Any, Any]]]
    guards: list[Guard]
    sizes: dict[int, int]
    """The lengths that are supposed of rows, by the number of the operation that makes them."""
    unverified: list[int] = field(default_factory=lambda: [TO_VERIFY])
    """For each path through the function, how many of its rows are yet to be compared with what calls give."""

    def current(self) -> bool:
        """Whether what the function holds on to is still what it was."""
        return all(guard() for guard in self.guards)

    @property
    def summary(self) -> str:
        """For `explain`."""
        named = [s for s in (self.steps if self.tree is None else all_steps(self.tree)) if s.name]
        alone = [s.name for s in named if s.rowwise]
        text = f"vectorised: {len(named)} operation{'s' * (len(named) != 1)}"
        text += f", {len(self.unverified)} paths" if self.tree is not None else ""
        text += f", {', '.join(sorted(set(alone)))} row by row" if alone else ""
        return text + (", of rows of one length" if self.sizes else "")

    def run(self, columns: Sequence[Column], n: int, taken: Taken | None = None) -> list[Column]:
        """The columns of the result for a block of `n` rows; `taken` gets the paths that they took."""
        values = self.template.copy()
        for i, column in enumerate(columns):
            values[i] = np.ascontiguousarray(column) if isinstance(column, np.ndarray) else column
        for value, array in self.captured:
            values[value.slot] = array
        if not self.operations or not self.numbers:
            do_steps(self.steps, values, n)
            made = self._given(values, n, {})
        else:
            with FRESH.note() as fresh:
                do_steps(self.steps, values, n)
                made = self._given(values, n, fresh)
        if taken is not None:
            taken += [(0, None)] if self.tree is None else values[self.steps[0].slot]
        return made

    def rows_to_verify(self, taken: Taken, n: int) -> Taken:
        """Of the rows of a block that took these paths, those to compare with what calls give."""
        wanted = [(path, rows, self.unverified[path]) for path, rows in taken]
        return [(path, np.arange(min(n, k)) if rows is None else rows[:k]) for path, rows, k in wanted if k]

    def note_verified(self, verified: Taken) -> None:
        """These rows are what calls give. Threads may compare rows at the same time: one too many does no harm."""
        for path, rows in verified:
            self.unverified[path] = max(0, self.unverified[path] - (0 if rows is None else len(rows)))

    def _given(self, values: Values, n: int, fresh: dict[int, Bytes]) -> list[Column]:
        """The columns, each in memory of its own, as results of the function would be."""
        if self.apart:
            found = [values[output] for output in self.outputs]
            if all(type(c) is np.ndarray and c.flags.writeable and len(c) == n for c in found):
                return found
        made: list[Column] = []
        owners = {id(_owner(array)) for _, array in self.captured}
        for output, spec in zip(self.outputs, self.spec.leaves, strict=True):
            column = self._column(output, values, n)
            if isinstance(column, np.ndarray) and spec.dtype is not None and spec.dtype.kind not in "USO":
                column = column if column.flags.c_contiguous else copy_in_order(column)
                owner = _owner(column)
                if not column.flags.writeable or not isinstance(owner, np.ndarray) or id(owner) in owners:
                    column = owner = _own_copy(column, fresh)
                owners.add(id(owner))
            if len(column) != n:
                raise Mismatch
            made.append(column)
        return made

    def _column(self, output: Any, values: Values, n: int) -> Column:
        """A component of the result; one that the rows have no part in is the same in all."""
        if isinstance(output, tuple):
            return _repeat_value(output[0], n)
        value: Column = values[output]
        return _repeat_value(value, n) if output in self.unbatched else value

    inputs: int = 0
    """How many components the function's argument has; they have the first slots."""
    reads: frozenset[int] = frozenset()
    """Those of them that the function looks at, or passes on."""
    infallible: bool = False
    """Whether no values can make it raise."""
    unbatched: frozenset[int] = frozenset()
    operations: bool = False
    """Whether operations of ours are among the steps."""
    numbers: bool = False
    """Whether all that is given are numbers."""
    apart: bool = False
    """Whether the outputs are all that operations of ours, or one of them, gave, once each, in memory of their own."""
    tree: Segment | None = None
    """Of a function that branches on data, its paths: all there is to do is one step."""


def _owner(array: np.ndarray[Any, Any]) -> Any:
    """What an array has its memory from: an array, unless the memory belongs to another library."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array if array.base is None else array.base


def _own_copy(column: np.ndarray[Any, Any], fresh: dict[int, Bytes]) -> np.ndarray[Any, Any]:
    """The column in memory of its own: that of text it was read out of in place, where no text is given."""
    taken = None if column.flags.writeable else take_over(fresh, column)
    return np.array(column, order="C") if taken is None else taken


def _repeat_value(value: Any, n: int) -> Column:
    """A column of the same value."""
    if isinstance(value, np.ndarray | np.generic):
        return np.broadcast_to(value, (n, *value.shape))
    return [value] * n


def trace(
    fn: Callable[..., Any],
    spec: Spec,
    *,
    exact: bool,
    draws: bool = False,
    sizes: dict[int, int] | None = None,
    then: Sequence[Callable[..., Any]] = (),
) -> Graph | str:
    """The graph of `fn` for elements of this spec, and a generator if it `draws`; or why there is none.

    `then` are functions of which each gets, as an element, what the one before it gave. `sizes` are those of rows whose
    length the spec does not tell; without them some that suit the function are found.
    """
    if spec.structure is None:
        return "eager: its elements are not known before they are there"
    if any(isinstance(s, DatasetSpec) for s in spec.leaves):
        return "eager: its elements hold datasets"
    reason = ""
    for fill in (None, 0):
        attempt = partial(_trace, fn, spec, exact, draws, fill, then)
        made, found = fit_sizes(attempt, {}) if sizes is None else (attempt(Sizes(sizes)), None)
        if isinstance(made, Graph):
            if found is not None and found.used and not is_settled(attempt, found, lambda m: isinstance(m, Graph)):
                made.spec = made.spec.without_sizes()
            return made
        reason = reason or made
        if "raises IndexError" not in made:
            break
    return f"eager: {reason}"


def _trace(
    fn: Callable[..., Any],
    spec: Spec,
    exact: bool,
    draws: bool,
    fill: int | None,
    then: Sequence[Callable[..., Any]],
    sizes: Sizes,
) -> Graph | str:
    paths: list[Path] = []
    graphs: list[Graph] = []
    answers: list[bool] | None = []
    try:
        while answers is not None:
            if len(paths) == MOST_PATHS:
                return f"branches on data in more than {MOST_PATHS} ways at {paths[0].decisions[0].line}"
            recorder = Recorder(chooser(exact), Symbol, sizes, answers)
            path = Path(recorder, Capture(recorder))
            paths.append(path)
            made = _trace_path(path, fn, spec, draws, fill, then)
            if recorder.failed is not None:
                return recorder.failed
            graphs += [] if made is None else [made]
            answers = recorder.decisions.next_path()
        if len(paths) > 1:
            return _join_paths(paths, graphs)
        kept = {o for o in graphs[0].outputs if isinstance(o, int)}
        reuse_memory(paths[0].steps, kept, frozenset(chain(*paths[0].recorder.own)))
        return graphs[0]
    except Untraceable as signal:
        return signal.reason
    finally:
        for path in paths:
            path.recorder.release()


def _trace_path(
    path: Path,
    fn: Callable[..., Any],
    spec: Spec,
    draws: bool,
    fill: int | None,
    then: Sequence[Callable[..., Any]],
) -> Graph | None:
    """The graph of one path. None, and the recorder says why it failed, unless it is that the path raises."""
    assert spec.structure is not None
    recorder, capture, sizes = path.recorder, path.capture, path.recorder.sizes
    try:
        for kind in _classes(spec.structure):
            capture.check_class(kind)
        symbols = [recorder.input(dummy(s, fill=fill), s) for s in spec.leaves if isinstance(s, TensorSpec)]
        element = spec.structure.pack(symbols)
        args = list(element) if spec.structure.unpacks else [element]
        args += [TracedGenerator(recorder)] if draws else []
        del symbols, element
        try:
            result = _call_alone(capture.callable(fn), args)
            for other in then:
                result = _call_alone(capture.callable(other), _hand_on_all(recorder, capture, result))
        except Exception as error:
            if not recorder.decisions.made or not is_raised_by_user(error):
                raise
            capture.check_lists()
            return None
        recorder.returned = True
        if sizes.read and capture.decides:
            recorder.failed = recorder.failed or f"may decide by a length that only the rows tell at {sizes.read}"
        if sizes.used and recorder.decisions.made:
            recorder.failed = recorder.failed or "branches on data, and makes rows of a length that only they tell"
        if recorder.failed is None:
            graph, path.outputs = _finish_graph(recorder, capture, result)
            return graph
    except Untraceable as signal:
        recorder.failed = recorder.failed or signal.reason
    except RecursionError:
        recorder.failed = "calls itself too often"
    except Exception as error:
        recorder.failed = recorder.failed or f"raises {describe_error(error)} for such elements"
    return None


def _join_paths(paths: list[Path], graphs: list[Graph]) -> Graph:
    """One graph of all paths: a step that has each row take its own."""
    where = f"branches on data at {paths[0].decisions[0].line}"
    if not graphs:
        raise Untraceable(f"{where}, and raises on all paths")
    first = graphs[0]
    inputs = first.inputs
    ends = [path.outputs for path in paths if path.outputs is not None]
    for other, end in zip(graphs, ends, strict=True):
        if other.structure != first.structure or _kinds_of_rows(end) != _kinds_of_rows(ends[0]):
            raise Untraceable(f"{where}, and gives {first.spec} on one path, {other.spec} on another")
    spec = first.spec if all(other.spec == first.spec for other in graphs) else first.spec.without_sizes()
    passed = [_passed_on([end[i] for end in ends], inputs) for i in range(len(first.outputs))]
    made = [i for i, slot in enumerate(passed) if slot is None]
    if any(_kinds_of_rows(ends[0])[i] is None for i in made):
        raise Untraceable(f"{where}, and gives what is no dense array of known shape")
    for path in paths:
        path.outputs = path.outputs and [path.outputs[i] for i in made]
    tree = grow_tree(paths)
    again = slots_done_again(tree)
    for path in paths:
        own = frozenset(chain(*path.recorder.own))
        reuse_memory(path.steps, path.kept_for(paths) | again, own)
    captured = [array for path in paths for _, array in path.recorder.captured]
    start = inputs + len(captured)
    stop = start + len(made)

    def kernel(values: Values, n: int) -> Taken:
        pieces: list[Piece] = []
        tree.run(values[:inputs], n, None, pieces)
        values[start:stop] = join_pieces(pieces, n)
        return [(piece.path, piece.rows) for piece in pieces]

    outputs = [start + made.index(i) if slot is None else slot for i, slot in enumerate(passed)]
    raises = len(graphs) < len(paths)
    return Graph(
        first.structure,
        spec,
        tuple(outputs),
        [Step("branch", stop, kernel)],
        [None] * (stop + 1),
        [(Value(inputs + i, array, batched=False), array) for i, array in enumerate(captured)],
        [guard for path in paths for guard in [*path.capture.guards, *path.recorder.layout_guards()]],
        {},
        [TO_VERIFY if path.outputs is not None else 0 for path in paths],
        inputs=inputs,
        reads=frozenset(slot for slot in passed if slot is not None).union(*map(_slots_read, paths)),
        infallible=not raises and all(graph.infallible for graph in graphs),
        operations=any(graph.operations for graph in graphs),
        numbers=first.numbers,
        tree=tree,
    )


def _slots_read(path: Path) -> set[int]:
    return {value.slot for value in path.needs_after(0) if value.slot < path.recorder.inputs}


def _kinds_of_rows(outputs: Sequence[Any]) -> list[Any]:
    """Of each component the dtype and shape; None where it is no dense array."""
    samples = [o.sample if isinstance(o, Value) else o for o in outputs]
    dense = [isinstance(s, np.ndarray | np.generic) and s.dtype.kind in KINDS for s in samples]
    return [(s.dtype, s.shape) if fine else None for s, fine in zip(samples, dense, strict=True)]


def _passed_on(outputs: list[Any], inputs: int) -> int | None:
    """The slot of the argument's component that a component of the result is on all paths; None where it is another."""
    slots = {o.slot if isinstance(o, Value) and o.slot < inputs else None for o in outputs}
    return slots.pop() if len(slots) == 1 else None


def _call_alone(fn: Callable[..., Any], args: list[Any]) -> Any:
    """The function's result, the function alone holding its arguments: so it shows which it has let go."""
    args.reverse()
    match len(args):
        case 1:
            return fn(args.pop())
        case 2:
            return fn(args.pop(), args.pop())
        case 3:
            return fn(args.pop(), args.pop(), args.pop())
    return fn(*reversed(args))


def _hand_on_all(recorder: Recorder, capture: Capture, result: Any) -> list[Any]:
    """What one function gave, as the arguments that the next one gets: an element, in memory of its own."""
    if result is None:
        raise recorder.refuse("returns None")
    structure, found = flatten(tuple(result) if type(result) is list else result)
    for kind in _classes(structure):
        capture.check_class(kind)
    element = structure.pack([_hand_on(recorder, item) for item in found])
    return list(element) if structure.unpacks else [element]


def _hand_on(recorder: Recorder, item: Any) -> Any:
    output, _ = _output(recorder, item)
    if not isinstance(output, Value):
        return recorder.constant(output) if isinstance(output, np.ndarray | np.generic) else output
    sample = output.sample
    as_element = output.opaque or isinstance(sample, np.generic) or (sample.ndim and sample.flags.c_contiguous)
    if not as_element or not output.batched or output.sized:
        raise recorder.refuse("gives an array that another function would get in another layout")
    return recorder.wrap(output)


def _classes(structure: Structure) -> set[type]:
    found = {kind for child in structure.children for kind in _classes(child)}
    return found | ({structure.kind} if structure.kind not in (None, tuple, dict, type(None)) else set())


def _finish_graph(recorder: Recorder, capture: Capture, result: Any) -> tuple[Graph, list[Any]]:
    if result is None:
        raise recorder.refuse("returns None")
    capture.check_lists()
    if type(result) is list:
        result = tuple(result)
    structure, found = flatten(result)
    for kind in _classes(structure):
        capture.check_class(kind)
    outputs: list[Any] = []
    kept: list[Any] = []
    specs: list[LeafSpec] = []
    unbatched = set()
    for item in found:
        output, spec = _output(recorder, item)
        kept.append(output)
        outputs.append(output.slot if isinstance(output, Value) else (output,))
        if isinstance(output, Value) and not output.batched:
            unbatched.add(output.slot)
        specs.append(spec)
    made = Spec(structure, tuple(specs))
    used = {value.slot for step in recorder.steps for value in step.uses}
    given = recorder.inputs
    reads = used.union(o for o in outputs if isinstance(o, int)).intersection(range(given))
    graph = Graph(
        structure,
        made.without_sizes() if recorder.loose else made,
        tuple(outputs),
        recorder.steps,
        recorder.template,
        recorder.captured,
        [*capture.guards, *recorder.layout_guards()],
        recorder.sizes.used,
        inputs=given,
        reads=frozenset(reads),
        infallible=not recorder.own and not recorder.loose and all(map(_cannot_raise, recorder.steps)),
        unbatched=frozenset(unbatched),
        operations=bool(recorder.own),
        numbers=all(s.dtype is not None and s.dtype.kind in KINDS for s in specs),
        apart=all(isinstance(o, int) for o in outputs)
        and not unbatched
        and not used.intersection(outputs)
        and sorted(outputs) in ([*chain(*recorder.own)], *map(list, recorder.own)),
    )
    return graph, kept


def _cannot_raise(step: Step) -> bool:
    """Whether a step is one of those that only ever compute; unless the user has it raise where a number overflows."""
    return step.name in EXACT and not step.rowwise and "raise" not in step.errors.values()


def reuse_memory(steps: list[Step], kept: set[int], own: frozenset[int] = frozenset()) -> list[Step]:
    """The steps, those that can writing into an array that nobody reads any more: memory that is warm costs less.

    `own` are the slots of what operations of ours give, arrays of their own wherever they can be written to.
    """
    uses = [value.slot for step in steps for value in step.uses]
    makers = {step.slot: step for step in steps}
    for step in steps:
        into = step.kernel.into if isinstance(step.kernel, Fresh) else None
        for value in step.uses if into is not None else ():
            made = makers.get(value.slot)
            again = uses.count(value.slot) > 1 or value.slot in kept
            if again or value.sample is None or not _alike(value.sample, step.sample):
                continue
            if value.slot in own and isinstance(step.kernel, Fresh):
                step.kernel = Fresh(_into_if_writable(into, value.slot, value.sample, step.kernel.kernel), None)
                break
            if made is None or not isinstance(made.kernel, Fresh):
                continue
            step.kernel = Fresh(_into(into, value.slot), None)
            break
    return steps


def _into(into: Any, slot: int) -> Kernel:
    return lambda values, _: into(values, values[slot])


def _into_if_writable(into: Any, slot: int, sample: Any, otherwise: Kernel) -> Kernel:
    shape, dtype = sample.shape, sample.dtype

    def kernel(values: Values, n: int) -> Any:
        given = values[slot]
        fine = type(given) is np.ndarray and given.flags.writeable and given.flags.c_contiguous
        if not fine or given.shape[1:] != shape or given.dtype != dtype or _is_shared(values, slot):
            return otherwise(values, n)
        return into(values, given)

    return kernel


def _is_shared(values: Values, slot: int) -> bool:
    """Whether another value may lie in the same memory, as where an operation gave what it was given."""
    memory = _memory(values[slot])
    return any(_memory(value) is memory for i, value in enumerate(values) if i != slot)


def _memory(value: Any) -> Any:
    """The object that holds the memory of a column."""
    while (base := getattr(value, "base", None)) is not None:
        value = base
    data = getattr(value, "data" if isinstance(value, Varied) else "values", None)
    return value if isinstance(value, np.ndarray) or not isinstance(data, np.ndarray) else _memory(data)


def _alike(a: Any, b: Any) -> bool:
    return bool(a.dtype == b.dtype and a.shape == b.shape and (not isinstance(a, np.ndarray) or a.strides == b.strides))


def _output(recorder: Recorder, item: Any) -> tuple[Any, LeafSpec]:
    """The value of a component that the function returned, or the constant that it is, and its spec."""
    if isinstance(item, list) and any(True for _ in leaves(map_arguments(item, recorder.value_of))):
        item = recorder.call(np.asarray, "asarray", (item,), {})
    value = recorder.value_of(item)
    if isinstance(value, Value):
        if value.opaque:
            return value, value.spec or TensorSpec(None, None)
        if value.static:
            kept = leaf(value.sample)
            return kept, leaf_spec(kept)
        return value, TensorSpec(np.shape(value.sample), value.sample.dtype)
    if not isinstance(item, bool | int | float | complex | str | bytes | list):
        raise recorder.refuse(f"returns a {type(item).__name__}")
    kept = leaf(item)
    if isinstance(kept, np.ndarray | np.generic) and kept.dtype.kind not in "biufcmM":
        raise recorder.refuse(f"returns an array of {kept.dtype}")
    return kept, leaf_spec(kept)


def column_spec(column: Column) -> TensorSpec:
    """What rows of a column look like, for a trace."""
    return kind_of(column).spec(column)
