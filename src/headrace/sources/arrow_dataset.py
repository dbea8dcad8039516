"""The rows of a `pyarrow.dataset.Dataset`: files that are read as a pass needs them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import TYPE_CHECKING

from headrace.core.types import LibraryObject
from headrace.errors import SpecError
from headrace.formats.tables.choice import Choice
from headrace.sources.batches import BatchSource, Mark
from headrace.sources.parts import parts_dataset

if TYPE_CHECKING:
    import pyarrow as pa

    from headrace.dataset import Dataset


class ArrowDatasetSource(BatchSource):
    """One part a fragment, in the order in which Arrow lists them; a mark is the number of rows before it."""

    name = "from_arrow"

    def __init__(self, dataset: LibraryObject, choice: Choice) -> None:
        self._dataset = dataset
        try:
            self._fragments = list(dataset.get_fragments())
        except ValueError as error:
            raise ValueError(
                f"from_arrow: {error} Give the dataset as it was before, and filter the elements: ds.filter(...); "
                "hr.ParquetDataset(files, filter=) reads only the row groups that may match"
            ) from None
        self.schema: pa.Schema = dataset.schema
        self.parts: int = len(self._fragments)
        self.choice = choice
        paths = "\n".join(getattr(each, "path", str(number)) for number, each in enumerate(self._fragments))
        self.layout: str = f"{self.parts} fragments, {sha256(paths.encode()).hexdigest()[:16]}"

    def open(self, part: int, mark: Mark) -> Iterator[pa.RecordBatch]:
        """The rows of a fragment, with the columns that the whole dataset has."""
        assert isinstance(mark, int)
        passed = 0
        for batch in self._fragments[part].to_batches(schema=self.schema, use_threads=False):
            rows = batch.num_rows
            if passed + rows > mark:
                yield batch.slice(max(0, mark - passed))
            passed += rows

    def __str__(self) -> str:
        return f"{type(self._dataset).__name__}({', '.join(self.schema.names)})"


def from_arrow_dataset(data: object, nulls: Mapping[str, object] | None, name: str | None) -> Dataset:
    """The rows of a dataset of pyarrow's, fragment by fragment."""
    if type(data).__name__ == "Scanner":
        raise TypeError("from_arrow takes a pyarrow Dataset, which can be read again, not a Scanner: pass its dataset")
    if not hasattr(data, "get_fragments"):
        raise TypeError(f"from_arrow takes a pyarrow Dataset, not {type(data).__qualname__}")
    try:
        return parts_dataset("from_arrow", ArrowDatasetSource(data, Choice.of(None, None, None, nulls)), name)
    except SpecError as error:
        raise SpecError(f"from_arrow: {error}") from None
