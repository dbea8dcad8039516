"""Elements from a Python generator, read no further than they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace.block import Block, Failure, Item, from_elements, leaf, own_leaf, scalar_block
from headrace.columns import copy_in_order
from headrace.columns.dense import FAIR
from headrace.errors import SpecError
from headrace.execute.context import Context
from headrace.execute.registry import opens
from headrace.execute.stream import END, Made, Stream
from headrace.plan.cardinality import UNKNOWN, Cardinality
from headrace.plan.datasets import dataset_of
from headrace.plan.marks import At
from headrace.plan.node import Node, user_site
from headrace.plan.spec import LeafSpec, Spec, TensorSpec, leaf_spec
from headrace.plan.structure import LEAF, Structure, flatten

if TYPE_CHECKING:
    from headrace.dataset import Dataset


def from_generator(
    generator: Callable[..., Iterable[Any]],
    output_types: Any = None,
    output_shapes: Any = None,
    args: tuple[Any, ...] | None = None,
    output_signature: Any = None,
    name: str | None = None,
) -> Dataset:
    """A dataset of what `generator(*args)` yields; it is called anew for each pass.

    >>> def squares(n):
    ...     for i in range(n):
    ...         yield i * i
    >>> ds = hr.Dataset.from_generator(squares, args=(3,), output_signature=hr.TensorSpec((), "int32"))
    >>> list(ds)
    [np.int32(0), np.int32(1), np.int32(4)]
    """
    if not callable(generator):
        raise TypeError(
            f"from_generator takes a function that returns an iterator, not {generator!r}; pass `lambda: iterable`"
        )
    if output_signature is not None:
        if output_types is not None or output_shapes is not None:
            raise TypeError("give either output_signature or output_types and output_shapes, not both")
        spec = Spec.of_signature(output_signature)
    elif output_types is not None:
        spec = Spec.of_types(output_types, output_shapes)
    else:
        raise TypeError("from_generator needs output_signature (or output_types and output_shapes)")
    return dataset_of(Generator(generator, tuple(args or ()), spec, site=user_site(), name=name))


@dataclass(frozen=True, eq=False)
class Generator(Node):
    """Calls the function for each pass and reads what it returns."""

    generator: Callable[..., Iterable[Any]]
    args: tuple[Any, ...] = field(repr=False)
    signature: Spec

    numbered = True
    pure = False
    live = True
    positional = True

    @property
    def operation(self) -> str:
        return "from_generator"

    def contents(self) -> tuple[Any, ...]:
        return self.generator, *self.args

    @property
    def spec(self) -> Spec:
        return self.signature

    @property
    def cardinality(self) -> Cardinality:
        return UNKNOWN


@opens(Generator)
class GeneratorStream(Stream):
    """One pass over the generator."""

    def __init__(self, node: Generator, ctx: Context, at: At) -> None:  # noqa: ARG002 - a place is a number
        self._node = node
        self._ctx = ctx
        self._iterator: Iterator[Any] | None = None
        self._read = 0
        self._over = False
        spec = node.signature.leaves[0] if node.signature.structure == LEAF else None
        self._numbers = spec is not None and spec.shape == () and spec.dtype is not None and spec.dtype.kind in "biuf"
        self._exact = ExactValues.of(node.signature)

    def pull(self, want: int) -> Made:
        return self._items(want) or END

    def _items(self, want: int) -> list[Item]:
        values: list[Any] = []
        failure = self._fetch(values, want)
        start = self._read
        self._read += len(values) + len(failure)
        return [*self._converted(values, start), *failure] if values else [*failure]

    def _fetch(self, values: list[Any], want: int) -> list[Failure]:
        """Append up to `want` values; at an error those before it stay, and the error comes back.

        Single numbers are kept as they are, to be converted together; anything else at once, since the generator may
        use the same array or list again.
        """
        if self._over:
            return []
        taken = _number if self._numbers else self._made
        try:
            if self._iterator is None:
                self._iterator = iter(self._node.generator(*self._node.args))
            append, iterator = values.append, self._iterator
            for _ in range(want):
                append(taken(next(iterator)))
        except StopIteration as stop:
            if self._iterator is None:  # raised by the function itself, not by what it returned
                self._over = True
                return [Failure(self._node.error(stop, self._read + len(values)))]
            self._finish()
        except Exception as error:
            if self._iterator is None:
                self._over = True
            return [Failure(self._node.error(error, self._read + len(values)))]
        return []

    def _made(self, value: Any) -> Conformed:
        if self._exact is not None and (leaves := self._exact.leaves(value)) is not None:
            return self._exact.structure, leaves
        try:
            return conform(value, self._node.signature)
        except Exception as error:
            return error

    def _converted(self, values: list[Any], start: int) -> Iterator[Item]:
        stop = start + len(values)
        block = scalars(values, self._node.signature) if self._numbers else None
        if block is not None:
            block.ids = self._ctx.ids_between(start, stop)
            yield block
            return
        made: list[tuple[Structure, list[Any]]] = []

        def flush(end: int) -> Iterator[Item]:
            yield from from_elements(made, self._ctx.ids_between(end - len(made), end))
            made.clear()

        for number, value in enumerate(values, start):
            outcome = self._made(value) if self._numbers else value
            if isinstance(outcome, Exception):
                yield from flush(number)
                yield Failure(self._node.error(outcome, number))
            else:
                made.append(outcome)
        yield from flush(stop)

    def _finish(self) -> None:
        self._over = True
        iterator, self._iterator = self._iterator, None
        close = getattr(iterator, "close", None)
        if close is not None:
            close()

    def close(self) -> None:
        self._finish()


Conformed = tuple[Structure, list[Any]] | Exception
"""An element as the signature promises it, or why it is not."""


def _number(value: Any) -> Any:
    return value.copy() if isinstance(value, np.ndarray) else value


def scalars(values: list[Any], spec: Spec) -> Block | None:
    """Numbers of one type all at once; None where they need a closer look."""
    dtype = spec.leaves[0].dtype
    assert dtype is not None
    if len(set(map(type, values))) != 1 or not isinstance(values[0], bool | int | float | np.generic):
        return None
    try:
        array = np.array(values)
        return None if array.ndim != 1 else scalar_block(cast(array, dtype))
    except (SpecError, OverflowError, ValueError):
        return None


def cast(array: np.ndarray[Any, Any], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """As `dtype`, where no value is lost: wider or narrower floats, integers that fit, never a float as an integer."""
    if array.dtype == dtype or not array.size:
        return array.astype(dtype, copy=False)
    if not np.can_cast(array.dtype, dtype, "same_kind") and not (array.dtype.kind in "iu" and dtype.kind in "iu"):
        raise SpecError(f"a value of dtype {array.dtype} where {dtype} was promised")
    with np.errstate(over="ignore"):
        made = array.astype(dtype)
    if array.dtype.kind in "iu" and dtype.kind in "iu" and not np.array_equal(made, array):
        raise SpecError(f"the value {array if array.ndim == 0 else array[made != array][0]} does not fit into {dtype}")
    return made


class ExactValues:
    """Elements that are just what a signature of numbers says, which most are: in a fraction of the time.

    Of anything else it takes a closer look to tell whether it can be made to fit.
    """

    def __init__(self, structure: Structure, wanted: list[tuple[type, np.dtype[Any], tuple[int, ...]]]) -> None:
        self.structure = structure
        self._wanted = wanted
        self._keys = structure.keys if structure.kind is dict else None
        self._single = structure.kind is None

    @staticmethod
    def of(spec: Spec) -> ExactValues | None:
        """None where the signature leaves something open, or nests."""
        structure = spec.structure
        if structure is None or structure.kind not in (None, dict, tuple) or any(c.kind for c in structure.children):
            return None
        wanted = []
        for want in spec.leaves:
            known = isinstance(want, TensorSpec) and want.shape is not None and None not in want.shape
            if not known or want.dtype is None or want.dtype.kind not in "biufc" or not want.dtype.isnative:
                return None
            wanted.append(
                (PYTHON.get(want.dtype, want.dtype.type), want.dtype, tuple(n or 0 for n in want.shape or ()))
            )
        return ExactValues(structure, wanted)

    def leaves(self, value: Any) -> list[Any] | None:
        """The components, arrays copied; None where one is anything else."""
        parts = self._parts(value)
        if parts is None or len(parts) != len(self._wanted):
            return None
        made = []
        for part, (python, dtype, shape) in zip(parts, self._wanted, strict=True):
            kind = type(part)
            if shape:
                if kind is not np.ndarray or part.dtype != dtype or part.shape != shape:
                    return None
                made.append(part.copy() if part.nbytes < FAIR else copy_in_order(part))
            elif kind is dtype.type:
                made.append(part)
            elif kind is python and -WHOLE < part < WHOLE:
                made.append(dtype.type(part))
            else:
                return None
        return made

    def _parts(self, value: Any) -> Any:
        """The components as they come, None where the value is built otherwise."""
        if self._single:
            return (value,)
        if self._keys is None:
            return value if type(value) is tuple else None
        if type(value) is not dict or len(value) != len(self._keys):
            return None
        try:
            return [value[key] for key in self._keys]
        except KeyError:
            return None


PYTHON: dict[np.dtype[Any], type] = {np.dtype(np.int64): int, np.dtype(np.float64): float}
"""Python's numbers that are kept as they are."""
WHOLE = 1 << 63


