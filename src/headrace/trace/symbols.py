"""Symbols: what a function gets in place of a row while it is traced."""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Iterator
from typing import ClassVar

import numpy as np

from headrace.core.override import override
from headrace.core.types import AnyFunction, Arguments, KeywordArguments, Reduced
from headrace.trace.errors import OPAQUE, TEXT, Untraceable, is_for_raise
from headrace.trace.recorder import Recorder
from headrace.trace.values import KINDS, Call, Operand, Result, Traced, Value, map_arguments

BINARY = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "truediv": operator.truediv,
    "floordiv": operator.floordiv, "mod": operator.mod, "pow": operator.pow, "matmul": operator.matmul,
    "and": operator.and_, "or": operator.or_, "xor": operator.xor, "lshift": operator.lshift,
    "rshift": operator.rshift,
}  # fmt: skip
COMPARISONS = {n: getattr(operator, n) for n in ("lt", "le", "gt", "ge", "eq", "ne")}
UNARY: dict[str, AnyFunction] = {
    "neg": operator.neg,
    "pos": operator.pos,
    "abs": operator.abs,
    "invert": operator.invert,
}
ARRAY_NAMES = {
    "add": "add", "sub": "subtract", "mul": "multiply", "truediv": "true_divide", "floordiv": "floor_divide",
    "mod": "remainder", "pow": "pow", "matmul": "matmul", "and": "bitwise_and", "or": "bitwise_or",
    "xor": "bitwise_xor", "lshift": "left_shift", "rshift": "right_shift", "lt": "less", "le": "less_equal",
    "gt": "greater", "ge": "greater_equal", "eq": "equal", "ne": "not_equal", "neg": "negative",
    "pos": "positive", "abs": "absolute", "invert": "invert",
}  # fmt: skip
"""NumPy's functions for operators; `pow` is not `power`: it treats some exponents specially."""

ATTRIBUTES = frozenset({"shape", "dtype", "ndim", "size", "itemsize", "nbytes"})
VIEWS = frozenset({"T", "mT", "real", "imag"})
METHODS = frozenset({
    "all", "any", "argmax", "argmin", "argsort", "astype", "choose", "clip", "conj", "conjugate", "copy", "cumprod",
    "cumsum", "diagonal", "dot", "flatten", "max", "mean", "min", "prod", "ravel", "repeat", "reshape", "round",
    "searchsorted", "squeeze", "std", "sum", "swapaxes", "take", "trace", "transpose", "var", "view",
})  # fmt: skip
WRITERS = frozenset({"sort", "fill"})


