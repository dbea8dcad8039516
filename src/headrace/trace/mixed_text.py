"""Comparisons of bytes with str: always unequal in Python, while tf.data has one type for both."""

from __future__ import annotations

import dis
import warnings
from collections.abc import Callable, Iterable
from functools import partial
from itertools import combinations
from types import CellType, FunctionType, ModuleType
from typing import Any

import numpy as np

from headrace.identity.code import instructions
from headrace.plan.spec import LeafSpec, Spec
from headrace.trace.values import Traced

Path = tuple[Any, ...]
"""The path to a value: the name of an argument, then keys."""
UNKNOWN: Path = ("",)
CALLED = object()
"""The last key of the path to a method of text, which is to be called."""
_said: dict[Any, Any] = {}


def text_kind(value: object) -> str:
    """Return whether something is, or describes, bytes ("S") or str ("U"); "" if neither."""
    if isinstance(value, LeafSpec):
        return value.dtype.kind if value.dtype is not None and value.dtype.kind in "SU" else ""
    if isinstance(value, np.ndarray):
        if value.dtype.kind not in "OT" or not value.size:
            return value.dtype.kind if value.dtype.kind in "SU" else "U" if value.dtype.kind == "T" else ""
        value = value.flat[0]
    return "U" if isinstance(value, str) else "S" if isinstance(value, bytes) else ""


SAME_TEXT = frozenset({
    "bytes_split", "join", "lower", "ngrams", "reduce_join", "regex_replace", "split", "strip", "substr",
    "unicode_split", "upper",
})  # fmt: skip
"""Names of functions of `hr.text` that turn bytes into bytes and str into str."""
METHODS = frozenset({
    "capitalize", "lower", "lstrip", "partition", "removeprefix", "removesuffix", "replace", "rpartition", "rsplit",
    "rstrip", "split", "splitlines", "strip", "title", "upper",
})  # fmt: skip
"""Names of methods of bytes and str whose results are text of the same kind, or hold such."""
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
    elif isinstance(other, np.ndarray):
        advice = "write np.strings.encode(names)" if theirs == "U" else "write np.strings.decode(names)"
        advice += " for an array of names"
    else:
        advice = "decode one of them"
    return (
        f"a component of {kinds[ours]} is compared with {kinds[theirs]}: in Python these are never equal, though "
        f"TensorFlow would compare them. {advice[0].upper()}{advice[1:]}"
    )


def check_comparisons(fn: object, spec: Spec, *, carries: bool = False) -> None:
    """Warn of comparisons in a function's code, of bytes that it gets with str or the reverse.

    Args:
        fn: The function.
        spec: The elements that it gets.
        carries: Whether it gets a state first, and then the element as one argument, whatever its structure.
    """
    while type(fn) is partial:
        fn = fn.func if not fn.args else None
    if not isinstance(fn, FunctionType) or spec.structure is None or not any(map(text_kind, spec.leaves)):
        return
    element = spec.structure.around(spec.leaves)
    arguments = (None, element) if carries else element if spec.structure.unpacks else (element,)
    named = dict(zip(fn.__code__.co_varnames[: fn.__code__.co_argcount], arguments, strict=False))
    for line, path, other in _comparisons(fn):
        component: Any = named.get(path[0])
        for key in path[1:]:
            try:
                if not text_kind(component):  # a part of text, or of an array of texts, is text of the same kind
                    component = component[key] if isinstance(component, dict | tuple) else None
            except (LookupError, TypeError):  # which the function will meet itself
                component = None
        if not isinstance(component, LeafSpec) or _has_key_like(component, other):
            continue
        said = mixed_text([component], list(other) if isinstance(other, dict) else other)
        if said:
            warnings.warn_explicit(said, BytesWarning, fn.__code__.co_filename, line, registry=_said)


def _has_key_like(component: LeafSpec, other: object) -> bool:
    """Return whether it is a dict that has keys for a component, besides those of the other kind of text."""
    return isinstance(other, dict) and text_kind(component) in map(text_kind, other)


Operand = tuple[Path | None, Any, int]
"""A path or a constant, and where the instructions begin that push it."""


