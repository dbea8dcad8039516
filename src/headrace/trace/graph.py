"""A traced function: its graph for rows of one kind, run on whole blocks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
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
from headrace.trace.draws import TracedGenerator
from headrace.trace.errors import Mismatch, Untraceable
from headrace.trace.recorder import Recorder
from headrace.trace.rules import chooser
from headrace.trace.rules.elementwise import EXACT
from headrace.trace.sizes import Sizes, fit_sizes, is_settled
from headrace.trace.symbols import Symbol
from headrace.trace.values import KINDS, Fresh, Kernel, Step, Value, Values, dummy, leaves, map_arguments


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
    rows_to_verify: int = 8

    def current(self) -> bool:
        """Whether what the function holds on to is still what it was."""
        return all(guard() for guard in self.guards)

    @property
    def summary(self) -> str:
        """For `explain`."""
        named = [s for s in self.steps if s.name]
        alone = [s.name for s in named if s.rowwise]
        text = f"vectorised: {len(named)} operation{'s' * (len(named) != 1)}"
        text += f", {', '.join(sorted(set(alone)))} row by row" if alone else ""
        return text + (", of rows of one length" if self.sizes else "")

    def run(self, columns: Sequence[Column], n: int) -> list[Column]:
        """The columns of the result for a block of `n` rows."""
        values = self.template.copy()
        for i, column in enumerate(columns):
            values[i] = np.ascontiguousarray(column) if isinstance(column, np.ndarray) else column
        for value, array in self.captured:
            values[value.slot] = array
        if not self.operations or not self.numbers:
            self._do_steps(values, n)
            return self._given(values, n, {})
        with FRESH.note() as fresh:
            self._do_steps(values, n)
            return self._given(values, n, fresh)

    def _do_steps(self, values: Values, n: int) -> None:
        for step in self.steps:
            if step.errors:
                with np.errstate(**step.errors):
                    values[step.slot] = step.kernel(values, n)
            else:
                values[step.slot] = step.kernel(values, n)

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
    assert spec.structure is not None
    recorder = Recorder(chooser(exact), Symbol, sizes)
    try:
        capture = Capture(recorder)
        for kind in _classes(spec.structure):
            capture.check_class(kind)
        symbols = [recorder.input(dummy(s, fill=fill), s) for s in spec.leaves if isinstance(s, TensorSpec)]
        element = spec.structure.pack(symbols)
        args = list(element) if spec.structure.unpacks else [element]
        args += [TracedGenerator(recorder)] if draws else []
        del symbols, element
        result = _call_alone(capture.callable(fn), args)
        for other in then:
            result = _call_alone(capture.callable(other), _hand_on_all(recorder, capture, result))
        recorder.returned = True
        if sizes.read and capture.decides:
            recorder.failed = recorder.failed or f"may decide by a length that only the rows tell at {sizes.read}"
        if recorder.failed is None:
            return _finish_graph(recorder, capture, result)
    except Untraceable as signal:
        recorder.failed = recorder.failed or signal.reason
    except RecursionError:
        recorder.failed = "calls itself too often"
    except Exception as error:
        recorder.failed = recorder.failed or f"raises {type(error).__name__} ({error}) for such elements"
    finally:
        recorder.release()
    return recorder.failed or ""


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


def _finish_graph(recorder: Recorder, capture: Capture, result: Any) -> Graph:
    if result is None:
        raise recorder.refuse("returns None")
    capture.check_lists()
    if type(result) is list:
        result = tuple(result)
    structure, found = flatten(result)
    for kind in _classes(structure):
        capture.check_class(kind)
    outputs: list[Any] = []
    specs: list[LeafSpec] = []
    unbatched = set()
    for item in found:
        output, spec = _output(recorder, item)
        outputs.append(output.slot if isinstance(output, Value) else (output,))
        if isinstance(output, Value) and not output.batched:
            unbatched.add(output.slot)
        specs.append(spec)
    made = Spec(structure, tuple(specs))
    used = {value.slot for step in recorder.steps for value in step.uses}
    given = recorder.inputs
    reads = used.union(o for o in outputs if isinstance(o, int)).intersection(range(given))
    guards = [*capture.guards, *[_same_layout(array) for _, array in recorder.captured]]
    return Graph(
        structure,
        made.without_sizes() if recorder.loose else made,
        tuple(outputs),
        reuse_memory(recorder.steps, {o for o in outputs if isinstance(o, int)}, frozenset(chain(*recorder.own))),
        recorder.template,
        recorder.captured,
        guards,
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


def _cannot_raise(step: Step) -> bool:
    """Whether a step is one of those that only ever compute; unless the user has it raise where a number overflows."""
    return step.name in EXACT and not step.rowwise and "raise" not in step.errors.values()


def _same_layout(array: np.ndarray[Any, Any]) -> Guard:
    layout = (array.shape, array.dtype, array.strides)
    return lambda: (array.shape, array.dtype, array.strides) == layout


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
