"""Which components of an element `pack` puts into rows, and its separators and padding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.core.types import Array, Component, DType
from headrace.errors import SpecError
from headrace.ops.shared.arguments import positive
from headrace.plan.spec import Spec, TensorSpec

Names = Sequence[str] | Mapping[str, Any]
PLACES = ("segments", "positions", "documents", "cu_seqlens", "max_seqlen")
"""The components that `pack` adds."""


@dataclass(frozen=True, repr=False)
class PackedField:
    """A component with one value, or one row of values, per token."""

    name: str
    leaf: int
    dtype: DType
    width: tuple[int, ...]
    separator: Component = None
    pad: Component = 0

    def cell(self, value: object) -> NDArray[np.uint8]:
        """The bytes of one cell that holds `value`; none for None."""
        if value is None:
            return np.empty(0, np.uint8)
        return np.full(self.width, value, self.dtype).reshape(-1).view(np.uint8)

    def fits(self, value: Component) -> bool:
        """Whether a component is one document of this field."""
        return (
            isinstance(value, np.ndarray)
            and value.ndim == 1 + len(self.width)
            and value.dtype == self.dtype
            and value.shape[1:] == self.width
        )

    def __repr__(self) -> str:
        behind = "" if self.separator is None else f", separator {self.separator}"
        after = f", pad {self.pad}" if self.pad else ""
        return f"{self.name}[{self.leaf}] {self.dtype}{list(self.width) or ''}{behind}{after}"


@dataclass(frozen=True, repr=False)
class PackedItems:
    """A component with items of a document, such as its images, or one value per document."""

    name: str
    leaf: int
    dtype: DType
    width: tuple[int, ...]
    single: bool

    def fits(self, value: Component) -> bool:
        """Whether a component is the items of one document."""
        if self.dtype.kind in "OUS":
            return isinstance(value, str | bytes)
        shape = np.shape(value)
        right = shape == () if self.single else shape[1:] == self.width and len(shape) == 1 + len(self.width)
        return isinstance(value, np.ndarray | np.generic) and right and value.dtype == self.dtype

    def joined(self, parts: list[Component]) -> Array:
        """The items of several documents, one after another."""
        if self.dtype.kind in "OUS":
            made = np.empty(len(parts), object)
            made[:] = parts
            return made
        if not parts:
            return np.empty((0, *self.width), self.dtype)
        return np.array(parts, self.dtype) if self.single else np.concatenate(parts)

    def __repr__(self) -> str:
        return f"{self.name}[{self.leaf}] {self.dtype}{list(self.width) or ''}"


@dataclass(frozen=True, repr=False)
class PackedGroup:
    """Fields whose rows have one length, and the same places in it."""

    prefix: str
    length: int
    fields: tuple[PackedField, ...]
    separated: bool

    def __repr__(self) -> str:
        return f"{self.length}: {list(self.fields)}"


@dataclass(frozen=True)
class PackArguments:
    """The user's arguments about fields, checked against the spec of the elements."""

    spec: Spec
    length: int | Mapping[str, int]
    fields: Names | None
    items: Names | None
    separator: Component
    pad: Component

    def groups(self) -> tuple[PackedGroup, ...]:
        """The fields, by the lengths of their rows."""
        lengths = self._lengths()
        fields = self._fields()
        if isinstance(lengths, int):
            separated = _check_separators(fields)
            return (PackedGroup("", lengths, fields, separated),)
        if set(lengths) != {field.name for field in fields}:
            raise ValueError(f"pack: lengths are of {sorted(lengths)}, fields {sorted(field.name for field in fields)}")
        prefix = "{}_".format
        return tuple(PackedGroup(prefix(f.name), lengths[f.name], (f,), f.separator is not None) for f in fields)

    def _lengths(self) -> int | dict[str, int]:
        if isinstance(self.length, Mapping):
            if not self.length:
                raise ValueError("pack: length names no field")
            return {str(name): positive(f"length of {name!r}", size) for name, size in self.length.items()}
        return positive("length", self.length)

    def _fields(self) -> tuple[PackedField, ...]:
        names = self._given_fields()
        taken = set(self._item_leaves().values())
        found = self._leaves(names, "fields") if names is not None else self._all_leaves(taken)
        separators, pads = (_by_field(found, what, given) for what, given in self._fillings())
        made = []
        for name, leaf in found.items():
            dtype, width = self._cells(name, leaf)
            field = PackedField(name, leaf, dtype, width, separators.get(name), pads.get(name, 0))
            for what, value in (("separator", field.separator), ("pad", field.pad)):
                if value is not None and np.asarray(value).astype(dtype) != value:
                    raise ValueError(f"pack: the {what} {value!r} is no {dtype}")
            made.append(field)
        return tuple(made)

    def _given_fields(self) -> Names | None:
        if self.fields is None and isinstance(self.length, Mapping):
            return list(self.length)
        return self.fields

    def _item_leaves(self) -> dict[str, int]:
        """The number of the leaf of each of the items. Those of tuples follow the fields."""
        fields = self._given_fields()
        by_order = not isinstance(fields, Mapping)
        return self._leaves(self.items or (), "items", first=len(fields) if fields is not None and by_order else 0)

    def _fillings(self) -> list[tuple[str, Any]]:
        return [("separator", self.separator), ("pad", self.pad)]

    def items_of(self) -> tuple[PackedItems, ...]:
        """The components that travel with their document."""
        made = []
        for name, leaf in self._item_leaves().items():
            spec = self.spec.leaves[leaf]
            if not isinstance(spec, TensorSpec) or spec.shape is None or spec.dtype is None:
                raise SpecError(f"pack: the dtype and the shape of the items {name!r} must be known, not {spec}")
            width = spec.shape[1:]
            if None in width:
                raise SpecError(
                    f"pack: the items {name!r} of a row must have one shape, not {spec}: map them to one size before"
                )
            text = spec.dtype.kind in "OUS"
            if text and spec.shape:
                raise SpecError(f"pack: text items are one per document, {name!r} is {spec}")
            sizes = tuple(size for size in width if size is not None)
            made.append(PackedItems(name, leaf, spec.dtype, sizes, spec.shape == ()))
        return tuple(made)

    def _all_leaves(self, taken: set[int]) -> dict[str, int]:
        """Every component that is not one of the items."""
        structure = self.spec.structure
        if structure is None or structure.kind is None:
            return {"tokens": 0}
        if structure.kind is tuple:
            raise SpecError(
                f'pack must know what the components of {self.spec} are called: give fields=("tokens", "labels")'
            )
        if not structure.flat:
            raise SpecError(f"pack takes one row of tokens an element, or a flat dict of them, not {self.spec}")
        return {str(key): i for i, key in enumerate(structure.keys) if i not in taken}

    def _leaves(self, names: Names, what: str, first: int = 0) -> dict[str, int]:
        """The number of the leaf of each name; `first` is that of the first name, for tuples."""
        structure = self.spec.structure
        if not names:
            return {}
        if isinstance(names, str):
            raise TypeError(f"pack: {what} are several names, not {names!r}")
        if structure is None or structure.kind is None:
            if what == "items" or len(names) != 1 or isinstance(names, Mapping):
                raise SpecError(f"pack: the elements are {self.spec}, which has no components {list(names)}")
            return {str(next(iter(names))): 0}
        if not structure.flat:
            raise SpecError(f"pack takes flat elements, not {self.spec}: map the fields to one dict first")
        keys = list(structure.keys)
        by_order = structure.kind is tuple and not isinstance(names, Mapping)
        pairs = (
            names.items()
            if isinstance(names, Mapping)
            else [(n, i if by_order else n) for i, n in enumerate(names, first)]
        )
        unknown = [key for _, key in pairs if key not in keys]
        if unknown:
            raise SpecError(f"pack: {what} names {unknown[0]!r}, the elements have {keys}")
        return {str(name): keys.index(key) for name, key in pairs}

    def _cells(self, name: str, leaf: int) -> tuple[DType, tuple[int, ...]]:
        """The dtype and the shape of one cell."""
        spec = self.spec.leaves[leaf] if self.spec.structure is not None else None
        if isinstance(spec, TensorSpec) and spec.shape == ():
            raise SpecError(
                f"pack takes one row of tokens an element, {name!r} is {spec}: map it to the tokens first, or name it "
                "in items="
            )
        dtype = None if spec is None else spec.dtype
        if spec is None or dtype is None:
            raise SpecError(
                "pack must know the dtype of the tokens, which the operation before it does not tell: give it "
                "output_signature=hr.TensorSpec((None,), np.int32)"
            )
        if dtype.kind not in "iufb":
            raise SpecError(f"pack takes numbers as tokens, not {spec}")
        sizes = () if spec.shape is None else spec.shape[1:]
        width = tuple(size for size in sizes if size is not None)
        if len(width) < len(sizes):
            raise SpecError(f"pack: the rows of {name!r} must be of one size, not {spec}")
        return dtype, width