def conform(value: Any, spec: Spec) -> tuple[Structure, list[Any]]:
    """An element as the signature promises it, or an error that names both."""
    structure = spec.structure
    assert structure is not None
    found: list[Any] = []
    if not _collect(structure, value, found):
        raise SpecError(f"got an element of structure {flatten(value)[0]} where {spec} was promised")
    leaves = [own_leaf(list(v) if isinstance(v, tuple) else v) for v in found]
    made = []
    for path, got, want in zip(structure.paths, leaves, spec.leaves, strict=True):
        try:
            fitted = _fit(got, want)
        except SpecError as error:
            raise SpecError(f"component{path}: {error}" if path else str(error)) from None
        if not want.is_compatible_with(fitted):
            where = f" for component{path}" if path else ""
            raise SpecError(f"got {leaf_spec(fitted)}{where} where {want} was promised")
        made.append(fitted)
    return structure, made


def _collect(structure: Structure, value: Any, leaves: list[Any]) -> bool:
    """The leaves of `value` as far down as the signature goes; False where it is built otherwise."""
    kind = structure.kind
    if kind is None:
        leaves.append(value)
        return value is not None and not isinstance(value, Mapping)
    if value is None or kind is type(None):
        return value is None and kind is type(None)
    if issubclass(kind, Mapping):
        if not isinstance(value, Mapping) or set(value) != set(structure.keys):
            return False
        parts = [value[k] for k in structure.keys]
    elif issubclass(kind, tuple):
        if not isinstance(value, tuple) or len(value) != len(structure.children):
            return False
        parts = list(value)
    else:
        if not isinstance(value, kind):
            return False
        parts = [getattr(value, k) for k in structure.keys]
    return all(_collect(child, part, leaves) for child, part in zip(structure.children, parts, strict=True))


def _fit(value: Any, want: LeafSpec) -> Any:
    if want.dtype is None or not isinstance(value, np.ndarray | np.generic):
        return value
    if not value.size and want.dtype.kind in "US":
        return value.astype(object)
    if value.dtype.kind not in "biufc" or want.dtype.kind not in "biufc":
        return value
    return leaf(cast(np.asarray(value), want.dtype))
