"""Comparisons of bytes with str: always unequal in Python, while tf.data has one type for both."""

from __future__ import annotations

import dis
import warnings
from collections.abc import Iterable
from functools import partial
from itertools import combinations
from types import CellType, FunctionType
from typing import Any

import numpy as np

from headrace.identity.code import instructions
from headrace.plan.spec import LeafSpec, Spec
from headrace.trace.values import Operand, Traced

Path = tuple[Any, ...]
"""The path to a value: the name of an argument, then keys."""
UNKNOWN: Path = ("",)
_said: dict[Any, Any] = {}


def text_kind(value: object) -> str:
    """Return whether something is, or describes, bytes ("S") or str ("U"); "" if neither."""
    if isinstance(value, LeafSpec):
        return value.dtype.kind if value.dtype is not None and value.dtype.kind in "SU" else ""
    return "U" if isinstance(value, str) else "S" if isinstance(value, bytes) else ""


COMPARISONS = frozenset({
    "equal", "not_equal", "less", "less_equal", "greater", "greater_equal", "isin", "in1d", "array_equal",
})  # fmt: skip
"""Names of NumPy's comparisons, which operators are recorded under too."""


def mixed_text(components: Iterable[object], others: object) -> str | None:
    """Return what is wrong with comparing components with each other, or with text inside `others`; None if nothing."""
    components, found = list(components), [others]
    while found:
        other = found.pop(0)
        if isinstance(other, dict | list | tuple | set | frozenset):
            found += other.values() if isinstance(other, dict) else other
        message = next(filter(None, (_mixed(one, other) for one in components)), None)
        if message:
            return message
    return next(filter(None, (_mixed(a, b) for a, b in combinations(components, 2))), None)


def _mixed(component: object, other: object) -> str | None:
    ours, theirs = text_kind(component), text_kind(other)
    if not ours or not theirs or ours == theirs:
        return None
    kinds = {"S": "bytes", "U": "str"}
    if isinstance(other, str):
        advice = f"write {other.encode('utf-8', 'surrogatepass')!r}"
    elif isinstance(other, bytes):
        advice = f"write {other.decode('utf-8', 'backslashreplace')!r}"
    else:
        advice = "decode one of them"
    return (
        f"a component of {kinds[ours]} is compared with {kinds[theirs]}: in Python these are never equal, though "
        f"TensorFlow would compare them. {advice[0].upper()}{advice[1:]}"
    )


def check_comparisons(fn: object, spec: Spec) -> None:
    """Warn of comparisons in a function's code, of bytes that it gets with str or the reverse."""
    while type(fn) is partial:
        fn = fn.func if not fn.args else None
    if not isinstance(fn, FunctionType) or spec.structure is None or not any(map(text_kind, spec.leaves)):
        return
    element = spec.structure.around(spec.leaves)
    arguments = element if spec.structure.unpacks else (element,)
    named = dict(zip(fn.__code__.co_varnames[: fn.__code__.co_argcount], arguments, strict=False))
    for line, path, other in _comparisons(fn):
        component: Operand = named.get(path[0])
        for key in path[1:]:
            try:
                component = component[key] if isinstance(component, dict | tuple) else None
            except (LookupError, TypeError):  # which the function will meet itself
                component = None
        said = mixed_text([component], other) if isinstance(component, LeafSpec) else None
        if said:
            warnings.warn_explicit(said, BytesWarning, fn.__code__.co_filename, line, registry=_said)


def _comparisons(fn: FunctionType) -> Iterable[tuple[int, Path, Any]]:
    """Comparisons in which one side is got from an argument and the other is a constant: line, path and constant."""
    code = fn.__code__
    steps = instructions(code)
    known: dict[str, Path] = {}
    line = code.co_firstlineno
    for i, step in enumerate(steps):
        line = (step.positions.lineno if step.positions else None) or line
        if step.opname.startswith("STORE_FAST"):
            value = _operand(fn, steps, i, known) if isinstance(step.argval, str) else None
            names = (step.argval,) if isinstance(step.argval, str) else step.argval
            known.update(dict.fromkeys(names, UNKNOWN if value is None or value[0] is None else value[0]))
        compares = step.opname == "COMPARE_OP" and str(step.argval).removeprefix("bool(").rstrip(")") in ("==", "!=")
        calls = step.opname == "CALL" and step.argval == 2
        if not compares and not calls and step.opname != "CONTAINS_OP":
            continue
        right = _operand(fn, steps, i - (steps[i - 1].opname == "PRECALL"), known)
        left = None if right is None else _operand(fn, steps, right[2], known)
        if left is None or right is None or (calls and not _is_numpy_comparison(fn, steps, left[2], known)):
            continue
        if left[0] is not None and right[0] is None:
            yield line, left[0], right[1]
        elif right[0] is not None and left[0] is None and step.opname != "CONTAINS_OP":
            yield line, right[0], left[1]


def _is_numpy_comparison(
    fn: FunctionType, steps: tuple[dis.Instruction, ...], end: int, known: dict[str, Path]
) -> bool:
    """Return whether the instructions before `end` push `np.equal` or the like, to be called."""
    end -= bool(end) and steps[end - 1].opname == "PUSH_NULL"
    if not end or steps[end - 1].opname not in ("LOAD_ATTR", "LOAD_METHOD") or steps[end - 1].argval not in COMPARISONS:
        return False
    module = _operand(fn, steps, end - 1, known)
    return module is not None and module[1] is np


def _operand(
    fn: FunctionType, steps: tuple[dis.Instruction, ...], end: int, known: dict[str, Path]
) -> tuple[Path | None, Any, int] | None:
    """Return what the instructions before `end` push last: its path or its value, and where they begin."""
    if not end:
        return None
    step = steps[end - 1]
    if step.opname in ("LOAD_CONST", "LOAD_SMALL_INT"):
        return None, step.argval, end - 1
    if step.opname == "BUILD_LIST" and step.argval == 1:
        item = _operand(fn, steps, end - 1, known)
        return None if item is None or item[0] is not None else (None, [item[1]], item[2])
    if step.opname == "LIST_EXTEND":  # a list of three constants or more
        return None, steps[end - 2].argval, end - 3
    if step.opname == "LOAD_GLOBAL" and str(step.argval) in fn.__globals__:
        return None, fn.__globals__[str(step.argval)], end - 1
    if step.opname == "LOAD_DEREF" and step.argval in fn.__code__.co_freevars:
        cell = (fn.__closure__ or ())[fn.__code__.co_freevars.index(step.argval)]
        return None, _contents(cell), end - 1
    if step.opname.startswith("LOAD_FAST") and isinstance(step.argval, str):
        return known.get(step.argval, (step.argval,)), None, end - 1
    if step.opname == "BINARY_SUBSCR" or (step.opname == "BINARY_OP" and step.argrepr == "[]"):
        key = _operand(fn, steps, end - 1, known)
        owner = None if key is None or key[0] is not None else _operand(fn, steps, key[2], known)
        if key is not None and owner is not None and owner[0] is not None:
            return (*owner[0], key[1]), None, owner[2]
    return None


def _contents(cell: CellType) -> Traced:
    try:
        return cell.cell_contents
    except ValueError:  # not assigned yet
        return None
