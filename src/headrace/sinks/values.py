"""Operations that end a pipeline with a Python value: apply, reduce, get_single_element."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from headrace.core.types import Nested
from headrace.ops.shared.scan_state import Carried
from headrace.plan.capabilities import require_end
from headrace.trace.mixed_text import check_comparisons

if TYPE_CHECKING:
    from headrace.dataset import Dataset
    from headrace.plan.element import Element


def apply(self: Dataset, transformation_func: Callable[[Dataset], Dataset]) -> Dataset:
    """Apply a function that takes a dataset and returns another.

    Args:
        transformation_func: Function that takes a dataset and returns another.

    Returns:
        A new dataset.

    >>> def pairs(ds):
    ...     return ds.batch(2, drop_remainder=True)
    >>> list(hr.Dataset.range(5).apply(pairs))
    [array([0, 1]), array([2, 3])]
    """
    made = transformation_func(self)
    if not isinstance(made, type(self)):
        raise TypeError(f"apply: the function must return a Dataset, not {made!r}")
    return made


def reduce(
    self: Dataset, initial_state: Nested, reduce_func: Callable[[Any, Any], object], name: str | None = None
) -> Nested:
    """Fold the elements into one value: `state = reduce_func(state, element)`. Structure and dtypes must stay.

    Args:
        initial_state: State before the first element.
        reduce_func: Function (state, element) that returns the new state.
        name: Label of the operation in `explain()`, `stats()` and error messages.

    >>> hr.Dataset.range(5).reduce(0, lambda total, x: total + x)
    np.int64(10)
    """
    del name
    require_end(self._node, "reduce")
    check_comparisons(reduce_func, self._node.spec, carries=True)
    carried = Carried.start("reduce", initial_state)
    with iter(self) as it:
        for value in it:
            carried = carried.next(reduce_func(carried.value, value))
    return carried.value


def get_single_element(self: Dataset[Element], name: str | None = None) -> Element:
    """Return the only element of a dataset that has exactly one.

    Args:
        name: Label of the operation in `explain()`, `stats()` and error messages.

    >>> hr.Dataset.range(3).batch(3).get_single_element()
    array([0, 1, 2])
    """
    del name
    with iter(self) as it:
        first = next(it, it)
        if first is it:
            raise ValueError("get_single_element: the dataset is empty")
        if next(it, it) is not it:
            raise ValueError("get_single_element: the dataset has more than one element")
        element: Element = first
    return element
