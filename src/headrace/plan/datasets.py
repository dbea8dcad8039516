"""Let sources and operations create Datasets without importing the class, which is above them."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, TypeGuard, TypeVar

from headrace.core.types import Component
from headrace.plan.node import Node

if TYPE_CHECKING:
    from headrace.dataset import Dataset

DatasetClass = TypeVar("DatasetClass", bound=type)
_kinds: list[Component] = []


def holds_plans(kind: DatasetClass) -> DatasetClass:
    """Register the class of datasets."""
    _kinds[:] = [kind]
    return kind


def dataset_of(node: Node) -> Dataset:
    """A dataset with this plan."""
    if not _kinds:  # a reader was imported by itself, and the package imports its names when they are used
        import_module("headrace.dataset")
    made: Dataset = _kinds[0](node)
    return made


def is_dataset(value: object) -> TypeGuard[Dataset]:
    """Whether a user's value is a dataset."""
    return bool(_kinds) and isinstance(value, _kinds[0])
