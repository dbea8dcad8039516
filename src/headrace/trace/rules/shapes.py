"""Operations that move values and change none: exact however they run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from headrace.core.types import KeywordArguments
from headrace.trace.rules.common import Rule, constant, is_known, is_static, named_arguments, operand_rows, rank
from headrace.trace.values import Call, Kernel, Operand, Result, Value, Values


def one_operand(call: Call) -> Value | None:
    """Return the batched array that the call is about, if all other arguments are the same forever."""
    first = call.args[0] if call.args else None
    if not isinstance(first, Value) or not first.batched or not is_known([call.args[1:], call.kwargs]):
        return None
    return first


def mapped_rule(call: Call, _exact: bool) -> Kernel | None:
    """Apply any such operation once to the positions of the values, to learn where each value goes."""
    source = one_operand(call)
    if source is None:
        return None
    rest, named = constant(call.args[1:]), constant(call.kwargs)
    shape, slot = np.shape(source.sample), source.slot
    size = int(np.prod(shape, dtype=np.int64))
    places = call.fn(np.arange(size).reshape(shape) if shape else np.int64(0), *rest, **named)
    if type(places) in (tuple, list):
        several = [np.asarray(p) for p in places]
        return lambda values, n: [values[slot].reshape(n, size).take(p, axis=1) for p in several]
    places = np.asarray(places)
    return lambda values, n: values[slot].reshape(n, size).take(places, axis=1)


def shift_axis(axis: int, axes: int) -> int:
    """Return an axis of a row as an axis of a block; `axes` is the rank of the result, if it belongs to that."""
    axis = int(axis)
    return axis + 1 if axis >= 0 else axis + axes + 1


def reshape(call: Call, exact: bool) -> Kernel | None:
    """To the shape that the sample has got."""
    source = one_operand(call)
    if source is None or "order" in call.kwargs or any(isinstance(a, str) for a in call.args):
        return mapped_rule(call, exact)
    shape, slot = call.sample.shape, source.slot
    return lambda values, n: values[slot].reshape(n, *shape)


def view(move: Callable[[Any, Any], Any], *names: str, **defaults: Any) -> Rule:
    """Return an operation that NumPy does by strides: `move(block, arguments)`."""

    def rule(call: Call, exact: bool) -> Kernel | None:
        source = one_operand(call)
        given = named_arguments(call, "a", *names, **defaults)
        if source is None or given is None:
            return mapped_rule(call, exact)
        given = {key: constant(value) for key, value in given.items() if key != "a"}
        axes, slot = rank(source), source.slot
        try:
            block_move = move(axes, given)
        except (TypeError, ValueError):
            return mapped_rule(call, exact)
        return lambda values, _: block_move(values[slot])

    return rule


def _transpose(call: Call, _exact: bool) -> Kernel | None:
    source = one_operand(call)
    if source is None:
        return None
    axes = rank(source)
    given = constant([*call.args[1:], *call.kwargs.values()])
    order = given[0] if len(given) == 1 and not isinstance(given[0], int) else given or None
    order = range(axes)[::-1] if order is None else [int(i) % axes for i in order]
    slot, whole = source.slot, (0, *[i + 1 for i in order])
    return lambda values, _: values[slot].transpose(whole)


def _axes(given: Operand, axes: int) -> Result:
    if isinstance(given, tuple | list):
        return tuple(shift_axis(a, axes) for a in given)
    return shift_axis(given, axes)


def _swapaxes(axes: int, given: KeywordArguments) -> Callable[[Operand], Operand]:
    a, b = shift_axis(given["axis1"], axes), shift_axis(given["axis2"], axes)
    return lambda block: block.swapaxes(a, b)


def _moveaxis(axes: int, given: KeywordArguments) -> Callable[[Operand], Operand]:
    a, b = _axes(given["source"], axes), _axes(given["destination"], axes)
    return lambda block: np.moveaxis(block, a, b)


def _flip(axes: int, given: KeywordArguments) -> Callable[[Operand], Operand]:
    axis = tuple(range(1, axes + 1)) if given["axis"] is None else _axes(given["axis"], axes)
    return lambda block: np.flip(block, axis)


def _roll(axes: int, given: KeywordArguments) -> Callable[[Operand], Operand]:
    if given["axis"] is None:
        raise ValueError("rolls over all axes at once")
    shift, axis = given["shift"], _axes(given["axis"], axes)
    return lambda block: np.roll(block, shift, axis)


def _repeat(axes: int, given: KeywordArguments) -> Callable[[Operand], Operand]:
    if given["axis"] is None:
        raise ValueError("repeats the flattened array")
    axis = shift_axis(given["axis"], axes)
    return lambda block: np.repeat(block, given["repeats"], axis)


def pad(call: Call, exact: bool) -> Kernel | None:
    """Pad with a constant; other modes are a mapping of positions, or arithmetic."""
    source = one_operand(call)
    given = named_arguments(call, "array", "pad_width", "mode", mode="constant", constant_values=0)
    if source is None or given is None:
        return mapped_rule(call, exact) if call.kwargs.get("mode") in ("edge", "reflect", "wrap", "symmetric") else None
    if given["mode"] in ("edge", "reflect", "wrap", "symmetric"):
        return mapped_rule(call, exact)
    if given["mode"] != "constant" or not is_static(given["constant_values"]):
        return None
    if not isinstance(given["constant_values"], int | float):
        return None
    axes, slot = rank(source), source.slot
    before_after = np.broadcast_to(constant(given["pad_width"]), (axes, 2)).tolist()
    widths = [(0, 0), *[tuple(w) for w in before_after]]
    value = given["constant_values"]
    return lambda values, _: np.pad(values[slot], widths, constant_values=value)


def join_rule(combine: Callable[..., object], default: int, *, new_axis: bool) -> Rule:
    """`concatenate` and `stack` of values and constants."""

    def rule(call: Call, _exact: bool) -> Kernel | None:
        given = named_arguments(call, "arrays", "axis", axis=default)
        if given is None or not isinstance(given["arrays"], tuple | list) or given["axis"] is None:
            return None
        if not all(isinstance(a, Value) for a in given["arrays"]):
            return None
        axis = (
            shift_axis(given["axis"], call.sample.ndim)
            if new_axis
            else shift_axis(given["axis"], rank(given["arrays"][0]))
        )
        getters = [operand_rows(a) for a in given["arrays"]]
        return lambda values, n: combine([g(values, n) for g in getters], axis=axis)

    return rule


def _at_least(axes: int) -> Callable[[Value], Callable[[Values, int], Result]]:
    """Operands with axes put in front, as hstack, vstack and others do."""

    def spread(item: Value) -> Callable[[Values, int], Result]:
        get, missing = operand_rows(item), axes - rank(item)
        if missing <= 0:
            return get
        return lambda values, n: get(values, n)[(slice(None), *(None,) * missing)]

    return spread


def stack_rule(which: str) -> Rule:
    """`hstack` and `vstack`."""

    def rule(call: Call, _exact: bool) -> Kernel | None:
        arrays = call.args[0] if len(call.args) == 1 and not call.kwargs else None
        if not isinstance(arrays, tuple | list) or not all(isinstance(a, Value) for a in arrays):
            return None
        flat = which == "hstack" and max(rank(a) for a in arrays) <= 1
        axis = 2 if which == "hstack" and not flat else 1
        getters = [_at_least(1 if which == "hstack" else 2)(a) for a in arrays]
        return lambda values, n: np.concatenate([g(values, n) for g in getters], axis=axis)

    return rule


def broadcast_to(call: Call, _exact: bool) -> Kernel | None:
    """New axes go between the rows and what they hold."""
    source = one_operand(call)
    if source is None:
        return None
    shape, slot = call.sample.shape, source.slot
    lead = (slice(None), *(None,) * (len(shape) - rank(source)))
    return lambda values, n: np.broadcast_to(values[slot][lead], (n, *shape))


def copy(call: Call, _exact: bool) -> Kernel | None:
    """Copy in the sample's memory layout."""
    source = one_operand(call)
    if source is None or len(call.args) > 1 or call.kwargs:
        return None
    slot = source.slot
    return lambda values, _: np.ascontiguousarray(values[slot]).copy()


