"""Let layers learn from data, in the same pass as feature columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from headrace.columns import RaggedText, Stacked, in_own_kinds
from headrace.columns.arrow_text import binary
from headrace.columns.block import Block
from headrace.columns.kind import Column
from headrace.core.ragged import Ragged
from headrace.core.types import KeywordArguments, StrPath
from headrace.feature_column.gather import gather
from headrace.feature_column.learners import Arrays, Frequencies, Learner
from headrace.feature_column.raw import Raw, is_single, plain_column, raw_of
from headrace.plan.datasets import is_dataset
from headrace.preprocessing.base import one_element

if TYPE_CHECKING:
    from headrace.cluster.members import Cluster

    pass


@dataclass(frozen=True)
class How:
    """How the pass runs: `steps` elements of a dataset, and as `hr.feature_column.DenseFeatures.adapt` has it."""

    steps: int | None = None
    state: StrPath | None = None
    save_every: float = 30.0
    progress: bool | None = None
    cluster: Cluster | None = None


def learn(
    layer: object, data: object, learners: Sequence[Learner], take: Callable[[Column, int], None], how: How
) -> None:
    """Call `take` with columns, and how many axes an element of them has: of a dataset, or of one array of rows."""
    name = (layer if isinstance(layer, type) else type(layer)).__name__
    if not is_dataset(data):
        if how.cluster is not None:
            raise ValueError(f"{name}: the workers of a cluster read a dataset, not an array: leave cluster= out")
        if how.steps is not None:
            raise ValueError(f"{name}: steps counts the elements of a dataset, not of an array: leave it out")
        column = plain_column([data] if is_single(data) else data)
        take(column, axes_of(column))
        return

    def take_block(block: Block) -> None:
        if block.structure.kind is not None:
            raise TypeError(
                f"{name} adapts to elements of one component, not {block.structure}: "
                "leave the rest away, as with ds.map(lambda x, label: x)"
            )
        column = in_own_kinds(*block.columns)
        if isinstance(column, list):
            for value in column:
                element = one_element(plain_column([value] if is_single(value) else value))
                take(element, axes_of(element))
        else:
            take(column, axes_of(column))

    ds = data if how.steps is None else data.take(how.steps)
    said: KeywordArguments = {
        "state": how.state,
        "save_every": how.save_every,
        "progress": how.progress,
        "cluster": how.cluster,
    }
    gather(ds, learners, take_block, purpose=name, **said)


def axes_of(column: Column) -> int:
    """Return how many axes an element of a column has."""
    if isinstance(column, Stacked):
        return len(column.shape)
    if isinstance(column, RaggedText):
        return 1
    return len(column.shape) - 1 if isinstance(column, np.ndarray | Ragged) else 0


def flat(column: Column) -> Column:
    """Return the values of a column of any shape, one after another."""
    while isinstance(column, Ragged):
        column = column.values
    if isinstance(column, RaggedText | Stacked):
        return column.inner
    return column.reshape(-1) if isinstance(column, np.ndarray) else column


def flat_raw(column: Column) -> Raw:
    """Return the values of a column of any shape, as kernels take them."""
    return raw_of(flat(column))


def documents(column: Column, axes: int) -> NDArray[np.int64]:
    """Return where the documents of a column begin: single values, or all along the last axis."""
    while isinstance(column, Ragged) and isinstance(column.values, Ragged):
        column = column.values
    if isinstance(column, Ragged | RaggedText):
        return np.asarray(column.offsets)
    size = column.shape[-1] if axes else 1
    count = column.size if isinstance(column, np.ndarray) else len(flat(column))
    return np.arange(count // max(size, 1) + 1) * size


class Documents(Frequencies):
    """In how many documents each value occurs, and how many documents there are."""

    def __init__(self) -> None:
        super().__init__()
        self.number: int = 0

    def take_documents(self, raw: Raw, starts: NDArray[np.int64]) -> None:
        """Count each value once a document."""
        import pyarrow as pa

        self.number += len(starts) - 1
        values = binary(*raw.text) if raw.text is not None else pa.array(raw.integers)
        if not len(values):
            return
        encoded = values.dictionary_encode()
        place = np.repeat(np.arange(len(starts) - 1), np.diff(starts)) * len(encoded.dictionary)
        _, first = np.unique(place + encoded.indices.to_numpy(), return_index=True)
        self.take(raw_of(values.take(pa.array(first))))

    def counts_of(self, values: list[Any]) -> NDArray[np.float32]:
        """Return in how many documents each of these occurs."""
        known = self._settle()
        found = {} if known is None else dict(zip(known["value"].to_pylist(), known["count"].to_pylist(), strict=True))
        return np.array([found.get(value, 0) for value in values], np.float32)

    def arrays(self) -> Arrays:
        """Return the number as well."""
        return {**super().arrays(), "number": np.array(self.number)}

    def restore(self, arrays: Arrays) -> None:
        """Restore the number as well."""
        super().restore(arrays)
        self.number = int(arrays["number"])
