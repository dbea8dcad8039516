"""Elements from a Python generator, read no further than requested."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace import _native
from headrace.columns.block import Block, Failure, Item, from_elements, leaf, own_leaf, scalar_block
from headrace.columns.row_builder import ExactRows, ExactValues
from headrace.core.override import override
from headrace.core.types import Arguments, Array, Component, DType, Nested
from headrace.errors import SpecError, warn_once
from headrace.execute.context import Context
from headrace.execute.registry import opens
from headrace.execute.row_by_row import IsLast
from headrace.execute.stream import END, Made, Stream
from headrace.plan.cardinality import UNKNOWN, Cardinality
from headrace.plan.datasets import dataset_of
from headrace.plan.display import ROW_BY_ROW
from headrace.plan.marks import At
from headrace.plan.node import TUNING, Node, function_name, user_site
from headrace.plan.spec import LeafSpec, Spec, leaf_spec
from headrace.plan.structure import LEAF, Structure, flatten

if TYPE_CHECKING:
    from headrace.dataset import Dataset


def from_generator(
    generator: Callable[..., Iterable[object]],
    output_types: Nested = None,
    output_shapes: Nested = None,
    args: tuple[object, ...] | None = None,
    output_signature: Nested = None,
    name: str | None = None,
) -> Dataset:
    """Return a dataset of what `generator(*args)` yields; it is called again for each pass.

    Args:
        generator: Function that returns an iterable; it is called again for each pass.
        output_types: Data types of the components. Where bytes are promised (`tf.string`), str becomes UTF-8.
        output_shapes: Shapes of the components.
        args: Arguments for `generator`.
        output_signature: Structure, shapes and dtypes of the results. Default: found by tracing or from the first
            element.
        name: Label of the operation in `explain()`, `stats()` and error messages.

    Returns:
        A new dataset.

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


class History:
    """What the passes over a generator have given so far."""

    gave_elements = False


@dataclass(frozen=True, eq=False)
class Generator(Node):
    """Calls the function for each pass and reads what it returns."""

    generator: Callable[..., Iterable[Any]]
    args: Arguments = field(repr=False)
    signature: Spec
    history: History = field(default_factory=History, repr=False, metadata=TUNING)

    numbered = True
    pure = False
    live = True
    positional = True

    @property
    def operation(self) -> str:
        return "from_generator"

    def remark(self) -> str | None:
        return f"{ROW_BY_ROW}a generator gives one element at a time"

    def contents(self) -> tuple[object, ...]:
        return self.generator, *self.args

    def note_end(self, count: int) -> None:
        """Note that a pass has ended after `count` elements; warn if there are none, and an earlier one had some."""
        if not count and self.history.gave_elements:
            name = function_name(self.generator)
            warn_once(
                ("empty pass", self.site, name),
                f"from_generator({name}) added at {self.site} gives no elements in this pass, and gave some before: it "
                "must return a new iterator at each call, and may return one that is exhausted",
            )

    @property
    def spec(self) -> Spec:
        return self.signature

    @property
    def cardinality(self) -> Cardinality:
        return UNKNOWN