def same_kind_real(call: Call, _exact: bool) -> Kernel | None:
    """`.real` of a real array is the array."""
    source = one_operand(call)
    if source is None or source.sample.dtype.kind == "c" or call.name != "real":
        return None
    slot = source.slot
    return lambda values, _: values[slot]


RULES: dict[str, Rule] = {
    "reshape": reshape, "ravel": reshape, "flatten": reshape, "squeeze": reshape, "expand_dims": reshape,
    "atleast_1d": reshape, "atleast_2d": reshape, "atleast_3d": mapped_rule,
    "transpose": _transpose, "T": _transpose, "matrix_transpose": mapped_rule, "permute_dims": _transpose,
    "swapaxes": view(_swapaxes, "axis1", "axis2"),
    "moveaxis": view(_moveaxis, "source", "destination"),
    "rollaxis": mapped_rule,
    "flip": view(_flip, "axis", axis=None),
    "fliplr": mapped_rule, "flipud": mapped_rule, "rot90": mapped_rule, "tile": mapped_rule,
    "roll": view(_roll, "shift", "axis", axis=None),
    "repeat": view(_repeat, "repeats", "axis", axis=None),
    "split": mapped_rule, "array_split": mapped_rule, "hsplit": mapped_rule, "vsplit": mapped_rule,
    "dsplit": mapped_rule, "unstack": mapped_rule,
    "pad": pad,
    "concatenate": join_rule(np.concatenate, 0, new_axis=False),
    "concat": join_rule(np.concatenate, 0, new_axis=False),
    "stack": join_rule(np.stack, 0, new_axis=True),
    "hstack": stack_rule("hstack"), "vstack": stack_rule("vstack"),
    "dstack": lambda _call, _exact: None, "column_stack": lambda _call, _exact: None,
    "broadcast_to": broadcast_to,
    "copy": copy,
    "real": same_kind_real, "imag": lambda _call, _exact: None,
}  # fmt: skip
