"""NumPy as a traced function sees it: the same names, which record their calls."""

from __future__ import annotations

import operator
from collections.abc import Callable
from types import ModuleType

import numpy as np

from headrace.core.types import Attribute, DType, KeywordArguments, UserFunction
from headrace.trace.errors import OPAQUE
from headrace.trace.operation import OF_NUMPY
from headrace.trace.recorder import Recorder
from headrace.trace.symbols import Symbol, apply_ufunc
from headrace.trace.values import KINDS, Operand, Traced, Value, leaves, map_arguments

SHAPE_ONLY = frozenset({
    "shape", "ndim", "size", "result_type", "can_cast", "iscomplexobj", "isrealobj", "promote_types", "min_scalar_type",
    "broadcast_shapes", "issubdtype", "finfo", "iinfo", "dtype", "isscalar", "isdtype", "common_type",
})  # fmt: skip
"""Functions of shapes and dtypes, which the samples have too."""
SHAPED_LIKE = frozenset({"zeros_like", "ones_like", "empty_like", "full_like"})
CREATORS = frozenset({
    "zeros", "ones", "empty", "full", "arange", "linspace", "logspace", "geomspace", "eye", "identity", "tri",
    "indices", "fromiter", "hanning", "hamming", "blackman", "bartlett", "tril_indices", "triu_indices", "ix_",
    "mgrid", "ogrid",
})  # fmt: skip
MODULES = ("linalg", "fft")
BARRED = frozenset({
    "save", "savez", "savetxt", "savez_compressed", "load", "loadtxt", "genfromtxt", "fromfile", "memmap", "seterr",
    "seterrcall", "setbufsize", "set_printoptions", "copyto", "put", "place", "putmask", "fill_diagonal",
    "put_along_axis", "vectorize", "frompyfunc", "apply_along_axis", "piecewise", "fromfunction", "nditer",
    "show_config", "show_runtime", "test", "info", "printoptions",
})  # fmt: skip


def apply_function(
    recorder: Recorder, func: Callable[..., object], args: tuple[object, ...], kwargs: KeywordArguments
) -> Traced:
    """Return one of NumPy's functions applied to symbols."""
    name = func.__name__
    if name in BARRED:
        raise recorder.refuse(f"uses np.{name}")
    if name in SHAPE_ONLY:
        found = map_arguments((args, kwargs), recorder.value_of)
        if any(v.opaque for v in leaves(found)):
            raise recorder.refuse(f"np.{name} {OPAQUE}")
        for value in leaves(found):
            recorder.note_shape_read(value)
        args, kwargs = map_arguments(found, lambda i: i.sample if isinstance(i, Value) else i)
        return func(*args, **kwargs)
    if name in SHAPED_LIKE:
        return _like(recorder, func, name, args, kwargs)
    if kwargs.get("out") is not None:
        raise recorder.refuse(f"np.{name} with out=")
    if name == "bincount":
        recorder.loose = True  # as long as the largest number needs
    return recorder.call(func, name, args, kwargs)


def _like(
    recorder: Recorder, func: Callable[..., object], name: str, args: tuple[object, ...], kwargs: KeywordArguments
) -> Traced:
    """Return an array of another's shape: nothing of its data is needed."""
    prototype, *rest = args or (kwargs.pop("a", None),)
    value = recorder.value_of(prototype)
    sample = value.sample if isinstance(value, Value) else value
    if sample is None:
        raise recorder.refuse(f"np.{name} {OPAQUE}")
    if not isinstance(sample, np.ndarray | np.generic | int | float):
        return recorder.call(func, name, (prototype, *rest), kwargs)
    if any(not v.static for v in leaves(map_arguments((tuple(rest), kwargs), recorder.value_of))):
        raise recorder.refuse(f"np.{name} with data to fill in")
    layout = np.empty_like(sample)
    return recorder.call(lambda *a, **k: func(layout, *a, **k), name, tuple(rest), kwargs)