def _by_field(fields: Mapping[str, int], what: str, given: object) -> dict[str, Any]:
    """A value for each field that has one."""
    if given is None:
        return {}
    if isinstance(given, Mapping):
        unknown = [name for name in given if name not in fields]
        if unknown:
            raise ValueError(f"pack: {what} names {unknown[0]!r}, the fields are {list(fields)}")
        return dict(given)
    if len(fields) > 1 and not (what == "pad" and given == 0):
        raise ValueError(f"pack: {what} must say which field it is for: {{{next(iter(fields))!r}: {given!r}, …}}")
    return dict.fromkeys(fields, given)


def _check_separators(fields: tuple[PackedField, ...]) -> bool:
    """Return whether a separator follows each document, in all fields."""
    without = [field.name for field in fields if field.separator is None]
    if without and len(without) < len(fields):
        raise ValueError(f"pack: a separator takes a cell of every field, and separator has none for {without}")
    return not without


def check_names(groups: tuple[PackedGroup, ...], items: tuple[PackedItems, ...]) -> None:
    """Refuse names that `pack` gives to its own components; positions of the user's are kept."""
    names = [field.name for group in groups for field in group.fields]
    names += [name for each in items for name in (each.name, f"{each.name}_segments")]
    added = [f"{group.prefix}{name}" for group in groups for name in PLACES if f"{group.prefix}{name}" != "positions"]
    doubled = [name for i, name in enumerate(names) if name in names[:i] or name in added]
    if doubled:
        raise ValueError(f"pack: {doubled[0]!r} is a component of the packed rows already: rename the field")
