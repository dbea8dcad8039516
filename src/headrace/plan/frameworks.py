"""Detect values and functions of TensorFlow and torch, which need not be installed, by the names of their classes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace.core.extended import dtype_of
from headrace.core.ragged import Ragged
from headrace.core.types import Component, LibraryObject

if TYPE_CHECKING:
    pass

CPU_DEVICES = (1, 3)
"""DLPack's numbers of devices whose memory NumPy can read: the CPU, and page-locked memory of CUDA."""
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


def as_array(value: LibraryObject) -> Component:
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
        return _of_torch(value.detach().cpu())
    return np.asarray(value) if hasattr(value, "__array__") or not _is_dlpack(value) else np.from_dlpack(value)


def _of_torch(tensor: LibraryObject) -> Component:
    """Return the memory of a tensor as an array; bfloat16 and float8 as dtypes of ml_dtypes."""
    name = str(tensor.dtype).removeprefix("torch.")
    if name != "bfloat16" and not name.startswith("float8"):
        return tensor.numpy()
    torch = sys.modules["torch"]
    return tensor.view(torch.int16 if name == "bfloat16" else torch.uint8).numpy().view(dtype_of(name))


def is_tensor(value: object) -> bool:
    """Return whether it is a tensor of any kind, or another array-like object."""
    return hasattr(value, "__array__") or type(value).__module__.partition(".")[0] == "tensorflow" or _is_dlpack(value)


def _is_dlpack(value: object) -> bool:
    """Return whether it is an array in the memory of the CPU that other libraries read through DLPack."""
    if isinstance(value, type) or not hasattr(value, "__dlpack__") or not hasattr(value, "__dlpack_device__"):
        return False
    return int(value.__dlpack_device__()[0]) in CPU_DEVICES


def framework_called(fn: Callable[..., object]) -> str | None:
    """Return the framework whose functions a function calls by name, according to its code."""
    for value in _names_used(fn):
        home = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
        found = FRAMEWORKS.get(str(home).partition(".")[0])
        if found:
            return found
    return None


def _names_used(fn: object) -> Iterator[Any]:
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
