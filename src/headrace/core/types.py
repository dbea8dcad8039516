"""Names for the values whose classes no annotation can name, and for types that are written often."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import torch
    from typing_extensions import Buffer

StrPath: TypeAlias = str | os.PathLike[str]
"""A path of a file or folder."""

Array: TypeAlias = NDArray[Any]
"""A NumPy array of any dtype."""

DType: TypeAlias = np.dtype[Any]
"""A NumPy dtype."""

Component: TypeAlias = Any
"""The value at one leaf of an element: an array, a number, text, bytes, a `Ragged` or any other Python object."""

Nested: TypeAlias = Any
"""Components, or one other thing for each of them, in the tuples, dicts, named tuples and dataclasses of an element."""

UserFunction: TypeAlias = Callable[..., Any]
"""A function of a pipeline's author: its parameters are the components of elements, its result is an element."""

AnyFunction: TypeAlias = Callable[..., Any]
"""A function that is passed on or called with arguments that its caller got: of any signature."""

Argument: TypeAlias = Any
"""An argument that is passed on to a function, whose own signature declares its type."""

Arguments: TypeAlias = tuple[Any, ...]
"""The positional arguments of a call that is passed on."""

KeywordArguments: TypeAlias = dict[str, Any]
"""The keyword arguments of a call that is passed on."""

JsonValue: TypeAlias = Any
"""A value read from JSON: None, a bool, a number, a str, a list or a dict of these; code that reads it checks which."""

JsonObject: TypeAlias = dict[str, Any]
"""A JSON object, as read or to be written."""

TensorLike: TypeAlias = Any
"""An argument of an operation: an array or what NumPy makes one of; in a traced function also a symbol."""

Tensor: TypeAlias = Any
"""The result of an operation: an array, a number or text; in a traced function the symbol of one."""

RandomSource: TypeAlias = Any
"""A `numpy.random.Generator`, the generator of a `random_map`, or the symbol of one in a traced function."""

FilePatterns: TypeAlias = StrPath | Iterable[StrPath]
"""Names or patterns of files or objects of a store: one, or a list, an array or a dataset of them."""

DeviceLike: TypeAlias = Any
"""A device of PyTorch or JAX, or its name."""

TorchTensor: TypeAlias = "torch.Tensor"
"""A tensor of PyTorch, which type checkers know if it is installed."""

Library: TypeAlias = Any
"""A module of another package, imported when it is needed; type checkers may lack its types."""

LibraryObject: TypeAlias = Any
"""An object of another package, such as a connection, a tokenizer or a data frame; type checkers may lack its types."""

Attribute: TypeAlias = Any
"""What is found under a name that is looked up when it is used: a function, a class, a module or a value."""

Reduced: TypeAlias = str | tuple[Any, ...]
"""The result of `__reduce__`: how pickle makes the object again."""

SharedValues: TypeAlias = dict[Any, Any]
"""Objects that the operations of one pass share, such as open files, each under a key of its operation."""

BytesLike: TypeAlias = "Buffer"
"""Memory: bytes, a bytearray, a memoryview or an array."""