def _comparisons(fn: FunctionType) -> Iterable[tuple[int, Path, Any]]:
    """Comparisons in which one side is got from an argument and the other is a constant: line, path and constant."""
    stack = _Stack(fn)
    steps = stack.steps
    line = fn.__code__.co_firstlineno
    for i, step in enumerate(steps):
        line = (step.positions.lineno if step.positions else None) or line
        if step.opname.startswith("STORE_FAST"):
            value = stack.operand(i) if isinstance(step.argval, str) else None
            names = (step.argval,) if isinstance(step.argval, str) else step.argval
            stack.known.update(dict.fromkeys(names, UNKNOWN if value is None or value[0] is None else value[0]))
        compares = step.opname == "COMPARE_OP" and str(step.argval).removeprefix("bool(").rstrip(")") in ("==", "!=")
        calls = step.opname == "CALL" and step.argval == 2
        key = stack.key_of_get(i) if step.opname == "CALL" else None
        if key is not None:
            yield line, *key
            continue
        if not compares and not calls and step.opname != "CONTAINS_OP":
            continue
        right = stack.operand(i - (steps[i - 1].opname == "PRECALL"))
        left = None if right is None else stack.operand(right[2])
        if left is None or right is None or (calls and not stack.pushes_comparison(left[2])):
            continue
        if left[0] is not None and right[0] is None:
            yield line, left[0], right[1]
        elif right[0] is not None and left[0] is None and step.opname != "CONTAINS_OP":
            yield line, right[0], left[1]


class _Stack:
    """What the instructions of a function push, as far as it follows from arguments, constants and names."""

    def __init__(self, fn: FunctionType) -> None:
        self._fn = fn
        self.steps = instructions(fn.__code__)
        self.known: dict[str, Path] = {}

    def operand(self, end: int) -> Operand | None:
        """Return what the instructions before `end` push last; None if that is not known."""
        if not end:
            return None
        step = self.steps[end - 1]
        name = "LOAD_FAST" if step.opname.startswith("LOAD_FAST") else step.opname
        if name == "BINARY_OP" and step.argrepr == "[]":
            name = "BINARY_SUBSCR"
        read = _READ.get(name)
        return None if read is None else read(self, step, end - 1)

    def pushes_comparison(self, end: int) -> bool:
        """Return whether the instructions before `end` push `np.equal` or the like, to be called."""
        called = self.operand(end)
        name = getattr(called[1], "__name__", None) if called is not None and called[0] is None else None
        return called is not None and name in COMPARISONS and called[1] is getattr(np, name, None)

    def key_of_get(self, call: int) -> tuple[Path, dict[Any, Any]] | None:
        """Return the path to the key if this instruction calls the `get` of a dict that is known, and the dict."""
        end, count = call - (self.steps[call - 1].opname == "PRECALL"), self.steps[call].argval
        start = self._start(end, count - 1) if count in (1, 2) else None
        key = None if start is None else self.operand(start)
        called = None if key is None else self.operand(key[2])
        owner = getattr(called[1], "__self__", None) if called is not None else None
        return (key[0], owner) if key is not None and key[0] is not None and type(owner) is dict else None

    def _constant(self, step: dis.Instruction, end: int) -> Operand:
        return None, step.argval, end

    def _global(self, step: dis.Instruction, end: int) -> Operand | None:
        name = str(step.argval)
        return (None, self._fn.__globals__[name], end) if name in self._fn.__globals__ else None

    def _closure(self, step: dis.Instruction, end: int) -> Operand | None:
        names = self._fn.__code__.co_freevars
        if step.argval not in names:
            return None
        return None, _contents((self._fn.__closure__ or ())[names.index(step.argval)]), end

    def _local(self, step: dis.Instruction, end: int) -> Operand | None:
        return (self.known.get(step.argval, (step.argval,)), None, end) if isinstance(step.argval, str) else None

    def _attribute(self, step: dis.Instruction, end: int) -> Operand | None:
        owner, name = self.operand(end), str(step.argval)
        if owner is not None and owner[0] is not None:
            return ((*owner[0], CALLED), None, owner[2]) if name in METHODS else None
        if owner is not None and type(owner[1]) is dict and name == "get":
            return None, owner[1].get, owner[2]
        home = owner[1].__name__ if owner is not None and isinstance(owner[1], ModuleType) else ""
        if owner is None or home.partition(".")[0] not in ("headrace", "numpy"):  # others may import much for a name
            return None
        return None, getattr(owner[1], name, None), owner[2]

    def _before(self, _: dis.Instruction, end: int) -> Operand | None:
        return self.operand(end)

    def _list(self, step: dis.Instruction, end: int) -> Operand | None:
        items: list[Any] = []
        for _ in range(step.argval):
            item = self.operand(end)
            if item is None or item[0] is not None:
                return None
            items.insert(0, item[1])
            end = item[2]
        return (None, items, end) if items else None

    def _dict(self, step: dis.Instruction, end: int) -> Operand | None:
        keys: list[Any] = []
        for _ in range(step.argval):
            value = self.operand(end)
            key = None if value is None else self.operand(value[2])
            if key is None or not isinstance(key[1], str | bytes):
                return None
            keys.insert(0, key[1])
            end = key[2]
        return None, dict.fromkeys(keys), end

    def _dict_of_constants(self, step: dis.Instruction, end: int) -> Operand | None:
        start = self._start(end - 1, step.argval)
        return None if start is None else (None, dict.fromkeys(self.steps[end - 1].argval), start)

    def _long_list(self, _: dis.Instruction, end: int) -> Operand:
        return None, self.steps[end - 1].argval, end - 2  # a list of three constants or more

    def _slice(self, step: dis.Instruction, end: int) -> Operand | None:
        start = self._start(end, step.argval)
        return None if start is None else (None, slice(None), start)

    def _part(self, _: dis.Instruction, end: int) -> Operand | None:
        key = self.operand(end)
        return None if key is None or key[0] is not None else self._within(key[2], key[1])

    def _sliced(self, _: dis.Instruction, end: int) -> Operand | None:
        start = self._start(end, 2)
        return None if start is None else self._within(start, slice(None))

    def _result(self, step: dis.Instruction, end: int) -> Operand | None:
        """Return what a call gives: text of its first argument's or its object's kind, or an array of constants."""
        end -= self.steps[end - 1].opname == "PRECALL"
        before = self._start(end, step.argval)
        method = None if before is None else self.operand(before)
        if method is not None and method[0] is not None:
            return ((*method[0][:-1], slice(None)), None, method[2]) if method[0][-1] is CALLED else None
        start = self._start(end, step.argval - 1) if step.argval else None
        first = None if start is None else self.operand(start)
        called = None if first is None else self.operand(first[2])
        if first is None or called is None or called[0] is not None:
            return None
        if first[0] is None:
            makes_array = called[1] is np.array or called[1] is np.asarray
            return (None, first[1], called[2]) if makes_array else None
        return ((*first[0], slice(None)), None, called[2]) if _gives_same_text(called[1]) else None

    def _within(self, end: int, key: Any) -> Operand | None:
        owner = self.operand(end)
        return None if owner is None or owner[0] is None else ((*owner[0], key), None, owner[2])

    def _start(self, end: int, count: int) -> int | None:
        """Return where the instructions begin that push the last `count` values."""
        for _ in range(count):
            value = self.operand(end)
            if value is None:
                return None
            end = value[2]
        return end


