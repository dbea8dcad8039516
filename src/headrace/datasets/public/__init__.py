"""The well-known public datasets, one small file each, under TensorFlow Datasets' names, features and versions.

A file declares a dataset (`headrace.datasets.declare`) and generates its rows by the parsers of
`headrace.datasets.formats`. Keys of rows are those of TensorFlow Datasets, which decide their order. URLs, sizes and
checksums of the files on the web are in `sources.tsv`. The module of a dataset is imported when it is requested.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from headrace.datasets.declare import DECLARED, PublicDataset


def public_names() -> list[str]:
    """The names of all public datasets."""
    return sorted(module.name for module in iter_modules(__path__))


def public_configs(name: str) -> dict[str | None, PublicDataset]:
    """The variants of a dataset by config, None for one without configs; nothing if there is no such dataset."""
    if name not in public_names():
        return {}
    import_module(f"{__name__}.{name}")
    return DECLARED[name]
