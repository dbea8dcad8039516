"""Specs: what is known of the elements of a dataset without running it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, reduce
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import DTypeLike

from headrace.core.ragged import Ragged
from headrace.core.types import Component, DType, Nested
from headrace.errors import SpecError
from headrace.plan.dtypes import as_sizes, numpy_dtype
from headrace.plan.structure import LEAF, Structure, flatten, tuple_of

Shape = tuple[int | None, ...] | None


class TensorSpec:
    """Shape and dtype of one component; None stands for a size, a rank or a dtype that is not known.

    `str` and `bytes` values have the dtypes `np.dtype(str)` and `np.dtype(bytes)`, other Python objects `object`.

    Args:
        shape: Shape; None stands for an unknown size or rank.
        dtype: Data type; None if unknown.
        name: Name of the component.

    >>> hr.TensorSpec([None, 28, 28], "uint8")
    TensorSpec(shape=(None, 28, 28), dtype=uint8)
    """

    __slots__ = ("dtype", "name", "shape")

    def __init__(
        self, shape: Iterable[int | None] | int | None, dtype: DTypeLike | None = np.float32, name: str | None = None
    ) -> None:
        sizes = as_sizes(shape)
        self.shape: Shape = None if sizes is None else tuple(None if n is None else _size(n) for n in sizes)
        self.dtype: DType | None = None if dtype is None else _plain(numpy_dtype(dtype))
        self.name: str | None = name

    @property
    def rank(self) -> int | None:
        """The number of axes, None if it is not known."""
        return None if self.shape is None else len(self.shape)

    def is_compatible_with(self, other: object) -> bool:
        """Return whether a value could have both specs; `other` may be a spec or a value."""
        other = _as_spec(other)
        return self.like(other) and _shapes_agree(self.shape, other.shape)

    def like(self, other: LeafSpec) -> bool:
        """Return whether a value could have both specs, save for its shape."""
        if self.dtype is None or other.dtype is None:
            return True
        return isinstance(other, TensorSpec) and self.dtype == other.dtype

    def common(self, other: LeafSpec) -> TensorSpec:
        """Return the most exact spec that admits the values of both."""
        return TensorSpec(_common(self.shape, other.shape), self.dtype if same_dtype(self.dtype, other.dtype) else None)

    def with_shape(self, shape: Shape) -> TensorSpec:
        """Return values like these, of another shape."""
        return TensorSpec(shape, self.dtype)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TensorSpec) and self.shape == other.shape and same_dtype(self.dtype, other.dtype)

    def __hash__(self) -> int:
        return hash((self.shape, self.dtype))

    def __repr__(self) -> str:
        name = f", name={self.name!r}" if self.name else ""
        return f"TensorSpec(shape={self.shape}, dtype={dtype_name(self.dtype)}{name})"

    def __str__(self) -> str:
        sizes = "?" if self.shape is None else ",".join("?" if n is None else str(n) for n in self.shape)
        return dtype_name(self.dtype) + (f"[{sizes}]" if self.shape is None or self.shape else "")


class DatasetSpec:
    """The spec of a component that is itself a dataset, such as a window.

    `dataset_shape` is that of an array of datasets, which a batch of windows is.

    Args:
        element_spec: Structure, shapes and dtypes of the elements.
        dataset_shape: Shape of the structure of datasets; () for one.

    >>> hr.Dataset.range(5).window(2).element_spec
    DatasetSpec(TensorSpec(shape=(), dtype=int64))
    """

    __slots__ = ("_elements", "shape")
    dtype: ClassVar[DType] = np.dtype(object)

    def __init__(self, element_spec: Nested, dataset_shape: Iterable[int | None] | None = ()) -> None:
        if not isinstance(element_spec, Spec):
            unknown = element_spec == Spec.UNKNOWN.public()
            element_spec = Spec.UNKNOWN if unknown else Spec.of_signature(element_spec)
        self._elements: Spec = element_spec
        self.shape: Shape = None if dataset_shape is None else tuple(dataset_shape)

    @property
    def elements(self) -> Spec:
        """What its elements look like."""
        return self._elements

    @property
    def element_spec(self) -> Nested:
        """As the dataset's own `element_spec` shows it."""
        return self._elements.public()

    @property
    def rank(self) -> int | None:
        """The number of axes, 0 for a single dataset."""
        return None if self.shape is None else len(self.shape)

    def is_compatible_with(self, other: object) -> bool:
        """Return whether a dataset could have both specs; `other` may be a spec or a dataset."""
        other = _as_spec(other)
        if isinstance(other, TensorSpec):
            return other.is_compatible_with(self)
        return self._elements.conflict(other._elements) is None and _shapes_agree(self.shape, other.shape)

    def like(self, other: LeafSpec) -> bool:
        """Return whether a value could have both specs, save for shapes."""
        return other.like(self) if isinstance(other, TensorSpec) else not self._elements.mismatch(other._elements)

    def common(self, other: LeafSpec) -> LeafSpec:
        """Return the most exact spec that admits the values of both."""
        if isinstance(other, TensorSpec):
            return other.common(self)
        return DatasetSpec(self._elements.common(other._elements), _common(self.shape, other.shape))

    def with_shape(self, shape: Shape) -> DatasetSpec:
        """Such datasets in an array of this shape."""
        return DatasetSpec(self._elements, shape)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DatasetSpec) and (self.shape, self._elements) == (other.shape, other._elements)

    def __hash__(self) -> int:
        return hash((self.shape, self._elements))

    def __repr__(self) -> str:
        return f"DatasetSpec({self.element_spec!r}{'' if self.shape == () else f', {self.shape}'})"

    def __str__(self) -> str:
        sizes = "" if self.shape == () else f"{self.shape} "
        return f"{sizes}dataset of {self._elements}"


