"""Datasets of Hugging Face's `datasets` library."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from headrace.errors import SpecError
from headrace.plan.node import Node, user_site
from headrace.sources.map_style import MapStyle
from headrace.sources.table import table_node

if TYPE_CHECKING:
    import datasets

    from headrace.dataset import Dataset

PLAIN = {"Value", "ClassLabel", "List", "LargeList", "Sequence", "Translation", "dict", "list"}
"""Features whose values are what the Arrow table holds; others are decoded by the library."""

COLUMNAR = {None, "arrow", "pandas", "polars"}
"""Formats that leave values as they are in the table."""


def from_huggingface(dataset: datasets.Dataset, *, name: str | None = None) -> Dataset:
    """A dataset of the rows of one split of a `datasets.Dataset`, as dicts of arrays, numbers and text.

    Plain features are read from the Arrow table that the split lies in, without a copy; `from_arrow` says what they
    become. If there are images or other features to decode, a format such as "torch", a transform, or nulls that are
    neither floats nor times, rows come from the split itself, as `split[i]` gives them, with arrays for tensors, lists
    and images.

    >>> import datasets
    >>> split = datasets.Dataset.from_dict({"text": ["a", "b", "c"], "label": [0, 1, 0]})
    >>> list(hr.Dataset.from_huggingface(split.select([2, 0])))
    [{'text': 'c', 'label': np.int64(0)}, {'text': 'a', 'label': np.int64(0)}]
    """
    from headrace.dataset import Dataset

    if isinstance(dataset, dict):
        splits = ", ".join(map(repr, dataset)) or "none"
        raise TypeError(
            f"from_huggingface takes one split, not a {type(dataset).__name__} of {splits}: pass dataset[split]"
        )
    if not hasattr(dataset, "features") or not hasattr(dataset, "format"):
        hint = "; use from_generator(lambda: dataset, output_signature=...)" if hasattr(dataset, "__iter__") else ""
        raise TypeError(f"from_huggingface takes a datasets.Dataset, not {type(dataset).__qualname__}{hint}")
    return Dataset(_node(dataset, user_site(), name))


def _node(dataset: datasets.Dataset, site: str, name: str | None) -> Node:
    transformed = dataset.format["type"] == "custom"
    if dataset.format["type"] in COLUMNAR and _plain(dataset.features):
        columns = dataset.format["columns"]
        order = None if dataset._indices is None else dataset._indices.column(0).to_numpy().astype(np.int64)
        try:
            return table_node(
                "from_huggingface", dataset.data.table.select(columns), columns, order, site=site, name=name
            )
        except SpecError:  # a type or a null that NumPy has nothing like: the library gives it as Python has it
            dataset = dataset.with_format(None, columns)
    return MapStyle("from_huggingface", dataset, len(dataset), transformed, site=site, name=name)


def _plain(feature: Any) -> bool:
    if type(feature).__name__ not in PLAIN | {"Features"}:
        return False
    parts = feature.values() if isinstance(feature, dict) else feature if isinstance(feature, list) else ()
    inner = getattr(feature, "feature", None)
    return all(_plain(part) for part in parts) and (inner is None or _plain(inner))