class Method:
    """A method of arrays and NumPy's scalars as a function."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, owner: object, *args: object, **kwargs: object) -> Traced:
        return getattr(owner, self.name)(*args, **kwargs)


class Attribute(Method):
    """An attribute as a function."""

    @override
    def __call__(self, owner: object, *args: object, **kwargs: object) -> Traced:
        return getattr(owner, self.name)


def as_new_array(change: Callable[..., object]) -> AnyFunction:
    """Return a function that writes into its first argument as one that gives a new array."""

    def fn(target: Traced, *args: object, **kwargs: object) -> Traced:
        own = target.copy(order="K")
        change(own, *args, **kwargs)
        return own

    return fn


class Symbol:
    """Behave like an array or a NumPy scalar, and record what is done to it."""

    __slots__ = ("__weakref__", "_recorder", "_value")
    __hash__: ClassVar[None] = None  # type: ignore[assignment]
    _traced = True
    __array_priority__: float = 1e6

    def __init__(self, recorder: Recorder, value: Value) -> None:
        self._recorder = recorder
        self._value = value

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """The class that `isinstance` checks: the symbol of an array is an array, that of a scalar a scalar."""
        value = self._value
        if value.sample is not None:
            return type(value.sample)
        if self._recorder.returned:
            return Symbol
        spec = value.spec
        kind = "" if spec is None or spec.dtype is None or spec.shape is None else spec.dtype.kind
        if kind in ("U", "S") and spec is not None and spec.shape == ():
            return str if kind == "U" else bytes
        if kind and kind in KINDS:
            return np.ndarray
        raise self._recorder.refuse(f"asks for the class {OPAQUE}")

    def _sample(self, what: str) -> Operand:
        sample = self._value.sample
        if sample is None:
            raise self._recorder.refuse(f"{what} {OPAQUE}")
        return sample

    def _known(self, what: str) -> Operand:
        """Return the value itself, if it does not depend on the data."""
        if not self._value.static:
            raise self._recorder.refuse(what)
        return self._value.sample

    def _call(self, fn: Callable[..., object], name: str, *args: object, **kwargs: object) -> Traced:
        return self._recorder.call(fn, name, args, kwargs)

    def __getattr__(self, name: str) -> Traced:
        if name == "astype" and self._value.opaque:
            return lambda *args, **kwargs: self._call(Method(name), name, self, *args, **kwargs)
        sample = self._sample(f".{name}")
        if name in ATTRIBUTES:
            self._recorder.note_shape_read(self._value)
            return getattr(sample, name)
        if name in VIEWS:
            return self._call(Attribute(name), name, self)
        if name in WRITERS and isinstance(sample, np.ndarray):
            return lambda *args, **kwargs: self._write(Method(name), name, args, kwargs)
        getattr(sample, name)  # an AttributeError, if the real one raises it
        if name in METHODS:
            method = Method(name)
            return lambda *args, **kwargs: self._call(method, name, self, *args, **kwargs)
        raise self._recorder.refuse(f"uses .{name}")

    def _write(
        self, change: Callable[..., object], name: str, args: tuple[object, ...], kwargs: KeywordArguments
    ) -> None:
        """Let `change` write into this array."""
        recorder = self._recorder
        recorder.check_written(self)
        args, kwargs = map_arguments(args, recorder.value_of), map_arguments(kwargs, recorder.value_of)
        target = self._value
        before = Value(target.slot, target.sample.copy(order="K"), target.batched, target.static, None, target.faithful)
        call = Call(as_new_array(change), name, (before, *args), kwargs)
        if any(v.opaque for v in call.values):
            raise recorder.refuse(f"{name} {OPAQUE}")

        def writing(_: object, *args: object, **kwargs: object) -> Traced:
            change(target.sample, *args, **kwargs)
            return target.sample

        call.sample = recorder.evaluate(writing, name, call.args, kwargs)
        self._value = recorder.record_known(call)

    def _assign(self, name: str, other: object) -> Traced:
        fn = BINARY[name]
        if not isinstance(self._sample(name), np.ndarray):
            return self._call(fn, ARRAY_NAMES[name], self, other)
        self._write(getattr(operator, f"i{name}"), f"i{name}", (other,), {})
        return self

    def __setitem__(self, index: object, value: object) -> None:
        self._write(operator.setitem, "setitem", (index, value), {})

    def __getitem__(self, index: object) -> Traced:
        return self._call(operator.getitem, "getitem", self, index)

    def __len__(self) -> int:
        self._recorder.note_shape_read(self._value)
        return len(self._sample("len()"))

    def __iter__(self) -> Iterator[Result]:
        return iter([self[i] for i in range(len(self))])

    def __bool__(self) -> bool:
        value = self._value
        return bool(value.sample) if value.static else self._recorder.decide(value)

    def __index__(self) -> int:
        return operator.index(self._known("makes a Python number of data"))

    def __int__(self) -> int:
        return int(self._known("makes a Python number of data"))

    def __float__(self) -> float:
        return float(self._known("makes a Python number of data"))

    def __complex__(self) -> complex:
        return complex(self._known("makes a Python number of data"))

    def __contains__(self, item: object) -> bool:
        return item in self._known("branches on data")

    def __repr__(self) -> str:
        if self._recorder.any_text and not self._value.static:
            return AnyText.of(self._recorder)
        return self._text() or repr(self._known(TEXT))

    def __format__(self, spec: str) -> str:
        return self._text() or format(self._known(TEXT), spec)

    def _text(self) -> str:
        """Something in place of the text of data, in an error on a path which blocks do not take: "" elsewhere."""
        fine = not self._value.static and self._recorder.decisions.made and is_for_raise(sys._getframe(2))
        return "data" if fine else ""

    def __array__(self, *args: object, **kwargs: object) -> Traced:
        raise self._recorder.refuse("hands data to a function that is not traced")

    def __reduce_ex__(self, protocol: object) -> Reduced:
        raise self._recorder.refuse("copies or pickles data")

    def __round__(self, digits: int | None = None) -> Traced:
        return self._call(round, "builtin round", self, *(() if digits is None else (digits,)))

    def __divmod__(self, other: object) -> Traced:
        return self._call(divmod, "divmod", self, other)

    def __rdivmod__(self, other: object) -> Traced:
        return self._call(divmod, "divmod", other, self)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: object, **kwargs: object) -> Traced:
        return apply_ufunc(self._recorder, ufunc, method, inputs, kwargs)

    def __array_function__(self, func: AnyFunction, types: object, args: Arguments, kwargs: KeywordArguments) -> Traced:
        from headrace.trace.numpy_names import apply_function

        return apply_function(self._recorder, func, args, kwargs)


class AnyText(str):
    """The text of data: it can be returned, and everything else that it is used for ends the trace."""

    placeholder = "data"
    recorder: Recorder

    @classmethod
    def of(cls, recorder: Recorder) -> AnyText:
        """Return the text of some data."""
        made = cls(cls.placeholder)
        made.recorder = recorder
        return made

    def _refuse(self, *_args: object, **_kwargs: object) -> Traced:
        raise self.recorder.refuse(TEXT)


for _name in ({*vars(str), "__radd__", "__rmod__"}) - {"__new__", "__doc__", "__getattribute__"}:
    setattr(AnyText, _name, AnyText._refuse)


def apply_ufunc(
    recorder: Recorder, ufunc: np.ufunc, method: str, inputs: tuple[object, ...], kwargs: KeywordArguments
) -> Traced:
    """Return a ufunc, or one of its methods, applied to symbols."""
    if method == "at":
        raise recorder.refuse(f"uses np.{ufunc.__name__}.at")
    out = kwargs.pop("out", None)
    out = out[0] if isinstance(out, tuple) and len(out) == 1 else out
    fn: AnyFunction = ufunc
    name = ufunc.__name__
    if method != "__call__":
        fn, name = getattr(ufunc, method), f"{name}.{method}"
    if out is None:
        return recorder.call(fn, name, inputs, kwargs)
    if type(out) is not Symbol or not isinstance(out._value.sample, np.ndarray):
        raise recorder.refuse(f"np.{name} with out=")

    def into(target: object, *args: object, **settings: object) -> None:
        fn(*args, out=target, **settings)

    out._write(into, f"{name} out", inputs, kwargs)
    return out


def _define() -> None:
    def binary(name: str, fn: Callable[..., object]) -> None:
        called = ARRAY_NAMES[name]

        def forward(self: Symbol, other: object) -> Traced:
            return self._call(fn, called, self, other)

        def backward(self: Symbol, other: object) -> Traced:
            return self._call(fn, called, other, self)

        setattr(Symbol, f"__{name}__", forward)
        if name in BINARY:
            setattr(Symbol, f"__r{name}__", backward)
            setattr(Symbol, f"__i{name}__", lambda self, other: self._assign(name, other))

    def unary(name: str, fn: Callable[..., object]) -> None:
        setattr(Symbol, f"__{name}__", lambda self: self._call(fn, ARRAY_NAMES[name], self))

    for name, fn in (BINARY | COMPARISONS).items():
        binary(name, fn)
    for name, fn in UNARY.items():
        unary(name, fn)


_define()

__all__ = ["Symbol", "Untraceable", "apply_ufunc"]
