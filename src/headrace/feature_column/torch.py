"""Columns as a torch module with trainable tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import nn

from headrace.columns.kind import Column
from headrace.core.ragged import Ragged
from headrace.core.types import DeviceLike, LibraryObject, TensorLike
from headrace.feature_column.dense import EmbeddingColumn
from headrace.feature_column.trainable import InputLayout

if TYPE_CHECKING:
    from headrace.feature_column.layer import DenseFeatures


class FeatureModule(nn.Module):  # type: ignore[misc]
    """The matrix of a layer's columns: see `DenseFeatures.torch`."""

    def __init__(self, layer: DenseFeatures, seed: int | None = None) -> None:
        super().__init__()
        self.layout: InputLayout = InputLayout.of(layer)
        self.tables: LibraryObject = nn.ParameterDict()
        for name, table in self.layout.initial_tables(layer, seed).items():
            self.tables[_key(name)] = nn.Parameter(torch.from_numpy(table), self.layout.trainable[name])

    @property
    def out_features(self) -> int:
        """Return how many columns the matrix has."""
        return self.layout.width

    def forward(self, inputs: Mapping[str, TensorLike]) -> torch.Tensor:
        """Return the matrix, of what `layer.inputs` gave."""
        dense = torch.as_tensor(inputs["dense"])
        parts = []
        for column, place in self.layout.parts:
            if isinstance(place, slice):
                parts.append(dense[:, place])
            else:
                table = self.tables[_key(column.table)]
                parts.append(_embed(column, table, inputs["ids"][place], inputs["ids"].get(f"{place}/weights")))
        return torch.cat(parts, dim=1)

    def load_tables(self, tables: Mapping[str, object]) -> FeatureModule:
        """Take arrays, such as a TensorFlow checkpoint's, by the names that `DenseFeatures.load_tables` knows."""
        with torch.no_grad():
            for name, table in self.layout.check_arrays(tables).items():
                self.tables[_key(name)].copy_(torch.from_numpy(table))
        return self

    def table_arrays(self) -> dict[str, Column]:
        """Return the tables as they are now, for `DenseFeatures.load_tables`."""
        return {name: self.tables[_key(name)].detach().cpu().numpy().copy() for name in self.layout.shapes}


def _key(name: str) -> str:
    return name.replace(".", "/")  # torch has no dots in names of parameters


def _embed(column: EmbeddingColumn, table: torch.Tensor, ids: object, weights: object) -> torch.Tensor:
    """Return the rows of the table that the ids of each row name, put together."""
    if column.max_norm is not None:
        table = table * (column.max_norm / table.norm(dim=1, keepdim=True).clamp(min=column.max_norm))
    flat, offsets = _flat(ids, table.device)
    given = torch.ones_like(flat, dtype=table.dtype) if weights is None else _flat(weights, table.device)[0]
    there = flat >= 0
    if column.combiner != "sum":
        there = there & (given > 0)
    given = torch.where(there, given.to(table.dtype), 0)
    total = nn.functional.embedding_bag(
        flat.clamp(min=0), table, offsets[:-1], mode="sum", per_sample_weights=given
    )  # fmt: skip
    if column.combiner == "sum":
        return total
    rows = torch.repeat_interleave(torch.arange(len(total), device=table.device), offsets.diff())
    squared = given * given if column.combiner == "sqrtn" else given
    by = torch.zeros(len(total), dtype=table.dtype, device=table.device).index_add(0, rows, squared)
    by = by.sqrt() if column.combiner == "sqrtn" else by
    return total / torch.where(by > 0, by, 1)[:, None]


def _flat(values: object, device: DeviceLike) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the concatenated values, and where each row begins and the last one ends."""
    if isinstance(values, Ragged):
        return torch.from_numpy(np.array(values.values)).to(device), torch.from_numpy(np.array(values.offsets)).to(
            device
        )
    tensor = torch.as_tensor(values).to(device)
    if tensor.is_nested:
        return tensor.values(), tensor.offsets()
    each = tensor.numel() // max(len(tensor), 1) if tensor.ndim > 1 else 1
    return tensor.reshape(-1), torch.arange(len(tensor) + 1, device=device) * each
