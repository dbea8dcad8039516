"""Datasets of Hugging Face's `datasets` library."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from headrace.core.types import Component, DType
from headrace.errors import SpecError
from headrace.formats.tables.arrow import arrow_spec
from headrace.ops.zip import zip as zip_datasets
from headrace.plan.datasets import dataset_of
from headrace.plan.node import Node, user_site
from headrace.plan.spec import Probe, Spec
from headrace.sources.map_style import MapStyle
from headrace.sources.table import table_node

if TYPE_CHECKING:
    import datasets

    from headrace.dataset import Dataset

PLAIN = {"Value", "ClassLabel", "List", "LargeList", "Sequence", "Translation", "dict", "list"}
"""Features whose values are those of the Arrow table; others are decoded by the library."""

ORIGIN = "from_huggingface"

COLUMNAR = {None, "arrow", "pandas", "polars"}
"""Formats that leave values as they are in the table."""


def from_huggingface(dataset: datasets.Dataset, *, name: str | None = None) -> Dataset:
    """Return a dataset of the rows of one split of a `datasets.Dataset` as dicts.

    Columns are read from the split's Arrow table, without a copy; they become what `from_arrow` makes of them.
    Images and other features to decode, and columns with nulls that are neither floats nor times, come from the split
    itself: an image as an array, a null as None. So do all rows of a split with a transform or a format such as
    "torch", with arrays for tensors.

    Args:
        dataset: One split of a `datasets.Dataset`.
        name: Label of the operation in `explain()`, `stats()` and error messages.

    Returns:
        A new dataset.

    >>> import datasets
    >>> split = datasets.Dataset.from_dict({"text": ["a", "b", "c"], "label": [0, 1, 0]})
    >>> list(hr.Dataset.from_huggingface(split.select([2, 0])))
    [{'text': 'c', 'label': np.int64(0)}, {'text': 'a', 'label': np.int64(0)}]
    """
    if isinstance(dataset, dict):
        splits = ", ".join(map(repr, dataset)) or "none"
        raise TypeError(
            f"from_huggingface takes one split, not a {type(dataset).__name__} of {splits}: pass dataset[split]"
        )
    if not hasattr(dataset, "features") or not hasattr(dataset, "format"):
        hint = "; use from_generator(lambda: dataset, output_signature=...)" if hasattr(dataset, "__iter__") else ""
        raise TypeError(f"from_huggingface takes a datasets.Dataset, not {type(dataset).__qualname__}{hint}")
    given = dataset.format
    if given["type"] not in COLUMNAR or given["output_all_columns"]:
        transformed = given["type"] == "custom"
        probe = _probe(dataset, [] if transformed else dataset.column_names)
        return dataset_of(MapStyle(ORIGIN, dataset, len(dataset), transformed, probe, site=user_site(), name=name))
    whole = _table(dataset, given["columns"], name)
    if whole is not None:
        return dataset_of(whole)
    return zip_datasets({column: dataset_of(_column(dataset, column)) for column in given["columns"]}, name=name)


def _table(dataset: datasets.Dataset, columns: list[str], name: str | None, *, alone: bool = False) -> Node | None:
    """Return these columns of the table, None if one of them must be decoded or NumPy has no such type."""
    if not all(_plain(dataset.features[column]) for column in columns):
        return None
    order = None if dataset._indices is None else dataset._indices.column(0).to_numpy().astype(np.int64)
    keys = None if alone else columns
    try:
        return table_node(ORIGIN, dataset.data.table.select(columns), keys, order, site=user_site(), name=name)
    except SpecError:
        return None


def _column(dataset: datasets.Dataset, column: str) -> Node:
    lying = _table(dataset, [column], None, alone=True)
    if lying is not None:
        return lying
    probe = _probe(dataset, [column])
    return MapStyle(ORIGIN, Decoded(dataset, column), len(dataset), False, probe, site=user_site())


def _probe(dataset: datasets.Dataset, columns: list[str]) -> Probe:
    """Infer the spec from the first row, unless some of these columns are sometimes None: then there is no
    single spec.
    """
    return Probe(Spec.UNKNOWN if any(dataset.data.table.column(c).null_count for c in columns) else None)


class Decoded:
    """One column of a split, as the library decodes it; its lists are arrays."""

    def __init__(self, dataset: datasets.Dataset, column: str) -> None:
        self._column = column
        self._rows = dataset.with_format(None).select_columns([column])
        self._dtype = _innermost(self._rows.features.arrow_schema.field(0).type)

    def __getitem__(self, number: int) -> Component:
        return self._value(self._rows[number][self._column])

    def __getitems__(self, numbers: list[int]) -> list[Component]:
        return [self._value(value) for value in self._rows[numbers][self._column]]

    def _value(self, value: object) -> Component:
        if not isinstance(value, list):
            return value
        try:
            return np.array(value, self._dtype)
        except (TypeError, ValueError):  # nulls among integers, lists of different lengths
            made = np.empty(len(value), object)
            for i, part in enumerate(value):
                made[i] = part
            return made


def _innermost(kind: object) -> DType:
    """Return the dtype of the numbers in a list of any depth; object if they are none."""
    kind = getattr(kind, "storage_type", kind)
    while hasattr(kind, "value_type"):
        kind = kind.value_type
    try:
        dtype = arrow_spec(kind).dtype
    except SpecError:
        return np.dtype(object)
    return dtype if dtype is not None and dtype.kind in "biuf" else np.dtype(object)


def _plain(feature: object) -> bool:
    if type(feature).__name__ not in PLAIN:
        return False
    if isinstance(feature, dict):
        return all(_plain(part) for part in feature.values())
    inner = feature[0] if isinstance(feature, list) else getattr(feature, "feature", None)
    return inner is None or (_plain(inner) and not isinstance(inner, dict))  # lists of dicts stay what they are there