@opens(Generator)
class GeneratorStream(Stream):
    """One pass over the generator."""

    @override
    def __init__(self, node: Generator, ctx: Context, at: At) -> None:  # a place is a number
        self._node = node
        self._ctx = ctx
        self._iterator: Iterator[Nested] | None = None
        self._read = 0
        self._over = False
        spec = node.signature.leaves[0] if node.signature.structure == LEAF else None
        self._numbers = spec is not None and spec.shape == () and spec.dtype is not None and spec.dtype.kind in "biuf"
        self._exact = ExactValues.of(node.signature)
        self._all_exact = self._exact is not None and not self._numbers

    def pull(self, want: int) -> Made:
        return self._items(want) or END

    def pull_until(self, want: int, is_last: IsLast) -> Made | None:
        rows: list[Conformed] = []

        def fetch(iterator: Iterator[object]) -> bool:
            for value in islice(iterator, want):
                made = self._made(value)
                rows.append(made)
                if isinstance(made, Exception) or is_last(*made):
                    return True
            return len(rows) == want

        failure = self._failure_of(fetch, lambda: len(rows))
        start = self._read
        self._read = start + len(rows) + len(failure)
        if self._read:
            self._node.history.gave_elements = True
        return [*self._placed(rows, start), *failure] or END

    def _items(self, want: int) -> list[Item]:
        values: list[Component] = []
        rows = self._exact.rows(want) if self._all_exact and self._exact is not None else None
        failure = self._fetch(values, want) if rows is None else self._fetch_exact(rows, values)
        start = self._read
        made: list[Item] = []
        if rows is not None and rows.count:
            made.append(rows.block(self._ctx.ids_between(start, start + rows.count)))
            start += rows.count
        self._read = start + len(values) + len(failure)
        if self._read:
            self._node.history.gave_elements = True
        if values:
            made += self._converted(values, start)
        return made + failure

    def _fetch_exact(self, rows: ExactRows, values: list[Component]) -> list[Item]:
        """Fill `rows`, up to the first value that is not just what was promised: that one, and all that follow, is
        looked at more closely.
        """

        def fetch(iterator: Iterator[object]) -> bool:
            for value in islice(iterator, rows.room):
                if not rows.add(value):
                    self._all_exact = False
                    values.append(self._made(value))
                    return True
            return rows.count == rows.room

        return self._failure_of(fetch, lambda: rows.count)

    def _fetch(self, values: list[Component], want: int) -> list[Item]:
        """Append up to `want` values.

        Single numbers are kept as they are, to be converted together; anything else is converted at once, because the
        generator may reuse the same array or list.
        """

        def fetch(iterator: Iterator[object]) -> bool:
            if self._numbers:
                return _native.fetch_values(iterator, values, want)
            for value in islice(iterator, want):
                values.append(self._made(value))
            return len(values) == want

        return self._failure_of(fetch, lambda: len(values))

    def _failure_of(self, fetch: Callable[[Iterator[Nested]], bool], done: Callable[[], int]) -> list[Item]:
        """Fetch values, which says whether there may be more; what is `done` before an error stays."""
        if self._over:
            return []
        try:
            if self._iterator is None:
                self._iterator = iter(self._node.generator(*self._node.args))
            if not fetch(self._iterator):
                self._node.note_end(self._read + done())
                self._finish()
        except Exception as error:
            if self._iterator is None:  # raised by the function itself, not by what it returned
                self._over = True
            return [Failure(self._node.error(error, self._read + done()))]
        return []

    def _made(self, value: object) -> Conformed:
        if self._exact is not None and (leaves := self._exact.leaves(value)) is not None:
            return self._exact.structure, leaves
        try:
            return conform(value, self._node.signature)
        except Exception as error:
            return error

    def _converted(self, values: list[Component], start: int) -> Iterator[Item]:
        block = scalars(values, self._node.signature) if self._numbers else None
        if block is not None:
            block.ids = self._ctx.ids_between(start, start + len(values))
            yield block
            return
        yield from self._placed([self._made(v) for v in values] if self._numbers else values, start)

    def _placed(self, rows: list[Conformed], start: int) -> Iterator[Item]:
        made: list[tuple[Structure, list[Component]]] = []

        def flush(end: int) -> Iterator[Item]:
            yield from from_elements(made, self._ctx.ids_between(end - len(made), end))
            made.clear()

        for number, outcome in enumerate(rows, start):
            if isinstance(outcome, Exception):
                yield from flush(number)
                yield Failure(self._node.error(outcome, number))
            else:
                made.append(outcome)
        yield from flush(start + len(rows))

    def _finish(self) -> None:
        self._over = True
        iterator, self._iterator = self._iterator, None
        close = getattr(iterator, "close", None)
        if close is not None:
            close()

    def close(self) -> None:
        self._finish()


Conformed = tuple[Structure, list[Component]] | Exception
"""An element as the signature promises it, or why it is not."""


def scalars(values: list[Component], spec: Spec) -> Block | None:
    """Convert numbers of one type all at once; None if they need individual conversion."""
    dtype = spec.leaves[0].dtype
    assert dtype is not None
    if len(set(map(type, values))) != 1 or not isinstance(values[0], bool | int | float | np.generic):
        return None
    try:
        array = np.array(values)
        return None if array.ndim != 1 else scalar_block(cast(array, dtype))
    except (SpecError, OverflowError, ValueError):
        return None


def cast(array: Array, dtype: DType) -> Array:
    """Cast to `dtype` without loss: wider or narrower floats, integers that fit, never a float as an integer."""
    if array.dtype == dtype or not array.size:
        return array.astype(dtype, copy=False)
    if not np.can_cast(array.dtype, dtype, "same_kind") and not (array.dtype.kind in "iu" and dtype.kind in "iu"):
        raise SpecError(f"a value of dtype {array.dtype} where {dtype} was promised")
    with np.errstate(over="ignore"):
        made = array.astype(dtype)
    if array.dtype.kind in "iu" and dtype.kind in "iu" and not np.array_equal(made, array):
        raise SpecError(f"the value {array if array.ndim == 0 else array[made != array][0]} does not fit into {dtype}")
    return made


def conform(value: object, spec: Spec) -> tuple[Structure, list[Component]]:
    """Return an element as the signature promises it, or an error that names both."""
    structure = spec.structure
    assert structure is not None
    found: list[Component] = []
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


def _collect(structure: Structure, value: object, leaves: list[Component]) -> bool:
    """Collect the leaves of `value` as far down as the signature goes. Return False if its structure differs."""
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


def _encoded(value: object) -> Component:
    """Return text as bytes in UTF-8, as `tf.string` means it; anything else as it is."""
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, np.ndarray) and (not value.size or value.dtype.kind in "UOT"):
        made = np.empty(value.shape, object)
        made.reshape(-1)[:] = [item.encode() if isinstance(item, str) else item for item in value.reshape(-1).tolist()]
        return leaf(made)
    return value


def _fit(value: object, want: LeafSpec) -> Component:
    if want.dtype is not None and want.dtype.kind == "S":
        return _encoded(value)
    if want.dtype is None or not isinstance(value, np.ndarray | np.generic):
        return value
    if not value.size and want.dtype.kind in "US":
        return value.astype(object)
    if value.dtype.kind not in "biufc" or want.dtype.kind not in "biufc":
        return value
    return leaf(cast(np.asarray(value), want.dtype))
