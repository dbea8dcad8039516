"""PyTorch's map-style datasets."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from headrace.core.types import Nested
from headrace.plan.datasets import dataset_of
from headrace.plan.node import user_site
from headrace.plan.spec import Probe, Spec
from headrace.sources.map_style import MapStyle

if TYPE_CHECKING:
    from headrace.dataset import Dataset


def from_torch(dataset: object, *, output_signature: Nested = None, name: str | None = None) -> Dataset:
    """Return a dataset of the items of a map-style `torch.utils.data.Dataset`.

    Tensors become arrays, a list at the top a tuple. `__getitems__` is called for several rows at once if it exists.
    No row is made before it is needed: `skip`, slices and `shuffle()` ask for the rows that they give, and no others.
    To run several calls at a time, write `hr.Dataset.range(len(dataset)).map(dataset.__getitem__, 8)`.

    Args:
        dataset: An object with `__len__` and `__getitem__`.
        output_signature: Structure, shapes and dtypes of the results. Default: found by tracing or from the first
            element.
        name: Label of the operation in `explain()`, `stats()` and error messages.

    Returns:
        A new dataset.

    >>> class Squares:
    ...     def __len__(self):
    ...         return 4
    ...
    ...     def __getitem__(self, i):
    ...         return {"i": i, "square": i * i}
    >>> ds = hr.Dataset.from_torch(Squares())
    >>> ds[3]
    {'i': np.int64(3), 'square': np.int64(9)}
    >>> list(ds.skip(1).batch(3))
    [{'i': array([1, 2, 3]), 'square': array([1, 4, 9])}]
    """
    torch_data = sys.modules.get("torch.utils.data")  # a user with a torch dataset has imported it
    if torch_data is not None:
        if isinstance(dataset, torch_data.DataLoader):
            raise TypeError("from_torch takes a dataset, not a DataLoader: pass loader.dataset, then shuffle and batch")
        if isinstance(dataset, torch_data.IterableDataset):
            raise TypeError(
                "from_torch takes map-style datasets, not an IterableDataset: "
                "use from_generator(lambda: dataset, output_signature=...)"
            )
    if not hasattr(dataset, "__getitem__") or not hasattr(dataset, "__len__"):
        raise TypeError(
            f"from_torch takes a dataset with __len__ and __getitem__, not {type(dataset).__qualname__}; "
            "for one that can only be iterated over there is from_generator"
        )
    probe = Probe(None if output_signature is None else Spec.of_signature(output_signature))
    return dataset_of(MapStyle("from_torch", dataset, len(dataset), probe=probe, site=user_site(), name=name))
