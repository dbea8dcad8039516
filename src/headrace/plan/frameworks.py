"""Detect values and functions of TensorFlow and torch, which need not be installed, by the names of their classes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

from headrace.core.ragged import Ragged

FRAMEWORKS = {
    "tensorflow": "TensorFlow",
    "keras": "Keras",
    "tf_keras": "Keras",
    "tensorflow_text": "TensorFlow",
    "tensorflow_io": "TensorFlow",
    "torch": "torch",
    "torchvision": "torch",
    "torchaudio": "torch",
}


def as_array(value: Any) -> Any:
    """Return a tensor as an array, a RaggedTensor as an hr.Ragged; anything else that is an array in another guise as
    well.
    """
    root = type(value).__module__.partition(".")[0]
    name = type(value).__name__
    if root == "tensorflow":
        if name == "RaggedTensor":
            return Ragged(as_array(value.values), np.asarray(value.row_splits))
        if name in ("SparseTensor", "IndexedSlices"):
            raise TypeError(f"a {name} is no component of an element: tf.sparse.to_dense makes an array of it")
        if hasattr(value, "numpy"):
            return value.numpy()
    if root == "torch" and hasattr(value, "detach"):
        return value.detach().cpu().numpy()
    return np.asarray(value)


def is_tensor(value: Any) -> bool:
    """Return whether it is a tensor of any kind, or another array in disguise."""
    return hasattr(value, "__array__") or type(value).__module__.partition(".")[0] == "tensorflow"


def framework_called(fn: Callable[..., Any]) -> str | None:
    """Return the framework whose functions a function calls by name, according to its code."""
    for value in _names_used(fn):
        home = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
        found = FRAMEWORKS.get(str(home).partition(".")[0])
        if found:
            return found
    return None


def _names_used(fn: Any) -> Iterator[Any]:
    """Yield the globals and closures that a function's code names, and the function itself."""
    yield type(fn)
    yield fn
    while not isinstance(fn, FunctionType):
        inner = getattr(fn, "func", None) or getattr(fn, "__func__", None) or type(fn).__dict__.get("__call__")
        if inner is None or inner is fn:
            return
        fn = inner
    names = set(_names(fn.__code__))
    yield from (fn.__globals__[name] for name in names if name in fn.__globals__)
    for cell in fn.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # of a variable that is not assigned yet
            continue


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)
