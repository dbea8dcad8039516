"""Examples and SequenceExamples to arrays.

`plan` compiles a description once; its `columns` are the block form, one row a record, without a Python object for any
of them. The public functions call it with one row, or make a batch of what it gives.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import numpy as np

from headrace import _native
from headrace.columns import Column, group_rows, kind_of
from headrace.columns.arrow_text import fresh_binary, parts
from headrace.columns.dense import room_for
from headrace.columns.refs import CorruptRecordsError, RecordRefs
from headrace.core.ragged import Ragged
from headrace.core.types import Component, Nested, TensorLike
from headrace.errors import ParseError, what_there_is
from headrace.io.binary import batch_size, bytes_column, one_record, record
from headrace.io.examples import feature_names
from headrace.io.feature import FLOAT, INT64, Feature, FoundValues, Request
from headrace.io.features import FixedLenFeature, FixedLenSequenceFeature, VarLenFeature
from headrace.io.sparse import Sparse
from headrace.plan.spec import TensorSpec
from headrace.plan.structure import flatten
from headrace.trace.operation import traced_operation
from headrace.trace.values import Scaled

Features = Mapping[str, Feature]
Columns = dict[str, Any]
ParsedValues = tuple[int, Any, Any, Any]
"""The number of records, single integers, single floats, and all other values, as the kernel returns them."""
MAX_FAILED_TRIES = 8
"""After this many blocks that had to be parsed again, for example because texts differ in length, it is no longer
tried.
"""


def _batch_specs(serialized: TensorLike, features: Features, example_names: object = None) -> dict[str, TensorSpec]:
    """Return the specs of a batch in a traced function, for features whose columns do not depend on their batch."""
    if example_names is not None or not all(isinstance(f, FixedLenFeature | VarLenFeature) for f in features.values()):
        raise ValueError("each batch is parsed by itself")
    size = batch_size(serialized)
    return {name: _sized(feature.spec(batch=True), size) for name, feature in features.items()}


def _sized(spec: TensorSpec, size: int | None) -> TensorSpec:
    return spec if spec.shape is None else spec.with_shape((size, *spec.shape[1:]))


def _batch_columns(
    serialized: TensorLike, features: Features, example_names: object = None
) -> Callable[[Column], Columns]:
    """Return the block form of `parse_example`: all records of all batches at once, and no object for any of them."""
    del serialized, example_names
    parse = plan(features).fixed_columns

    def batches(rows: Column) -> Columns:
        inner, counts = kind_of(rows).unstack(rows) or (rows, [1])
        return {name: _stack(column, int(counts[0])) for name, column in parse(inner).items()}

    return batches


def _stack(column: Column, size: int) -> Column:
    """Return every `size` rows as one; those of different lengths stay so."""
    return group_rows(column, size) if isinstance(column, Ragged) else kind_of(column).stack(column, size, "")


@traced_operation(spec=_batch_specs, block=_batch_columns)
def parse_example(serialized: TensorLike, features: Features, example_names: Sequence[object] | None = None) -> Columns:
    """Parse a batch of serialized tf.Examples.

    As tf.io.parse_example, save that a VarLenFeature gives an hr.Ragged and a SparseFeature an hr.io.Sparse.

    Args:
        serialized: Serialized protocol buffers, as bytes.
        features: What to parse, by name.
        example_names: Names of the examples, for error messages.

    >>> records = [hr.io.encode_example({"id": 1, "tags": [b"a", b"b"]}), hr.io.encode_example({"id": 2})]
    >>> hr.io.parse_example(records, {"id": hr.io.FixedLenFeature([], np.int64), "tags": hr.io.VarLenFeature(bytes)})
    {'id': array([1, 2]), 'tags': Ragged([[b'a', b'b'], []], dtype=object)}
    """
    with _name_record(example_names):
        columns, _ = plan(features).columns(serialized)
    return {name: feature.as_batch(columns[name]) for name, feature in features.items()}


@traced_operation(
    spec=lambda serialized, features: record(serialized) and specs(features),
    block=lambda serialized, features: plan(features, single=True).fixed_columns,  # noqa: ARG005
    in_place=True,
    scaled=lambda leaf, how, serialized, features: plan(features, single=True).scaled(leaf, how),  # noqa: ARG005
)
def parse_single_example(serialized: bytes, features: Features) -> Columns:
    """Parse one serialized tf.Example.

    Args:
        serialized: Serialized protocol buffers, as bytes.
        features: What to parse, by name.

    >>> record = hr.io.encode_example({"x": [0.5, 1.5], "label": b"cat"})
    >>> features = {"x": hr.io.FixedLenFeature([2], np.float32), "label": hr.io.FixedLenFeature([], bytes)}
    >>> hr.io.parse_single_example(record, features)
    {'x': array([0.5, 1.5], dtype=float32), 'label': b'cat'}
    """
    return first_row(plan(features, single=True).fixed_columns(one_record(serialized)))


def parse_sequence_example(
    serialized: TensorLike,
    context_features: Features | None = None,
    sequence_features: Features | None = None,
    example_names: Sequence[object] | None = None,
) -> tuple[Columns, Columns, Columns]:
    """Parse a batch of serialized tf.SequenceExamples: their context, their lists, and how long the padded ones are.

    Args:
        serialized: Serialized protocol buffers, as bytes.
        context_features: What to parse of the context, by name.
        sequence_features: What to parse of the feature lists, by name.
        example_names: Names of the examples, for error messages.

    >>> record = hr.io.encode_sequence_example({"id": 7}, {"words": [[1, 2], [3, 4], [5, 6]]})
    >>> words = hr.io.FixedLenSequenceFeature([2], np.int64)
    >>> hr.io.parse_sequence_example([record], {"id": hr.io.FixedLenFeature([], np.int64)}, {"words": words})
    ({'id': array([7])}, {'words': array([[[1, 2],
            [3, 4],
            [5, 6]]])}, {'words': array([3])})
    """
    context, lists = context_features or {}, sequence_features or {}
    with _name_record(example_names):
        fixed, listed = plan(context, lists).columns(serialized)
    padded = {name for name, feature in lists.items() if isinstance(feature, FixedLenSequenceFeature)}
    return (
        {name: feature.as_batch(fixed[name]) for name, feature in context.items()},
        {name: feature.as_batch(listed[name]) for name, feature in lists.items()},
        {name: listed[name].row_lengths() for name in lists if name in padded},
    )


@traced_operation(
    spec=lambda serialized, context_features=None, sequence_features=None: (
        record(serialized) and specs(context_features or {}),
        _lists(sequence_features or {}),
    ),
    block=lambda serialized, context_features=None, sequence_features=None: (  # noqa: ARG005
        plan(context_features or {}, sequence_features or {}).columns
    ),
)
def parse_single_sequence_example(
    serialized: bytes, context_features: Features | None = None, sequence_features: Features | None = None
) -> tuple[Columns, Columns]:
    """Parse one serialized tf.SequenceExample: its context and its lists.

    Args:
        serialized: Serialized protocol buffers, as bytes.
        context_features: What to parse of the context, by name.
        sequence_features: What to parse of the feature lists, by name.

    >>> record = hr.io.encode_sequence_example({}, {"words": [[1, 2], [3]]})
    >>> hr.io.parse_single_sequence_example(record, sequence_features={"words": hr.io.VarLenFeature(np.int64)})
    ({}, {'words': Ragged([[1, 2], [3]], dtype=int64)})
    """
    context, lists = plan(context_features or {}, sequence_features or {}).columns(one_record(serialized))
    return first_row(context), first_row(lists)


def specs(features: Features, *, batch: bool = False) -> dict[str, Any]:
    """Return what parsing gives, in advance: of one record, or of a batch."""
    return {name: feature.spec(batch=batch) for name, feature in features.items()}


def _lists(features: Features) -> dict[str, Any]:
    """Return what the lists of one SequenceExample are: their dtypes."""
    return {name: TensorSpec(None, feature.spec(batch=False).dtype) for name, feature in features.items()}


def first_row(columns: Columns) -> Columns:
    """Return the only row of each column, as a component of an element."""
    return {name: _row(column) for name, column in columns.items()}


def _row(column: Column) -> Nested:
    if isinstance(column, Sparse):
        return Sparse(*(_row(part) for part in column))
    value = column[0]
    return value.as_py() if hasattr(value, "as_py") else value


class Plan:
    """A compiled description: the parser, and which of its columns belong to which feature.

    With `closed` a record that holds a feature which is not described is an error; else such features are skipped.
    """

    def __init__(self, features: Features, lists: Features, single: bool, closed: bool = False) -> None:
        self._features, self._lists = dict(features), dict(lists)
        self._requests: dict[tuple[bool, str], range] = {}
        requests: list[Request] = []
        for described, in_steps in ((features, False), (lists, True)):
            for name, feature in described.items():
                if not isinstance(feature, Feature):
                    raise TypeError(f"feature {name!r} needs an hr.io.FixedLenFeature or the like, not {feature!r}")
                needed = feature.requests(name, single=single, in_steps=in_steps)
                self._requests[in_steps, name] = range(len(requests), len(requests) + len(needed))
                requests += needed
        self._parser = _native.ExampleParser(list(requests), closed)
        ints, floats = ([i for i, r in enumerate(requests) if r.single_number and r.kind == k] for k in (INT64, FLOAT))
        self._int_columns, self._float_columns = len(ints), len(floats)
        self._numbers = ints + floats
        self._others = [i for i, request in enumerate(requests) if not request.single_number]
        plain = {self._requests[False, name][0]: name for name, feature in features.items() if feature.plain}
        self._names = [plain[i] for i in [*self._numbers, *self._others]] if len(plain) == len(requests) else None

    def fixed_columns(self, records: TensorLike) -> Columns:
        """Return the features alone."""
        return self.columns(records)[0]

    def _parse(self, records: TensorLike) -> ParsedValues:
        values, offsets = parts(bytes_column(records))
        ints, floats, others, row, what = self._parser.parse(values, offsets)
        if row >= 0:
            said = what.decode(errors="backslashreplace")
            raise ParseError(said + _instead(said, bytes(values[offsets[row] : offsets[row + 1]])), row)
        return len(offsets) - 1, ints, floats, others

    def _parse_in_place(self, records: RecordRefs) -> ParsedValues:
        found = self._parser.parse_places(records.files, records.where)
        if found is None:
            raise CorruptRecordsError(records)
        records.sound = True
        *values, row, _ = found
        return self._parse(records.copy()) if row >= 0 else (len(records), *values)  # which says what is wrong

    def scaled(self, leaf: int, how: Scaled) -> Callable[[Any], Columns] | None:
        """Return `fixed_columns` with a text as scaled bytes if it has a fixed length in each row; None if it never
        does.

        It does if all others are single numbers: their slots are known beforehand.
        """
        names = self._names
        if names is None or len(self._others) != 1 or flatten({n: n for n in self._features})[1][leaf] != names[-1]:
            return None
        (request,) = self._others
        tries = MAX_FAILED_TRIES

        def columns(records: TensorLike) -> Columns:
            nonlocal tries
            if tries <= 0 or not isinstance(records, RecordRefs):
                return self.fixed_columns(records)
            out = room_for((len(records), how.bytes), np.float32)
            found = self._parser.parse_scaled(records.files, records.where, request, how.what, how.numbers, out)
            if found is None:  # of another length, or a record is refused, or is not what it was
                tries -= 1
                return self.fixed_columns(records)
            records.sound = True
            return self._named([*self._singles(len(records), *found), out])

        return columns

    def _named(self, found: list[Component]) -> Columns:
        """Plain columns, single numbers first, by their names."""
        assert self._names is not None, "features of one column each"
        made = dict(zip(self._names, found, strict=True))
        return {name: made[name] for name in self._features}

    def _singles(self, rows: int, ints: Column, floats: Column) -> list[Component]:
        return [*ints.reshape(self._int_columns, rows), *floats.reshape(self._float_columns, rows)]

    def columns(self, records: TensorLike) -> tuple[Columns, Columns]:
        """Return the features and the feature lists, one row a record."""
        in_place = isinstance(records, RecordRefs)
        rows, ints, floats, others = self._parse_in_place(records) if in_place else self._parse(records)
        singles = self._singles(rows, ints, floats)
        if self._names is not None:
            texts = [fresh_binary(values, ends) for values, ends, _, _ in others if ends is not None]
            return self._named([*singles, *texts]), {}
        each = [*((single, None, None, None) for single in singles), *others]
        found = {i: FoundValues(*one) for i, one in zip([*self._numbers, *self._others], each, strict=True)}
        shares = {name: [found[i] for i in requests] for name, requests in self._requests.items()}
        return (
            {name: feature.column(name, shares[False, name], rows) for name, feature in self._features.items()},
            {name: _in_steps(name, feature, shares[True, name]) for name, feature in self._lists.items()},
        )


def _instead(said: str, record: bytes) -> str:
    """Return what a record has, if a feature is missing."""
    missing = re.search(r"'(.*)' is missing", said, re.DOTALL)
    return f": {what_there_is(missing[1], feature_names(record))}" if missing else ""


def _in_steps(name: str, feature: Feature, found: list[FoundValues]) -> Ragged:
    """Return the column of a feature list: its steps as rows first, and then these cut into records."""
    steps = found[0].steps
    for other in found[1:]:
        if (wrong := steps != other.steps).any():
            raise ParseError(f"feature list {name!r} and its partitions differ in length", int(wrong.argmax()) - 1)
    try:
        return Ragged._of(feature.column(name, found, int(steps[-1])), steps)
    except ParseError as error:
        record = int(steps.searchsorted(error.row, "right")) - 1
        raise ParseError(f"{error}, in step {error.row - steps[record]}", record) from None


def plan(features: Features, lists: Features | None = None, *, single: bool = False, closed: bool = False) -> Plan:
    """Return the compiled description; cached, if it is hashable."""
    try:
        return _plan(tuple(features.items()), tuple((lists or {}).items()), single, closed)
    except TypeError as error:
        if "unhashable" not in str(error):
            raise
        return Plan(features, lists or {}, single, closed)


@lru_cache(64)
def _plan(
    features: tuple[tuple[str, Feature], ...], lists: tuple[tuple[str, Feature], ...], single: bool, closed: bool
) -> Plan:
    return Plan(dict(features), dict(lists), single, closed)


@contextmanager
def _name_record(names: Sequence[object] | None) -> Iterator[None]:
    """Says in an error which record of the batch it was."""
    try:
        yield
    except ParseError as error:
        name = error.row if names is None else repr(names[error.row])
        raise ParseError(f"record {name} of the batch: {error}", error.row) from None
