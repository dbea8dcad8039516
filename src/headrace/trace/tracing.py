"""From a user's function to its graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain
from typing import Any

import numpy as np

from headrace.columns.block import leaf
from headrace.plan.display import ROW_BY_ROW
from headrace.plan.frameworks import framework_called
from headrace.plan.spec import DatasetSpec, LeafSpec, Spec, TensorSpec, leaf_spec
from headrace.plan.structure import Structure, flatten
from headrace.trace.capture import Capture
from headrace.trace.decisions import MAX_PATHS
from headrace.trace.deferring import defer_columns
from headrace.trace.draws import TracedGenerator
from headrace.trace.errors import MixedText, Untraceable, describe_error, is_raised_by_user
from headrace.trace.graph import Graph
from headrace.trace.paths import Path, join_paths
from headrace.trace.recorder import Recorder
from headrace.trace.reuse import reuse_memory
from headrace.trace.rules import chooser
from headrace.trace.rules.elementwise import EXACT
from headrace.trace.scaling import scale_at_once
from headrace.trace.sizes import Sizes, fit_sizes, is_settled
from headrace.trace.symbols import AnyText, Symbol
from headrace.trace.values import (
    KINDS,
    Call,
    Kernel,
    Operand,
    Result,
    Step,
    Traced,
    Value,
    Values,
    dummy,
    leaves,
    map_arguments,
)


def trace(
    fn: Callable[..., object],
    spec: Spec,
    *,
    exact: bool,
    draws: bool = False,
    sizes: dict[int, int] | None = None,
    then: Sequence[Callable[..., object]] = (),
    any_text: bool = False,
) -> Graph | str:
    """Trace `fn` for elements of this spec, and a generator if it `draws`. Return its graph, or why there is none.

    `then` are functions of which each gets, as an element, what the one before it gave. `sizes` are those of rows whose
    length the spec leaves open; without them suitable ones are searched. A graph of
    `any_text` has a placeholder for text of data: it tells the spec, and must not run.
    """
    if spec.structure is None:
        return f"{ROW_BY_ROW}its elements are not known before they are there"
    if any(isinstance(s, DatasetSpec) for s in spec.leaves):
        return f"{ROW_BY_ROW}its elements hold datasets"
    reason = ""
    for fill in (None, 0):
        attempt = partial(_trace, fn, spec, exact, draws, fill, then, any_text)
        made, found = fit_sizes(attempt, {}) if sizes is None else (attempt(Sizes(sizes)), None)
        if isinstance(made, Graph):
            if found is not None and found.used and not is_settled(attempt, found, lambda m: isinstance(m, Graph)):
                made.spec = made.spec.without_sizes()
            return made
        if isinstance(made, MixedText):
            return made
        reason = reason or made
        if "raises IndexError" not in made:
            break
    framework = framework_called(fn)
    return f"{ROW_BY_ROW}calls {framework} on each element" if framework else f"{ROW_BY_ROW}{reason}"


def _trace(
    fn: Callable[..., object],
    spec: Spec,
    exact: bool,
    draws: bool,
    fill: int | None,
    then: Sequence[Callable[..., object]],
    any_text: bool,
    sizes: Sizes,
) -> Graph | str:
    paths: list[Path] = []
    graphs: list[Graph] = []
    answers: list[bool] | None = []
    try:
        while answers is not None:
            if len(paths) == MAX_PATHS:
                return f"branches on data in more than {MAX_PATHS} ways at {paths[0].decisions[0].line}"
            recorder = Recorder(chooser(exact), Symbol, sizes, answers)
            recorder.any_text = any_text
            path = Path(recorder, Capture(recorder))
            paths.append(path)
            made = _trace_path(path, fn, spec, draws, fill, then)
            if recorder.failed is not None:
                return recorder.failed
            graphs += [] if made is None else [made]
            answers = recorder.decisions.next_path()
        if len(paths) > 1:
            return join_paths(paths, graphs)
        kept = {o for o in graphs[0].outputs if isinstance(o, int)}
        defer_columns(paths[0].steps, kept)
        scale_at_once(paths[0].steps, kept)
        reuse_memory(paths[0].steps, kept, frozenset(chain(*paths[0].recorder.own)))
        return graphs[0]
    except Untraceable as signal:
        return signal.reason
    finally:
        for path in paths:
            path.recorder.release()


def _trace_path(
    path: Path,
    fn: Callable[..., object],
    spec: Spec,
    draws: bool,
    fill: int | None,
    then: Sequence[Callable[..., object]],
) -> Graph | None:
    """Return the graph of one path. None, and the recorder says why it failed, unless it is that the path raises."""
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
    except BaseException as error:
        if not isinstance(error, Exception) and not is_raised_by_user(error):
            raise  # Ctrl-C, not the function's own
        recorder.failed = recorder.failed or f"raises {describe_error(error)} for such elements"
    return None


def record(
    fn: Callable[..., object], spec: Spec, *, draws: bool, sizes: dict[int, int] | None = None
) -> tuple[Path, Graph] | str:
    """Return what `fn` does to elements of this spec as recorded, each step with its call, or why it cannot be.

    The path still holds its samples: call `path.recorder.release()` once it is read. A step that has no exact kernel on
    blocks has `refusing_kernel`'s instead.
    """
    if spec.structure is None:
        return "its elements are not known before they are there"
    if any(isinstance(s, DatasetSpec) for s in spec.leaves):
        return "its elements hold datasets"

    def attempt(given: Sizes) -> tuple[Path, Graph] | str:
        recorder = Recorder(_choose_if_possible, Symbol, given, ())
        path = Path(recorder, Capture(recorder))
        made = _trace_path(path, fn, spec, draws, None, ())
        if made is None or recorder.failed is not None or recorder.decisions.made:
            branch = f"branches on data at {recorder.decisions.made[0].line}" if recorder.decisions.made else ""
            reason = recorder.failed or branch or "cannot be traced"
            recorder.release()
            return reason
        return path, made

    return fit_sizes(attempt, {})[0] if sizes is None else attempt(Sizes(sizes))


def refusing_kernel(call: Call) -> Kernel:
    """Return the kernel of a call that has none on blocks of the CPU."""

    def kernel(_values: Values, _n: int) -> Result:
        raise TypeError(f"{call.name} has no form for blocks")

    return kernel


_exact = chooser(True)


def _choose_if_possible(call: Call) -> tuple[Kernel, bool, bool]:
    try:
        return _exact(call)
    except Untraceable:
        return refusing_kernel(call), False, True


def _call_alone(fn: Callable[..., object], args: list[Operand]) -> Traced:
    """Return the function's result, the function alone holding its arguments: so it shows which it has let go."""
    args.reverse()
    match len(args):
        case 1:
            return fn(args.pop())
        case 2:
            return fn(args.pop(), args.pop())
        case 3:
            return fn(args.pop(), args.pop(), args.pop())
    return fn(*reversed(args))


