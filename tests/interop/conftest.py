"""The same pipeline run by tf.data and by headrace, and all that can be seen of it."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from itertools import islice
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import headrace as hr

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

Library = SimpleNamespace
"""tf.data's names in one library: the sources, `TensorSpec`, and what has to be written differently in the two."""

Pipeline = Callable[[Library], Any]
"""Builds a dataset in whichever library it is given: `lambda D: D.range(10).take(3)`."""

ERROR = "an error"
END = "the end"


@dataclass(frozen=True)
class Value:
    """A component of an element; text is bytes, whichever the library."""

    dtype: str
    shape: tuple[int, ...]
    items: Any


@dataclass(frozen=True)
class Sort:
    """A component of an element_spec; None stands for what is not known."""

    dtype: str | None
    shape: tuple[int | None, ...] | None


@dataclass(frozen=True)
class Seen:
    """What a user can observe of a dataset. ERROR stands for an element that could not be made."""

    elements: list[Any]
    cardinality: int
    length: int | None
    spec: Any


@cache
def headrace() -> Library:
    def failing(when: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def fn(x: Any) -> Any:
            if when(x):
                raise ValueError(f"{x} is not wanted")
            return x

        return fn

    return _library(hr.Dataset, TensorSpec=hr.TensorSpec, size=np.size, failing=failing, as_written=lambda ds: ds)


@cache
def tf_data() -> Library:
    import tensorflow as tf

    gc.freeze()  # every test ends with a collection, which TensorFlow's own objects would make slow

    def failing(when: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def fn(x: Any) -> Any:
            with tf.control_dependencies([tf.debugging.Assert(tf.logical_not(when(x)), [x])]):
                return tf.identity(x)

        return fn

    def as_written(ds: Any) -> Any:
        options = tf.data.Options()
        options.experimental_optimization.apply_default_optimizations = False
        options.experimental_optimization.inject_prefetch = False
        options.autotune.enabled = False
        return ds.with_options(options)

    return _library(tf.data.Dataset, TensorSpec=tf.TensorSpec, size=tf.size, failing=failing, as_written=as_written)


def _library(dataset: Any, **own: Any) -> Library:
    names = ("from_generator", "from_tensor_slices", "from_tensors", "range", "zip", "counter", "random")
    names += ("choose_from_datasets", "sample_from_datasets", "load")
    return Library(**{name: getattr(dataset, name) for name in names}, **own)


@cache
def _element_errors() -> tuple[type[Exception], ...]:
    import tensorflow as tf

    return (hr.ElementError, tf.errors.OpError)


@pytest.fixture(params=[tf_data, headrace], ids=["tf.data", "headrace"])
def library(request: pytest.FixtureRequest) -> Library:
    """Each library in turn, for laws that both keep though their random numbers differ."""
    return request.param()


def cases(table: Mapping[str, Any]) -> pytest.MarkDecorator:
    """One test for each named pipeline."""
    return pytest.mark.parametrize("pipeline", table.values(), ids=table.keys())


def differs(reason: str, *, raises: type[BaseException] = AssertionError) -> pytest.MarkDecorator:
    """headrace does something else than tf.data: says what."""
    return pytest.mark.xfail(strict=True, raises=raises, reason=reason)


def but(reason: str, pipeline: Pipeline, *, raises: type[BaseException] = AssertionError) -> Any:
    """One of the `cases` in which headrace does something else than tf.data: says what."""
    return pytest.param(pipeline, marks=differs(reason, raises=raises))


def build(pipeline: Pipeline, library: Library) -> Any:
    """The dataset in one library, run as it was written."""
    if library is not headrace():
        import tensorflow as tf

        pipeline = tf.autograph.experimental.do_not_convert(pipeline)
    return library.as_written(pipeline(library))


def assert_same(pipeline: Pipeline, *, sizes_may_be_open: bool = False) -> None:
    """Both libraries give the same elements, errors, cardinality and spec.

    `sizes_may_be_open` is for functions that say nothing of their result: headrace need not know its shape in advance.
    """
    expected, got = see(pipeline, tf_data()), see(pipeline, headrace())
    assert got.elements == expected.elements
    assert (got.cardinality, got.length) == (expected.cardinality, expected.length)
    if sizes_may_be_open:
        assert admits(got.spec, expected.spec), f"{got.spec} does not admit {expected.spec}"
    else:
        assert got.spec == expected.spec


def see(pipeline: Pipeline, library: Library) -> Seen:
    """What a user sees of the pipeline."""
    ds = build(pipeline, library)
    try:
        length = len(ds)
    except TypeError:
        length = None
    return Seen(elements(ds), int(ds.cardinality()), length, sort(ds.element_spec))


def elements(ds: Any, limit: int = 200) -> list[Any]:
    """The first elements, errors in their places."""
    return list(islice(_steps(iter(ds)), limit))


def _steps(it: Iterator[Any]) -> Iterator[Any]:
    while (got := step(it)) is not END:
        yield got


def step(it: Iterator[Any]) -> Any:
    """What one `next()` gives: an element, ERROR or END."""
    try:
        return plain(next(it))
    except StopIteration:
        return END
    except _element_errors():
        return ERROR


def numbers(ds: Any) -> list[Any]:
    """The elements of a dataset without structure as Python numbers or lists of them, errors in their places."""
    return [got if got is ERROR else got.items for got in elements(ds)]


def plain(element: Any) -> Any:
    """An element with Values for components."""
    return _structure(element, _value)


def sort(spec: Any) -> Any:
    """An element_spec with Sorts for components."""
    return _structure(spec, _sort)


def _structure(tree: Any, leaf: Callable[[Any], Any]) -> Any:
    if isinstance(tree, Mapping):
        return {key: _structure(tree[key], leaf) for key in tree}
    if isinstance(tree, tuple):
        return (type(tree).__name__, *(_structure(part, leaf) for part in tree))
    if is_dataclass(tree):
        return (type(tree).__name__, *(_structure(getattr(tree, field.name), leaf) for field in fields(tree)))
    return None if tree is None else leaf(tree)


def _value(component: Any) -> Value:
    if hasattr(component, "element_spec"):
        return Value("dataset", (), elements(component))
    if hasattr(component, "row_lengths"):
        dtype = np.dtype(getattr(component.dtype, "as_numpy_dtype", component.dtype))
        return Value(f"ragged {dtype.name}", tuple(component.shape), _encoded(component.to_list()))
    array = np.asarray(component.numpy() if hasattr(component, "numpy") else component)
    if array.dtype.kind not in "OSU":
        return Value(array.dtype.name, array.shape, array.tolist())
    return Value("text", array.shape, [v.encode() if isinstance(v, str) else v for v in array.ravel().tolist()])


def _encoded(rows: Any) -> Any:
    if isinstance(rows, list):
        return [_encoded(row) for row in rows]
    return rows.encode() if isinstance(rows, str) else rows


def _sort(component: Any) -> Sort | None:
    if type(component).__name__ == "NoneTensorSpec":
        return None
    if type(component).__name__ == "DatasetSpec":
        return Sort("dataset", None), sort(component.element_spec)
    shape, dtype = component.shape, component.dtype
    if hasattr(dtype, "as_numpy_dtype"):
        shape = None if shape.rank is None else tuple(shape.as_list())
        dtype = np.dtype(dtype.as_numpy_dtype)
    return Sort(None if dtype is None else "text" if dtype.kind in "OSU" else dtype.name, shape)


def admits(wide: Any, narrow: Any) -> bool:
    """Whether a spec says the same as another, save for sizes that it leaves open, or says nothing at all."""
    if wide == Sort(None, None):
        return True
    if isinstance(wide, Sort) and isinstance(narrow, Sort) and wide.shape is not None and narrow.shape is not None:
        open_or_equal = all(w in (None, n) for w, n in zip(wide.shape, narrow.shape, strict=False))
        return wide.dtype == narrow.dtype and len(wide.shape) == len(narrow.shape) and open_or_equal
    if isinstance(wide, dict) and isinstance(narrow, dict):
        return wide.keys() == narrow.keys() and all(admits(wide[key], narrow[key]) for key in wide)
    if isinstance(wide, tuple) and isinstance(narrow, tuple):
        return len(wide) == len(narrow) and all(admits(w, n) for w, n in zip(wide, narrow, strict=True))
    return bool(wide == narrow)
