"""How sources and operations make the Dataset that a user holds, though its class stands above them all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeGuard, TypeVar

from headrace.plan.node import Node

if TYPE_CHECKING:
    from headrace.dataset import Dataset

DatasetClass = TypeVar("DatasetClass", bound=type)
_kinds: list[Any] = []


def holds_plans(kind: DatasetClass) -> DatasetClass:
    """The class of datasets says that it is the one."""
    _kinds[:] = [kind]
    return kind


def dataset_of(node: Node) -> Dataset:
    """A dataset with this plan."""
    made: Dataset = _kinds[0](node)
    return made


def is_dataset(value: object) -> TypeGuard[Dataset]:
    """Whether a user's value is a dataset."""
    return isinstance(value, _kinds[0])