_READ: dict[str, Callable[[_Stack, dis.Instruction, int], Operand | None]] = {
    "BINARY_SLICE": _Stack._sliced,
    "BINARY_SUBSCR": _Stack._part,
    "BUILD_CONST_KEY_MAP": _Stack._dict_of_constants,
    "BUILD_LIST": _Stack._list,
    "BUILD_MAP": _Stack._dict,
    "BUILD_SLICE": _Stack._slice,
    "CALL": _Stack._result,
    "LIST_EXTEND": _Stack._long_list,
    "LOAD_ATTR": _Stack._attribute,
    "LOAD_CONST": _Stack._constant,
    "LOAD_DEREF": _Stack._closure,
    "LOAD_FAST": _Stack._local,
    "LOAD_GLOBAL": _Stack._global,
    "LOAD_METHOD": _Stack._attribute,
    "LOAD_SMALL_INT": _Stack._constant,
    "PRECALL": _Stack._before,
    "PUSH_NULL": _Stack._before,
}
"""How to read what an instruction pushes."""


def _gives_same_text(function: Any) -> bool:
    """Return whether it is a function of `hr.text` whose result is text of the same kind as its first argument."""
    home, name = getattr(function, "__module__", None), getattr(function, "__name__", None)
    return str(home).startswith("headrace.text.") and name in SAME_TEXT


def _contents(cell: CellType) -> Traced:
    try:
        return cell.cell_contents
    except ValueError:  # not assigned yet
        return None
