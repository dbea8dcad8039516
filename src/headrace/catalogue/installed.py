"""Datasets that come with installed packages: scikit-learn's."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from headrace.catalogue.in_memory import InMemoryBuilder
from headrace.core.types import JsonObject, Library
from headrace.tfds.feature import ClassLabel, FeaturesDict, Image, Scalar, Tensor
from headrace.tfds.info import DatasetInfo, SplitInfo, Splits
from headrace.tfds.versions import Version

Columns = tuple[FeaturesDict, JsonObject, str]


class InstalledBuilder(InMemoryBuilder):
    """A dataset of an installed package."""

    def __init__(self, name: str, package: str, make: Callable[[Any], Columns]) -> None:
        import importlib

        try:
            library = importlib.import_module(package)
        except ImportError as error:
            raise ImportError(f"the dataset {name!r} comes with scikit-learn: pip install scikit-learn") from error
        features, columns, description = make(library)
        rows = len(next(iter(columns.values())))
        keys = ("image" if "image" in features else "features", "label" if "label" in features else "target")
        info = DatasetInfo(
            name, Version(1, 0, 0), features, Splits({"train": SplitInfo("train", (rows,))}),
            description=description, supervised_keys=keys, file_format="memory", module_name=package,
        )  # fmt: skip
        super().__init__(info, columns)


def _classes(loader: str) -> Callable[[Any], Columns]:
    def make(library: object) -> Columns:
        bunch = getattr(library, loader)()
        label = ClassLabel(names=[str(name) for name in bunch.target_names])
        data = np.asarray(bunch.data, np.float32)
        features = FeaturesDict({"features": Tensor(shape=data.shape[1:], dtype=np.float32), "label": label})
        return features, {"features": data, "label": np.asarray(bunch.target, np.int64)}, bunch.DESCR

    return make


def _digits(library: Library) -> Columns:
    bunch = library.load_digits()
    images = bunch.images.astype(np.uint8)[..., None]
    label = ClassLabel(names=[str(name) for name in bunch.target_names])
    features = FeaturesDict({"image": Image(shape=(8, 8, 1)), "label": label})
    return features, {"image": images, "label": np.asarray(bunch.target, np.int64)}, bunch.DESCR


def _numbers(loader: str) -> Callable[[Any], Columns]:
    def make(library: object) -> Columns:
        bunch = getattr(library, loader)()
        data, target = np.asarray(bunch.data, np.float32), np.asarray(bunch.target, np.float32)
        goal = Scalar(np.float32) if target.ndim == 1 else Tensor(shape=target.shape[1:], dtype=np.float32)
        features = FeaturesDict({"features": Tensor(shape=data.shape[1:], dtype=np.float32), "target": goal})
        return features, {"features": data, "target": target}, bunch.DESCR

    return make


INSTALLED: dict[str, Callable[[Any], Columns]] = {
    "breast_cancer": _classes("load_breast_cancer"),
    "diabetes": _numbers("load_diabetes"),
    "digits": _digits,
    "iris": _classes("load_iris"),
    "linnerud": _numbers("load_linnerud"),
    "wine": _classes("load_wine"),
}


@cache
def installed_builder(name: str) -> InstalledBuilder:
    """Return one of them."""
    return InstalledBuilder(name, "sklearn.datasets", INSTALLED[name])