def _hand_on_all(recorder: Recorder, capture: Capture, result: object) -> list[Operand]:
    """Return the result of one function as the arguments of the next one: an element in its own memory."""
    if result is None:
        raise recorder.refuse("returns None")
    structure, found = flatten(tuple(result) if type(result) is list else result)
    for kind in _classes(structure):
        capture.check_class(kind)
    element = structure.pack([_hand_on(recorder, item) for item in found])
    return list(element) if structure.unpacks else [element]


def _hand_on(recorder: Recorder, item: object) -> Traced:
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


def _finish_graph(recorder: Recorder, capture: Capture, result: object) -> tuple[Graph, list[Operand]]:
    if result is None:
        raise recorder.refuse("returns None")
    capture.check_lists()
    if type(result) is list:
        result = tuple(result)
    structure, found = flatten(result)
    for kind in _classes(structure):
        capture.check_class(kind)
    outputs: list[Operand] = []
    kept: list[Operand] = []
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
        in_place=frozenset(reads)
        .difference(o for o in outputs if isinstance(o, int))
        .difference(value.slot for step in recorder.steps if not step.in_place for value in step.uses),
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
    """Return whether a step only computes, and so cannot raise, unless the user lets NumPy raise on overflow."""
    return step.name in EXACT and not step.rowwise and "raise" not in step.errors.values()


def _output(recorder: Recorder, item: object) -> tuple[Any, LeafSpec]:
    """Return the value of a component that the function returned, or the constant that it is, and its spec."""
    if isinstance(item, list) and any(True for _ in leaves(map_arguments(item, recorder.value_of))):
        item = recorder.call(np.asarray, "asarray", (item,), {})
    value = recorder.value_of(item)
    item = item.placeholder if type(item) is AnyText else item
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