LeafSpec: TypeAlias = TensorSpec | DatasetSpec
"""The spec of one component."""


def _as_spec(value: object) -> LeafSpec:
    spec = _written_spec(value)
    return leaf_spec(value) if spec is None else spec


def _written_spec(value: Nested) -> LeafSpec | None:
    """Return a spec of ours, or TensorFlow's of a dense or ragged tensor as one of ours; None for other values."""
    if isinstance(value, LeafSpec):
        return value
    named = type(value).__name__ in ("TensorSpec", "RaggedTensorSpec")
    if named and type(value).__module__.partition(".")[0] == "tensorflow":
        return TensorSpec(value.shape, value.dtype, getattr(value, "name", None))
    return None


def _shapes_agree(one: Shape, other: Shape) -> bool:
    if one is None or other is None:
        return True
    return len(one) == len(other) and all(a is None or b is None or a == b for a, b in zip(one, other, strict=True))


def _common(one: Shape, other: Shape) -> Shape:
    if one is None or other is None or len(one) != len(other):
        return None
    return tuple(a if a == b else None for a, b in zip(one, other, strict=True))


@lru_cache(256)
def same_dtype(one: DType | None, other: DType | None) -> bool:
    """Return whether both dtypes are equal, or both unknown. NumPy alone takes None for float64."""
    return (one is None) == (other is None) and one == other


def dtype_name(dtype: DType | None) -> str:
    """Return the dtype as users write it. Cached, because NumPy takes microseconds and a table has many."""
    if dtype is None:
        return "?"
    return {"U": "str", "S": "bytes", "O": "object"}.get(dtype.kind, str(dtype))


def _size(n: int) -> int:
    if n < 0:
        raise ValueError(f"a shape holds sizes or None, not {n}")
    return int(n)


def _plain(dtype: DType) -> DType:
    """Strings of any width are one dtype: their width is not part of the spec."""
    return np.dtype(dtype.type) if dtype.kind in "US" else dtype