class Recorded:
    """A function of NumPy, or a ufunc with its methods."""

    def __init__(self, recorder: Recorder, fn: UserFunction) -> None:
        self._recorder = recorder
        self._fn = fn
        self.__name__: str = fn.__name__

    def __call__(self, *args: object, **kwargs: object) -> Traced:
        """Record a call."""
        args, kwargs = real(args), real(kwargs)
        if isinstance(self._fn, np.ufunc):
            return apply_ufunc(self._recorder, self._fn, "__call__", args, kwargs)
        return apply_function(self._recorder, self._fn, args, kwargs)

    def __getattr__(self, name: str) -> Attribute:
        fn = self._fn
        if isinstance(fn, np.ufunc) and name in ("reduce", "accumulate", "outer", "reduceat", "at"):
            return lambda *args, **kwargs: apply_ufunc(self._recorder, fn, name, real(args), real(kwargs))
        raise self._recorder.refuse(f"uses np.{self.__name__}.{name}")


class _ScalarKind(type):
    """A stand-in for a NumPy scalar type: it converts symbols, and otherwise behaves like the type."""

    real: type
    dtype: DType
    recorder: Recorder

    def __call__(cls, *args: object, **kwargs: object) -> Traced:
        return cls.recorder.call(cls.real, "scalar type", args, kwargs)

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, cls.real)

    def __subclasscheck__(cls, other: type) -> bool:
        return issubclass(_real(other), cls.real)

    def __eq__(cls, other: object) -> bool:
        return bool(cls.real == _real(other))

    def __hash__(cls) -> int:
        return hash(cls.real)

    def __getattr__(cls, name: str) -> Attribute:
        return getattr(cls.real, name)


def scalar_kind(recorder: Recorder, kind: type) -> Traced:
    """Return the stand-in for a scalar type. Abstract ones (np.integer) are only asked about, so they stay."""
    if kind not in _CONCRETE:
        return kind
    return _ScalarKind(kind.__name__, (), {"real": kind, "dtype": np.dtype(kind), "recorder": recorder})


_CONCRETE = frozenset(kind for kind in np.sctypeDict.values() if np.dtype(kind).kind in KINDS)


def _real(item: object) -> Traced:
    if type(item) is _ScalarKind:
        return item.real
    return item._fn if type(item) is Recorded else item


def real(tree: object) -> Traced:
    """Arguments with stand-ins replaced by what they stand for."""
    return map_arguments(tree, _real)


class Namespace:
    """A module of NumPy's."""

    def __init__(self, recorder: Recorder, module: ModuleType) -> None:
        self._recorder = recorder
        self._module = module
        self._made: KeywordArguments = {}

    def __getattr__(self, name: str) -> Attribute:
        if name not in self._made:
            self._made[name] = self._look_up(name)
        return self._made[name]

    def _look_up(self, name: str) -> Traced:
        recorder = self._recorder
        if self._module is np and name == "errstate":
            return lambda **settings: recorder.errstate(settings)
        value = getattr(self._module, name)
        where = f"{self._module.__name__}.{name}"
        if isinstance(value, ModuleType):
            if self._module is np and name in MODULES:
                return Namespace(recorder, value)
            raise recorder.refuse(f"uses {where}")
        return numpy_name(recorder, value, where)


def numpy_name(recorder: Recorder, value: object, where: str) -> Traced:
    """Return what a traced function gets for something of NumPy's."""
    if isinstance(value, type):
        if issubclass(value, np.generic):
            return scalar_kind(recorder, value)
        if value in (np.ndarray, np.dtype) or issubclass(value, BaseException):
            return value if value is not np.dtype else (lambda *a, **k: np.dtype(*real(a), **k))
        if value in (np.finfo, np.iinfo):
            return lambda given: value(_plain_dtype(real(given)))
        raise recorder.refuse(f"uses {where}")
    if isinstance(value, float | int | str | None):
        return value
    if isinstance(value, np.ufunc):
        return Recorded(recorder, value)
    name = getattr(value, "__name__", "")
    if name in OF_NUMPY:
        return OF_NUMPY[name]
    if name in BARRED or not callable(value):
        raise recorder.refuse(f"uses {where}")
    if name in SHAPE_ONLY | SHAPED_LIKE | CREATORS or _is_known(name):
        return Recorded(recorder, value)
    raise recorder.refuse(f"uses {where}")


def _plain_dtype(given: object) -> Operand:
    return given.dtype if type(given) is Symbol else given


def _is_known(name: str) -> bool:
    from headrace.trace.rules import ROWWISE

    return name in ROWWISE


OPERATORS = frozenset(n for n in dir(operator) if not n.startswith("_") and n not in ("setitem", "delitem"))
