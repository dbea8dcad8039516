"""Structures and specs as JSON."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from headrace.errors import StorageError
from headrace.plan.spec import DatasetSpec, Spec, TensorSpec
from headrace.plan.structure import LEAF, NONE, Structure, is_record

_KINDS: dict[str, type] = {"tuple": tuple, "dict": dict}


def plain_structure(structure: Structure) -> Any:
    """The structure as JSON holds it."""
    kind = structure.kind
    if kind is None:
        return "leaf"
    if kind is type(None):
        return "none"
    keys = [_plain_key(key) for key in structure.keys]
    written = [structure.keys.index(key) for key in structure.written]
    return [_kind_name(kind), keys, [plain_structure(child) for child in structure.children], written]


def structure_of(plain: Any) -> Structure:
    """The structure that JSON held."""
    if plain == "leaf":
        return LEAF
    if plain == "none":
        return NONE
    kind, keys, children, written = plain
    names = tuple(keys)
    return Structure(
        _kind(kind), names, tuple(structure_of(child) for child in children), tuple(names[i] for i in written)
    )


def plain_spec(spec: Spec) -> Any:
    """The spec as JSON holds it."""
    if spec.structure is None:
        return None
    if any(isinstance(s, DatasetSpec) for s in spec.leaves):
        raise StorageError(f"datasets inside of elements cannot be stored: {spec}; flat_map or batch them first")
    leaves = [[s.shape, None if s.dtype is None else s.dtype.str] for s in spec.leaves]
    return [plain_structure(spec.structure), leaves]


def spec_of(plain: Any) -> Spec:
    """The spec that JSON held."""
    if plain is None:
        return Spec.UNKNOWN
    structure, leaves = plain
    return Spec(
        structure_of(structure), tuple(TensorSpec(shape, None if d is None else np.dtype(d)) for shape, d in leaves)
    )


def _plain_key(key: Any) -> Any:
    if isinstance(key, str | int):
        return key
    raise StorageError(f"elements with the key {key!r} cannot be stored: keys must be str or int")


def _kind_name(kind: type) -> str:
    for name, known in _KINDS.items():
        if kind is known:
            return name
    name = f"{kind.__module__}:{kind.__qualname__}"
    if "<locals>" in name:
        raise StorageError(
            f"elements of class {kind.__name__} cannot be stored: it is defined inside a function, "
            "where nobody finds it again; move it to the top of its module"
        )
    return name


def _kind(name: str) -> type:
    if name in _KINDS:
        return _KINDS[name]
    module, _, path = name.partition(":")
    try:
        found: Any = importlib.import_module(module)
        for part in path.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise StorageError(f"the stored elements are of class {name}, which is not there: {error}") from error
    if isinstance(found, type) and (issubclass(found, tuple | Mapping) or is_record(found)):
        return found
    raise StorageError(f"the stored elements are of class {name}, which is no tuple, mapping or dataclass")