@dataclass(frozen=True)
class Spec:
    """The spec of an element: its structure with a TensorSpec at each leaf, or nothing at all (`UNKNOWN`)."""

    structure: Structure | None
    leaves: tuple[LeafSpec, ...] = ()

    UNKNOWN: ClassVar[Spec]

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash((self.structure, self.leaves))

    @property
    def known(self) -> bool:
        """Whether the structure is known."""
        return self.structure is not None

    @property
    def keys(self) -> list[Component]:
        """The names of the components of dicts, wherever they stand."""
        return [] if self.structure is None else self.structure.names

    @property
    def complete(self) -> bool:
        """Whether the structure and all dtypes are known."""
        return self.known and all(s.dtype is not None for s in self.leaves)

    def public(self) -> Nested:
        """Return what `element_spec` shows: TensorSpecs in the structure of the element."""
        return TensorSpec(None, None) if self.structure is None else self.structure.around(self.leaves)

    def with_leading_axis(self, size: int | None) -> Spec:
        """Add a new leading axis."""
        return Spec(self.structure, tuple(s.with_shape(_prepend(size, s.shape)) for s in self.leaves))

    def without_sizes(self) -> Spec:
        """Return the spec without sizes: those of one element do not hold for the others."""
        return Spec(
            self.structure,
            tuple(s.with_shape(None if s.shape is None else (None,) * len(s.shape)) for s in self.leaves),
        )

    def without_ranks(self) -> Spec:
        """Dtypes only."""
        return Spec(self.structure, tuple(s.with_shape(None) for s in self.leaves))

    def mismatch(self, other: Spec) -> str | None:
        """Return why no element can have both specs, or None. An unknown spec fits everything."""
        if self.structure is None or other.structure is None:
            return None
        if self.structure != other.structure:
            return f"structure {self} against {other}"
        for path, a, b in zip(self.structure.paths, self.leaves, other.leaves, strict=True):
            if not a.like(b):
                return f"component{path or ''} is {a} against {b}"
        return None

    def common(self, other: Spec) -> Spec:
        """Return the most exact spec that admits the elements of both."""
        if self.structure is None or self.structure != other.structure:
            return Spec.UNKNOWN
        return Spec(self.structure, tuple(a.common(b) for a, b in zip(self.leaves, other.leaves, strict=True)))

    def refusal(self, value: object) -> str | None:
        """Return why `value` is not an element of this spec, or None."""
        return None if self.structure is None else self.conflict(Spec.of(value))

    def conflict(self, other: Spec) -> str | None:
        """Return why an element of the `other` spec cannot be one of this spec, or None.

        An unknown spec fits everything.
        """
        if self.structure is None or other.structure is None:
            return None
        if other.structure != self.structure:
            return f"structure {other} where {self} was promised"
        for path, want, got in zip(self.structure.paths, self.leaves, other.leaves, strict=True):
            if not want.is_compatible_with(got):
                return f"component{path or ''} is {got} where {want} was promised"
        return None

    def __str__(self) -> str:
        return self._text

    @cached_property
    def _text(self) -> str:
        return "?" if self.structure is None else self.structure.text(str(s) for s in self.leaves)

    @classmethod
    def of(cls, value: object) -> Spec:
        """Return the exact spec of one element."""
        return cls.of_leaves(*flatten(value))

    @classmethod
    def of_leaves(cls, structure: Structure, leaves: Iterable[object]) -> Spec:
        """Return the exact spec of an element with these components."""
        return cls(structure, tuple(leaf_spec(leaf) for leaf in leaves))

    @classmethod
    def of_signature(cls, signature: Nested) -> Spec:
        """From what users write: TensorSpecs in a structure."""
        structure, leaves = flatten(signature)
        specs = []
        for path, leaf in zip(structure.paths, leaves, strict=True):
            spec = _written_spec(leaf)
            if spec is None:
                raise TypeError(f"output_signature{path} must be an hr.TensorSpec, not {leaf!r}")
            specs.append(spec)
        return cls(structure, tuple(specs))

    @classmethod
    def of_types(cls, types: object, shapes: object) -> Spec:
        """From tf.data's older pair of structures."""
        structure, dtypes = flatten(types)
        if shapes is None:
            leaves: Sequence[Any] = [None] * len(dtypes)
        elif structure == LEAF:
            leaves = [shapes]
        else:
            leaves = shape_leaves("output_shapes", structure, shapes)
        return cls(structure, tuple(TensorSpec(s, d) for s, d in zip(leaves, dtypes, strict=True)))

    @classmethod
    def tuple_of(cls, specs: Sequence[Spec]) -> Spec:
        """Return the spec of tuples of such elements."""
        if not all(s.known for s in specs):
            return cls.UNKNOWN
        return cls(
            tuple_of(s.structure for s in specs if s.structure is not None),
            tuple(leaf for s in specs for leaf in s.leaves),
        )


Spec.UNKNOWN = Spec(None)


class Probe:
    """The spec of a function's results: declared by the user, or inferred from its first element."""

    def __init__(self, spec: Spec | None) -> None:
        self.spec = spec
        self.promised: bool = spec is not None


def _prepend(size: int | None, shape: Shape) -> Shape:
    return None if shape is None else (size, *shape)


def shape_leaves(argument: str, structure: Structure, shapes: object) -> list[Component]:
    """Return the shape for each leaf. Shapes may be tuples themselves, so the structure says where to stop."""
    if structure.kind is None:
        return [shapes]
    pairs = child_values(argument, structure, shapes)
    return [leaf for child, item in pairs for leaf in shape_leaves(argument, child, item)]


def child_values(argument: str, structure: Structure, values: Nested) -> list[tuple[Structure, Any]]:
    """Return the value that an argument gives for each child of a structure."""
    try:
        items = [values[k] for k in structure.keys] if isinstance(values, dict) else list(values)
        return list(zip(structure.children, items, strict=True))
    except (KeyError, TypeError, ValueError):
        raise SpecError(f"{argument} {values!r} do not have the structure of the elements, {structure}") from None


def leaf_spec(value: object) -> LeafSpec:
    """Return the exact spec of one component as it stands in an element."""
    if isinstance(value, np.ndarray):
        if value.dtype == object and not value.size:
            return TensorSpec(value.shape, None)
        if value.dtype == object:
            kinds = {type(v) for v in value.flat}
            if all(hasattr(v, "_node") for v in value.flat):
                return DatasetSpec(reduce(Spec.common, [v._node.spec for v in value.flat]), value.shape)
            kind = kinds.pop() if len(kinds) == 1 else object
            return TensorSpec(value.shape, kind if kind in (str, bytes) else object)
        return TensorSpec(value.shape, value.dtype)
    if isinstance(value, str | bytes):
        return TensorSpec((), type(value))
    if isinstance(value, Ragged):
        return TensorSpec(value.shape, leaf_spec(value.values).dtype)
    if isinstance(value, np.generic | bool | int | float | complex):
        return TensorSpec((), np.asarray(value).dtype)
    node = getattr(value, "_node", None)
    if node is not None:  # a Dataset, which is above this layer; nothing is run to learn more about it
        return DatasetSpec(node.spec)
    return TensorSpec((), object)
