"""Compute the ids of many columns by one kernel call, if every row has one value of their features."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from headrace import _native
from headrace.columns.kind import Column
from headrace.feature_column.categorical import HashedCategoricalColumn
from headrace.feature_column.column import CategoricalColumn
from headrace.feature_column.crossed import CrossedColumn
from headrace.feature_column.numeric import BucketizedColumn
from headrace.feature_column.raw import LARGE_TEXT, Inputs


class Program:
    """The columns that buckets, hashes and crosses of text make; others are left to themselves.

    Its results equal each column's `ids(inputs).column()`, which is used if the features do not have one text or number
    per row.
    """

    def __init__(self, columns: Mapping[str, CategoricalColumn]) -> None:
        self._native = _native.IdProgram()
        self._texts: dict[str, str] = {}  # keys, and the name of a column that needs it
        self._numbers: list[BucketizedColumn] = []
        self._names: list[str] = []
        for name, column in columns.items():
            if self._add(column):
                self._names.append(name)

    def _add(self, column: CategoricalColumn) -> bool:
        if isinstance(column, BucketizedColumn) and column.source_column.width == 1 and column.learner() is None:
            self._numbers.append(column)
            self._native.add_buckets(len(self._numbers) - 1, np.array(column.bounds, np.float32))
        elif isinstance(column, HashedCategoricalColumn) and column.dtype == "string":
            self._native.add_hashed(self._text(column.key, column.name), column.hash_bucket_size)
        elif isinstance(column, CrossedColumn) and all(isinstance(part, str) for part in column.crossed):
            texts = [self._text(str(part), column.name) for part in column.crossed]
            self._native.add_crossed(texts, column.hash_key, column.hash_bucket_size)
        else:
            return False
        return True

    def _text(self, key: str, column: str) -> int:
        self._texts.setdefault(key, column)
        return list(self._texts).index(key)

    def run(self, inputs: Inputs) -> dict[str, Column]:
        """Return the ids of its columns, by name; none if a feature does not fit."""
        if len(self._names) < 2:
            return {}
        texts: list[tuple[Any, Any, int]] = []
        for key, column in self._texts.items():
            text = _text_of(inputs, key, column)
            if text is None:
                return {}
            texts.append(text)
        numbers = [_numbers_of(inputs, column) for column in self._numbers]
        out = np.empty((len(self._names), inputs.rows), np.int64)
        self._native.run(texts, numbers, out)
        return dict(zip(self._names, out, strict=True))


def _text_of(inputs: Inputs, key: str, column: str) -> tuple[Any, Any, int] | None:
    """Return the bytes of a feature, its offsets, and its first offset; None if it is not one text per row."""
    found: Column = inputs.features.get(key)
    if type(found).__name__ in LARGE_TEXT and len(found) == inputs.rows and not found.null_count:
        _, cuts, content = found.buffers()
        if cuts is not None and content is not None:
            return content, cuts, found.offset
    raw = inputs.raw(key, column)
    if raw.text is None or raw.splits is not None or raw.shape or not raw.dense:
        return None
    return (*raw.text, 0)


def _numbers_of(inputs: Inputs, column: BucketizedColumn) -> NDArray[np.float32]:
    source = column.source_column
    found = inputs.features.get(source.key)
    plain = source.normalizer_fn is None and source.normalizer is None
    if plain and type(found) is np.ndarray and found.dtype == np.float32 and found.shape == (inputs.rows,):
        return found if found.flags.c_contiguous else found.copy()
    return source.values(inputs).reshape(-1)


_programs: WeakKeyDictionary[Any, Program] = WeakKeyDictionary()


def program_of(owner: object, columns: Mapping[str, CategoricalColumn]) -> Program:
    """Return the program of a computation's columns; it lives as long as its owner, and is no part of it."""
    found = _programs.get(owner)
    if found is None:
        found = _programs[owner] = Program(columns)
    return found
